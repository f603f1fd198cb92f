from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from botocore_model import CALLS, bounds, violations

from triton_fleet import EndpointScaling, ModelBuildProject, ModelRepository, MultiModelEndpoint
from triton_fleet.hosting import checks as hosting
from triton_fleet.hosting import deployment_checks as deployment


@pytest.fixture
def template(stack: Stack, repository: ModelRepository, endpoint: MultiModelEndpoint, source: Path) -> Any:
    ModelBuildProject(stack, "Builds", repository=repository, source=source, models=["minilm"])
    EndpointScaling(stack, "Scaling", endpoint=endpoint)
    return Template.from_stack(stack).to_json()


def _properties(template: Any, resource_type: str) -> Any:
    return next(
        each["Properties"] for each in template["Resources"].values() if each["Type"] == resource_type
    )


def test_every_property_is_one_that_its_service_accepts(template: Any) -> None:
    assert violations(template) == []


def test_every_type_with_a_call_is_in_the_template(template: Any) -> None:
    assert {each["Type"] for each in template["Resources"].values()} >= set(CALLS)


@pytest.mark.parametrize(
    ("resource_type", "path", "value", "expected"),
    [
        ("AWS::SageMaker::Model", ("PrimaryContainer", "Mode"), "ManyModels", "is not one of"),
        ("AWS::SageMaker::Model", ("PrimaryContainer", "Modes"), "MultiModel", "there is no Modes"),
        (
            "AWS::SageMaker::EndpointConfig",
            ("ProductionVariants", 0, "InstanceType"),
            "ml.g5.huge",
            "not one of",
        ),
        (
            "AWS::SageMaker::EndpointConfig",
            ("ProductionVariants", 0, "ModelDataDownloadTimeoutInSeconds"),
            9999,
            "above 3600",
        ),
        ("AWS::SageMaker::Endpoint", ("EndpointName",), "a_b", "does not match"),
        ("AWS::CodeBuild::Project", ("Environment", "ComputeType"), "BUILD_GPU", "not one of"),
        ("AWS::CodeBuild::Project", ("TimeoutInMinutes",), "120", "is no integer"),
        (
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            (
                "TargetTrackingScalingPolicyConfiguration",
                "PredefinedMetricSpecification",
                "PredefinedMetricType",
            ),
            "InvocationsPerInstance",
            "not one of",
        ),
    ],
)
def test_a_wrong_property_is_found(
    template: Any, resource_type: str, path: tuple[Any, ...], value: Any, expected: str
) -> None:
    parent = _properties(template, resource_type)
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value

    (violation,) = violations(template)

    assert expected in violation


@pytest.mark.parametrize(
    ("shape", "limits"),
    [
        ("EndpointName", (0, hosting.LONGEST_RESOURCE_NAME)),
        ("VariantName", (0, hosting.LONGEST_RESOURCE_NAME)),
        ("MaximumExecutionTimeoutInSeconds", (deployment.SHORTEST_MAXIMUM, deployment.LONGEST_MAXIMUM)),
    ],
)
def test_a_limit_is_sagemakers_own(shape: str, limits: tuple[int, int]) -> None:
    assert bounds("sagemaker", shape) == limits
