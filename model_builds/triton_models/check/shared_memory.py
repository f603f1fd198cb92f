"""Checks of /dev/shm, which the instances of Python models share; see `facts.shared_memory`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Subject, type_name
from triton_models.check.target import ENDPOINTS
from triton_models.config.pbtxt import ModelConfig
from triton_models.declare.tensors import ELEMENT_BYTES
from triton_models.facts.shared_memory import PYTHON_SHARED_MEMORY, PythonRegions, too_little_shared_memory


def python_regions(subject: Subject) -> Iterator[Problem]:
    """Check that the instances of Python models fit into a container, with a full batch in each.

    Instances on GPUs are counted once, because the number of GPUs is unknown. Variable sizes count as 1.
    """
    regions = {
        model.folder: _regions(config) for model, config in subject.served() if model.backend.name == "python"
    }
    yield from too_little_shared_memory(regions, where=subject.layout.where)


def _regions(config: ModelConfig) -> PythonRegions:
    parameter = config.parameters.get("FORCE_CPU_ONLY_INPUT_TENSORS")
    on_gpu = parameter is not None and parameter.string_value == "no"
    tensors = [*config.output, *(() if on_gpu else config.input)]
    row = sum(
        math.prod(max(size, 1) for size in each.dims) * ELEMENT_BYTES.get(type_name(each.data_type), 0)
        for each in tensors
    )
    return PythonRegions(count=instances_of(config), row=row, rows=max(config.max_batch_size, 1))


def instances_of(config: ModelConfig) -> int:
    """Return the number of instances of a model. Triton starts one by default."""
    return sum(max(group.count, 1) for group in config.instance_group) or 1


CHECKS = (
    ArtifactCheck(
        id=PYTHON_SHARED_MEMORY.id,
        source=PYTHON_SHARED_MEMORY.source,
        find=python_regions,
        endpoints=ENDPOINTS,
    ),
)
