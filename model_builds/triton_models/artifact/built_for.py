"""The GPU models that an artifact was built for, as its build.json says.

A build for one GPU names it; what `fleet merge` made names all of them. A TensorRT plan is recorded with the
GPU that compiled it, by its path in the artifact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.tensorrt import AMPERE, AMPERE_PLUS, SAME_COMPUTE_CAPABILITY


def built_gpus(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The GPU models that an artifact has plans for; empty if it has no plan, or nobody said.

    Args:
        record: What build.json says.
    """
    said = record.get("gpu")
    if isinstance(said, str):
        return (said,)
    return tuple(str(each) for each in said) if isinstance(said, list | tuple) else ()


def plan_gpu(record: Mapping[str, Any], path: str) -> str | None:
    """The GPU model that compiled a plan; None if that was not recorded.

    Args:
        record: What build.json says.
        path: The plan's path in the artifact.
    """
    plans = record.get("plans")
    plan = plans.get(path) if isinstance(plans, Mapping) else None
    if isinstance(plan, Mapping) and plan.get("gpu"):
        return str(plan["gpu"])
    gpus = built_gpus(record)
    return gpus[0] if len(gpus) == 1 else None


def plan_runs_on(record: Mapping[str, Any], path: str, gpu: Gpu) -> bool:
    """Whether a plan was compiled to run on a GPU that did not compile it.

    Args:
        record: What build.json says.
        path: The plan's path in the artifact.
        gpu: The GPU.
    """
    plans = record.get("plans")
    plan = plans.get(path) if isinstance(plans, Mapping) else None
    level = plan.get("hardware") if isinstance(plan, Mapping) else None
    return runs_on(level, built=GPUS.get(plan_gpu(record, path) or ""), gpu=gpu)


def runs_on(level: str | None, *, built: Gpu | None, gpu: Gpu) -> bool:
    """Whether a level of hardware compatibility lets a plan run on a GPU that did not compile it.

    Args:
        level: As trtexec spells it; None if it was compiled with none.
        built: The GPU that compiled it, if it is known.
        gpu: The GPU.
    """
    if level == AMPERE_PLUS:
        return float(gpu.compute_capability) >= float(AMPERE)
    return (
        level == SAME_COMPUTE_CAPABILITY
        and built is not None
        and built.compute_capability == gpu.compute_capability
    )
