"""Variants scaled by policies and schedules, in compressed time: each test says when it evaluates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import DIMENSIONS, RESOURCE, TARGET, scaled, track
from embedded_aws import EmbeddedAws

aws = aws_fixture()

START = datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(hours=1)


class Time:
    """The minutes of a test: each has a value of every metric, and ends with an evaluation."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self._aws = aws
        self.minute = 0

    @property
    def now(self) -> datetime:
        return START + timedelta(minutes=self.minute)

    def passes(self, minutes: int, **values: float) -> list[int]:
        """Let minutes pass with these values of metrics; return the counts after each."""
        counts = []
        for _ in range(minutes):
            for name, value in values.items():
                self._put(name, value)
            self.minute += 1
            self._aws.evaluate(at=self.now)
            counts.append(instances(self._aws))
        return counts

    def _put(self, name: str, value: float) -> None:
        namespace = "AWS/SageMaker" if name == "InvocationsPerInstance" else "Shop"
        datum = {"MetricName": name, "Dimensions": DIMENSIONS, "Timestamp": self.now, "Value": value}
        self._aws.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[datum])


def instances(aws: EmbeddedAws) -> int:
    [variant] = aws.client("sagemaker").describe_endpoint(EndpointName="e")["ProductionVariants"]
    count: int = variant["CurrentInstanceCount"]
    return count


def activities(aws: EmbeddedAws, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aws.client("application-autoscaling").describe_scaling_activities(
        ServiceNamespace="sagemaker", ResourceId=RESOURCE, **wanted
    )["ScalingActivities"]
    return found


def metric(name: str) -> dict[str, Any]:
    return {
        "CustomizedMetricSpecification": {
            "Namespace": "Shop",
            "MetricName": name,
            "Dimensions": DIMENSIONS,
            "Statistic": "Average",
        }
    }


def test_tracking_scales_out_after_three_minutes_and_in_after_fifteen(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws), Time(aws)
    track(scaling, ScaleInCooldown=0)

    rising = time.passes(3, InvocationsPerInstance=250)
    steady = time.passes(5, InvocationsPerInstance=95)
    falling = time.passes(15, InvocationsPerInstance=20)

    assert rising == [1, 1, 3]
    assert steady == [3] * 5
    assert falling == [*[3] * 14, 1]


def test_an_activity_says_what_scaled_why_and_how_it_ended(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws), Time(aws)
    alarm = track(scaling)["Alarms"][0]["AlarmName"]

    time.passes(3, InvocationsPerInstance=250)

    [activity] = activities(aws)
    assert activity["Description"] == "Setting desired instance count to 3."
    assert activity["Cause"] == f"monitor alarm {alarm} in state ALARM triggered policy tracking"
    assert activity["StatusMessage"] == (
        "Successfully set desired instance count to 3. Change successfully fulfilled by sagemaker."
    )
    assert (activity["StatusCode"], activity["StartTime"]) == ("Successful", time.now)


def test_capacity_that_was_added_counts_until_the_cooldown_ends(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws, most=20), Time(aws)
    track(scaling, ScaleOutCooldown=300)

    first = time.passes(3, InvocationsPerInstance=250)
    same = time.passes(3, InvocationsPerInstance=250)
    larger = time.passes(1, InvocationsPerInstance=450)
    ended = time.passes(5, InvocationsPerInstance=250)

    assert (first[-1], same, larger) == (3, [3] * 3, [5])
    assert ended == [5, 5, 5, 5, 13]


def test_a_cooldown_after_scaling_in_delays_the_next_one_but_no_scaling_out(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws, instances=4), Time(aws)
    track(scaling, ScaleInCooldown=600, ScaleOutCooldown=0)

    down = time.passes(15, InvocationsPerInstance=60)
    waiting = time.passes(9, InvocationsPerInstance=50)
    after = time.passes(1, InvocationsPerInstance=50)
    out = time.passes(3, InvocationsPerInstance=150)

    assert (down[-1], waiting, after) == (3, [3] * 9, [2])
    assert out[-1] == 3


def test_capacity_goes_only_if_all_tracking_policies_that_may_remove_it_agree(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws, instances=4), Time(aws)
    track(scaling, "requests", ScaleInCooldown=0)
    track(scaling, "queue", ScaleInCooldown=0, **metric("Queue"))
    track(scaling, "peaks", DisableScaleIn=True, **metric("Peaks"))

    one = time.passes(20, InvocationsPerInstance=10, Queue=95, Peaks=95)
    both = time.passes(15, InvocationsPerInstance=10, Queue=45, Peaks=95)

    assert one == [4] * 20
    assert both[-1] == 2


def test_a_suspended_direction_does_nothing(aws: EmbeddedAws) -> None:
    suspended = {"DynamicScalingOutSuspended": True, "DynamicScalingInSuspended": True}
    scaling, time = scaled(aws, instances=2, SuspendedState=suspended), Time(aws)
    track(scaling)

    assert time.passes(4, InvocationsPerInstance=250)[-1] == 2
    assert time.passes(16, InvocationsPerInstance=10)[-1] == 2


def steps(scaling: Any, aws: EmbeddedAws, name: str, *, comparison: str, **configuration: Any) -> None:
    """Write a step policy on `Queue` with its alarm at 100."""
    arn = scaling.put_scaling_policy(
        **TARGET,
        PolicyName=name,
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={"AdjustmentType": "ChangeInCapacity", **configuration},
    )["PolicyARN"]
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        AlarmActions=[arn],
        ComparisonOperator=comparison,
        EvaluationPeriods=2,
        MetricName="Queue",
        Namespace="Shop",
        Dimensions=DIMENSIONS,
        Period=60,
        Statistic="Average",
        Threshold=100,
    )


OUT = [
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 100, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 100, "ScalingAdjustment": 4},
]
IN = [{"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}]


def test_steps_add_by_the_size_of_the_breach_and_remove_after_their_cooldown(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws, most=8), Time(aws)
    over, under = "GreaterThanOrEqualToThreshold", "LessThanThreshold"
    steps(scaling, aws, "out", comparison=over, StepAdjustments=OUT, Cooldown=120)
    steps(scaling, aws, "in", comparison=under, StepAdjustments=IN, Cooldown=120)

    small = time.passes(2, Queue=120)
    large = time.passes(2, Queue=300)
    down = time.passes(6, Queue=10)

    assert (small, large) == ([1, 2], [5, 5])
    assert down == [5, 4, 4, 3, 3, 2]


def test_a_schedule_sets_bounds_and_the_capacity_follows(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws), Time(aws)
    at = f"{time.now + timedelta(minutes=2):%Y-%m-%dT%H:%M:%S}"
    wanted = {"MinCapacity": 3, "MaxCapacity": 6}
    scaling.put_scheduled_action(
        **TARGET, ScheduledActionName="morning", Schedule=f"at({at})", ScalableTargetAction=wanted
    )

    counts = time.passes(4)

    [target] = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert counts == [1, 3, 3, 3]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (3, 6)
    assert [activity["Cause"] for activity in activities(aws)] == [
        "minimum capacity was set to 3",
        "scheduled action name morning was triggered",
    ]


def test_a_suspended_or_ended_schedule_does_nothing(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws, SuspendedState={"ScheduledScalingSuspended": True}), Time(aws)
    action = {"Schedule": "rate(1 minute)", "ScalableTargetAction": {"MinCapacity": 3}}
    scaling.put_scheduled_action(**TARGET, ScheduledActionName="rate", **action)

    suspended = time.passes(3)
    scaling.register_scalable_target(**TARGET, SuspendedState={"ScheduledScalingSuspended": False})
    scaling.put_scheduled_action(**TARGET, ScheduledActionName="rate", **action, EndTime=time.now)

    assert suspended == [1, 1, 1]
    assert time.passes(3) == [1, 1, 1]


def test_new_bounds_change_the_capacity_and_a_count_set_by_hand_stays(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws), Time(aws)

    scaling.register_scalable_target(**TARGET, MinCapacity=2)
    raised = instances(aws)
    aws.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 7}],
    )

    assert raised == 2
    assert time.passes(3) == [7, 7, 7]


@contextmanager
def updating(aws: EmbeddedAws) -> Iterator[None]:
    """Keep the endpoint in an update with a wait."""
    sagemaker = aws.client("sagemaker")
    config = sagemaker.describe_endpoint_config(EndpointConfigName="c")
    sagemaker.create_endpoint_config(EndpointConfigName="d", ProductionVariants=config["ProductionVariants"])
    policy = {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 3600},
        "TerminationWaitInSeconds": 0,
        "MaximumExecutionTimeoutInSeconds": 7200,
    }
    aws.set_speed(1.0)
    try:
        sagemaker.update_endpoint(
            EndpointName="e", EndpointConfigName="d", DeploymentConfig={"BlueGreenUpdatePolicy": policy}
        )
        yield
    finally:
        aws.set_speed(math.inf)


def test_nothing_scales_while_the_endpoint_is_updated(aws: EmbeddedAws) -> None:
    scaling, time = scaled(aws), Time(aws)
    track(scaling)

    with updating(aws):
        counts = time.passes(4, InvocationsPerInstance=300)

    assert counts == [1] * 4
    assert activities(aws) == []
