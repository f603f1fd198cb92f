"""`fleet why`: what each source says of a model. The tests of the rehearsal ask it about a real server."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from aws_for_tests.fixture import open_server
from tests.triton_models.publishing_aws import (
    EARLIER,
    client,
    endpoint,
    file_name,
    own_endpoints,
    put,
    record_of,
)
from triton_models.artifact.layout import model_of_key
from triton_models.artifact.profile import Profile, Range
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.alarm_condition import RUNBOOK
from triton_models.cli.main import main
from triton_models.repository.manifest import Manifest, Publication, Repository, Share
from triton_models.repository.objects import Store
from triton_models.signals.endpoint_log import events, requests
from triton_models.signals.recorder import Recorder

IMAGE = "007439368137.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.09-py3"
TARGET = ArtifactTarget.parse("sm75-trt10.13.3")
FIRST, SECOND, THIRD = (file_name("orders", each) for each in "123")
GIB = 1 << 30

_numbers = itertools.count(1)


@dataclass
class World:
    """An endpoint that serves `orders`, of which `FIRST` and then `SECOND` was published."""

    aws: str
    sagemaker: Any
    repository: str
    name: str = field(default_factory=lambda: f"why-{next(_numbers)}")
    manifest: Manifest = field(default_factory=Manifest)

    def __post_init__(self) -> None:
        endpoint(self.sagemaker, self.repository, name=self.name, image=IMAGE, instance_type="ml.g4dn.xlarge")
        self.publish(FIRST)
        self.publish(SECOND)

    def client(self, service: str) -> Any:
        return client(self.aws, service)

    def publish(self, artifact: str, *, at: datetime = EARLIER, **fields: Any) -> None:
        put(artifact, b"123", self.repository, self.client("s3"))
        self.change(
            lambda manifest: manifest.with_published([self.wanted(artifact, **fields)], at=at, by="ann")
        )

    def wanted(self, artifact: str, **fields: Any) -> Publication:
        return Publication(model="orders", artifact=artifact, record=record_of(artifact, **fields))

    def change(self, change: Callable[[Manifest], Manifest]) -> None:
        self.manifest = change(self.manifest)
        put("manifest.json", self.manifest.to_json().encode(), self.repository, self.client("s3"))

    def log(self, *messages: str, stream: str = "AllTraffic/i-1", minutes_ago: float = 5) -> None:
        logs, group = self.client("logs"), f"/aws/sagemaker/Endpoints/{self.name}"
        with suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=group)
        with suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
        at = int((time.time() - 60 * minutes_ago) * 1000)
        events = [{"timestamp": at, "message": each} for each in messages]
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """An AWS that searches logs as CloudWatch does."""
    with open_server() as url:
        yield url


@pytest.fixture
def world(aws: str, repository: str, environment: pytest.MonkeyPatch) -> Iterator[World]:
    with own_endpoints(aws) as sagemaker:
        yield World(aws, sagemaker, repository)


@dataclass(frozen=True)
class Said:
    status: int
    document: Mapping[str, Any]

    @property
    def causes(self) -> list[str]:
        return [each["what"] for each in self.document["causes"]]

    @property
    def fixes(self) -> list[str]:
        return [each["fix"] for each in self.document["causes"]]

    @property
    def facts(self) -> dict[str, str]:
        return {each["what"]: each["found"] for each in self.document["facts"] if each["what"] != "not read"}

    @property
    def unread(self) -> dict[str, str]:
        facts = self.document["facts"]
        return {each["source"]: each["found"] for each in facts if each["what"] == "not read"}

    @property
    def rules(self) -> list[str]:
        return [each["rule"] for each in self.document["error"]]


Why = Callable[..., Said]


@pytest.fixture
def why(world: World, capsys: pytest.CaptureFixture[str]) -> Why:
    """Ask why about a model of the endpoint, `orders` by default."""

    def why(*more: str, model: str = "orders", name: str = "") -> Said:
        given = ["why", model, "--repository", world.repository, "--endpoint", name or world.name]
        status = main([*given, "--json", *more])
        return Said(status, json.loads(capsys.readouterr().out))

    return why


def line(of: str, *, clock: str = "12:00:00.5") -> str:
    """Return a line of Triton's log."""
    return f'I1127 {clock} 9 model_lifecycle.cc:839] "{of}"'


def loading(artifact: str, **more: Any) -> str:
    return line(f"Loading SageMaker TargetModel: {artifact}", **more)


def loaded(artifact: str, **more: Any) -> str:
    return line(f"successfully loaded '/opt/ml/models/9c1f/model::{artifact}'", **more)


def failed(artifact: str, reason: str) -> str:
    return line(f"failed to load '/opt/ml/models/9c1f/model::{artifact}' version 1: {reason}")


def test_a_model_without_faults_has_no_cause_and_shows_what_was_read(world: World, why: Why) -> None:
    world.log(loading(SECOND, clock="23:59:59.0"), loaded(SECOND, clock="00:00:01.5"))
    said = why()
    assert (said.status, said.causes) == (0, [])
    assert said.facts["artifact"] == f"{SECOND}, publish by ann at {EARLIER:%Y-%m-%dT%H:%M:%SZ}"
    assert said.facts["endpoint"] == "InService, instances: 1"
    assert said.facts["target"].startswith("sm75-trt10.13.3: ")
    assert said.facts["last load"] == "5 min ago in 2.5 s on AllTraffic/i-1"
    assert list(said.unread) == ["signals"]


def test_the_page_has_the_causes_first_each_with_what_to_do(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.log(failed(SECOND, "Internal: no"))
    assert main(["why", "orders", "--repository", world.repository, "--endpoint", world.name]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"orders on {world.name}: 1 cause found."
    assert lines[2].startswith(f"1. {SECOND} does not load on 1 of 1 instances, 5 min ago: Internal: no")
    assert lines[3].startswith("   What to do: correct what Triton names")
    assert lines[5].split() == ["from", "what", "found"]


@pytest.mark.parametrize(("model", "fix"), [("order", "did you mean orders?"), ("x", "name one of orders")])
def test_an_unknown_model_is_one_error_with_names_that_are_near(why: Why, model: str, fix: str) -> None:
    said = why(model=model)
    assert (said.status, said.rules) == (1, ["unknown-model"])
    assert fix in said.document["error"][0]["fix"]


def test_an_endpoint_that_does_not_exist_is_one_error(why: Why) -> None:
    said = why(name="absent")
    assert (said.status, said.rules) == (1, ["why"])
    assert said.document["error"][0]["what"] == "the endpoint 'absent' does not exist"


def test_an_endpoint_is_named_or_the_use_is_wrong(world: World) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", "orders", "--repository", world.repository])
    assert ended.value.code == 2


def test_several_artifacts_without_a_target_are_one_error(world: World, why: Why) -> None:
    other = f"{world.name}-other"
    endpoint(world.sagemaker, world.repository, name=other, image="unknown", instance_type="ml.g4dn.xlarge")
    world.change(
        lambda manifest: manifest.with_rollback(model="orders", to=FIRST, at=EARLIER, by="ann", target=TARGET)
    )
    assert why(name=other).rules == ["ambiguous-target"]
    assert why("--target", str(TARGET), name=other).facts["artifact"].startswith(FIRST)


def test_an_alias_names_the_endpoint_and_the_target(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.dumps({"endpoint": world.name, "target": "cpu-trt10.13.3"})
    world.client("ssm").put_parameter(Name=f"/{world.name}/endpoint", Value=value, Type="String")
    given = ["why", "orders", "--repository", world.repository, "--alias", f"/{world.name}/endpoint"]
    assert main([*given, "--json"]) == 0
    said = Said(0, json.loads(capsys.readouterr().out))
    assert said.document["endpoint"] == world.name
    assert said.facts["target"].startswith("cpu-trt10.13.3: ")


def test_an_endpoint_of_another_repository_is_a_cause(world: World, why: Why) -> None:
    other = f"{world.name}-other"
    endpoint(world.sagemaker, "s3://else/m/", name=other, image=IMAGE, instance_type="ml.g4dn.xlarge")
    assert why(name=other).causes == [
        f"The endpoint loads models from s3://else/m/, not from {world.repository}."
    ]


@pytest.mark.parametrize(
    ("status", "described"), [("Failed", {"FailureReason": "no capacity"}), ("Updating", {})]
)
def test_an_endpoint_that_is_not_in_service_is_a_cause(
    why: Why, environment: pytest.MonkeyPatch, status: str, described: Mapping[str, str]
) -> None:
    changed = {"EndpointStatus": status, **described}
    answering(environment, "DescribeEndpoint", lambda answer: {**answer, **changed})
    reason = described.get("FailureReason", "a new instance loads each model at its first request")
    assert why().causes == [f"The endpoint is {status}: {reason}."]


def answering(patch: pytest.MonkeyPatch, operation: str, change: Callable[[Any], Any]) -> None:
    """Change the answers of AWS to an operation."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def changed(self: Any, name: str, given: Any) -> Any:
        return change(call(self, name, given)) if name == operation else call(self, name, given)

    patch.setattr(BaseClient, "_make_api_call", changed)


def test_a_missing_object_and_one_of_another_size_are_causes(world: World, why: Why) -> None:
    put(SECOND, b"12345", world.repository, world.client("s3"))
    of = f"The object {world.repository}{SECOND} is"
    assert why().causes == [f"{of} 5 bytes, and not 3 bytes as published."]
    world.client("s3").delete_object(**Store(Repository.parse(world.repository), None).at(SECOND))  # type: ignore[arg-type]
    assert why().causes == [f"{of} missing, and not 3 bytes as published."]


def test_a_version_that_is_new_and_fails_can_be_undone(world: World, why: Why) -> None:
    world.publish(THIRD, at=datetime.now(timezone.utc) - timedelta(hours=1))
    world.log(failed(THIRD, "Internal: no"))
    assert why().fixes[0].endswith(f"; or `fleet rollback orders`, to {SECOND}")


def test_a_version_that_was_withdrawn_is_named(world: World, why: Why) -> None:
    world.change(
        lambda manifest: manifest.with_rollback(
            model="orders", to=FIRST, at=EARLIER, by="ann", target=ArtifactTarget()
        )
    )
    facts = why().facts
    assert facts["artifact"].startswith(f"{FIRST}, rollback by ann")
    assert facts["withdrawn"] == SECOND


def test_the_candidate_is_looked_for_in_the_log_as_well(world: World, why: Why) -> None:
    share = Share(parts=500)
    world.change(
        lambda manifest: manifest.with_candidate(world.wanted(THIRD), share=share, at=EARLIER, by="ann")
    )
    world.log(loaded(SECOND), failed(THIRD, "Internal: no"))
    said = why()
    assert said.facts["candidate"] == f"{THIRD} gets 5.00% of the requests"
    assert [each.partition(" ")[0] for each in said.causes] == [THIRD]


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("Invalid argument: unable to find backend library for backend 'x'", "name a backend that the image"),
        ("Internal: ModuleNotFoundError: No module named 'x'", "add the package to the environment"),
        (
            "Internal: unable to load plan: incompatible device",
            "publish it from a build job of the endpoint's",
        ),
    ],
)
def test_a_reason_has_its_remedy(world: World, why: Why, reason: str, fix: str) -> None:
    world.log(failed(SECOND, reason))
    said = why()
    assert said.causes[0].endswith(reason)
    assert said.fixes[0].startswith(fix)


def test_a_model_that_loads_on_one_instance_and_not_on_another_is_a_cause(world: World, why: Why) -> None:
    world.log(failed(SECOND, "Internal: no"), loaded(SECOND))
    assert why().causes == []
    world.log(failed(SECOND, "Internal: no"), stream="AllTraffic/i-2")
    assert "does not load on 1 of 2 instances" in why().causes[0]


def test_a_model_that_gets_no_memory_is_another_cause_than_one_that_does_not_load(
    world: World, why: Why
) -> None:
    world.log(failed(SECOND, "Internal: CUDA out of memory"))
    assert "gets no memory on 1 of 1 instances" in why().causes[0]


def test_a_load_that_does_not_end_is_a_cause_after_a_minute(world: World, why: Why) -> None:
    world.log(loading(SECOND), minutes_ago=0.5)
    assert why().causes == []
    world.log(loading(SECOND), stream="AllTraffic/i-2", minutes_ago=3)
    assert "began to load and has not ended" in why().causes[0]


def test_lines_of_other_models_whose_names_begin_alike_do_not_count(
    world: World, why: Why, environment: pytest.MonkeyPatch
) -> None:
    world.log(failed(file_name("orders-new", "1"), "no"), failed(file_name("my-orders", "1"), "no"))
    world.log(failed(FIRST, "no"))
    with environment.context() as patch:
        denied(patch, "GetObject")  # otherwise, the manifest knows the artifacts of the model
        assert [each.partition(" ")[0] for each in why().causes] == [FIRST]


def test_a_model_that_does_not_fit_is_a_cause(world: World, why: Why) -> None:
    one = Range.measured(1.0, "a census")
    memory = Range.measured(30.0 * GIB, "a census")
    ranges = dict.fromkeys(("host", "shared", "fetch_s", "load_s", "busy_s"), one)
    profile = Profile(name="orders", backends=frozenset({"pytorch"}), disk=1.0, memory=memory, **ranges)
    world.publish(THIRD, profile=profile)
    said = why()
    assert said.causes[0].startswith("orders does not fit: it needs about 30,720 MiB of GPU memory")
    assert "30,720 MiB of a GPU (a census)" in said.facts["memory"]


def metric(of: str, world: World, name: str, *values: float, namespace: str = "AWS/SageMaker") -> None:
    dimensions = {"EndpointName": of, "VariantName": "v"}
    datum = {
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        "Timestamp": datetime.now(timezone.utc) - timedelta(minutes=2),
    }
    data = [{**datum, "Value": each} for each in values]
    world.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)


def test_busy_gpus_are_a_cause(world: World, why: Why) -> None:
    other = f"{world.name}-four"
    endpoint(world.sagemaker, world.repository, name=other, image=IMAGE, instance_type="ml.g4dn.12xlarge")
    for name, value in (("GPUUtilization", 388.0), ("GPUMemoryUtilization", 320.0)):
        metric(other, world, name, value, namespace="/aws/sagemaker/Endpoints")
    said = why(name=other)
    assert said.causes == ["The GPUs are 97% busy: requests to all models wait for them."]
    assert said.facts["GPU"] == "97% busy, memory 80% full"


def test_misses_are_a_cause_if_models_are_evicted(world: World, why: Why) -> None:
    metric(world.name, world, "ModelCacheHit", 1.0, 0.0)
    metric(world.name, world, "ModelLoadingWaitTime", 2e6)
    assert why().causes == []
    metric(world.name, world, "ModelUnloadingTime", 1e6, 1e6)
    waits = "50.0% of the requests to all models waited 2.0 s for a load"
    assert why().causes == [f"Models evict each other: {waits}, with 2 evictions in 3 h."]


def alarm(world: World, name: str, **more: Any) -> None:
    cloudwatch = world.client("cloudwatch")
    usual = {
        "Namespace": "AWS/SageMaker",
        "MetricName": "ModelLatency",
        "Dimensions": [{"Name": "EndpointName", "Value": world.name}],
        "Period": 60,
        "Statistic": "Average",
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
    }
    cloudwatch.put_metric_alarm(AlarmName=name, **{**usual, **more})
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="1 datapoint")


def test_the_alarms_of_the_endpoint_that_fire_are_causes_with_their_runbooks(world: World, why: Why) -> None:
    name = world.name
    alarm(world, f"{name}-page-Latency", AlarmDescription=f"It is slow.{RUNBOOK}Look at the GPUs.")
    alarm(
        world, f"{name}-loads", Namespace=f"TritonFleet/{name}", MetricName="ModelLoadFailures", Dimensions=[]
    )
    alarm(world, f"{name}-other", Dimensions=[{"Name": "EndpointName", "Value": "another"}])
    alarm(world, f"{name}-low", AlarmActions=["arn:aws:autoscaling:us-east-1:123456789012:scalingPolicy:p"])
    said = why()
    assert dict(zip(said.causes, said.fixes, strict=True)) == {
        f"The alarm {name}-page-Latency fires: It is slow.": "Look at the GPUs",
        f"The alarm {name}-loads fires: 1 datapoint": "read why it was made",
    }
    assert said.facts["alarms"] == "2 of the endpoint in ALARM"


def test_errors_and_waits_that_clients_report_are_causes(world: World, why: Why) -> None:
    signals = world.repository.replace("/models/", "/signals/")
    now = time.time() - 120
    recorder = Recorder(Store(Repository.parse(signals), world.client("s3")), now=lambda: now)
    for error, waited_s in (("", None), ("", 2.0), ("model-failed", None)):
        recorder.record(
            endpoint=world.name, artifact=("orders", SECOND), seconds=3.0, error=error, waited_s=waited_s
        )
    recorder.close()
    said = why("--signals", signals)
    assert said.causes == [
        "1 of 3 requests of this project's clients failed: model-failed 1.",
        "1 of 2 answered requests waited for a load, 2.0 s on average.",
    ]
    assert said.facts["requests"].startswith("requests 3, failed 1, p50 ")
    assert "signals" not in said.unread


@pytest.mark.parametrize(
    ("operation", "source"),
    [
        ("DescribeEndpoint", "endpoint"),
        ("DescribeModel", "instances and image"),
        ("GetObject", "manifest"),
        ("HeadObject", "object"),
        ("FilterLogEvents", "log"),
        ("GetMetricStatistics", "metrics"),
        ("DescribeAlarms", "alarms"),
    ],
)
def test_a_source_that_is_denied_is_named_and_the_rest_is_read(
    world: World, why: Why, environment: pytest.MonkeyPatch, operation: str, source: str
) -> None:
    world.log(failed(SECOND, "Internal: no"))
    alarm(world, f"{world.name}-page-Latency")
    with environment.context() as patch:
        denied(patch, operation)
        said = why()
    assert said.status == 1
    assert source in said.unread
    assert operation in said.unread[source]
    assert len(said.causes) == 2 - (source in {"log", "alarms"})


def denied(patch: pytest.MonkeyPatch, *operations: str) -> None:
    """Deny some operations of AWS, or all."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def refuse(self: Any, name: str, given: Any) -> Any:
        if operations and name not in operations:
            return call(self, name, given)
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": f"not {name}"}}, name)

    patch.setattr(BaseClient, "_make_api_call", refuse)


def test_if_nothing_can_be_read_it_is_one_error(why: Why, environment: pytest.MonkeyPatch) -> None:
    with environment.context() as patch:
        denied(patch)
        said = why()
    assert (said.status, said.rules) == (1, ["why"])
    assert said.document["error"][0]["what"] == "nothing could be read"


# As the bundled server (24.10) wrote them on 2026-11-28: quoted and escaped as JSON; releases before 24 quote
# nothing.
INVOKED = "Invoking SageMaker TargetModel: "
KEYS = {
    f'"{INVOKED}tenantA/model.tar.gz"': "tenantA/model",
    f'"{INVOKED}tenantB/model.tar.gz"': "tenantB/model",
    f"{INVOKED}tenantB/model.tar.gz": "tenantB/model",
    f'"{INVOKED}tenantA/model two.tar.gz"': "tenantA/model two",
    f"{INVOKED}tenantA/model two.tar.gz": "tenantA/model two",
    f'"{INVOKED}a/b/c-0123456789abcdef.tar.gz"': "a/b/c",
    f'"{INVOKED}a-0123456789abcdef/model.tar.gz"': "a-0123456789abcdef/model",
    f'"{INVOKED}uml\u00e4ut-\u65e5\u672c.tar.gz"': "uml\u00e4ut-\u65e5\u672c",
    f'"{INVOKED}quote\\"d.tar.gz"': 'quote"d',
    f'"{INVOKED}back\\\\slash.tar.gz"': "back\\slash",
    f'"{INVOKED}50% off: v1.tar.gz"': "50% off: v1",
    f'"{INVOKED}no-suffix"': "no-suffix",
}


def test_a_model_is_the_whole_key_of_the_log_without_suffix_and_digest(world: World) -> None:
    world.log(*(f"I1128 14:00:58.175037 27639 sagemaker_server.cc:241] {line}" for line in KEYS))
    found = [model_of_key(key) for _, key in requests(world.name, since=time.time() - 3600)]
    assert sorted(found) == sorted(KEYS.values())


def test_loads_and_failures_have_whole_keys_too(world: World) -> None:
    key, other = "it's mine/model-0123456789abcdef.tar.gz", "model-0123456789abcdef.tar.gz"
    for each in (key, other):
        world.log(loading(each), loaded(each), failed(each, "no weights"))
        world.log(line(f"UNLOAD for model {each} completed in 2 seconds."))
    for model, artifact in (("it's mine/model", key), ("model", other)):
        found = list(events(world.name, model, since=time.time() - 3600))
        assert {each.artifact for each in found} == {artifact}
        assert [each.kind for each in found] == ["began", "loaded", "failed", "unloaded"]
