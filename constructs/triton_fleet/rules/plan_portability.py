"""Every artifact in a repository loads on every endpoint that serves the repository.

A build for a GPU compiles plans: they load with the same GPU model and the same TensorRT only, and never on
an instance type without a GPU. A build for instance types without a GPU compiles none: its ONNX and Python
models run on a CPU as well as on any GPU, where ONNX Runtime uses what it finds. What it still shares with
the release is Python: packages beside a Python model are built for one version of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.errors import Problem
from triton_models.instances import Gpu
from triton_models.releases import Release

RULE = "plan-fits-endpoint"
# Read on 2026-11-21.
SOURCE = "https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html"
# Of what is true of models without a plan: instance groups and Python's version. Read on 2026-11-21.
SOURCES_OF_PORTABLE = (
    "https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md",
    "https://github.com/triton-inference-server/python_backend",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTarget:
    """What an artifact is tied to.

    Attributes:
        gpu: The GPU model that compiles or runs plans; None where there is none, and so no plan.
        release: The release whose TensorRT compiles or loads plans, and whose Python runs Python models.
        path: The construct that does so.
    """

    gpu: Gpu | None
    release: Release
    path: str


def plan_portability(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Problem | None:
    """The problem with an endpoint loading what a build job publishes."""
    if build.gpu is None:
        return _python_portability(build=build, endpoint=endpoint, where=where)
    if endpoint.gpu is None:
        return _no_gpu(build=build, endpoint=endpoint, where=where)
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


def _no_gpu(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Problem:
    return Problem(
        what=f"{build.path} compiles for {_named(build)}, {endpoint.path} serves without a GPU",
        where=where,
        expected="a build job for instance types without a GPU, which compiles no plan",
        why="no plan runs without its GPU: every such model would be refused when it is first invoked, while "
        "the endpoint reports InService",
        fix="give the build job the instance_type of the endpoint, or each its own repository",
        rule=RULE,
    )


def _python_portability(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Problem | None:
    """The problem with serving what was built without a plan: any hardware will do, not any Python."""
    if build.release.python == endpoint.release.python:
        return None
    return Problem(
        what=f"{build.path} builds for Python {build.release.python} (release {build.release.name}), "
        f"{endpoint.path} serves with Python {endpoint.release.python} (release {endpoint.release.name})",
        where=where,
        expected="releases with the same Python on both sides of a repository",
        why="packages beside a Python model are for one version of Python: another cannot import them",
        fix="give both the same release, or each its own repository",
        rule=RULE,
    )


def _named(target: PlanTarget) -> str:
    gpu = target.gpu.name if target.gpu else "no GPU"
    return f"{gpu} and TensorRT {target.release.tensorrt} (release {target.release.name})"
