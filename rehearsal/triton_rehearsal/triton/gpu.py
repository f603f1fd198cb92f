"""A modelled GPU: the memory that the models of one instance share, and the time for which it is busy.

It is a folder, which the processes of a server's models find next to their backends. A file stands for the
memory that a process has taken. The process keeps it locked, and the kernel unlocks it when the process ends,
even if it is killed, so no memory is lost.

It also runs inside the server's Python stub, so it imports only the standard library.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# Triton without a GPU reads another configuration than the deployed one, which names the kind of instances.
_KIND = re.compile(r"\bkind\s*:\s*KIND_(\w+)")
_DECLARED = "gpu_memory_mb"  # GPU_MEMORY of triton_models.config.pbtxt
_SECONDS = struct.Struct("d")


class OutOfMemoryError(Exception):
    """The GPU has less free memory than wanted. All sizes are in bytes.

    Attributes:
        wanted: The wanted memory.
        free: The free memory.
        total: The memory for models.
    """

    def __init__(self, *, wanted: int, free: int, total: int) -> None:
        super().__init__(f"{wanted} bytes wanted, {free} of {total} free")
        self.wanted, self.free, self.total = wanted, free, total


class Share:
    """Memory that this process has taken, and the time for which it keeps the GPU busy."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._seconds = 0.0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count the time until the end of the `with`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds += time.perf_counter() - started
            self._file.seek(0)
            self._file.write(_SECONDS.pack(self._seconds))

    def give_back(self) -> None:
        """Give the memory back."""
        self._file.close()


class ModelledGpu:
    """The GPU of an instance. With several, each model is on each of them, so one stands for all.

    Args:
        folder: Its folder, from `create`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shares = folder / "shares"
        self._ended = folder / "ended"
        self.total = int((folder / "total").read_text())

    @classmethod
    def create(cls, folder: Path, *, total: int) -> ModelledGpu:
        """Create the folder of a GPU with memory for models, in bytes."""
        (folder / "shares").mkdir(parents=True)
        (folder / "total").write_text(str(total))
        (folder / "ended").write_text("0.0")
        return cls(folder)

    def take(self, wanted: int) -> Share:
        """Take memory until this process gives it back or ends.

        Raises:
            OutOfMemoryError: Too little is free.
        """
        with self._locked():
            free = self.total - self._used()
            if wanted > free:
                raise OutOfMemoryError(wanted=wanted, free=free, total=self.total)
            file = (self._shares / f"{wanted}-{secrets.token_hex(8)}").open("xb", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(_SECONDS.pack(0.0))
            return Share(file)

    def used(self) -> int:
        """Return the memory that running processes have taken, in bytes."""
        with self._locked():
            return self._used()

    def busy_s(self) -> float:
        """Return the seconds for which models have run, added up over all of them."""
        with self._locked():
            self._used()  # moves the time of ended processes
            running = sum(_seconds(path) for path in self._shares.iterdir())
            return float(self._ended.read_text()) + running

    def _used(self) -> int:
        """Return the taken memory, after the removal of what ended processes had taken."""
        used = 0
        for path in self._shares.iterdir():
            if _is_locked(path):
                used += int(path.name.partition("-")[0])
            else:
                self._ended.write_text(str(float(self._ended.read_text()) + _seconds(path)))
                path.unlink()
        return used

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class GpuMeter:
    """Measures the usage of an instance's GPUs, in percent: up to 100 for each GPU.

    Args:
        gpu: The GPU that stands for all of them.
        count: Number of GPUs.
    """

    def __init__(self, gpu: ModelledGpu, *, count: int) -> None:
        self._gpu, self._count = gpu, count
        self._last = (time.monotonic(), gpu.busy_s())

    def busy_percent(self) -> float:
        """Return the time for which the GPUs were busy since the last call.

        On AWS, models that run at the same time on a GPU count once. Here their times are added up, to at
        most 100 per GPU.
        """
        now, busy = time.monotonic(), self._gpu.busy_s()
        (before, busy_before), self._last = self._last, (now, busy)
        share = (busy - busy_before) / max(now - before, 1e-3)
        return 100 * min(max(share, 0.0), float(self._count))

    def memory_percent(self) -> float:
        """Return the memory that models have taken."""
        return 100 * self._count * self._gpu.used() / self._gpu.total


def take_for(args: Mapping[str, str], size: int) -> Share | None:
    """Take memory of the GPU of this process's instance. Called in a model's process.

    Args:
        args: The arguments that the server gives to the instance.
        size: The memory of one instance in bytes, if the configuration declares none.

    Returns:
        None if the instance has no GPU, or if the configuration has only instances on CPUs.

    Raises:
        OutOfMemoryError: Too little is free.
    """
    folder = Path(__file__).parents[2] / "gpu"  # this file is in backends/<name>/ of the instance
    if not folder.exists():
        return None
    config = (Path(args["model_repository"]) / "config.pbtxt").read_text()
    if set(_KIND.findall(config)) == {"CPU"}:
        return None
    declared = json.loads(args["model_config"]).get("parameters", {}).get(_DECLARED, {}).get("string_value")
    # By default Triton runs one instance on a GPU, and two without one.
    second = "instance_group" not in config and not args["model_instance_name"].endswith("_0")
    wanted = size if declared is None else int(declared) << 20
    return ModelledGpu(folder).take(0 if second else wanted)


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _seconds(path: Path) -> float:
    content = path.read_bytes()
    return float(_SECONDS.unpack(content)[0]) if len(content) == _SECONDS.size else 0.0
