"""The TensorRT of a release compiles for the generation of the GPU that serves."""

from __future__ import annotations

from triton_models.base.errors import Problem
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, Gpu
from triton_models.facts.releases import RELEASES, Release

RULE = "gpu-generation-supported"
# Read on 2026-11-21.
SOURCE = "https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes-10/10.5.0.html"


def gpu_generation(gpu: Gpu, release: Release, *, where: str) -> Problem | None:
    """The problem with running this release on this GPU."""
    if _fits(gpu, release):
        return None
    fitting = [known.name for known in RELEASES.values() if known.on_sagemaker and _fits(gpu, known)]
    older = f", or release {fitting[-1]}, the last for {gpu.name}" if fitting else ""
    return Problem(
        what=f"{gpu.name} has compute capability {gpu.compute_capability}",
        where=where,
        expected=f"{release.min_compute_capability} or newer, which release {release.name} needs",
        why=f"TensorRT {release.tensorrt} compiles no plan for an older GPU",
        fix=f"use {DEFAULT_INSTANCE_TYPE}{older}",
        rule=RULE,
    )


def _fits(gpu: Gpu, release: Release) -> bool:
    return _number(gpu.compute_capability) >= _number(release.min_compute_capability)


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
