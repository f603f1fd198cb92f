"""What may serve what a build job publishes: plans their GPU only, models without a plan any hardware."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from synthesised import Resources

from triton_fleet import FleetError, ModelBuilds, ModelRepository, MultiModelEndpoint
from triton_fleet.rules.plan_portability import PlanTarget, plan_portability
from triton_models.instances import GPUS, Gpu
from triton_models.releases import RELEASES

CPU, GPU = "ml.c7i.2xlarge", "ml.g5.2xlarge"
Build = Callable[..., ModelBuilds]


@pytest.fixture
def build(stack: Stack, repository: ModelRepository, source: Path) -> Build:
    def make(instance_type: str, **arguments: Any) -> ModelBuilds:
        return ModelBuilds(
            stack,
            "Builds",
            repository=repository,
            source=source,
            models=["minilm"],
            instance_type=instance_type,
            **arguments,
        )

    return make


def _problem(build: tuple[Gpu | None, str], endpoint: tuple[Gpu | None, str]) -> str | None:
    """What is said of a build and an endpoint, each given by its GPU and its release."""
    made, served = (
        PlanTarget(gpu=gpu, release=RELEASES[release], path=path)
        for (gpu, release), path in ((build, "Builds"), (endpoint, "Endpoint"))
    )
    found = plan_portability(build=made, endpoint=served, where="here")
    return found and found.what


def test_a_cpu_endpoint_refuses_plans(stack: Stack, repository: ModelRepository, build: Build) -> None:
    build(GPU)

    with pytest.raises(FleetError, match=r"compiles for A10G .* serves without a GPU") as raised:
        MultiModelEndpoint(stack, "Endpoint", repository=repository, instance_type=CPU)
    assert [problem.rule for problem in raised.value.problems] == ["plan-fits-endpoint"]


def test_plans_are_refused_as_well_if_the_endpoint_is_declared_first(
    stack: Stack, repository: ModelRepository, build: Build
) -> None:
    MultiModelEndpoint(stack, "Endpoint", repository=repository, instance_type=CPU)

    with pytest.raises(FleetError, match="serves without a GPU"):
        build(GPU)


@pytest.mark.parametrize("instance_type", [CPU, "ml.m5.large", GPU, "ml.g4dn.xlarge"])
def test_models_without_a_plan_serve_on_any_hardware(
    instance_type: str, stack: Stack, repository: ModelRepository, build: Build
) -> None:
    build(CPU)

    MultiModelEndpoint(stack, "Endpoint", repository=repository, instance_type=instance_type)


def test_another_tensorrt_does_not_matter_without_a_plan_and_another_python_does() -> None:
    assert RELEASES["25.04"].tensorrt != RELEASES["25.09"].tensorrt
    assert RELEASES["25.04"].python == RELEASES["25.09"].python

    assert _problem((None, "25.04"), (None, "25.09")) is None
    assert "Python 3.10 (release 24.09)" in (_problem((None, "24.09"), (None, "25.09")) or "")


def test_a_plan_still_needs_its_gpu_and_its_tensorrt() -> None:
    assert _problem((GPUS["A10G"], "25.09"), (GPUS["A10G"], "25.09")) is None
    assert _problem((GPUS["A10G"], "25.09"), (GPUS["T4"], "25.09")) is not None
    assert _problem((GPUS["A10G"], "25.04"), (GPUS["A10G"], "25.09")) is not None


def test_a_build_for_cpus_runs_without_a_gpu_and_says_so(build: Build, resources: Resources) -> None:
    builds = build("ml.m7i.xlarge")
    (project,) = resources("AWS::CodeBuild::Project")
    variables = {each["Name"] for each in project["Environment"]["EnvironmentVariables"]}
    spec = json.loads(project["Source"]["BuildSpec"])

    assert builds.gpu is None
    assert builds.image.tag == "25.09-py3-cpu"
    assert project["Environment"]["Type"] == "LINUX_CONTAINER"
    assert project["Description"] == "Builds models for CPUs and Triton 25.09"
    assert variables == {"FLEET_RELEASE", "FLEET_MODELS", "FLEET_REPOSITORY", "FLEET_LOG_GROUP"}
    assert '--release "$FLEET_RELEASE" --cpu --repository' in spec["phases"]["build"]["commands"][0]


def test_a_build_for_cpus_is_possible_where_no_gpu_can_be_rented(
    stack_in: Callable[[str], Stack], source: Path
) -> None:
    stack = stack_in("eu-north-1")
    repository = ModelRepository(stack, "Repository")

    builds = ModelBuilds(
        stack, "Builds", repository=repository, source=source, models=["minilm"], instance_type=CPU
    )
    assert builds.gpu is None
