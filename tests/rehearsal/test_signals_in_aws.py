"""Signals in the deployed stack: clients count what models do, the function reads it, alarms go off."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from aws_cdk import CfnOutput
from aws_cdk import aws_iam as iam
from synthesised_stacks import deploy_fleet

from aws_for_tests.deployed_functions import logged, outputs, physical_ids, until
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.granted import Access, recorded, refused
from tests.rehearsal.served_models import python_model, tarball
from tests.stacks.fleet_app import new_fleet
from tests.triton_models.publishing_aws import file_name, record_of
from triton_fleet.endpoint.functions.code import model_signals
from triton_models.client import Client, InvocationError
from triton_models.repository.manifest import Manifest, Publication, Repository
from triton_models.repository.objects import Store
from triton_models.signals.recorder import Recorder
from triton_models.signals.stored import read
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.page import document

pytestmark = pytest.mark.story

WATCHED, OTHER = "watched", "other"
START = datetime(2031, 1, 1, tzinfo=timezone.utc)
EARLIER = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTES = 8
_days = count()

FAILS = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        raise pb_utils.TritonModelException("no weights")
"""

aws = aws_fixture(scope="module")


class Now:
    """A clock that a test moves; for the function it passes while it waits."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Fleet:
    """The deployed fleet, with the roles of an application and of an operator."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws = aws
        app = new_fleet(models="", signals="true", watch=WATCHED)
        fleet = app.inference.fleet
        assert fleet.signals is not None
        application, operator = (
            iam.Role(app.inference, each, assumed_by=iam.AccountRootPrincipal())
            for each in ("Application", "Operator")
        )
        fleet.grant_invoke(application)
        fleet.signals.grant_read(operator)
        named = {
            "application": application.role_name,
            "operator": operator.role_name,
            "function": fleet.signals.function.role.role_name,
        }
        for name, value in named.items():
            CfnOutput(app.inference, name, value=value)
        deploy_fleet(aws, app)
        self.outputs = outputs(aws, app.inference.stack_name)
        of_models = outputs(aws, app.models.stack_name)
        self.repository, self.signals = of_models["RepositoryUrl"], of_models["SignalsUrl"]
        self.endpoint = self.outputs["EndpointName"]
        bucket = self.repository.split("/")[2]
        [key] = physical_ids(aws, "AWS::KMS::Key", stack=app.models.stack_name)
        self.keys = {f"key of arn:aws:s3:::{bucket}": f"arn:aws:kms:us-east-1:123456789012:key/{key}"}
        [self.function] = [
            each
            for each in aws.client("lambda").list_functions()["Functions"]
            if "WATCH" in each.get("Environment", {}).get("Variables", {})
        ]

    def alarms(self, at: datetime) -> tuple[set[str], bool]:
        """Return the alarms that are in alarm at a time, and True if the fleet's page goes out."""
        self.aws.evaluate(at=at)
        kinds: Any = ["MetricAlarm", "CompositeAlarm"]
        found = self.aws.client("cloudwatch").describe_alarms(
            AlarmNamePrefix=self.endpoint, AlarmTypes=kinds, StateValue="ALARM"
        )
        names = {each["AlarmName"].removeprefix(f"{self.endpoint}-") for each in found["MetricAlarms"]}
        return names, bool(found["CompositeAlarms"])

    def refused(self, role: str, accesses: list[Access]) -> set[str]:
        """Return what a role may not do."""
        client, name = self.aws.client("iam"), self.outputs[role]
        [policy] = client.list_role_policies(RoleName=name)["PolicyNames"]
        document = client.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        return refused(accesses, document, keys=self.keys)


@pytest.fixture(scope="module")
def fleet(aws: EmbeddedAws) -> Fleet:
    return Fleet(aws)


@pytest.fixture
def used(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> list[Access]:
    """What the function uses; it runs here, as it is deployed, with a clock of the test."""
    for name, value in {**fleet.aws.exports(), **fleet.function["Environment"]["Variables"]}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(model_signals, "_minutes", {})
    model_signals.client.cache_clear()
    return recorded(model_signals.client("s3"), model_signals.client("cloudwatch"))


# Calls in a minute: how many, how many of them fail, and their seconds.
Minute = Mapping[str, tuple[int, int, float]]
HEALTHY: Minute = {WATCHED: (50, 0, 0.1), OTHER: (50, 0, 3.0)}
FAULTS: Mapping[str, tuple[list[Minute], set[str], bool]] = {
    "none": ([HEALTHY] * MINUTES, set(), False),
    "a watched model fails some calls": (
        [{**HEALTHY, WATCHED: (50, 5, 0.1)}] * MINUTES,
        {"page-Failing-watched"},
        True,
    ),
    "a watched model fails all calls": (
        [{**HEALTHY, WATCHED: (50, 50, 0.1)}] * MINUTES,
        {"page-Failing-watched", "ticket-ModelFailing"},
        True,
    ),
    "a watched model is slow": ([{**HEALTHY, WATCHED: (50, 0, 1.5)}] * MINUTES, {"page-Slow-watched"}, True),
    "a watched model is slow for a few calls": ([{**HEALTHY, WATCHED: (9, 0, 1.5)}] * MINUTES, set(), False),
    "any model with few calls fails": (
        [{**HEALTHY, OTHER: (1, 1, 0.1)}] * MINUTES,
        {"ticket-ModelFailing"},
        False,
    ),
    "any model fails some calls": ([{**HEALTHY, OTHER: (50, 10, 0.1)}] * MINUTES, set(), False),
    "two bad minutes": (
        [*[HEALTHY] * (MINUTES - 3), *[{WATCHED: (50, 50, 9), OTHER: (50, 50, 9)}] * 2, HEALTHY],
        set(),
        False,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_alarm_goes_off_on_its_own_fault_and_on_no_other(
    fleet: Fleet, used: list[Access], fault: str
) -> None:
    minutes, expected, pages = FAULTS[fault]
    now = Now((START + timedelta(days=next(_days))).timestamp())
    s3 = fleet.aws.client("s3")
    written = recorded(s3)
    recorder = Recorder(Store(Repository.parse(fleet.signals), s3), now=now)
    for minute in minutes:
        for model, (calls, failures, seconds) in minute.items():
            for number in range(calls):
                recorder.record(
                    endpoint=fleet.endpoint,
                    artifact=(model, file_name(model, "1")),
                    seconds=seconds,
                    error="invoke" if number < failures else "",
                    waited_s=None,
                )
        now.at += 60
        recorder.write()
        model_signals.handler({}, None, clock=now, sleep=now.sleep)
    recorder.close()

    assert fleet.alarms(datetime.fromtimestamp(now.at // 60 * 60, timezone.utc)) == (expected, pages)
    assert {each.action for each in used} >= {"s3:ListBucket", "s3:GetObject", "cloudwatch:PutMetricData"}
    assert fleet.refused("function", used) == set()
    assert fleet.refused("application", written) == set()
    assert fleet.refused("operator", written) != set()


def test_runs_that_fail_open_a_ticket(fleet: Fleet) -> None:
    start = START + timedelta(days=next(_days))
    fleet.aws.client("cloudwatch").put_metric_data(
        Namespace="AWS/Lambda",
        MetricData=[
            {
                "MetricName": "Errors",
                "Dimensions": [{"Name": "FunctionName", "Value": fleet.function["FunctionName"]}],
                "Timestamp": start + timedelta(minutes=minute),
                "Value": 1,
            }
            for minute in range(10)
        ],
    )

    assert fleet.alarms(start + timedelta(minutes=10)) == ({"ticket-Signals"}, False)


def test_the_rule_runs_the_function_each_minute(fleet: Fleet) -> None:
    group = fleet.function["LoggingConfig"]["LogGroup"]

    def runs() -> int:
        logs = fleet.aws.client("logs")
        return len(logs.filter_log_events(logGroupName=group, filterPattern='"START RequestId"')["events"])

    before, start = runs(), START + timedelta(days=next(_days))
    for minute in range(2):
        fleet.aws.evaluate(at=start + timedelta(minutes=minute))
    until(lambda: runs() >= before + 2)


@pytest.fixture
def hosting(fleet: Fleet) -> Iterator[Hosting]:
    """Triton servers with a model that answers and one that does not."""
    s3, wanted = fleet.aws.client("s3"), []
    place = Repository.parse(fleet.repository)
    for model, source in ((OTHER, None), (WATCHED, FAILS)):
        name = file_name(model, "1")
        body = tarball(python_model(source) if source else python_model())
        s3.put_object(Bucket=place.bucket, Key=place.key(name), Body=body, IfNoneMatch="*")
        wanted.append(Publication(model=model, artifact=name, record=record_of(name)))
    manifest = Manifest().with_published(wanted, at=EARLIER, by="ann")
    s3.put_object(Bucket=place.bucket, Key=place.key("manifest.json"), Body=manifest.to_json().encode())
    with Hosting(fleet.aws) as hosting:
        yield hosting


def test_a_model_that_fails_on_its_server_sets_off_the_alarms_and_is_first_in_the_table(
    fleet: Fleet, hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": hosting.url}
    for name, value in {**fleet.aws.exports(), **elsewhere}.items():
        monkeypatch.setenv(name, value)
    now = Now(time.time() // 60 * 60 - 300)
    monkeypatch.setattr("triton_models.client.core.Recorder", partial(Recorder, now=now))
    rows = {"X": np.ones((1, 1), np.float32)}
    client = Client(
        alias=fleet.outputs["EndpointAlias"], repository=fleet.repository, signals=fleet.signals, attempts=1
    )
    for _ in range(5):
        for number in range(10):
            client.infer(model=OTHER, inputs=rows)
            if number % 2:
                with pytest.raises(InvocationError, match="no weights"):
                    client.infer(model=WATCHED, inputs=rows)
        now.at += 60
    client.close()
    called = fleet.aws.client("lambda").invoke(FunctionName=fleet.function["FunctionName"], Payload=b"{}")
    operator = fleet.aws.client("s3")
    accesses = recorded(operator)
    signals = read(
        Store(Repository.parse(fleet.signals), operator),
        fleet.endpoint,
        since=now.at - 600,
        until=now.at + 60,
    )

    assert "FunctionError" not in called, called["Payload"].read()
    assert fleet.alarms(datetime.now(timezone.utc)) == ({"page-Failing-watched", "ticket-ModelFailing"}, True)
    assert logged(fleet.aws, json.dumps({"model": WATCHED, "requests": 5, "failed": 5})[1:-1]) >= 4
    assert {model: (each.requests, each.failed) for (model, _), each in signals.counts.items()} == {
        OTHER: (50, 0),
        WATCHED: (25, 25),
    }
    assert fleet.refused("operator", accesses) == set()
    [dashboard] = document.read(fleet.aws, hosting)["dashboards"]
    shown = {each["title"]: each for each in dashboard["widgets"] if each["type"] == "metric"}
    for title, value in (("Models that fail", 1), ("Watched models, failed calls, %", 100)):
        assert value in {point for line in shown[title]["series"] for _, point in line["points"]}
