"""Scaled variants in the embedded AWS: refused updates, schedules and lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_aws import EmbeddedAws
from triton_rehearsal.rehearse import inventory

RESOURCE = "endpoint/e/variant/First"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "ResourceId": RESOURCE,
}
ACTION = {
    "ScheduledActionName": "Morning",
    "Schedule": "cron(0 7 ? * MON-FRI *)",
    "Timezone": "Europe/Berlin",
    "ScalableTargetAction": {"MinCapacity": "2", "MaxCapacity": 8},
}


@pytest.fixture
def sagemaker(aws: EmbeddedAws) -> Any:
    """A SageMaker client. Its account has an endpoint with two variants, the first of them scaled."""
    client = aws.client("sagemaker")
    for model in ("one", "two"):
        client.create_model(
            ModelName=model,
            ExecutionRoleArn="arn:aws:iam::123456789012:role/any",
            PrimaryContainer={"Image": "triton"},
        )
    configure(client, "before", First="ml.g5.2xlarge", Second="ml.g5.2xlarge")
    client.create_endpoint(EndpointName="e", EndpointConfigName="before")
    aws.client("application-autoscaling").register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    return client


def configure(sagemaker: Any, name: str, *, model: str = "one", **types: str) -> None:
    """Create an endpoint configuration with these instance types, by variant."""
    variants = [
        {"VariantName": variant, "ModelName": model, "InitialInstanceCount": 1, "InstanceType": type_name}
        for variant, type_name in types.items()
    ]
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)


def test_a_scaled_variant_can_neither_change_its_instance_type_nor_go_and_all_else_can(
    aws: EmbeddedAws, sagemaker: Any
) -> None:
    configure(sagemaker, "changed", First="ml.g4dn.xlarge", Second="ml.g5.2xlarge")
    configure(sagemaker, "removed", Second="ml.g5.2xlarge")
    configure(sagemaker, "others", model="two", First="ml.g5.2xlarge", Third="ml.g5.xlarge")

    for name in ("changed", "removed"):
        with pytest.raises(ClientError, match=r"ValidationException.*\[First\]"):
            sagemaker.update_endpoint(EndpointName="e", EndpointConfigName=name)
        assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == "before"
    sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="others")
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == "others"
    aws.client("application-autoscaling").deregister_scalable_target(**TARGET)
    sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="changed")
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == "changed"


def template(*actions: dict[str, Any]) -> str:
    properties = {**TARGET, "MinCapacity": 1, "MaxCapacity": 4, "ScheduledActions": list(actions)}
    resource = {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": properties}
    return json.dumps({"Resources": {"Target": resource}})


def schedules(aws: EmbeddedAws) -> dict[str, tuple[str, Any]]:
    scaling = aws.client("application-autoscaling")
    found = scaling.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"]
    return {each["ScheduledActionName"]: (each["Schedule"], each["ScalableTargetAction"]) for each in found}


def test_a_targets_schedules_are_those_of_its_template(aws: EmbeddedAws, sagemaker: Any) -> None:
    cloudformation = aws.client("cloudformation")
    evening = {**ACTION, "ScheduledActionName": "Evening", "Schedule": "cron(0 19 ? * MON-FRI *)"}
    later = {**ACTION, "Schedule": "cron(30 8 ? * MON-FRI *)"}
    bounds = {"MinCapacity": 2, "MaxCapacity": 8}

    cloudformation.create_stack(StackName="s", TemplateBody=template(ACTION, evening))
    created = schedules(aws)
    cloudformation.update_stack(StackName="s", TemplateBody=template(later))
    changed = schedules(aws)
    cloudformation.delete_stack(StackName="s")

    assert created == {
        "Morning": ("cron(0 7 ? * MON-FRI *)", bounds),
        "Evening": ("cron(0 19 ? * MON-FRI *)", bounds),
    }
    assert changed == {"Morning": ("cron(30 8 ? * MON-FRI *)", bounds)}
    assert schedules(aws) == {}


def test_policies_of_every_kind_are_listed(aws: EmbeddedAws, sagemaker: Any) -> None:
    scaling, cloudwatch = aws.client("application-autoscaling"), aws.client("cloudwatch")
    cloudwatch.put_dashboard(DashboardName="d", DashboardBody='{"widgets": []}')
    metric = {"Namespace": "Shop", "MetricName": "Waiting", "Dimensions": []}
    queries = [
        {"Id": "a", "MetricStat": {"Metric": metric, "Stat": "p90"}, "ReturnData": False},
        {"Id": "b", "Expression": "a * 2", "ReturnData": True},
    ]
    steps = {
        "AdjustmentType": "ChangeInCapacity",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 3}],
    }
    tracking = {"TargetValue": 7, "CustomizedMetricSpecification": {"Metrics": queries}}
    scaling.put_scaling_policy(
        **TARGET,
        PolicyName="math",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
    )
    scaling.put_scaling_policy(
        **TARGET, PolicyName="steps", PolicyType="StepScaling", StepScalingPolicyConfiguration=steps
    )

    [target] = inventory.read(aws, endpoint="e", dashboard="d").targets

    listed = {policy.name: (policy.metric, policy.target) for policy in target.policies}
    assert listed == {"math": ("a * 2", 7), "steps": ("steps of an alarm", 3)}
