from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_cdk import Duration, Stack
from aws_cdk.assertions import Template
from declared import Build

from tests.reported import reported
from triton_fleet import AutomaticBuilds, BuildRuns, ModelLibrary
from triton_fleet.endpoint.functions.automatic_builds import DEDUPLICATED_S
from triton_fleet.endpoint.functions.code import start_run


@pytest.fixture
def automatic(stack: Stack, build: Build) -> Any:
    def make(*, every: Duration | None = None, on_new_weights: bool = True, **given: Any) -> AutomaticBuilds:
        runs = BuildRuns(stack, "Runs", builds=build(**given))
        return AutomaticBuilds(stack, "Automatic", runs=runs, every=every, on_new_weights=on_new_weights)

    return make


def test_every_address_that_builds_read_is_watched_in_its_bucket(
    source: Path, automatic: Any, stack: Stack
) -> None:
    with (source / "models" / "minilm" / "build.py").open("a") as declaration:
        declaration.write("import os\nADDRESS = os.environ.get('A_WEIGHTS')\n")
    automatic(
        weights={"A_WEIGHTS": "s3://others/a.onnx"},
        weights_from=["s3://weights/tenants/", "s3://weights/lists/"],
    )
    rules = Template.from_stack(stack).find_resources("AWS::Events::Rule").values()
    watched = [each["Properties"]["EventPattern"]["detail"] for each in rules]

    assert {each["bucket"]["name"][0]: each["object"]["key"] for each in watched} == {
        "others": ["a.onnx", "a.onnx.data"],
        "weights": [{"prefix": "lists/"}, {"prefix": "tenants/"}],
    }


def test_requests_are_one_message_for_the_queue_and_one_group_for_the_function(
    automatic: Any, stack: Stack
) -> None:
    automatic(weights_from=["s3://weights/"], every=Duration.hours(1))
    template = Template.from_stack(stack)
    targets = [
        (target["Input"], target["SqsParameters"])
        for each in template.find_resources("AWS::Events::Rule").values()
        for target in each["Properties"]["Targets"]
    ]
    (queue,) = template.find_resources("AWS::SQS::Queue").values()
    (mapping,) = template.find_resources("AWS::Lambda::EventSourceMapping").values()

    assert targets == [("{}", {"MessageGroupId": "runs"})] * 2
    assert queue["Properties"]["ContentBasedDeduplication"] is True
    assert queue["Properties"]["DelaySeconds"] > DEDUPLICATED_S
    assert mapping["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_what_would_start_nothing_or_all_the_time_is_refused(automatic: Any) -> None:
    with reported("automatic-builds", "number-range"):
        automatic(every=Duration.minutes(4))


def test_nothing_to_build_is_refused(stack: Stack) -> None:
    with reported("fleet-models"):
        ModelLibrary(stack, "Library", build_every=Duration.hours(1))


SENT = 1_800_000_000


class Runs:
    """Step Functions as the function meets it, with at most one run."""

    def __init__(self, status: str, began: float) -> None:
        self.listed = [
            {"name": "run", "status": status, "startDate": datetime.fromtimestamp(began, timezone.utc)}
        ]
        self.started: list[str] = []

    def list_executions(self, **_: Any) -> Any:
        return {"executions": self.listed if self.listed[0]["status"] else []}

    def start_execution(self, *, name: str, **_: Any) -> Any:
        self.started.append(name)
        return {"executionArn": name}


@pytest.mark.parametrize(
    ("status", "began", "started", "left"),
    [
        ("", SENT, ["second"], []),
        ("FAILED", SENT + 299, ["second"], []),  # an object that came a second later is the same message
        ("SUCCEEDED", SENT + 300, [], []),
        ("RUNNING", SENT + 400, [], ["first", "second"]),
    ],
    ids=["no run", "an older run", "a newer run", "a run goes on"],
)
def test_a_run_starts_unless_one_goes_on_or_began_after_all_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, status: str, began: float, started: list[str], left: list[str]
) -> None:
    runs = Runs(status, began)
    monkeypatch.setattr(boto3, "client", lambda _: runs)
    monkeypatch.setenv("STATE_MACHINE", "arn")
    monkeypatch.setenv("DEDUPLICATED_S", str(DEDUPLICATED_S))
    times = {"first": SENT - 300, "second": SENT}
    records = [
        {"messageId": name, "attributes": {"SentTimestamp": f"{sent}000"}} for name, sent in times.items()
    ]

    answer = start_run.handler({"Records": records}, None)

    assert runs.started == started
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == left
