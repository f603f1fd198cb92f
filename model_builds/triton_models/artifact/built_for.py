"""The GPU model that an artifact was built for, from its build.json.

Every TensorRT plan is recorded by its path in the artifact, with the GPU that compiled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.tensorrt import AMPERE, AMPERE_PLUS, SAME_COMPUTE_CAPABILITY


def built_gpu(record: Mapping[str, Any]) -> str | None:
    """Return the GPU model that an artifact has plans for; None without a plan or a record.

    Args:
        record: The content of build.json.
    """
    said = record.get("gpu")
    return said if isinstance(said, str) else None


def plan_gpu(record: Mapping[str, Any], path: str) -> str | None:
    """Return the GPU model that compiled a plan; None if not recorded.

    Args:
        record: The content of build.json.
        path: The plan's path in the artifact.
    """
    plans = record.get("plans")
    plan = plans.get(path) if isinstance(plans, Mapping) else None
    if isinstance(plan, Mapping) and plan.get("gpu"):
        return str(plan["gpu"])
    return built_gpu(record)


def plan_runs_on(record: Mapping[str, Any], path: str, gpu: Gpu) -> bool:
    """Return True if a plan also runs on a GPU other than the one that compiled it.

    Args:
        record: The content of build.json.
        path: The plan's path in the artifact.
        gpu: The GPU.
    """
    plans = record.get("plans")
    plan = plans.get(path) if isinstance(plans, Mapping) else None
    level = plan.get("hardware") if isinstance(plan, Mapping) else None
    return runs_on(level, built=GPUS.get(plan_gpu(record, path) or ""), gpu=gpu)


def runs_on(level: str | None, *, built: Gpu | None, gpu: Gpu) -> bool:
    """Return True if a level of hardware compatibility allows a plan to run on another GPU.

    Args:
        level: The level as spelled by trtexec; None without one.
        built: The GPU that compiled it, if known.
        gpu: The GPU.
    """
    if level == AMPERE_PLUS:
        return float(gpu.compute_capability) >= float(AMPERE)
    return (
        level == SAME_COMPUTE_CAPABILITY
        and built is not None
        and built.compute_capability == gpu.compute_capability
    )
