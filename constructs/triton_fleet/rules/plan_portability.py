"""Every plan in a repository loads on every endpoint that serves the repository."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.errors import Problem
from triton_models.instances import Gpu
from triton_models.releases import Release

RULE = "plan-fits-endpoint"
# Read on 2026-11-21.
SOURCE = "https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTarget:
    """What a TensorRT plan is tied to.

    Attributes:
        gpu: The GPU model that compiles or runs the plan.
        release: The release whose TensorRT compiles or loads it.
        path: The construct that does so.
    """

    gpu: Gpu
    release: Release
    path: str


def plan_portability(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Problem | None:
    """The problem with an endpoint loading what a build job publishes."""
    if build.gpu.name == endpoint.gpu.name and build.release.tensorrt == endpoint.release.tensorrt:
        return None
    return Problem(
        what=f"{build.path} compiles for {_named(build)}, {endpoint.path} serves with {_named(endpoint)}",
        where=where,
        expected="the same GPU model and the same TensorRT on both sides of a repository",
        why="every plan would be refused when it is first invoked, while the endpoint reports InService",
        fix="give both the same instance_type and release, or each its own repository",
        rule=RULE,
    )


def _named(target: PlanTarget) -> str:
    return f"{target.gpu.name} and TensorRT {target.release.tensorrt} (release {target.release.name})"
