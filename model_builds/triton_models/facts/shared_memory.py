"""The shared memory (/dev/shm) of the Python backend and of a SageMaker container. Read 2026-11-21.

Each instance of a Python model has its own region (SharedMemoryManager in src/shm_manager.cc of
python_backend). Its initial size is shm-default-byte-size, which src/python_be.cc requires to be at least
1 MiB. With the start script's 16 MiB, four instances fill a container. The size of a container's /dev/shm is
in issue 2801 of sagemaker-python-sdk and in server issue 4675; it cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

CONTAINER_BYTES = 64 << 20
SMALLEST_REGION_BYTES = 1 << 20

PYTHON_SHARED_MEMORY = Check(
    id="python-shared-memory", source="2026-11-21: python_backend, src/shm_manager.cc and src/python_be.cc"
)


def too_many_instances(instances: Mapping[str, int], *, where: str) -> Iterator[Problem]:
    """Yield a problem if an artifact's Python models do not fit into a container, even with minimal regions.

    Args:
        instances: The number of instances of each model, by its name.
        where: The artifact, for the message.
    """
    total, most = sum(instances.values()), CONTAINER_BYTES // SMALLEST_REGION_BYTES
    if total > most:
        yield PYTHON_SHARED_MEMORY.problem(
            what=f"{total} instances of Python models: "
            + ", ".join(f"{count} of {name!r}" for name, count in instances.items()),
            where=where,
            expected=f"at most {most} in one artifact, and far fewer if other models share the endpoint",
            why=f"each takes {SMALLEST_REGION_BYTES >> 20} MiB or more of a "
            f"container's {CONTAINER_BYTES >> 20} MiB of /dev/shm",
            fix="use fewer instances; dynamic batching lets one instance serve many requests",
        )
