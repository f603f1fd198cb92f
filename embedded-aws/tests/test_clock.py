"""The clock of the control plane."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone

import pytest

from embedded_aws import EmbeddedAws
from embedded_aws.clock import Clock, connect


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The wall clock, which a test moves."""
    moment = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


@pytest.mark.parametrize(("speed", "passed"), [(1.0, 2.0), (60.0, 120.0), (math.inf, 2.0)])
def test_a_clock_runs_at_its_speed(monotonic: list[float], speed: float, passed: float) -> None:
    clock = Clock(speed=speed, began=1000.0)

    monotonic[0] += 2.0

    assert clock.time() == 1000.0 + passed
    assert clock.now() == datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=1000.0 + passed)


@pytest.mark.parametrize(
    ("speed", "here", "every"), [(1.0, 60.0, 60.0), (60.0, 1.0, 1.0), (math.inf, 0.0, 60.0)]
)
def test_waits_are_compressed_and_events_never_follow_each_other_at_once(
    speed: float, here: float, every: float
) -> None:
    clock = Clock(speed=speed)

    assert clock.here(60.0) == here
    assert clock.every(60.0) == every


def test_a_clock_goes_on_from_its_time_at_another_speed(monotonic: list[float]) -> None:
    fast = Clock(speed=60.0, began=1000.0)
    monotonic[0] += 1.0

    slow = fast.at_speed(1.0)
    monotonic[0] += 1.0

    assert slow.time() == 1061.0


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_a_clock_neither_stands_nor_runs_backwards(speed: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        EmbeddedAws(speed=speed)


def test_metric_data_without_a_time_is_put_at_the_time_of_the_clock() -> None:
    with EmbeddedAws() as aws:
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        connect(Clock(began=tomorrow.timestamp()))
        cloudwatch = aws.client("cloudwatch")
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=[{"MetricName": "Orders", "Value": 1}])
        [point] = cloudwatch.get_metric_statistics(
            Namespace="Shop",
            MetricName="Orders",
            StartTime=tomorrow - timedelta(minutes=1),
            EndTime=aws.clock.now() + timedelta(minutes=1),
            Period=3600,
            Statistics=["Sum"],
        )["Datapoints"]

        assert point["Sum"] == 1.0
