"""A deployment that waits for its artifact: the resource in the template, and the function that does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Stack
from aws_cdk.assertions import Template
from function_world import Clock, Context, Requests, web_server
from synthesised import Resources, only

from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from triton_fleet import FleetError, InstancePool, ModelRepository, SingleModelEndpoint, Variant
from triton_fleet.endpoint.checks import SINGLE_MODEL_ARTIFACT
from triton_fleet.endpoint.functions.code import artifact_ready

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
    assert successor not in _depends_on(template, function)


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
    ("minutes", "waits", "given_up"), [(1, 60, "120"), (59, 3540, "3600"), (60, 3540, "3600")]
)
def test_the_function_answers_before_cloudformation_gives_it_up(
    minutes: int, waits: int, given_up: str, stack: Stack, resources: Resources
) -> None:
    _create(stack, artifact_timeout=Duration.minutes(minutes))
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


def _depends_on(template: dict[str, Any], name: str) -> list[str]:
    return list(template[name].get("DependsOn", []))


@pytest.mark.parametrize("seconds", [0, 59, 3601, 7200])
def test_a_time_out_that_cloudformation_does_not_have_is_refused(seconds: int, stack: Stack) -> None:
    with pytest.raises(FleetError) as raised:
        _create(stack, Variant(artifact="models/a"), artifact_timeout=Duration.seconds(seconds))

    found = {problem.rule: problem for problem in raised.value.problems}
    assert set(found) == {"artifact-timeout", SINGLE_MODEL_ARTIFACT.id}  # together with what else is wrong
    assert f"{seconds} s" in found["artifact-timeout"].what


def test_a_time_out_in_fractions_of_a_second_is_cut(stack: Stack, resources: Resources) -> None:
    _create(stack, artifact_timeout=Duration.millis(90_500))

    assert resources("Custom::TritonArtifact")[0]["WaitSeconds"] == 90


def test_a_time_out_that_only_the_deployment_knows_is_refused(stack: Stack) -> None:
    minutes = CfnParameter(stack, "Minutes", type="Number").value_as_number

    with pytest.raises(FleetError, match="known only when the stack is deployed") as raised:
        _create(stack, artifact_timeout=Duration.minutes(minutes))
    assert [problem.rule for problem in raised.value.problems] == ["artifact-timeout"]


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture(scope="module")
def web() -> Iterator[Requests]:
    with web_server() as running:
        yield running


@pytest.fixture
def cloudformation(aws: MotoAws, web: Requests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Requests:
    """Collect the answers and the successors' invocations; S3 is moto's."""
    web.seen.clear()
    for name, value in aws.exports(runtime=aws.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", web.url)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    return web


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bucket(aws: MotoAws) -> str:
    return aws.bucket()


def _event(
    web: Requests, bucket: str, *artifacts: str, kind: str = "Create", wait: int = 600
) -> dict[str, Any]:
    event: dict[str, Any] = {
        "RequestType": kind,
        "ResponseURL": f"{web.url}/answer?signed",
        "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/Fleet/1",
        "RequestId": "request-1",
        "ResourceType": "Custom::TritonArtifact",
        "LogicalResourceId": "EndpointArtifactReady",
        "ResourceProperties": {
            "ServiceToken": Context.invoked_function_arn,
            "ServiceTimeout": str(wait + 60),
            "Bucket": bucket,
            "Prefix": "models/",
            "Artifacts": list(artifacts),
            "WaitSeconds": str(wait),  # CloudFormation passes every number as a text
        },
    }
    if kind != "Create":
        event["PhysicalResourceId"] = "made-before"
    return event


def _run(event: dict[str, Any], clock: Clock, *, lives: float = 900) -> None:
    artifact_ready.handler(event, Context(clock, lives=lives), clock=clock, sleep=clock.sleep)


def _successors(web: Requests) -> list[dict[str, Any]]:
    return web.bodies("/2015-03-31/functions/")


def test_artifacts_that_are_there_are_not_waited_for(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    aws.upload(bucket, "models/a.tar.gz", b"a")
    aws.upload(bucket, "models/b.tar.gz", b"b")
    _run(_event(cloudformation, bucket, "a.tar.gz", "b.tar.gz"), clock)

    (answer,) = cloudformation.bodies("/answer")
    assert answer == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": "EndpointArtifactReady",
        "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/Fleet/1",
        "RequestId": "request-1",
        "LogicalResourceId": "EndpointArtifactReady",
    }
    assert clock.slept == []


def test_the_answer_is_sent_as_its_address_is_signed(
    bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    _run(_event(cloudformation, bucket, kind="Delete"), clock)

    ((method, path, headers, _),) = cloudformation.seen
    assert (method, path, headers["content-type"]) == ("PUT", "/answer?signed", "")


def test_it_goes_on_once_the_last_artifact_is_published(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    clock.at(25, lambda: aws.upload(bucket, "models/a.tar.gz", b"a"))
    clock.at(95, lambda: aws.upload(bucket, "models/b.tar.gz", b"b"))
    _run(_event(cloudformation, bucket, "a.tar.gz", "b.tar.gz"), clock)

    assert cloudformation.bodies("/answer")[0]["Status"] == "SUCCESS"
    assert 95 <= clock.now <= 105


def test_an_artifact_whose_name_only_begins_alike_is_another(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    aws.upload(bucket, "models/a.tar.gz.part", b"a")
    aws.upload(bucket, "a.tar.gz", b"a")
    _run(_event(cloudformation, bucket, "a.tar.gz", wait=60), clock)

    assert cloudformation.bodies("/answer")[0]["Status"] == "FAILED"


def test_when_the_time_is_up_everything_missing_is_named_with_what_to_do(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    aws.upload(bucket, "models/b.tar.gz", b"b")
    _run(_event(cloudformation, bucket, "a.tar.gz", "b.tar.gz", "c.tar.gz"), clock)

    (answer,) = cloudformation.bodies("/answer")
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == (
        f"2 of 3 artifacts were not in s3://{bucket}/models/ within 10 min. Start the build that makes "
        "them or run `fleet publish`, then deploy again. Missing: a.tar.gz, c.tar.gz"
    )
    assert clock.now == 600


@pytest.mark.story
def test_a_long_list_is_cut_to_what_cloudformation_reads(
    bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    names = [f"{number}-{'é' * 100}.tar.gz" for number in range(55)]
    _run(_event(cloudformation, bucket, *names, wait=60), clock)

    ((_, _, _, body),) = cloudformation.seen
    assert len(body) < 4096
    assert "fleet publish" in body.decode()


def test_an_invocation_that_ends_starts_the_next_and_does_not_answer(
    bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    event = _event(cloudformation, bucket, "a.tar.gz", wait=3540)
    _run(event, clock)

    (successor,) = _successors(cloudformation)
    assert successor == {**event, "Deadline": 3540}
    assert cloudformation.bodies("/answer") == []
    assert 840 <= clock.now < 900
    ((_, path, headers, _),) = cloudformation.seen
    assert headers["x-amz-invocation-type"] == "Event"
    assert Context.invoked_function_arn in path.replace("%3A", ":")


@pytest.mark.story
def test_all_successors_together_wait_no_longer_than_the_time_out(
    bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    pending, invocations = [_event(cloudformation, bucket, "a.tar.gz", wait=3540)], 0
    while pending:
        cloudformation.seen.clear()
        _run(pending.pop(), clock)
        invocations += 1
        pending += _successors(cloudformation)

    assert cloudformation.bodies("/answer")[0]["Status"] == "FAILED"
    assert clock.now == 3540
    assert invocations == 5  # Lambda stops a function that invokes itself after about 16


def test_another_artifact_is_waited_for_again_under_the_same_id(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    clock.at(30, lambda: aws.upload(bucket, "models/b.tar.gz", b"b"))
    _run(_event(cloudformation, bucket, "b.tar.gz", kind="Update"), clock)

    (answer,) = cloudformation.bodies("/answer")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "made-before")
    assert clock.now == 30


def test_deleting_does_nothing_and_answers_at_once(clock: Clock, cloudformation: Requests) -> None:
    _run(_event(cloudformation, "there-is-no-bucket", "a.tar.gz", kind="Delete"), clock)

    assert cloudformation.bodies("/answer")[0]["Status"] == "SUCCESS"
    assert clock.slept == []


def test_a_refusal_that_passes_is_only_a_delay(aws: MotoAws, clock: Clock, cloudformation: Requests) -> None:
    def grant() -> None:
        aws.client("s3").create_bucket(Bucket="granted-late")
        aws.upload("granted-late", "models/a.tar.gz", b"a")

    clock.at(60, grant)
    _run(_event(cloudformation, "granted-late", "a.tar.gz"), clock)

    assert cloudformation.bodies("/answer")[0]["Status"] == "SUCCESS"


def test_an_interruption_after_a_good_while_is_only_a_delay(
    aws: MotoAws, bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    s3 = aws.client("s3")
    clock.at(200, lambda: s3.delete_bucket(Bucket=bucket))
    clock.at(300, lambda: s3.create_bucket(Bucket=bucket))
    clock.at(400, lambda: aws.upload(bucket, "models/a.tar.gz", b"a"))
    _run(_event(cloudformation, bucket, "a.tar.gz"), clock)

    assert cloudformation.bodies("/answer")[0]["Status"] == "SUCCESS"


def test_a_refusal_that_stays_is_reported_after_two_minutes(clock: Clock, cloudformation: Requests) -> None:
    _run(_event(cloudformation, "there-is-no-bucket", "a.tar.gz", wait=3540), clock)

    (answer,) = cloudformation.bodies("/answer")
    assert answer["Status"] == "FAILED"
    assert "NoSuchBucket" in answer["Reason"]
    assert clock.now == 120


def test_a_mistake_in_the_request_is_answered_and_not_left_to_the_time_out(
    bucket: str, clock: Clock, cloudformation: Requests
) -> None:
    event = _event(cloudformation, bucket, "a.tar.gz")
    del event["ResourceProperties"]["Artifacts"]
    _run(event, clock)

    (answer,) = cloudformation.bodies("/answer")
    assert answer["Status"] == "FAILED"
    assert "KeyError: 'Artifacts'" in answer["Reason"]
