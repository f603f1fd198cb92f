"""The lists of Application Auto Scaling: targets, policies with alarms, schedules, and activities."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import RESOURCE, TARGET, scaled, track
from embedded_aws import EmbeddedAws

aws = aws_fixture()


def test_a_tracking_policy_has_two_alarms_that_run_it(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)

    created = track(scaling)
    [policy] = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    alarms = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"TargetTracking-{RESOURCE}-")

    listed = {alarm["AlarmName"]: alarm for alarm in alarms["MetricAlarms"]}
    assert policy["Alarms"] == created["Alarms"]
    assert [alarm["AlarmName"] for alarm in policy["Alarms"]] == sorted(listed)
    assert [name.removeprefix(f"TargetTracking-{RESOURCE}-").split("-")[0] for name in sorted(listed)] == [
        "AlarmHigh",
        "AlarmLow",
    ]
    assert all(
        action.startswith(policy["PolicyARN"])
        for alarm in listed.values()
        for action in alarm["AlarmActions"]
    )


@pytest.mark.parametrize("call", ["delete_scaling_policy", "deregister_scalable_target"])
def test_the_alarms_of_a_policy_go_with_it(aws: EmbeddedAws, call: str) -> None:
    scaling = scaled(aws)
    track(scaling)

    arguments = {**TARGET, "PolicyName": "tracking"} if "policy" in call else TARGET
    getattr(scaling, call)(**arguments)

    assert aws.client("cloudwatch").describe_alarms()["MetricAlarms"] == []


def test_the_alarms_of_a_step_policy_are_those_that_run_it(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)
    steps = {
        "AdjustmentType": "ChangeInCapacity",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
    }
    arn = scaling.put_scaling_policy(
        **TARGET, PolicyName="steps", PolicyType="StepScaling", StepScalingPolicyConfiguration=steps
    )["PolicyARN"]
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName="own",
        AlarmActions=[arn],
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        MetricName="m",
        Namespace="n",
        Period=60,
        Statistic="Average",
        Threshold=1,
    )

    [policy] = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]

    assert [alarm["AlarmName"] for alarm in policy["Alarms"]] == ["own"]


@pytest.mark.parametrize("metric", [{}, {"PredefinedMetricSpecification": {"PredefinedMetricType": "Nope"}}])
def test_a_policy_needs_a_metric_that_a_variant_has_and_a_target(
    aws: EmbeddedAws, metric: dict[str, Any]
) -> None:
    scaling, policy = scaled(aws), {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    tracking = {"TargetValue": 1.0, **metric}

    with pytest.raises(ClientError, match="ValidationException"):
        scaling.put_scaling_policy(**TARGET, **policy, TargetTrackingScalingPolicyConfiguration=tracking)

    assert scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    scaling.deregister_scalable_target(**TARGET)
    with pytest.raises(ClientError, match=r"ObjectNotFoundException.*No scalable target registered"):
        track(scaling)
