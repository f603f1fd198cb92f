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


def only(before: list[Resource], after: list[Resource]) -> Change:
    (change,) = changes(of(*before), of(*after))
    return change


def test_what_refers_to_a_replaced_resource_follows_it_and_says_whom() -> None:
    found = changes(of(*fleet(image="a")), of(*fleet(image="b")))

    assert changes(of(*fleet()), of(*fleet())) == []
    assert [(change.resource.path, change.effect, change.cause) for change in found] == [
        ("Model", Effect.REPLACED, None),
        ("Config", Effect.REPLACED, "Model"),
        ("Endpoint", Effect.CHANGED, "Config"),
    ]


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


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (("Custom::Thing", {"Name": "a"}), ("Custom::Thing", {"Name": "b"}), Effect.CHANGED),
        ((BUCKET, {}), (MODEL, {}), Effect.REPLACED),
        (
            ("AWS::MSK::Replicator", {"ReplicationInfoList": [{"TargetKafkaClusterArn": "a"}]}),
            ("AWS::MSK::Replicator", {"ReplicationInfoList": [{"TargetKafkaClusterArn": "b"}]}),
            Effect.REPLACED,
        ),
    ],
    ids=["without a schema", "another type", "a property of an entry"],
)
def test_a_change_replaces_if_the_schema_says_so(
    before: tuple[str, Any], after: tuple[str, Any], effect: Effect
) -> None:
    assert only([resource("X", *before)], [resource("X", *after)]).effect is effect


def test_entries_with_names_are_compared_by_them() -> None:
    def project(**variables: str) -> list[Resource]:
        listed = [{"Name": name, "Value": value} for name, value in variables.items()]
        return [resource("B", "AWS::CodeBuild::Project", {"Environment": {"EnvironmentVariables": listed}})]

    change = only(project(A="1", B="2"), project(C="3", A="1", B="4"))
    assert {each.path.removeprefix("Environment/EnvironmentVariables/") for each in change.properties} == {
        "B/Value",
        "C",
    }


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


def test_data_that_is_deleted_stays_or_starts_empty_is_reported_apart() -> None:
    def removed(**kept: bool) -> str:
        return meaning(only([resource("B", BUCKET, **kept), *fleet()], fleet())).text

    def replaced(**kept: bool) -> str:
        named = [[resource("B", BUCKET, {"BucketName": name}, **kept)] for name in ("a", "b")]
        return meaning(only(*named)).text

    assert "will be lost" in removed()
    assert "stays in the account" in removed(kept_when_removed=True)
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
