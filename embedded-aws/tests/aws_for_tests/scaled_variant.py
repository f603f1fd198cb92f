"""Endpoints in an embedded AWS: one with a scaled variant, those of templates, and their deployments."""

from __future__ import annotations

from typing import Any

from aws_for_tests.executions import ROLE
from embedded_aws import EmbeddedAws

RESOURCE = "endpoint/e/variant/AllTraffic"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "ResourceId": RESOURCE,
}
DIMENSIONS = [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "AllTraffic"}]
INVOCATIONS = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.09-py3"


def served(aws: EmbeddedAws, *, instances: int = 1, release: str = "25.09") -> Any:
    """Create the endpoint `e` with one variant; return a client of SageMaker."""
    sagemaker = aws.client("sagemaker")
    sagemaker.create_model(
        ModelName="m", ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE.replace("25.09", release)}
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "m",
        "InitialInstanceCount": instances,
        "InstanceType": "ml.g5.xlarge",
    }
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    return sagemaker


def scaled(aws: EmbeddedAws, *, instances: int = 1, least: int = 1, most: int = 4, **more: Any) -> Any:
    """Create the endpoint and its scalable target; return a client of Application Auto Scaling."""
    served(aws, instances=instances)
    scaling = aws.client("application-autoscaling")
    scaling.register_scalable_target(**TARGET, MinCapacity=least, MaxCapacity=most, **more)
    return scaling


def track(scaling: Any, name: str = "tracking", *, target: float = 100, **more: Any) -> dict[str, Any]:
    """Write a target tracking policy, by default on invocations per instance; return the answer."""
    if "CustomizedMetricSpecification" not in more:
        more["PredefinedMetricSpecification"] = INVOCATIONS
    answer: dict[str, Any] = scaling.put_scaling_policy(
        **TARGET,
        PolicyName=name,
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={"TargetValue": target, **more},
    )
    return answer


def serving(*, image: str, instance_type: str = "ml.g5.2xlarge", **endpoint: Any) -> dict[str, Any]:
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InitialInstanceCount": 1,
        "InstanceType": instance_type,
    }
    return {
        # In the reverse order of their dependencies.
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointName": "e",
                "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                **endpoint,
            },
        },
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}},
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {"ExecutionRoleArn": ROLE, "PrimaryContainer": {"Image": image}},
        },
    }


def size(value: int, *, kind: str = "CAPACITY_PERCENT") -> dict[str, Any]:
    return {"Type": kind, "Value": value}


def blue_green(routing: str, *, wait: int, last: int = 0, **sizes: Any) -> dict[str, Any]:
    traffic = {"Type": routing, "WaitIntervalInSeconds": wait, **sizes}
    policy = {"TrafficRoutingConfiguration": traffic, "TerminationWaitInSeconds": last}
    return {"BlueGreenUpdatePolicy": policy}


def rolling(*, wait: int, batch: int) -> dict[str, Any]:
    policy = {
        "MaximumBatchSize": size(batch, kind="INSTANCE_COUNT"),
        "WaitIntervalInSeconds": wait,
        "MaximumExecutionTimeoutInSeconds": 28800,
    }
    return {"RollingUpdatePolicy": policy}
