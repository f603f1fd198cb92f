"""The lists of Application Auto Scaling: targets, policies with alarms, schedules, and activities."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import RESOURCE, TARGET, scaled, served, track
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


def test_a_policy_that_is_written_again_keeps_its_alarms(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)

    before = track(scaling)
    after = track(scaling, target=50)
    alarms = aws.client("cloudwatch").describe_alarms()["MetricAlarms"]

    assert after == {**before, "ResponseMetadata": after["ResponseMetadata"]}
    assert sorted(alarm["Threshold"] for alarm in alarms) == [45, 50]


def test_a_policy_that_stops_scaling_in_loses_the_alarm_for_it(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)
    track(scaling)

    [alarm] = track(scaling, DisableScaleIn=True)["Alarms"]

    assert "AlarmHigh" in alarm["AlarmName"]
    assert len(aws.client("cloudwatch").describe_alarms()["MetricAlarms"]) == 1


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


def test_a_policy_needs_a_registered_target(aws: EmbeddedAws) -> None:
    served(aws)

    with pytest.raises(ClientError, match=r"ObjectNotFoundException.*No scalable target registered"):
        track(aws.client("application-autoscaling"))


@pytest.mark.parametrize("metric", [{}, {"PredefinedMetricSpecification": {"PredefinedMetricType": "Nope"}}])
def test_a_policy_needs_a_metric_that_a_variant_has(aws: EmbeddedAws, metric: dict[str, Any]) -> None:
    scaling = scaled(aws)

    with pytest.raises(ClientError) as caught:
        scaling.put_scaling_policy(
            **TARGET,
            PolicyName="p",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={"TargetValue": 1.0, **metric},
        )

    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []


def test_policies_are_found_by_name_and_have_pages(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)
    for name in ("a", "b", "c"):
        metric = {"Namespace": "n", "MetricName": name, "Statistic": "Average"}
        track(scaling, name, CustomizedMetricSpecification=metric)

    named = scaling.describe_scaling_policies(ServiceNamespace="sagemaker", PolicyNames=["b"])
    paginator = scaling.get_paginator("describe_scaling_policies")
    pages = list(paginator.paginate(ServiceNamespace="sagemaker", PaginationConfig={"PageSize": 2}))

    assert [policy["PolicyName"] for policy in named["ScalingPolicies"]] == ["b"]
    assert [[each["PolicyName"] for each in page["ScalingPolicies"]] for page in pages] == [["a", "b"], ["c"]]


def test_schedules_have_pages_and_only_the_fields_that_were_given(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)
    for name in ("morning", "evening"):
        scaling.put_scheduled_action(
            **TARGET,
            ScheduledActionName=name,
            Schedule="cron(0 7 * * ? *)",
            ScalableTargetAction={"MinCapacity": 2},
        )

    paginator = scaling.get_paginator("describe_scheduled_actions")
    pages = list(paginator.paginate(ServiceNamespace="sagemaker", PaginationConfig={"PageSize": 1}))

    [first], [second] = (page["ScheduledActions"] for page in pages)
    assert (first["ScheduledActionName"], second["ScheduledActionName"]) == ("morning", "evening")
    assert first.keys() & {"StartTime", "EndTime", "Timezone"} == set()


def test_a_target_that_nothing_has_scaled_has_no_activities(aws: EmbeddedAws) -> None:
    scaling = scaled(aws)

    assert scaling.describe_scaling_activities(ServiceNamespace="sagemaker")["ScalingActivities"] == []


def test_a_token_of_no_page_is_refused(aws: EmbeddedAws) -> None:
    with pytest.raises(ClientError, match="InvalidNextTokenException"):
        scaled(aws).describe_scaling_activities(ServiceNamespace="sagemaker", NextToken="elsewhere")
