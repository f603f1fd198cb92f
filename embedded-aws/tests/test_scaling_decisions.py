"""The capacities that policies want, and the times of schedules, computed without any state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from embedded_aws.autoscaling import (
    ScheduleError,
    next_time,
    stepped_capacity,
    tracked_capacity,
    tracking_alarms,
)

RESOURCE = "endpoint/e/variant/v"


@pytest.mark.parametrize(
    ("target", "value", "capacity", "wanted"),
    [(100, 200, 1, 2), (100, 210, 3, 7), (100, 101, 4, 5), (0.7, 0.7, 3, 3), (100, 10, 3, 1), (100, 0, 3, 0)],
)
def test_tracking_wants_the_capacity_that_brings_the_metric_to_its_target(
    target: float, value: float, capacity: int, wanted: int
) -> None:
    assert tracked_capacity({"TargetValue": target}, value=value, capacity=capacity) == wanted


def steps(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "AdjustmentType": kind,
        "StepAdjustments": [
            {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 1},
            {"MetricIntervalLowerBound": 10, "ScalingAdjustment": 30},
            {"MetricIntervalLowerBound": -10, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
        ],
        **more,
    }


@pytest.mark.parametrize(
    ("kind", "value", "capacity", "wanted"),
    [
        ("ChangeInCapacity", 50, 4, 5),
        ("ChangeInCapacity", 60, 4, 34),
        ("ChangeInCapacity", 40, 4, None),
        ("ExactCapacity", 60, 4, 30),
        ("PercentChangeInCapacity", 60, 4, 5),
        ("PercentChangeInCapacity", 60, 9, 11),
    ],
)
def test_a_step_counts_from_the_threshold_and_includes_its_nearer_bound(
    kind: str, value: float, capacity: int, wanted: int | None
) -> None:
    found = stepped_capacity(steps(kind), values=[value], threshold=50, capacity=capacity)

    assert found == wanted


def test_a_percentage_changes_at_least_by_the_magnitude() -> None:
    policy = steps("PercentChangeInCapacity", MinAdjustmentMagnitude=3)

    assert stepped_capacity(policy, values=[70], threshold=50, capacity=4) == 7


@pytest.mark.parametrize(("kind", "wanted"), [("Maximum", 34), ("Minimum", 5), (None, 5)])
def test_the_values_of_an_alarm_are_aggregated(kind: str | None, wanted: int) -> None:
    policy = steps("ChangeInCapacity", MetricAggregationType=kind)

    assert stepped_capacity(policy, values=[50, 52, 65], threshold=50, capacity=4) == wanted


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


@pytest.mark.parametrize(
    ("schedule", "zone", "expected"),
    [
        ("at(2026-03-02T09:30:00)", "Europe/Berlin", "2026-03-02T08:30"),
        ("rate(15 minutes)", "UTC", "2026-03-01T12:05"),
        ("rate(1 day)", "UTC", "2026-03-02T06:05"),
        ("cron(0 7 ? * MON-FRI *)", "Europe/Berlin", "2026-03-02T06:00"),
        ("cron(0/20 12 * * ? *)", "UTC", "2026-03-01T12:20"),
        ("cron(15 10 1,15 JAN ? 2027)", "UTC", "2027-01-01T10:15"),
    ],
)
def test_a_schedule_has_its_times_in_its_zone(schedule: str, zone: str, expected: str) -> None:
    # A Sunday.
    found = next_time(schedule, after=moment("2026-03-01T12:00"), start=moment("2026-02-28T06:05"), zone=zone)

    assert found == moment(expected)


@pytest.mark.parametrize(
    "schedule", ["every day", "rate(0 days)", "cron(0 7 * * ?)", "cron(0 25 * * ? *)", "cron(30 9 L * ? *)"]
)
def test_another_schedule_is_refused(schedule: str) -> None:
    now = moment("2026-03-01T12:00")

    with pytest.raises(ScheduleError):
        next_time(schedule, after=now, start=now)


def alarms(**configuration: Any) -> dict[str, dict[str, Any]]:
    found = tracking_alarms(configuration, resource_id=RESOURCE, action="arn:aws:autoscaling:policy")
    return {alarm["AlarmName"].rpartition("-")[2]: alarm for alarm in found}


def test_a_tracked_metric_has_an_alarm_above_its_target_and_one_below_nine_tenths_of_it() -> None:
    metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}

    found = alarms(TargetValue=100, PredefinedMetricSpecification=metric)

    terms = {name: (each["Threshold"], each["EvaluationPeriods"]) for name, each in found.items()}
    assert terms == {"AlarmHigh": (100, 3), "AlarmLow": (90, 15)}
    assert {(each["MetricName"], each["Statistic"], each["Period"]) for each in found.values()} == {
        ("InvocationsPerInstance", "Sum", 60)
    }


def test_a_policy_that_does_not_scale_in_has_no_alarm_for_it() -> None:
    metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}

    assert {*alarms(TargetValue=5, DisableScaleIn=True, PredefinedMetricSpecification=metric)} == {
        "AlarmHigh"
    }


def test_a_metric_of_high_resolution_is_evaluated_every_ten_seconds_for_as_long_when_it_falls() -> None:
    metric = {"PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"}

    found = alarms(TargetValue=5, PredefinedMetricSpecification=metric)

    terms = {name: each["EvaluationPeriods"] * each["Period"] for name, each in found.items()}
    assert terms == {"AlarmHigh": 30, "AlarmLow": 900}
