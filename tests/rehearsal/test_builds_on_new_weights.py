"""Runs that objects in S3 start: one for a burst, and another one for what arrives during a run."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from synthesised_stacks import deploy_stack, small_stack

from aws_for_tests.deployed_functions import logged, until
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from triton_fleet import ModelLibrary

pytestmark = pytest.mark.story

SOURCE = Path(__file__).parents[2] / "model_builds"
aws = aws_fixture(bucket="weights")


def put(aws: EmbeddedAws, *names: str) -> None:
    """Put objects under the prefix that builds read."""
    s3 = aws.client("s3")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: s3.put_object(Bucket="weights", Key=f"tenants/{name}", Body=b""), names))


def evaluate(aws: EmbeddedAws, minutes: float) -> None:
    aws.evaluate(at=datetime.fromtimestamp(time.time() + minutes * 60, tz=timezone.utc))


def runs(aws: EmbeddedAws) -> list[dict[str, Any]]:
    """Return the runs, the newest first."""
    states = aws.client("stepfunctions")
    (machine,) = states.list_state_machines()["stateMachines"]
    found = states.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]
    return list(found)


def test_a_thousand_objects_are_one_run_and_what_arrives_during_it_is_another(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = small_stack()
    ModelLibrary(
        stack,
        "Library",
        source=SOURCE,
        models=["resnet50"],
        weights_from=["s3://weights/tenants/"],
        build_on_new_weights=True,
        build_on_deployment=False,
    )
    assert deploy_stack(aws, stack, "create") == "CREATE_COMPLETE"
    events = {"EventBridgeConfiguration": {}}
    aws.client("s3").put_bucket_notification_configuration(Bucket="weights", NotificationConfiguration=events)

    put(aws, *map(str, range(1000)))
    evaluate(aws, 7)
    until(lambda: [each["status"] for each in runs(aws)] == ["RUNNING"])

    later = time.time() + 400  # the queue drops what arrives earlier
    monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: later * 1000)
    put(aws, "late")
    evaluate(aws, 14)
    until(lambda: logged(aws, "goes on: the next one waits for its end") == 1)
    assert len(runs(aws)) == 1

    aws.client("stepfunctions").stop_execution(executionArn=runs(aws)[0]["executionArn"])
    evaluate(aws, 21)
    until(lambda: [each["status"] for each in runs(aws)] == ["RUNNING", "ABORTED"])
    evaluate(aws, 40)
    assert len(runs(aws)) == 2
