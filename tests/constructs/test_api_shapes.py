from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from botocore_model import violations

from triton_fleet import EndpointScaling, ModelBuildProject, ModelRepository, MultiModelEndpoint
from triton_fleet.endpoint.hosting import deployment, variants
from triton_fleet.parts.arguments import service_model


@pytest.fixture
def template(stack: Stack, repository: ModelRepository, endpoint: MultiModelEndpoint, source: Path) -> Any:
    ModelBuildProject(stack, "Builds", repository=repository, source=source, models=["minilm"])
    EndpointScaling(stack, "Scaling", endpoint=endpoint)
    return Template.from_stack(stack).to_json()


def test_every_property_is_one_that_its_service_accepts(template: Any) -> None:
    assert violations(template) == []


@pytest.mark.parametrize(
    ("shape", "limits"),
    [
        ("EndpointName", (0, variants.LONGEST_RESOURCE_NAME)),
        ("VariantName", (0, variants.LONGEST_RESOURCE_NAME)),
        ("MaximumExecutionTimeoutInSeconds", (deployment.SHORTEST_MAXIMUM, deployment.LONGEST_MAXIMUM)),
    ],
)
def test_a_limit_is_sagemakers_own(shape: str, limits: tuple[int, int]) -> None:
    found = service_model._shapes("sagemaker")[shape]

    assert (found.get("min", 0), found["max"]) == limits
