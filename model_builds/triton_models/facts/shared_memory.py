"""The shared memory (/dev/shm) of the Python backend and of a SageMaker container. Read 2026-11-21.

Each instance of a Python model has its own region (SharedMemoryManager in src/shm_manager.cc of
python_backend). Its initial size is shm-default-byte-size, which src/python_be.cc requires to be at least
1 MiB. With the start script's 16 MiB, four instances fill a container. The size of a container's /dev/shm is
in issue 2801 of sagemaker-python-sdk and in server issue 4675; it cannot be changed.

Seen on Triton 24.10 on 2026-11-25: after a batch of 32 x 256 x 384 FP32 numbers (12 MiB) with a small output,
the region is 21 MiB, and it stays so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

CONTAINER_BYTES = 64 << 20
SMALLEST_REGION_BYTES = 1 << 20
_MIB = 1 << 20

PYTHON_SHARED_MEMORY = Check(
    id="python-shared-memory", source="2026-11-21: python_backend, src/shm_manager.cc and src/python_be.cc"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRegions:
    """The shared memory of a Python model's instances, by the bytes of a row and the largest batch.

    A batch is there until it is answered: the inputs and outputs of all its rows. A region never shrinks.
    """

    count: int
    row: int
    rows: int

    @property
    def each(self) -> int:
        """The bytes of one instance after the largest batch, at least."""
        return max(self.row * self.rows, SMALLEST_REGION_BYTES)


def too_little_shared_memory(models: Mapping[str, PythonRegions], *, where: str) -> Iterator[Problem]:
    """Yield a problem if an artifact's Python models do not fit into a container with full batches."""
    total = sum(model.count * model.each for model in models.values())
    if total > CONTAINER_BYTES:
        parts = (
            f"{model.count} x {math.ceil(model.each / _MIB)} MiB for {name!r}"
            for name, model in models.items()
        )
        what = f"{math.ceil(total / _MIB)} MiB of shared memory for Python models: {', '.join(parts)}"
        why = f"a container's models share {CONTAINER_BYTES // _MIB} MiB, and each instance keeps a batch"
        fix = "use fewer instances, a smaller max_batch_size, or smaller tensors"
        yield PYTHON_SHARED_MEMORY.problem(what=what, where=where, why=why, fix=fix)
