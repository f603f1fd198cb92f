from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk.assertions import Annotations, Match, Template
from function_world import Clock, Context, Requests, asked, web_server
from moto.sagemaker.models import sagemaker_backends
from synthesised import Resources, only

from aws_for_tests.fixture import event_matches
from tests.rehearsal.aws_for_hosting import REGION, MotoAws, moto_aws
from tests.triton_models.publishing_aws import file_name, record_of
from triton_fleet import (
    AllAtOnce,
    Canary,
    Deployment,
    EndpointWarmUp,
    FleetError,
    ModelRepository,
    MultiModelEndpoint,
    WarmUpRequest,
)
from triton_fleet.endpoint.functions.code import warm_up
from triton_models.artifact.profile import Profile, Range
from triton_models.artifact.targets import ANY
from triton_models.check.estimate import estimated
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.deliver.steps import example_request
from triton_models.plan import policy
from triton_models.repository.manifest import Manifest, ModelRecord, request_name

MINILM = WarmUpRequest(model="minilm", body='{"inputs": []}')
DECLARATION = ModelDefinition(name="m", description="", examples=list, output="Y")

# "Events that Amazon SageMaker AI sends to Amazon EventBridge" in AWS's documentation, read on 2026-11-21.
EVENT: dict[str, Any] = {
    "detail-type": "SageMaker Endpoint Deployment State Change",
    "source": "aws.sagemaker",
    "detail": {
        "EndpointName": "Fleet",
        "EndpointConfigName": "sample-endpoint-config-1",
        "ProductionVariants": [{"VariantName": "AllTraffic", "CurrentInstanceCount": 3}],
        "EndpointStatus": "UPDATING",
        "PendingDeploymentSummary": {
            "EndpointConfigName": "sample-endpoint-config-2",
            "ProductionVariants": [
                {
                    "VariantName": "AllTraffic",
                    "CurrentInstanceCount": 1,
                    "DesiredInstanceCount": 3,
                    "VariantStatus": [{"Status": "Baking", "StatusMessage": "Baking for 600 seconds"}],
                }
            ],
        },
    },
}


def _create(
    stack: Stack,
    *requests: WarmUpRequest,
    deployment: Deployment | None = Canary(),  # noqa: B008 -- it is frozen
    **arguments: Any,
) -> EndpointWarmUp:
    repository = ModelRepository(stack, "Repository")
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        endpoint_name="Fleet",
        deployment=deployment,
        initial_instance_count=10,
        rollback_alarms=["errors"] if deployment else [],
    )
    return EndpointWarmUp(stack, "WarmUp", endpoint=endpoint, requests=requests, **arguments)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = Stack(App(), "Fleet")
    _create(stack, MINILM)
    return dict(Template.from_stack(stack).to_json()["Resources"])


@pytest.mark.parametrize(
    ("what", "value", "starts"),
    [
        (("detail", "EndpointName"), "Fleet", True),
        (("detail", "EndpointName"), "Another", False),
        (("detail-type",), "SageMaker Endpoint State Change", False),
        (
            ("detail", "PendingDeploymentSummary", "ProductionVariants", 0, "VariantStatus"),
            [{"Status": "Creating"}],
            False,
        ),
    ],
)
def test_a_fleet_that_begins_to_bake_starts_it_and_nothing_else(
    what: tuple[Any, ...], value: Any, starts: bool, template: dict[str, Any]
) -> None:
    event = json.loads(json.dumps(EVENT))
    inner = event
    for key in what[:-1]:
        inner = inner[key]
    inner[what[-1]] = value

    _, rule = only(template, "AWS::Events::Rule")
    assert event_matches(rule["Properties"]["EventPattern"], event) is starts


def test_it_may_be_in_another_stack_than_the_endpoint(app: App, stack: Stack) -> None:
    repository = ModelRepository(stack, "Repository")
    endpoint = MultiModelEndpoint(
        stack, "Endpoint", repository=repository, endpoint_name="Fleet", deployment=AllAtOnce()
    )
    other = Stack(app, "Other")
    EndpointWarmUp(other, "WarmUp", endpoint=endpoint, requests=[MINILM])

    assert len(Template.from_stack(other).find_resources("AWS::Events::Rule")) == 1


@pytest.mark.parametrize(
    ("deployment", "given"), [(None, "no deployment"), (AllAtOnce(wait=Duration.seconds(0)), "waits 0 s")]
)
def test_an_endpoint_that_never_bakes_is_warned_about(
    deployment: Deployment | None, given: str, stack: Stack
) -> None:
    _create(stack, MINILM, deployment=deployment)

    Annotations.from_stack(stack).has_warning("/Fleet/WarmUp", Match.string_like_regexp(given))


def _problems(stack: Stack, *requests: WarmUpRequest, **arguments: Any) -> list[str]:
    with pytest.raises(FleetError) as raised:
        _create(stack, *requests, **arguments)
    assert all(problem.where.endswith(f"{stack.node.id}/WarmUp") for problem in raised.value.problems)
    return [problem.what for problem in raised.value.problems]


def test_every_mistake_is_reported_at_once(stack: Stack) -> None:
    assert _problems(
        stack, replace(MINILM, body=""), WarmUpRequest(model="", body="{"), every=Duration.millis(500)
    ) == [
        "body is empty",
        "model is empty",
        "the body is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "every is 0.5 s",
    ]


def test_requests_fill_the_rule_to_its_last_character(app: App, stack: Stack, resources: Resources) -> None:
    space = 8192 - len('{"requests":[{"model":"m","body":"","content_type":"text/plain"}]}')
    fits = WarmUpRequest(model="m", body="ü" * space, content_type="text/plain")
    _create(stack, fits)
    (rule,) = resources("AWS::Events::Rule")

    assert len(rule["Targets"][0]["Input"]) == 8192
    assert _problems(Stack(app, "Other"), replace(fits, body=f"{fits.body}.")) == [
        "the requests have 8193 characters together, as JSON"
    ]


def _manifest(*, request: str = "", profile: Profile | None = None, **current: str) -> Manifest:
    return Manifest(
        models={
            model: ModelRecord(
                current={ANY: artifact},
                history=(),
                artifacts={
                    each: replace(record_of(each, request=request), profile=profile)
                    for each in (file_name(model, "0"), artifact)
                },
            )
            for model, artifact in current.items()
        }
    )


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture(scope="module")
def web() -> Iterator[Requests]:
    with web_server() as running:
        yield running


class Deployed:
    """An endpoint that is updated, its repository, and what its models were sent."""

    def __init__(self, aws: MotoAws, runtime: Requests) -> None:
        self.aws, self.runtime = aws, runtime
        self.bucket = aws.bucket()
        self.name = aws.endpoint(aws.endpoint_config(self.bucket))

    def becomes(self, status: str, pending: str | None = None) -> None:
        """Change moto's own record behind DescribeEndpoint, which only SageMaker can change."""
        endpoint: Any = sagemaker_backends["123456789012"][REGION].endpoints[self.name]
        endpoint.endpoint_status = status
        variants = [{"VariantName": "AllTraffic", "VariantStatus": [{"Status": pending}]}]
        endpoint.pending_deployment_summary = {
            "EndpointConfigName": "next",
            "ProductionVariants": variants if pending else [],
        }

    def has(self, *, instances: int) -> None:
        """Change the number of instances that serve."""
        endpoint: Any = sagemaker_backends["123456789012"][REGION].endpoints[self.name]
        for variant in endpoint.production_variants:
            variant.update(CurrentInstanceCount=instances, DesiredInstanceCount=instances)

    def loaded(self, models: int, *, before: timedelta) -> None:
        """Publish the number of models of an instance, some time ago."""
        dimensions = {"EndpointName": self.name, "VariantName": "AllTraffic"}
        datum = {
            "MetricName": "LoadedModelCount",
            "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
            "Timestamp": datetime.now(timezone.utc) - before,
            "Value": models,
        }
        self.aws.client("cloudwatch").put_metric_data(
            Namespace="/aws/sagemaker/Endpoints", MetricData=[datum]
        )

    def publish(self, *, request: str = "", profile: Profile | None = None, **current: str) -> None:
        written = _manifest(request=request, profile=profile, **current).to_json().encode()
        self.aws.upload(self.bucket, "models/manifest.json", written)

    def invoked(self) -> list[str]:
        """The target models that were invoked, in order."""
        return [headers["x-amzn-sagemaker-target-model"] for _, _, headers, _ in self.runtime.seen]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def deployed(
    aws: MotoAws,
    web: Requests,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> Deployed:
    """An endpoint whose new fleet bakes, with two models in its repository."""
    caplog.set_level(logging.INFO)
    web.seen.clear()
    web.reply = lambda *_: (200, {})
    deployed = Deployed(aws, web)
    deployed.becomes("Updating", "Baking")
    deployed.publish(minilm="minilm-02.tar.gz", resnet50="resnet50-07.tar.gz")
    variables = {
        **aws.exports(runtime=web.url),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "ENDPOINT_NAME": deployed.name,
        "EVERY_SECONDS": "15",
        "TARGET": "sm86-trt10.13.3",
        "MANIFEST_BUCKET": deployed.bucket,
        "MANIFEST_KEY": "models/manifest.json",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return deployed


def _run(clock: Clock, *models: str) -> None:
    requests = [{"model": model, "body": "grüße", "content_type": "text/plain"} for model in models]
    warm_up.handler({"requests": requests}, Context(clock), clock=clock, sleep=clock.sleep)


def test_a_request_goes_to_the_model_as_it_was_given(deployed: Deployed, clock: Clock) -> None:
    deployed.becomes("InService")
    _run(clock, "minilm")

    ((method, path, headers, body),) = deployed.runtime.seen
    assert (method, path) == ("POST", f"/endpoints/{deployed.name}/invocations")
    assert headers["x-amzn-sagemaker-target-model"] == "minilm-02.tar.gz"
    assert (headers["content-type"], body.decode()) == ("text/plain", "grüße")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (
            '{"inputs": [{"data": {"of": 0, "times": 3}}, {"data": [1]}]}',
            [{"data": [0, 0, 0]}, {"data": [1]}],
        ),
        ('{"inputs": [{"data": ["\\"times\\""]}]}', [{"data": ['"times"']}]),
    ],
)
def test_repeated_data_is_written_out(given: str, sent: list[object]) -> None:
    assert json.loads(warm_up.written_out(given)) == {"inputs": sent}
    assert warm_up.written_out('"times"') == b'"times"'


def test_requests_are_repeated_until_the_new_fleet_has_all_traffic(deployed: Deployed, clock: Clock) -> None:
    clock.at(120, lambda: deployed.becomes("InService"))
    _run(clock, "minilm", "resnet50")

    assert clock.slept == [15.0] * 8
    assert sorted(deployed.invoked()) == ["minilm-02.tar.gz"] * 9 + ["resnet50-07.tar.gz"] * 9


@pytest.mark.parametrize(
    ("status", "pending"),
    [("Updating", "ActivatingTraffic"), ("RollingBack", "Baking"), ("Updating", None), ("InService", None)],
)
def test_an_event_that_comes_too_late_sends_each_request_once(
    status: str, pending: str | None, deployed: Deployed, clock: Clock
) -> None:
    deployed.becomes(status, pending)
    _run(clock, "minilm", "resnet50")

    assert sorted(deployed.invoked()) == ["minilm-02.tar.gz", "resnet50-07.tar.gz"]
    assert clock.slept == []


def test_it_ends_in_time_even_if_models_answer_slowly(deployed: Deployed, clock: Clock) -> None:
    def after_a_minute(*_: object) -> tuple[int, dict[str, Any]]:
        clock.now += 60
        return 200, {}

    deployed.runtime.reply = after_a_minute
    _run(clock, "minilm")

    assert clock.now < 900
    assert set(clock.slept) == {0}  # each round begins 15 s after the one before, if that is over


def test_one_model_that_fails_stops_no_other(
    deployed: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if headers["x-amzn-sagemaker-target-model"].startswith("minilm"):
            return 424, {"error": "ModelError", "message": "no such input"}
        return 200, {}

    deployed.runtime.reply = fails
    clock.at(15, lambda: deployed.becomes("InService"))
    _run(clock, "minilm", "resnet50", "unknown")

    assert sorted(deployed.invoked()) == ["minilm-02.tar.gz"] * 2 + ["resnet50-07.tar.gz"] * 2
    assert "minilm: minilm-02.tar.gz did not answer" in caplog.text
    assert "no such input" in caplog.text
    assert "resnet50: answered by resnet50-07.tar.gz" in caplog.text
    assert "unknown: no model that can be loaded has that name" in caplog.text
    assert "2 of 3 models were not loaded: minilm, unknown" in caplog.text


def test_a_model_that_refuses_the_input_is_asked_once(deployed: Deployed, clock: Clock) -> None:
    refused = {"OriginalStatusCode": 400, "OriginalMessage": "[request id: 1] unexpected shape"}

    def refuses(_: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        failed = headers["x-amzn-sagemaker-target-model"].startswith("minilm")
        return (424, {"error": "ModelError", "message": "no", **refused}) if failed else (200, {})

    deployed.runtime.reply = refuses
    clock.at(30, lambda: deployed.becomes("InService"))
    _run(clock, "minilm", "resnet50")

    assert sorted(deployed.invoked()) == ["minilm-02.tar.gz"] + ["resnet50-07.tar.gz"] * 3


def test_a_name_that_moves_meanwhile_is_followed(deployed: Deployed, clock: Clock) -> None:
    clock.at(15, lambda: deployed.publish(minilm="minilm-03.tar.gz"))
    clock.at(30, lambda: deployed.becomes("InService"))
    _run(clock, "minilm")

    assert deployed.invoked() == ["minilm-02.tar.gz", "minilm-03.tar.gz", "minilm-03.tar.gz"]


def test_a_repository_that_cannot_be_read_is_logged_and_read_again(
    deployed: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    deployed.aws.upload(deployed.bucket, "models/manifest.json", b"mine")
    clock.at(15, lambda: deployed.publish(minilm="minilm-02.tar.gz"))
    clock.at(30, lambda: deployed.becomes("InService"))
    _run(clock, "minilm")

    assert len(deployed.invoked()) == 2
    assert f"s3://{deployed.bucket}/models/manifest.json cannot be read" in caplog.text


def test_an_endpoint_that_is_gone_ends_it_quietly(
    deployed: Deployed, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENDPOINT_NAME", "gone")
    _run(clock, "minilm")

    assert clock.slept == []
    assert "gone cannot be looked at" in caplog.text


STORED = {"model": "minilm", "body": "mine", "content_type": "text/plain"}


def _run_published(
    clock: Clock, *requests: dict[str, str], cold: tuple[str, ...] = (), **context: Any
) -> None:
    event = {"requests": list(requests), "published": True, "cold": cold}
    warm_up.handler(event, Context(clock, **context), clock=clock, sleep=clock.sleep)


def _publish_with_request(deployed: Deployed) -> None:
    """Publish the two models with the request of an example, as a build does."""
    example = Example(name="one", inputs={"X": np.float16([[1, 2]])})
    document = example_request(replace(DECLARATION, examples=lambda: [example]))
    assert document is not None
    digest = hashlib.sha256(document).hexdigest()
    deployed.aws.upload(deployed.bucket, f"models/{request_name(digest)}", document)
    deployed.publish(request=digest, minilm="minilm-02.tar.gz", resnet50="resnet50-07.tar.gz")


def test_every_published_model_gets_the_request_of_its_build(deployed: Deployed, clock: Clock) -> None:
    deployed.becomes("InService")
    _publish_with_request(deployed)
    _run_published(clock, STORED)

    bodies = {headers["x-amzn-sagemaker-target-model"]: body for _, _, headers, body in deployed.runtime.seen}
    assert bodies["minilm-02.tar.gz"] == b"mine"
    assert bodies["resnet50-07.tar.gz"].endswith(np.float16([1, 2]).tobytes())
    assert b'"datatype": "FP16"' in bodies["resnet50-07.tar.gz"]


def test_a_model_that_is_left_out_is_not_asked(deployed: Deployed, clock: Clock) -> None:
    deployed.becomes("InService")
    _publish_with_request(deployed)
    _run_published(clock, cold=("minilm",))

    assert deployed.invoked() == ["resnet50-07.tar.gz"]


def test_models_that_were_published_without_a_request_are_named(
    deployed: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    deployed.becomes("InService")
    _run_published(clock, STORED)

    assert deployed.invoked() == ["minilm-02.tar.gz"]
    assert "1 of 2 models were not loaded: resnet50" in caplog.text


def test_a_request_that_is_gone_stops_no_other(deployed: Deployed, clock: Clock) -> None:
    deployed.becomes("InService")
    deployed.publish(request="0" * 64, minilm="minilm-02.tar.gz", resnet50="resnet50-07.tar.gz")
    _run_published(clock, STORED)

    assert deployed.invoked() == ["minilm-02.tar.gz"]


def test_a_fleet_with_all_traffic_is_not_asked_for_ever(
    deployed: Deployed, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_TRAFFIC", "1")
    clock.at(60, lambda: deployed.publish(minilm="minilm-03.tar.gz"))
    clock.at(150, lambda: deployed.becomes("InService"))
    _run(clock, "minilm")

    assert deployed.invoked() == ["minilm-02.tar.gz"] * 3 + ["minilm-03.tar.gz"] * 3


@pytest.fixture(scope="module")
def hot_template() -> dict[str, Any]:
    stack = Stack(App(), "Fleet")
    _create(stack, MINILM, hot=["minilm"])
    return dict(Template.from_stack(stack).to_json()["Resources"])


@pytest.mark.parametrize(
    ("name", "status", "starts"),
    [("Fleet", "UPDATING", True), ("Fleet", "DELETING", False), ("Another", "UPDATING", False)],
)
def test_a_change_of_the_endpoint_and_a_schedule_start_it_for_hot_models(
    name: str, status: str, starts: bool, hot_template: dict[str, Any]
) -> None:
    event = {
        **EVENT,
        "detail-type": "SageMaker Endpoint State Change",
        "detail": {**EVENT["detail"], "EndpointName": name, "EndpointStatus": status},
    }
    rules = {key: each for key, each in hot_template.items() if each["Type"] == "AWS::Events::Rule"}
    [rule] = [each["Properties"] for key, each in rules.items() if "Hot" in key]

    assert event_matches(rule["EventPattern"], event) is starts
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    assert json.loads(rule["Targets"][0]["Input"])["hot"] == ["minilm"]


def test_without_hot_models_there_is_no_schedule_and_no_permission_for_one(template: dict[str, Any]) -> None:
    assert "HotRule" not in str(template)
    assert "GetMetricStatistics" not in str(template)


def test_hot_models_that_are_cold_or_named_twice_are_refused(stack: Stack) -> None:
    hot = ["minilm", "minilm", "resnet50"]

    assert _problems(stack, hot=hot, published=True, cold_models=["resnet50"]) == [
        "'minilm' is there twice",
        "'resnet50' is hot and not warmed up",
    ]


def _run_hot(clock: Clock, *hot: str) -> None:
    event = {"everywhere": True, "requests": [], "published": True, "hot": hot}
    warm_up.handler(event, Context(clock), clock=clock, sleep=clock.sleep)


def test_hot_models_are_sent_many_requests_for_each_instance_at_a_moment(
    deployed: Deployed, clock: Clock
) -> None:
    deployed.becomes("InService")
    _publish_with_request(deployed)
    _run_hot(clock, "minilm")

    first, *many = deployed.runtime.seen
    assert {headers["x-amzn-sagemaker-target-model"] for _, _, headers, _ in many} == {"minilm-02.tar.gz"}
    assert len(many) == policy.MANY == warm_up.MANY
    assert {body for *_, body in many} == {first[-1]}
    assert all("Signature=" in headers["authorization"] for _, _, headers, _ in many)


def test_they_are_sent_again_when_the_endpoint_has_more_instances(deployed: Deployed, clock: Clock) -> None:
    deployed.becomes("Updating")
    _publish_with_request(deployed)
    clock.at(20, lambda: deployed.has(instances=3))
    clock.at(40, lambda: deployed.becomes("InService"))
    _run_hot(clock, "minilm")

    assert len(deployed.runtime.seen) == (1 + policy.MANY) + 2 * (1 + 3 * policy.MANY)
    assert 40 <= clock.now < 50


def test_a_hot_model_that_refuses_its_request_is_sent_one(deployed: Deployed, clock: Clock) -> None:
    refused = {"OriginalStatusCode": 400, "OriginalMessage": "[request id: 1] unexpected shape"}
    deployed.becomes("InService")
    deployed.runtime.reply = lambda *_: (424, {"error": "ModelError", "message": "no", **refused})
    _publish_with_request(deployed)
    _run_hot(clock, "minilm")

    assert deployed.invoked() == ["minilm-02.tar.gz"]


def test_twice_as_many_are_sent_while_an_instance_has_fewer_models_than_are_hot(
    deployed: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    deployed.becomes("InService")
    _publish_with_request(deployed)
    for minutes in (6, 12):
        deployed.loaded(0, before=timedelta(minutes=minutes))
    _run_hot(clock, "minilm")

    assert len(deployed.runtime.seen) == 1 + 2 * policy.MANY
    assert "An instance has had fewer than the 1 hot models" in caplog.text


ROOM = {
    "type": "ml.g5.xlarge",
    "has": {"memory": ["GPU memory", 1000 << 20], "disk": ["the disk", 1 << 40]},
    "libraries": {"onnxruntime": 200 << 20},
}
UNFIT = (
    "The hot models need about 600 MiB of GPU memory (minilm 600), and resnet50, the largest other model, "
    "600. An ml.g5.xlarge has 800 MiB for models. Name fewer hot models, or choose a larger instance type"
)


@pytest.fixture
def unfit(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """An endpoint whose instances hold one of its two models."""
    monkeypatch.setenv("ROOM", json.dumps(ROOM))
    deployed.becomes("InService")
    memory = Range.measured(600 << 20, "the census")
    profile = replace(estimated("m", size=1 << 20, backend="onnxruntime"), memory=memory)
    deployed.publish(profile=profile, minilm="minilm-02.tar.gz", resnet50="resnet50-07.tar.gz")
    return deployed


def test_hot_models_that_do_not_fit_are_logged_with_their_figures_and_not_loaded(
    unfit: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    _run_hot(clock, "minilm")

    assert unfit.invoked() == []
    assert UNFIT in caplog.text


@pytest.mark.parametrize(
    ("request_type", "before", "status"),
    [
        ("Create", [], "FAILED"),
        ("Update", [], "FAILED"),
        ("Update", ["minilm"], "SUCCESS"),
        ("Delete", [], "SUCCESS"),
    ],
)
def test_a_deployment_that_adds_hot_models_which_do_not_fit_fails(
    request_type: str, before: list[str], status: str, unfit: Deployed, clock: Clock
) -> None:
    with web_server() as cloudformation:
        answer = asked(
            warm_up,
            cloudformation,
            clock,
            "TritonFirstLoads",
            {"Alias": "/alias", "Requests": json.dumps({"requests": [], "hot": ["minilm"]})},
            request=request_type,
            OldResourceProperties={"Requests": json.dumps({"requests": [], "hot": before})},
        )

    assert answer["Status"] == status
    assert (UNFIT in answer.get("Reason", "")) is (status == "FAILED")


def test_hot_models_are_everywhere_on_a_new_fleet_as_soon_as_it_has_all_traffic(
    deployed: Deployed, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_TRAFFIC", "1")
    clock.at(30, lambda: deployed.becomes("InService"))
    event = {"requests": [STORED], "hot": ["minilm"]}
    warm_up.handler(event, Context(clock), clock=clock, sleep=clock.sleep)

    assert deployed.invoked() == ["minilm-02.tar.gz"] * (3 + 1 + policy.MANY)


def test_hot_models_are_everywhere_before_the_alias_moves_to_a_new_endpoint(
    deployed: Deployed, clock: Clock
) -> None:
    deployed.becomes("InService")
    deployed.has(instances=2)
    _publish_with_request(deployed)
    requests = {"requests": [], "published": True, "hot": ["minilm"]}
    with web_server() as cloudformation:
        properties = {"Alias": "/alias", "Requests": json.dumps(requests)}
        answer = asked(warm_up, cloudformation, clock, "TritonFirstLoads", properties)

    assert answer["Status"] == "SUCCESS"
    rounds = warm_up.ROUNDS_PER_INSTANCE * 2
    assert Counter(deployed.invoked()) == {
        "minilm-02.tar.gz": rounds + 1 + 2 * policy.MANY,
        "resnet50-07.tar.gz": rounds,
    }


def test_models_that_there_was_no_time_for_are_named(
    deployed: Deployed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    _publish_with_request(deployed)
    _run_published(clock, lives=60)

    assert deployed.invoked() == []
    assert "2 of 2 models were not loaded: minilm, resnet50" in caplog.text
