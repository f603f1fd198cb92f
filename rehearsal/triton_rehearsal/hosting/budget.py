"""The limits of an instance: memory of its GPUs, memory of the host, and disk for copies of models."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.facts.instances import INSTANCE_TYPES

IMPOSSIBLE_BUDGET = Check(id="impossible-budget", source=FROM_ARGUMENTS)
TOO_MANY_INSTANCES = Check(id="too-many-instances", source=FROM_ARGUMENTS)

SERVER_BYTES = 256 << 20
"""The memory of this machine that is kept for a server without models, which has been seen to use 60 MiB."""

_GIB, _GB = 1 << 30, 10**9
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": _GIB}
_SIZE = re.compile(r"(?P<number>\d{1,12}(\.\d{1,6})?) ?(?P<unit>|[KMG]iB)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of an instance, in bytes. None stands for those of this machine."""

    gpu: int | None = None  # the memory of each GPU; None without a GPU
    whole_gpu: bool = False  # it is all of the GPU's memory, and not a part for the files of models
    gpu_count: int = 0
    memory: int | None = None  # of the host
    disk: int | None = None  # for copies of models

    @classmethod
    def of(
        cls, instance_type: str | None, *, gpu_memory: int | None = None, disk: int | None = None
    ) -> Budget:
        """Return the limits of an instance type, or these for models; an unknown type has no others.

        A type with less memory on its GPUs, or without a GPU, raises a FleetError.
        """
        found = INSTANCE_TYPES.get(instance_type or "")
        if found is None:
            return cls(disk=disk)
        limits = cls(memory=int(found.memory_gib * _GIB), disk=disk or found.nvme_gb * _GB or None)
        if found.gpu is None:
            if gpu_memory is not None:
                raise IMPOSSIBLE_BUDGET.error(
                    what=f"the deployed instance type {found.name} has no GPU to limit",
                    where="--gpu-memory",
                    fix="omit --gpu-memory, or deploy an instance type with a GPU",
                )
            return limits
        most = found.gpu.memory_mib << 20
        wanted = most if gpu_memory is None else gpu_memory
        if wanted > most:
            raise IMPOSSIBLE_BUDGET.error(
                what=f"{wanted / (1 << 20):.0f} MiB of GPU memory is more than the deployed instance "
                f"type {found.name} has",
                where="--gpu-memory",
                fix=f"give at most {most >> 20} MiB, the memory of one GPU, or omit it to use all",
            )
        return replace(limits, gpu=wanted, whole_gpu=gpu_memory is None, gpu_count=found.gpu_count)


def read_size(text: str, *, where: str) -> int:
    """Return the bytes in a size such as "500MiB", "1.5GiB" or "4096". `where` is for the error."""
    found = _SIZE.fullmatch(text)
    size = int(float(found["number"]) * _UNITS[found["unit"]]) if found else 0
    if size:
        return size
    raise IMPOSSIBLE_BUDGET.error(
        what=f"{text!r} is not a size of memory",
        where=where,
        fix="give a number above 0 with KiB, MiB or GiB, or of bytes, such as 500MiB",
    )


def require_room(instances: int, *, available: int | None = None) -> None:
    """Check that this machine, or this many bytes, can carry more instances, without their models."""
    if instances <= 0:
        return
    free = _available() if available is None else available
    most = free // SERVER_BYTES
    if instances > most:
        raise TOO_MANY_INSTANCES.error(
            what=f"{instances} more instances do not fit into the memory of this machine",
            where="the hosting of the rehearsal",
            why=f"each instance is a Triton server with {SERVER_BYTES >> 20} MiB before its first model",
            fix=f"rehearse at most {most} more (initial_instances, max_instances): {free >> 20} MiB are free",
        )


def _available() -> int:
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 1 << 62
