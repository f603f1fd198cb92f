"""CloudWatch's metrics through boto3: what is put, listed and read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_aws import EmbeddedAws

NOON = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
ENDPOINT = {"Name": "EndpointName", "Value": "search"}
CONFIG = {"Name": "EndpointConfigName", "Value": "search-2"}


@pytest.fixture
def cloudwatch(aws: EmbeddedAws) -> Any:
    """A client of CloudWatch."""
    return aws.client("cloudwatch")


def put(
    cloudwatch: Any, name: str, *values: float, at: int = 0, dimensions: Any = (ENDPOINT,), **more: Any
) -> None:
    """Put values, `at` seconds after noon."""
    datum = {
        "MetricName": name,
        "Dimensions": list(dimensions),
        "Timestamp": NOON + timedelta(seconds=at),
        "Values": list(values),
        **more,
    }
    cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])


def statistics(cloudwatch: Any, name: str, **more: Any) -> list[dict[str, Any]]:
    """Return the data points of three minutes."""
    asked = {"Statistics": ["Sum"], "Period": 60, "Dimensions": [ENDPOINT], **more}
    if "ExtendedStatistics" in asked and "Statistics" not in more:
        del asked["Statistics"]
    answer = cloudwatch.get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName=name,
        StartTime=NOON,
        EndTime=NOON + timedelta(minutes=3),
        **asked,
    )
    points: list[dict[str, Any]] = answer["Datapoints"]
    return points


def test_data_points_begin_at_full_minutes(cloudwatch: Any) -> None:
    put(cloudwatch, "Invocations", 1, 2, at=17)
    put(cloudwatch, "Invocations", 5, at=90)

    found = {each["Timestamp"]: each["Sum"] for each in statistics(cloudwatch, "Invocations")}
    assert found == {NOON: 3, NOON + timedelta(minutes=1): 5}


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"Value": INFINITE}, "The value ∞ for parameter MetricData.member.1.Value is invalid."),
        ({"Value": float("nan")}, "The value NaN for parameter MetricData.member.1.Value is invalid."),
        ({"Value": 2.0**361}, "is invalid"),
        ({"Values": [1.0, INFINITE]}, "The value ∞ for parameter MetricData.member.1.Values is invalid."),
    ],
    ids=str,
)
def test_values_that_cloudwatch_refuses(cloudwatch: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ClientError, match=rf"InvalidParameterValue\).*{said}"):
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=[{"MetricName": "Sales", **given}])

    assert cloudwatch.list_metrics(Namespace="Shop")["Metrics"] == []


def test_a_metric_is_listed_once(cloudwatch: Any) -> None:
    for second in range(5):
        put(cloudwatch, "Invocations", 1, at=second)
    put(cloudwatch, "Invocations", 1, dimensions=(ENDPOINT, CONFIG))

    found = cloudwatch.list_metrics(Namespace="AWS/SageMaker", MetricName="Invocations")["Metrics"]
    assert [len(each["Dimensions"]) for each in found] == [2, 1]
    [one] = cloudwatch.list_metrics(Dimensions=[{"Name": "EndpointConfigName"}])["Metrics"]
    assert one["MetricName"] == "Invocations"
    assert cloudwatch.list_metrics(Dimensions=[{**ENDPOINT, "Value": "other"}])["Metrics"] == []


def test_metrics_are_listed_in_pages(cloudwatch: Any) -> None:
    names = {f"Metric{number}" for number in range(1100)}
    data = [{"MetricName": name, "Value": 1.0} for name in names]
    cloudwatch.put_metric_data(Namespace="Many", MetricData=data[:1000])
    cloudwatch.put_metric_data(Namespace="Many", MetricData=data[1000:])

    pages = list(cloudwatch.get_paginator("list_metrics").paginate(Namespace="Many"))
    assert [len(page["Metrics"]) for page in pages] == [500, 500, 100]
    assert {each["MetricName"] for page in pages for each in page["Metrics"]} == names


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"Period": 61}, "InvalidParameterValue"),
        ({"Period": 1, "Statistics": ["Sum"], "ExtendedStatistics": ["p99"]}, "InvalidParameterCombination"),
        ({"ExtendedStatistics": ["p999"]}, "InvalidParameterValue"),
    ],
)
def test_statistics_that_cloudwatch_refuses(cloudwatch: Any, more: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError, match=code):
        statistics(cloudwatch, "Invocations", **more)
