"""Checks of /dev/shm, which the instances of Python models share; see `facts.shared_memory`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Subject
from triton_models.check.target import ENDPOINTS
from triton_models.config.pbtxt import ModelConfig
from triton_models.facts.shared_memory import PYTHON_SHARED_MEMORY, too_many_instances


def python_instances(subject: Subject) -> Iterator[Problem]:
    """Check that the instances of Python models fit into a container, with the smallest possible regions.

    Instances on GPUs are counted once, because the number of GPUs is unknown.
    """
    counts = {
        model.folder: instances_of(config)
        for model, config in subject.served()
        if model.backend.name == "python"
    }
    yield from too_many_instances(counts, where=subject.layout.where)


def instances_of(config: ModelConfig) -> int:
    """Return the number of instances of a model. Triton starts one by default."""
    return sum(max(group.count, 1) for group in config.instance_group) or 1


CHECKS = (
    ArtifactCheck(
        id=PYTHON_SHARED_MEMORY.id,
        source=PYTHON_SHARED_MEMORY.source,
        find=python_instances,
        endpoints=ENDPOINTS,
    ),
)
