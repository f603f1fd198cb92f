"""The resources of an endpoint in a template."""

from __future__ import annotations

from typing import Any

from aws_for_tests.executions import ROLE


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
