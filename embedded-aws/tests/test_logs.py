"""Log groups of the embedded AWS: events, streams, patterns, filters that count, and keys."""

from __future__ import annotations

import gc
import json
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.logs.models import LogEvent

from embedded_aws import EmbeddedAws
from embedded_aws.moto_gaps.logs import KEPT_EVENTS

GROUP = "/aws/sagemaker/Endpoints/e"
NOW_MS = int(time.time()) * 1000


@pytest.fixture
def logs(aws: EmbeddedAws) -> Any:
    client = aws.client("logs")
    client.create_log_group(logGroupName=GROUP)
    for stream in ("AllTraffic/i-1", "AllTraffic/i-2", "Other/i-3"):
        client.create_log_stream(logGroupName=GROUP, logStreamName=stream)
    return client


def write(logs: Any, *messages: str, stream: str = "AllTraffic/i-1", at: int = NOW_MS) -> None:
    events = [{"timestamp": at + number, "message": text} for number, text in enumerate(messages)]
    logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)


def messages(answer: dict[str, Any]) -> list[str]:
    return [event["message"] for event in answer["events"]]


def test_events_of_several_streams_are_found_in_the_order_of_their_times(logs: Any) -> None:
    write(logs, "first", at=NOW_MS)
    write(logs, "third", at=NOW_MS + 20)
    write(logs, "second", stream="AllTraffic/i-2", at=NOW_MS + 10)

    assert messages(logs.filter_log_events(logGroupName=GROUP)) == ["first", "second", "third"]


def test_a_stream_keeps_its_newest_events(logs: Any) -> None:
    for start in range(0, KEPT_EVENTS + 5000, 5000):
        write(logs, *[f"event {start + number}" for number in range(5000)])

    newest = logs.get_log_events(logGroupName=GROUP, logStreamName="AllTraffic/i-1", limit=10000)
    oldest = logs.get_log_events(
        logGroupName=GROUP, logStreamName="AllTraffic/i-1", limit=1, startFromHead=True
    )

    assert messages(newest)[-1] == f"event {KEPT_EVENTS + 4999}"
    assert messages(oldest) == ["event 5000"]
    gc.collect()
    assert not any(isinstance(each, LogEvent) and each.message == "event 0" for each in gc.get_objects())


def put_filter(logs: Any, pattern: str, **transformation: Any) -> None:
    given = {"metricName": "Failures", "metricNamespace": "App", "metricValue": "1", **transformation}
    logs.put_metric_filter(
        logGroupName=GROUP, filterName="failures", filterPattern=pattern, metricTransformations=[given]
    )


def statistics(aws: EmbeddedAws, **dimensions: str) -> tuple[float, float]:
    """Return the sum and the number of samples of the metric."""
    moment = datetime.fromtimestamp(NOW_MS / 1000, tz=timezone.utc)
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace="App",
        MetricName="Failures",
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        StartTime=moment - timedelta(hours=1),
        EndTime=moment + timedelta(hours=1),
        Period=7200,
        Statistics=["Sum", "SampleCount"],
    )["Datapoints"]
    return sum(point["Sum"] for point in points), sum(point["SampleCount"] for point in points)


def test_a_filter_counts_the_new_events_that_match_and_goes_with_its_group(
    aws: EmbeddedAws, logs: Any
) -> None:
    write(logs, "failed before")
    put_filter(logs, "failed")
    write(logs, "failed to load a", "loaded b", "failed to load c")

    assert statistics(aws) == (2.0, 2.0)
    logs.delete_log_group(logGroupName=GROUP)
    assert logs.describe_metric_filters()["metricFilters"] == []


def test_a_filter_reads_values_and_dimensions_of_json_events(aws: EmbeddedAws, logs: Any) -> None:
    put_filter(logs, '{ $.kind = "load" }', metricValue="$.count", dimensions={"Model": "$.model"})
    write(
        logs,
        '{"kind": "load", "count": 3, "model": "a"}',
        '{"kind": "load", "count": 4, "model": "b"}',
        '{"kind": "load", "count": "many", "model": "a"}',
        '{"kind": "other", "count": 9, "model": "a"}',
    )

    assert (statistics(aws, Model="a"), statistics(aws, Model="b")) == ((3.0, 1.0), (4.0, 1.0))


def test_a_pattern_that_is_not_understood_is_refused(logs: Any) -> None:
    with pytest.raises(ClientError, match=r"InvalidParameterException.*Invalid filter pattern"):
        put_filter(logs, "[ip, user]")
    write(logs, "an event")
    with pytest.raises(ClientError, match="InvalidParameterException"):
        logs.filter_log_events(logGroupName=GROUP, filterPattern="[ip, user]")


def key(aws: EmbeddedAws, **principal: str) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    return str(aws.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"])


def test_a_group_gets_a_key_whose_policy_lets_logs_use_it_and_loses_it(aws: EmbeddedAws, logs: Any) -> None:
    def shown() -> str | None:
        [found] = logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
        return found.get("kmsKeyId")

    allowed = key(aws, Service="logs.us-east-1.amazonaws.com")
    logs.associate_kms_key(logGroupName=GROUP, kmsKeyId=allowed)
    assert shown() == allowed

    logs.disassociate_kms_key(logGroupName=GROUP)
    assert shown() is None


@pytest.mark.parametrize("principal", [{"AWS": "*"}, {"Service": "logs.eu-west-1.amazonaws.com"}])
def test_a_key_that_does_not_let_logs_use_it_is_refused(
    aws: EmbeddedAws, logs: Any, principal: dict[str, str]
) -> None:
    with pytest.raises(logs.exceptions.InvalidParameterException):
        logs.associate_kms_key(logGroupName=GROUP, kmsKeyId=key(aws, **principal))
