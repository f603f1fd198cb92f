from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk.assertions import Template
from function_world import Clock, Context, Requests, asked, web_server
from synthesised import Resources, only

from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from triton_fleet import FleetError, InstancePool, ModelRepository, SingleModelEndpoint, Variant
from triton_fleet.endpoint.functions.code import artifact_ready
from triton_fleet.endpoint.single_model import SINGLE_MODEL_ARTIFACT

ARTIFACT = "resnet50-0123456789ab.tar.gz"
CANDIDATE = "resnet50-ba9876543210.tar.gz"


def _create(stack: Stack, *variants: Variant, **arguments: Any) -> SingleModelEndpoint:
    return SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=variants or [Variant(artifact=ARTIFACT)],
        **arguments,
    )


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """An endpoint with every default."""
    stack = Stack(App(), "Fleet")
    _create(stack)
    return dict(Template.from_stack(stack).to_json()["Resources"])


def test_a_model_is_created_after_its_artifact_is_there(template: dict[str, Any]) -> None:
    waiting, _ = only(template, "Custom::TritonArtifact")
    _, model = only(template, "AWS::SageMaker::Model")

    assert waiting in model["DependsOn"]


def test_waiting_begins_when_the_function_may_invoke_its_successor(template: dict[str, Any]) -> None:
    _, waiting = only(template, "Custom::TritonArtifact")
    function, _ = only(template, "AWS::Lambda::Function")
    (successor,) = waiting["DependsOn"]
    (statement,) = template[successor]["Properties"]["PolicyDocument"]["Statement"]

    assert waiting["Properties"]["ServiceToken"] == {"Fn::GetAtt": [function, "Arn"]}
    assert statement["Action"] == "lambda:InvokeFunction"
    assert statement["Resource"] == {"Fn::GetAtt": [function, "Arn"]}
    assert successor not in template[function].get("DependsOn", [])


def test_every_artifact_is_waited_for_once(stack: Stack, resources: Resources) -> None:
    pools = [
        InstancePool(instance_type="ml.c5.2xlarge", artifact=CANDIDATE),
        InstancePool(instance_type="ml.c5.4xlarge", artifact=CANDIDATE),
        InstancePool(instance_type="ml.m5.2xlarge"),
    ]
    _create(
        stack,
        Variant(artifact=ARTIFACT, name="Current", instance_type="ml.m5.xlarge", instance_pools=pools),
        shadow_variant=Variant(artifact=f"shadow-{CANDIDATE}", name="Shadow", instance_type="ml.m5.xlarge"),
    )
    (waiting,) = resources("Custom::TritonArtifact")

    assert waiting["Artifacts"] == [ARTIFACT, f"shadow-{CANDIDATE}", CANDIDATE]
    assert waiting["Prefix"] == "models/"
    assert list(waiting["Bucket"]) == ["Ref"]


@pytest.mark.parametrize(
    ("minutes", "waits", "given_up"),
    [(1, 60, "120"), (1.525, 91, "151"), (59, 3540, "3600"), (60, 3540, "3600")],
)
def test_the_function_answers_before_cloudformation_gives_it_up(
    minutes: float, waits: int, given_up: str, stack: Stack, resources: Resources
) -> None:
    _create(stack, artifact_timeout=Duration.millis(minutes * 60_000))
    (waiting,) = resources("Custom::TritonArtifact")

    assert (waiting["WaitSeconds"], waiting["ServiceTimeout"]) == (waits, given_up)


def test_nothing_is_waited_for_if_nothing_is_asked_for(stack: Stack, resources: Resources) -> None:
    endpoint = _create(stack, artifact_timeout=None)

    assert endpoint.artifact_ready is None
    assert resources("Custom::TritonArtifact") == []


def test_the_function_may_look_and_nothing_else(template: dict[str, Any]) -> None:
    _, function = only(template, "AWS::Lambda::Function")
    role = function["Properties"]["Role"]["Fn::GetAtt"][0]
    policies = [
        each["Properties"]
        for each in template.values()
        if each["Type"] == "AWS::IAM::Policy" and each["Properties"]["Roles"] == [{"Ref": role}]
    ]
    statements = [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]
    allowed = {json.dumps(each["Action"]) for each in statements}

    assert allowed == {
        '["logs:CreateLogStream", "logs:PutLogEvents"]',
        '"s3:ListBucket"',
        '"lambda:InvokeFunction"',
    }
    assert all(each["Resource"] != "*" for each in statements)
    (listing,) = (each for each in statements if each["Action"] == "s3:ListBucket")
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "models/*"}}


def test_a_time_out_that_cloudformation_does_not_have_is_refused(stack: Stack) -> None:
    with pytest.raises(FleetError) as raised:
        _create(stack, Variant(artifact="models/a"), artifact_timeout=Duration.seconds(3601))

    found = {problem.rule: problem for problem in raised.value.problems}
    assert set(found) == {"artifact-timeout", SINGLE_MODEL_ARTIFACT.id}  # together with what else is wrong
    assert "3601 s" in found["artifact-timeout"].what


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture(scope="module")
def web() -> Iterator[Requests]:
    with web_server() as running:
        yield running


class World:
    """A bucket of moto's, and a web server that stands for CloudFormation and Lambda."""

    def __init__(self, aws: MotoAws, web: Requests) -> None:
        self.s3, self.web, self.clock, self.bucket = aws.client("s3"), web, Clock(), aws.bucket()

    def publish(self, *artifacts: str) -> None:
        for each in artifacts:
            self.s3.put_object(Bucket=self.bucket, Key=f"models/{each}", Body=b"a")

    def wait(self, *artifacts: str, seconds: int = 600, **more: Any) -> Any:
        """Have the function wait; gives its answer, if there is one."""
        properties = {
            "Bucket": self.bucket,
            "Prefix": "models/",
            "Artifacts": list(artifacts),
            "WaitSeconds": str(seconds),  # CloudFormation passes every number as a text
        }
        return asked(artifact_ready, self.web, self.clock, "TritonArtifact", properties, **more)

    def successors(self) -> list[dict[str, Any]]:
        return self.web.bodies("/2015-03-31/functions/")


@pytest.fixture
def world(aws: MotoAws, web: Requests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    web.seen.clear()
    for name, value in aws.exports(runtime=aws.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", web.url)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    return World(aws, web)


def test_artifacts_that_are_there_are_not_waited_for(world: World) -> None:
    world.publish("a.tar.gz", "b.tar.gz")

    assert world.wait("a.tar.gz", "b.tar.gz") == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": "Build",
        "StackId": "stack",
        "RequestId": "r-1",
        "LogicalResourceId": "Build",
    }
    assert world.clock.slept == []


def test_the_answer_is_sent_as_its_address_is_signed(world: World) -> None:
    world.wait(request="Delete", ResponseURL=f"{world.web.url}/answer?signed")

    ((method, path, headers, _),) = world.web.seen
    assert (method, path, headers["content-type"]) == ("PUT", "/answer?signed", "")


def test_it_goes_on_once_the_last_artifact_is_published(world: World) -> None:
    world.clock.at(25, lambda: world.publish("a.tar.gz"))
    world.clock.at(95, lambda: world.publish("b.tar.gz"))

    assert world.wait("a.tar.gz", "b.tar.gz")["Status"] == "SUCCESS"
    assert 95 <= world.clock.now <= 105


def test_an_artifact_whose_name_only_begins_alike_is_another(world: World) -> None:
    world.publish("a.tar.gz.part")
    world.s3.put_object(Bucket=world.bucket, Key="a.tar.gz", Body=b"a")

    assert world.wait("a.tar.gz", seconds=60)["Status"] == "FAILED"


def test_when_the_time_is_up_everything_missing_is_named_with_what_to_do(world: World) -> None:
    world.publish("b.tar.gz")
    answer = world.wait("a.tar.gz", "b.tar.gz", "c.tar.gz")

    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == (
        f"2 of 3 artifacts were not in s3://{world.bucket}/models/ within 10 min. Start the build that makes "
        "them or run `fleet publish`, then deploy again. Missing: a.tar.gz, c.tar.gz"
    )
    assert world.clock.now == 600


def test_an_invocation_that_ends_starts_the_next_and_does_not_answer(world: World) -> None:
    assert world.wait("a.tar.gz", seconds=3540) is None
    (successor,) = world.successors()
    assert (successor["RequestId"], successor["Deadline"]) == ("r-1", 3540)
    assert successor["ResourceProperties"]["Artifacts"] == ["a.tar.gz"]
    assert 840 <= world.clock.now < 900
    ((_, path, headers, _),) = world.web.seen
    assert headers["x-amz-invocation-type"] == "Event"
    assert Context.invoked_function_arn in path.replace("%3A", ":")


def test_another_artifact_is_waited_for_again_under_the_same_id(world: World) -> None:
    world.clock.at(30, lambda: world.publish("b.tar.gz"))
    answer = world.wait("b.tar.gz", request="Update", PhysicalResourceId="made-before")

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "made-before")
    assert world.clock.now == 30


def test_deleting_does_nothing_and_answers_at_once(world: World) -> None:
    world.bucket = "there-is-no-bucket"

    assert world.wait("a.tar.gz", request="Delete", PhysicalResourceId="made-before")["Status"] == "SUCCESS"
    assert world.clock.slept == []


@pytest.mark.parametrize(("gone", "back"), [(0, 60), (200, 300)])
def test_a_refusal_that_passes_is_only_a_delay(world: World, gone: float, back: float) -> None:
    if gone:
        world.clock.at(gone, lambda: world.s3.delete_bucket(Bucket=world.bucket))
    else:
        world.s3.delete_bucket(Bucket=world.bucket)
    world.clock.at(back, lambda: world.s3.create_bucket(Bucket=world.bucket))
    world.clock.at(back + 100, lambda: world.publish("a.tar.gz"))

    assert world.wait("a.tar.gz")["Status"] == "SUCCESS"


def test_a_refusal_that_stays_is_reported_after_two_minutes(world: World) -> None:
    world.bucket = "there-is-no-bucket"
    answer = world.wait("a.tar.gz", seconds=3540)

    assert answer["Status"] == "FAILED"
    assert "NoSuchBucket" in answer["Reason"]
    assert world.clock.now == 120


def test_a_mistake_in_the_request_is_answered_and_not_left_to_the_time_out(world: World) -> None:
    answer = world.wait(ResourceProperties={"WaitSeconds": "600"})

    assert answer["Status"] == "FAILED"
    assert "KeyError: 'Artifacts'" in answer["Reason"]
