"""Rules about /dev/shm, which the instances of Python models share: see `triton_models.shared_memory`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.config import ModelConfig
from triton_models.errors import Problem
from triton_models.rules.subject import Rule, Subject
from triton_models.shared_memory import CONTAINER_BYTES, SMALLEST_REGION_BYTES
from triton_models.target import ENDPOINTS


def python_instances(subject: Subject) -> Iterator[Problem]:
    """The instances of the Python models fit into a container with the smallest regions that there are.

    Instances on a GPU are counted once: how many GPUs there are is known only where they are served.
    """
    counts = {
        model.folder: _instances(config)
        for model, config in subject.served()
        if model.backend.name == "python"
    }
    total = sum(counts.values())
    most = CONTAINER_BYTES // SMALLEST_REGION_BYTES
    if total > most:
        yield Problem(
            what=f"{total} instances of Python models: "
            + ", ".join(f"{count} of {folder!r}" for folder, count in counts.items()),
            where=subject.layout.where,
            expected=f"at most {most} in one artifact, and far fewer where others share the endpoint",
            why=f"each takes at least 1 MiB of /dev/shm, and SageMaker's containers have {most} MiB: loading "
            "fails with 'No space left on device'",
            fix="lower count in instance_group; dynamic batching lets one instance serve many requests",
        )


def _instances(config: ModelConfig) -> int:
    """How many instances a model has; Triton makes one where nothing is said."""
    return sum(max(group.count, 1) for group in config.instance_group) or 1


RULES = (Rule(id="python-shared-memory", find=python_instances, endpoints=ENDPOINTS),)
