"""CloudFormation's action for each difference, and its meaning."""

from __future__ import annotations

from typing import Any

import pytest
from templates import of, resource

from triton_report.assembly import Resource
from triton_report.changes import Change, Effect, changes
from triton_report.risk import Risk, meaning

ENDPOINT = "AWS::SageMaker::Endpoint"
CONFIG = "AWS::SageMaker::EndpointConfig"
MODEL = "AWS::SageMaker::Model"
BUCKET = "AWS::S3::Bucket"
FIRST_LOADS = "Custom::TritonFirstLoads"


def fleet(*, image: str = "a", name: str = "search", model: str = "Model") -> list[Resource]:
    variant = {"VariantName": "All", "ModelName": {"Fn::GetAtt": [model, "ModelName"]}}
    return [
        resource(model, MODEL, {"PrimaryContainer": {"Image": image}}),
        resource("Config", CONFIG, {"ProductionVariants": [variant]}),
        resource(
            "Endpoint",
            ENDPOINT,
            {"EndpointName": name, "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
        ),
    ]


def effects(before: list[Resource], after: list[Resource]) -> dict[str, Effect]:
    return {change.resource.path: change.effect for change in changes(of(*before), of(*after))}


def only(before: list[Resource], after: list[Resource]) -> Change:
    (change,) = changes(of(*before), of(*after))
    return change


def test_what_is_equal_does_not_change() -> None:
    assert effects(fleet(), fleet()) == {}


def test_what_refers_to_a_replaced_resource_follows_it() -> None:
    assert effects(fleet(image="a"), fleet(image="b")) == {
        "Model": Effect.REPLACED,
        "Config": Effect.REPLACED,
        "Endpoint": Effect.CHANGED,
    }


def test_what_follows_says_whom() -> None:
    causes = {change.resource.path: change.cause for change in changes(of(*fleet()), of(*fleet(image="b")))}

    assert causes == {"Model": None, "Config": "Model", "Endpoint": "Config"}


def test_another_id_is_a_new_resource_and_a_deleted_one() -> None:
    change = next(iter(changes(of(*fleet()), of(*fleet(model="Server")))))

    assert change.effect is Effect.RENAMED
    assert change.before is not None
    assert (change.before.path, change.resource.path) == ("Model", "Server")


def test_a_property_that_can_change_does_so_in_place() -> None:
    def limits(most: int) -> list[Resource]:
        return [resource("T", "AWS::ApplicationAutoScaling::ScalableTarget", {"MaxCapacity": most})]

    change = only(limits(4), limits(8))
    assert change.effect is Effect.CHANGED
    assert [(each.path, each.before, each.after) for each in change.properties] == [("MaxCapacity", 4, 8)]


def test_another_type_under_the_same_id_replaces() -> None:
    assert effects([resource("X", BUCKET)], [resource("X", MODEL)]) == {"X": Effect.REPLACED}


def test_a_property_of_an_entry_replaces_if_its_schema_says_so() -> None:
    before, after = (
        [resource("R", "AWS::MSK::Replicator", {"ReplicationInfoList": [{"TargetKafkaClusterArn": arn}]})]
        for arn in "ab"
    )

    assert effects(before, after) == {"R": Effect.REPLACED}


def test_entries_with_names_are_compared_by_them() -> None:
    def project(**variables: str) -> list[Resource]:
        listed = [{"Name": name, "Value": value} for name, value in variables.items()]
        return [resource("B", "AWS::CodeBuild::Project", {"Environment": {"EnvironmentVariables": listed}})]

    change = only(project(A="1", B="2"), project(C="3", A="1", B="4"))
    assert {each.path.removeprefix("Environment/EnvironmentVariables/") for each in change.properties} == {
        "B/Value",
        "C",
    }


def test_a_function_is_compared_as_a_whole() -> None:
    def named(value: Any) -> list[Resource]:
        return [resource("B", "AWS::CodeBuild::Project", {"Description": value})]

    change = only(named({"Fn::Join": ["", ["a", "b"]]}), named({"Fn::Join": ["", ["a", "c"]]}))
    assert [each.path for each in change.properties] == ["Description"]


def test_a_resource_without_a_schema_changes_in_place() -> None:
    before, after = ([resource("C", "Custom::Thing", {"Name": name})] for name in "ab")

    assert effects(before, after) == {"C": Effect.CHANGED}


def test_a_stack_that_is_no_longer_in_the_app_is_not_removed() -> None:
    other = resource("B", BUCKET, stack="Other")

    assert changes(of(*fleet(), other), of(*fleet())) == []


@pytest.mark.parametrize(
    ("before", "after", "risk"),
    [
        (fleet(), fleet()[:2], Risk.DOWNTIME),
        (fleet(), fleet(name="find"), Risk.REPLACEMENT),
        ([resource("B", BUCKET), *fleet()], fleet(), Risk.DATA),
        ([resource("B", BUCKET, kept_when_removed=True), *fleet()], fleet(), Risk.DATA),
        ([resource("P", "AWS::IAM::Policy"), *fleet()], fleet(), Risk.NONE),
        ([resource("Old", FIRST_LOADS)], [resource("New", FIRST_LOADS)], Risk.NONE),
        ([resource("Old", "Custom::Own")], [resource("New", "Custom::Own")], Risk.REPLACEMENT),
    ],
    ids=["endpoint-gone", "endpoint-renamed", "bucket", "kept-bucket", "policy", "custom", "others-custom"],
)
def test_what_can_go_wrong_has_its_risk(before: list[Resource], after: list[Resource], risk: Risk) -> None:
    assert [meaning(change).risk for change in changes(of(*before), of(*after))] == [risk]


def test_data_that_is_deleted_and_data_that_stays_are_reported_apart() -> None:
    def said(**kept: bool) -> str:
        return meaning(only([resource("B", BUCKET, **kept), *fleet()], fleet())).text

    assert "will be lost" in said()
    assert "stays in the account" in said(kept_when_removed=True)


def test_what_is_replaced_is_kept_by_its_own_policy() -> None:
    def replaced(**kept: bool) -> str:
        named = [[resource("B", BUCKET, {"BucketName": name}, **kept)] for name in ("a", "b")]
        return meaning(only(*named)).text

    assert "will be lost" in replaced(kept_when_removed=True)
    assert "starts empty" in replaced(kept_when_replaced=True)


def test_a_second_endpoint_of_one_name_cannot_be() -> None:
    before, after = fleet(), fleet()
    moved = resource("Server", ENDPOINT, after[2].properties)

    (change,) = (
        each for each in changes(of(*before), of(*after[:2], moved)) if each.resource.type == ENDPOINT
    )
    assert meaning(change).risk is Risk.DOWNTIME
    assert "rolls back" in meaning(change).text
