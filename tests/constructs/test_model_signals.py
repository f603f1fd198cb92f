"""Signals in the stack: the function that reads them each minute, with objects that real recorders wrote."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError
from function_world import Clock
from synthesised import Resources, refusals

from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from triton_fleet import (
    EndpointAlarms,
    EndpointDashboard,
    FleetError,
    ModelRepository,
    ModelSignals,
    MultiModelEndpoint,
    MultiModelFleet,
    Thresholds,
)
from triton_fleet.endpoint.functions.code import model_signals
from triton_fleet.operations import signals as signals_of_stack
from triton_models.repository.manifest import Repository
from triton_models.repository.objects import Store
from triton_models.signals.recorder import Recorder
from triton_models.signals.report import UNRESOLVED

START = datetime(2026, 11, 1, 23, 50, tzinfo=timezone.utc).timestamp()
SECOND = 10.0  # of a minute, at which the rule fires


class World:
    """A bucket of signals, with processes that count, and the function."""

    def __init__(self, aws: MotoAws, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
        self.clock, self._capsys = clock, capsys
        self.bucket = aws.bucket()
        self.s3, self.cloudwatch = aws.client("s3"), aws.client("cloudwatch")
        self.store = Store(Repository.parse(f"s3://{self.bucket}/models-signals/"), self.s3)
        self.recorders: list[Recorder] = []

    def processes(self, number: int = 1) -> list[Recorder]:
        """Begin processes that count."""
        begun = [Recorder(self.store, now=self.clock) for _ in range(number)]
        self.recorders += begun
        return begun

    def turn(self, *, reads: bool = True) -> None:
        """Let a minute pass: processes write it, and the function reads it."""
        self.clock.now += 60
        for each in self.recorders:
            each.write()
        if reads:
            self.run()

    def run(self) -> None:
        model_signals.handler({}, None, clock=self.clock, sleep=self.clock.sleep)

    def lines(self) -> list[dict[str, Any]]:
        """Return what the function has logged since the last call."""
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def values(self, name: str, model: str = "") -> dict[int, float]:
        """Return the values of a metric by minute since the start, as alarms read them."""
        points = self.cloudwatch.get_metric_statistics(
            Namespace=self.bucket,
            MetricName=name,
            Dimensions=[{"Name": "Model", "Value": model}] if model else [],
            StartTime=START - 3600,
            EndTime=START + 7200,
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
        found = {int(each["Timestamp"].timestamp() - START) // 60: each["Maximum"] for each in points}
        return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


@pytest.fixture
def world(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[World]:
    clock = Clock()
    clock.now = START + SECOND
    world = World(aws, clock, capsys)
    variables = {
        **aws.exports(runtime="http://127.0.0.1:9"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "BUCKET": world.bucket,
        "PREFIX": "models-signals/",
        "ENDPOINT_NAME": "fleet",
        "NAMESPACE": world.bucket,
        "MINIMUM_REQUESTS": "10",
        "WATCH": '["hot", "cold"]',
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    new_process(monkeypatch)
    yield world
    for each in world.recorders:
        each.close()


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the function has read, as a new process of Lambda."""
    monkeypatch.setattr(model_signals, "_minutes", {})
    model_signals.client.cache_clear()


def ask(
    recorder: Recorder,
    model: str,
    times: int = 1,
    *,
    error: str = "",
    seconds: float = 0.1,
    endpoint: str = "fleet",
) -> None:
    for _ in range(times):
        recorder.record(
            endpoint=endpoint,
            artifact=(model, f"{model}-1.tar.gz"),
            seconds=seconds,
            error=error,
            waited_s=None,
        )


def worst(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table of the dashboard: its query, as Logs Insights computes it."""
    kept, first, second, order, limit = signals_of_stack.WORST_MODELS
    assert kept == "filter ispresent(model)"
    rows = _stats(_stats([each for each in lines if "model" in each], first), second)
    keys = [re.fullmatch(r"(\w+) desc", each.strip()) for each in order.removeprefix("sort ").split(",")]
    rows.sort(key=lambda each: [-each[key[1]] for key in keys if key])
    return rows[: int(limit.removeprefix("limit "))]


def _stats(rows: list[dict[str, Any]], command: str) -> list[dict[str, Any]]:
    made, _, by = command.removeprefix("stats ").partition(" by ")
    names = [each.strip() for each in by.split(",")]
    groups = defaultdict(list)
    for each in rows:
        groups[tuple(each[name] for name in names)].append(each)
    computed = re.findall(r"(max|sum)\((\w+)\) as (\w+)", made)
    assert len(computed) == made.count(" as ")
    return [
        dict(zip(names, group, strict=True))
        | {
            name: {"max": max, "sum": sum}[function](each[field] for each in found)
            for function, field, name in computed
        }
        for group, found in groups.items()
    ]


def test_the_models_that_fail_in_all_processes_together_are_counted(world: World) -> None:
    for each in world.processes(20):
        ask(each, "good", 5)
        ask(each, "bad", 1, error="invoke")
    world.turn()
    assert world.values("ModelsFailing") == {-4: 0, -3: 0, -2: 0, -1: 0, 0: 1}
    assert worst(world.lines())[0] | {"total_seconds": 0} == {
        "model": "bad",
        "requests": 20,
        "failed": 20,
        "slowest_p99_ms": 0,
        "waited": 0,
        "total_seconds": 0,
    }


def test_a_second_run_and_a_new_process_of_lambda_add_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [recorder] = world.processes()
    for _ in range(3):
        ask(recorder, "hot", 20)
        ask(recorder, "hot", 5, error="invoke")
        world.turn()
    before = [world.values(each, "hot") for each in ("FailedPercent", "LatencyP99")]
    lines = world.lines()
    world.run()
    assert world.lines() == []
    new_process(monkeypatch)
    world.run()
    again = world.lines()
    assert len(again) == 3
    assert [world.values(each, "hot") for each in ("FailedPercent", "LatencyP99")] == before
    assert worst(lines + again) == worst(lines)
    assert worst(lines)[0]["requests"] == 75


def test_minutes_that_no_run_has_read_are_read_by_the_next(world: World) -> None:
    [recorder] = world.processes()
    for minute in range(5):
        ask(recorder, "hot", 20)
        world.turn(reads=minute in {0, 4})
    assert worst(world.lines())[0]["requests"] == 100
    assert list(world.values("LatencyP99", "hot")) == [0, 1, 2, 3, 4]


def test_an_object_that_comes_late_counts_in_its_own_minute(world: World) -> None:
    soon, late = world.processes(2)
    ask(soon, "hot", 20)
    ask(late, "hot", 20, error="invoke")
    world.recorders = [soon]
    world.turn()
    assert world.values("FailedPercent", "hot")[0] == 0
    world.turn()
    late.write()
    world.recorders = [soon, late]
    world.run()
    assert world.values("FailedPercent", "hot")[0] == 50
    assert worst(world.lines())[0]["requests"] == 40


def test_a_damaged_object_is_named_once_and_the_others_count(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = world.processes(2)
    for each in (one, other):
        ask(each, "hot", 20)
    world.turn(reads=False)
    listed = world.s3.list_objects_v2(Bucket=world.bucket)["Contents"]
    world.s3.put_object(Bucket=world.bucket, Key=listed[0]["Key"], Body=b"no gzip")
    for _ in range(2):
        world.run()
    assert [each.getMessage() for each in caplog.records if each.name == model_signals.__name__] == [
        f"s3://{world.bucket}/{listed[0]['Key']}: the object is damaged: error: Error -3 while decompressing "
        "data: incorrect header check; its requests are missing"
    ]
    assert worst(world.lines())[0]["requests"] == 20


def test_a_run_that_s3_refuses_fails_and_the_next_one_has_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [recorder] = world.processes()
    ask(recorder, "hot", 20)
    world.turn(reads=False)
    with monkeypatch.context() as gone:
        gone.setenv("BUCKET", "no-such-bucket")
        with pytest.raises(ClientError, match="NoSuchBucket"):
            world.run()
    world.run()
    assert worst(world.lines())[0]["requests"] == 20


@pytest.mark.parametrize(
    ("calls", "fails"),
    [
        ([(1, True)] * 3, True),  # a model with few calls is judged by those of 15 minutes
        ([(1, True)] * 2, False),  # two failures are no sign
        ([(3, True), *[(1, False)] * 4], False),  # most of the latest calls were answered
        ([(3, True), *[(0, False)] * 13], True),
        ([(3, True), *[(0, False)] * 15], False),  # too old
        ([*[(100, False)] * 3, (10, True)], True),  # a busy model is judged by its last minute
        ([*[(100, True)] * 3, (10, False)], False),
    ],
)
def test_a_model_fails_if_half_of_its_latest_calls_do(
    world: World, calls: list[tuple[int, bool]], fails: bool
) -> None:
    [recorder] = world.processes()
    for times, failed in calls:
        ask(recorder, "hot", times, error="invoke" if failed else "")
        world.turn()
    assert world.values("ModelsFailing")[len(calls) - 1] == fails


def test_calls_that_did_not_find_the_endpoint_count(world: World) -> None:
    [recorder] = world.processes()
    ask(recorder, "hot", 3, error="alias", endpoint="")
    ask(recorder, "other", 3, error="invoke", endpoint="fleet-2")
    world.turn()
    assert UNRESOLVED in world.s3.list_objects_v2(Bucket=world.bucket)["Contents"][0]["Key"]
    assert [each["model"] for each in world.lines()] == ["hot"]


def test_only_watched_models_have_metrics_and_no_p99_of_few_calls(world: World) -> None:
    [recorder] = world.processes()
    ask(recorder, "hot", 20, seconds=2.0)
    ask(recorder, "cold", 9, seconds=2.0)
    ask(recorder, "other", 20)
    world.turn()
    listed = world.cloudwatch.list_metrics(Namespace=world.bucket)["Metrics"]
    assert Counter(each["MetricName"] for each in listed) == {
        "ModelsFailing": 1,
        "FailedPercent": 2,
        "LatencyP99": 1,
    }
    assert world.values("LatencyP99", "hot")[0] == pytest.approx(2000, rel=0.033)


def test_hours_are_not_counted_with_their_minutes(world: World) -> None:
    [recorder] = world.processes()
    for _ in range(12):  # an hour and a day end meanwhile
        ask(recorder, "hot")
        world.turn()
    recorder.close()
    world.run()
    assert worst(world.lines())[0]["requests"] == 12


def test_of_many_models_the_worst_of_each_kind_are_shown(world: World) -> None:
    [recorder] = world.processes()
    for number in range(500):
        ask(recorder, f"m{number}", 2, seconds=0.01)
    ask(recorder, "failing", error="invoke")
    ask(recorder, "slow", seconds=9)
    ask(recorder, "busy", 50, seconds=0.5)
    world.turn()
    lines = world.lines()
    assert {"failing", "slow", "busy"} <= {each["model"] for each in lines}
    assert len(lines) <= 4 * model_signals.WORST


@pytest.mark.parametrize("second", [0, 7, 8, 30, 44, 45, 46, 59])
def test_a_request_is_in_the_metrics_within_two_minutes(world: World, second: int) -> None:
    """Each minute, the rule fires at this second. Writing takes 5 s, a run 5 s, and CloudWatch has 10 s."""
    [recorder] = world.processes()
    world.clock.now = START
    for minute in range(1, 4):
        asked = world.clock.now = START + 60 * (minute - 1)
        ask(recorder, "hot", 20)
        world.clock.now = asked + 65
        recorder.write()
        # The run that reads it is the first that fires when it is written, or that waits for it.
        fires = next(
            at
            for at in (asked + 60 * late + second for late in range(3))
            if at + model_signals.wait_s(at) >= asked + 65
        )
        world.clock.now = fires
        world.run()
        assert minute - 1 in world.values("LatencyP99", "hot")
        assert world.clock.now + 5 + 10 - asked <= 120


USD = {
    "PutObject": 5e-6,
    "ListObjectsV2": 5e-6,
    "GetObject": 4e-7,
    "PutMetricData": 1e-5,
    "GB of objects and month": 0.023,
    "GB of logs": 0.50,
    "GB and second": 1.66667e-5,
    "run": 2e-7,
    "metric": 0.30,
    "alarm": 0.10,
}
"""Prices of S3 Standard, CloudWatch and Lambda in us-east-1, without what is free in the first place."""
MINUTES, HOURS = 43_800, 730  # of a month


def test_a_month_in_the_stack_costs_less_than_twenty_dollars(world: World) -> None:
    """100 requests per second to 5,000 models, from 20 processes; 1 % fail, and one model is watched."""
    popularity, chance = np.arange(1, 5001.0) ** -1.1, np.random.default_rng(1)
    calls = Counter[str]()
    processes = world.processes(20)
    for minute in range(2):
        for each in processes:
            for model in chance.choice(5000, 300, p=popularity / popularity.sum()).tolist():
                failed = "invoke" if chance.random() < 0.01 else ""
                ask(each, f"model{model}", seconds=0.01 + chance.exponential(0.05), error=failed)
        if minute == 1:
            counted = (world.s3, model_signals.client("s3"), model_signals.client("cloudwatch"))
            for client in counted:
                client.meta.events.register("before-call", lambda model, **_: calls.update([model.name]))
            world.lines()
        world.turn()
    logged = sum(len(json.dumps(each)) + 26 for each in world.lines())  # AWS adds 26 bytes to an event
    used = Counter(calls)  # by 20 processes and the function
    size = sum(each["Size"] for each in world.s3.list_objects_v2(Bucket=world.bucket)["Contents"])
    longest_s = max(map(model_signals.wait_s, range(60))) + 5
    monthly = {
        "calls": MINUTES * sum(number * USD[name] for name, number in used.items()),
        "hours": 20 * HOURS * USD["PutObject"],
        # Three months are kept, and as long once more as versions: each minute is in its hour again.
        "objects": 6 * 2 * MINUTES * size / 2 / 1e9 * USD["GB of objects and month"],
        "logs": MINUTES * logged / 1e9 * USD["GB of logs"],
        "function": MINUTES * (longest_s * 0.25 * USD["GB and second"] + USD["run"]),
        "of the fleet": USD["metric"] + 2 * USD["alarm"],
        "of a watched model": 2 * USD["metric"] + 2 * USD["alarm"],
    }
    assert used == {"PutObject": 20, "GetObject": 20, "ListObjectsV2": 2, "PutMetricData": 1}
    assert sum(monthly.values()) < 20
    # As docs/signals.md says.
    waiting = MINUTES * (longest_s - 5) * 0.25 * USD["GB and second"]
    assert 8 < sum(monthly.values()) - waiting < 9
    assert 12 < sum(monthly.values()) < 13


@pytest.fixture
def declared(stack: Stack, endpoint: MultiModelEndpoint) -> Callable[..., ModelSignals]:
    """Declares signals of the endpoint, with alarms and a dashboard."""

    def declare(*watch: str, **arguments: Any) -> ModelSignals:
        signals = ModelSignals(stack, "Signals", endpoint=endpoint, watch=watch, **arguments)
        alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, signals=signals, **arguments)
        EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms, signals=signals)
        return signals

    return declare


def test_cloudformation_takes_signals(stack: Stack, declared: Callable[..., ModelSignals]) -> None:
    declared("minilm", "resnet50")
    assert refusals(stack) == []


def test_a_watched_model_pages_and_any_other_is_a_ticket(
    declared: Callable[..., ModelSignals], resources: Resources
) -> None:
    declared("minilm", thresholds=Thresholds(model_error_percent=7))
    alarms = {each["AlarmName"]: each for each in resources("AWS::CloudWatch::Alarm")}
    [paging] = resources("AWS::CloudWatch::CompositeAlarm")

    read = {
        each["Metrics"][0]["MetricStat"]["Stat"]
        for name, each in alarms.items()
        if "minilm" in name or "ModelFailing" in name
    }
    assert read == {"Maximum"}  # what is put twice is one figure
    assert alarms["fleet-page-Failing-minilm"]["Threshold"] == 7
    assert "`fleet rollback minilm`" in alarms["fleet-page-Failing-minilm"]["AlarmDescription"]
    assert {"fleet-page-Slow-minilm", "fleet-ticket-ModelFailing", "fleet-ticket-Signals"} <= alarms.keys()
    assert "AlarmsFailingminilm" in json.dumps(paging["AlarmRule"])
    assert "AlarmsModelFailing" not in json.dumps(paging["AlarmRule"])


def test_the_longest_names_of_the_most_watched_models_fit_into_their_alarms(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository, endpoint_name="e" * 63)
    names = [f"m{number:079}" for number in range(signals_of_stack.MOST_WATCHED)]
    signals = ModelSignals(stack, "Signals", endpoint=endpoint, watch=names)
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, signals=signals)
    alarms = resources("AWS::CloudWatch::Alarm")
    [paging] = resources("AWS::CloudWatch::CompositeAlarm")
    arn = "arn:aws-us-gov:cloudwatch:ap-southeast-2:123456789012:alarm:"
    paged = [arn + each["AlarmName"] for each in alarms if "-page-" in each["AlarmName"]]
    written = sum(len(part) for part in paging["AlarmRule"]["Fn::Join"][1] if isinstance(part, str))

    assert max(len(each["AlarmName"]) for each in alarms) <= 255
    assert max(len(each["AlarmDescription"]) for each in alarms) <= 1024
    assert (len(paged), written + sum(map(len, paged)) <= 10_240) == (43, True)


def test_names_that_are_wrong_are_refused_together(declared: Callable[..., ModelSignals]) -> None:
    with pytest.raises(FleetError) as refused:
        declared("", "minilm", "a/b", "minilm", "m" * 81)

    assert [each.what for each in refused.value.problems] == [
        "the watched model is ''",
        "the model 'minilm' is watched 2 times",
        "the watched model is 'a/b'",
        f"the watched model is {'m' * 81!r}",
    ]


def test_more_models_than_one_alarm_gathers_are_refused(declared: Callable[..., ModelSignals]) -> None:
    with pytest.raises(FleetError, match="21 models are watched"):
        declared(*(f"m{number}" for number in range(21)))


def test_a_watch_without_signals_is_refused() -> None:
    with pytest.raises(FleetError, match="watch names minilm, and signals is off"):
        MultiModelFleet(Stack(App(), "Fleet"), "Fleet", watch=["minilm"])


def test_signals_of_another_endpoint_are_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=endpoint.repository, endpoint_name="second")
    signals = ModelSignals(stack, "Signals", endpoint=second)

    with pytest.raises(FleetError, match="the signals is of second/AllTraffic"):
        EndpointAlarms(stack, "Alarms", endpoint=endpoint, signals=signals)


def test_two_fleets_of_one_repository_let_signals_expire_once(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    for name in ("first", "second"):
        endpoint = MultiModelEndpoint(stack, name, repository=repository, endpoint_name=name)
        ModelSignals(stack, f"{name}Signals", endpoint=endpoint)
    [bucket] = resources("AWS::S3::Bucket")
    rules = [each for each in bucket["LifecycleConfiguration"]["Rules"] if each["Id"] == "Signals"]

    assert [(each["Prefix"], each["ExpirationInDays"]) for each in rules] == [("models-signals/", 90)]


def test_the_dashboard_shows_the_worst_models_and_those_that_are_watched(
    declared: Callable[..., ModelSignals], resources: Resources
) -> None:
    declared("minilm", "resnet50")
    [dashboard] = resources("AWS::CloudWatch::Dashboard")
    parts = dashboard["DashboardBody"]["Fn::Join"][1]
    widgets = json.loads("".join(each if isinstance(each, str) else "LOGS" for each in parts))["widgets"]
    shown = {each["properties"].get("title"): each for each in widgets}
    table = shown["Worst models, as clients see them"]
    percent, p99 = (shown[f"Watched models, {each}"]["properties"] for each in ("failed calls, %", "p99"))

    # The parts of a log widget in "Dashboard body structure and syntax" of CloudWatch's API, 2026-11-27.
    assert table["type"] == "log"
    assert table["properties"]["query"] == "SOURCE 'LOGS' | " + "\n| ".join(signals_of_stack.WORST_MODELS)
    assert (table["width"], table["properties"]["view"]) == (24, "table")
    assert [each[1] for each in percent["metrics"]] == ["FailedPercent", "FailedPercent"]
    assert [each["annotations"]["horizontal"][0]["value"] for each in (percent, p99)] == [5, 1000]


def test_the_function_follows_the_alias_to_another_endpoint() -> None:
    stack = Stack(App(), "Fleet")
    MultiModelFleet(stack, "Fleet", signals=True)
    template = Template.from_stack(stack)
    [function] = [
        each
        for each in template.find_resources("AWS::Lambda::Function").values()
        if "NAMESPACE" in each["Properties"].get("Environment", {}).get("Variables", {})
    ]
    [alias] = template.find_resources("AWS::SSM::Parameter")

    assert alias in function["DependsOn"]
