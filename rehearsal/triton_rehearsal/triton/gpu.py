"""A modelled GPU: the memory that the models of one instance share, and the time for which it is busy.

Part of the memory is the server's pool, from which forests take theirs.

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
# The folder of a target model, with the platform's name for it, and the models of its ensemble below it.
_FOLDER = re.compile(r"/opt/ml/models/([^/]+)/")
_DECLARED = "gpu_memory_mb"  # GPU_MEMORY of triton_models.artifact.pbtxt
_SECONDS = struct.Struct("d")
_SERVER_POOL = 64 << 20  # SERVER_POOL_MIB of triton_models.facts.gpu_memory


class OutOfMemoryError(Exception):
    """The GPU has less free memory than wanted. All sizes are in bytes."""

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
    """The GPU of an instance. With several, each model is on each of them, so one stands for all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shares, self._of_pool, self._firsts = (
            folder / name for name in ("shares", "of-pool", "firsts")
        )
        self._ended = folder / "ended"
        about = json.loads((folder / "gpu.json").read_text())
        self.total: int = about["total"]
        self.auto_completes: bool = about["auto_completes"]  # configurations, and so opens plans a first time
        self._pool: int = about["pool"]
        self._reserved: int = about["reserved"]
        self._backends: Mapping[str, Mapping[str, int]] = about["backends"]

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        total: int,
        reserved: int = 0,
        pool: int = _SERVER_POOL,
        backends: Mapping[str, Mapping[str, int]] | None = None,
        auto_completes: bool = False,
    ) -> ModelledGpu:
        """Create the folder of a GPU. All sizes are in bytes; `reserved` is the server's part, with the pool.

        A backend has the bytes that its `first` model brings, and those of each instance besides its weights:
        `model`, and `row` for each row of its largest batch.
        """
        for name in ("shares", "of-pool", "firsts"):
            (folder / name).mkdir(parents=True)
        about = {"total": total, "reserved": reserved, "pool": pool, "backends": dict(backends or {})}
        (folder / "gpu.json").write_text(json.dumps({**about, "auto_completes": auto_completes}))
        (folder / "ended").write_text("0.0")
        return cls(folder)

    def take(
        self, wanted: int, *, backend: str = "", rows: int = 0, measured: bool = True, model: str = ""
    ) -> Share:
        """Take memory until this process gives it back or ends; raise OutOfMemoryError if too little is free.

        Unless it is measured, an instance needs more than what is wanted, its weights. The rows are those of
        its largest batch.
        """
        terms = self._backends.get(backend, {})
        if not measured:
            wanted += terms.get("model", 0) + rows * terms.get("row", 0)
        first = self._firsts / backend
        with self._locked():
            more = terms.get("first", 0) if backend and not first.exists() else 0
            self._require(wanted + more, self._used(), self.total)
            if more:
                first.write_text(str(more))
            return self._share(self._shares, wanted, model)

    def take_of_pool(self, wanted: int, *, model: str = "") -> Share:
        """Take memory of the pool until this process gives it back or ends; see `take`."""
        with self._locked():
            self._require(wanted, self._taken(self._of_pool), self._pool)
            return self._share(self._of_pool, wanted, model)

    @staticmethod
    def _require(wanted: int, used: int, total: int) -> None:
        if wanted > total - used:
            raise OutOfMemoryError(wanted=wanted, free=total - used, total=total)

    def used(self) -> int:
        """Return the memory that the server and running models have taken, in bytes."""
        with self._locked():
            return self._used()

    def by_model(self) -> Mapping[str, int]:
        """Return the memory that each target model has taken, in bytes, by the platform's name for it."""
        taken: dict[str, int] = {}
        with self._locked():
            for path in (*self._shares.iterdir(), *self._of_pool.iterdir()):
                model = path.read_bytes()[_SECONDS.size :].decode()
                if model and _is_locked(path):
                    taken[model] = taken.get(model, 0) + _size(path)
        return taken

    def busy_s(self) -> float:
        """Return the seconds for which models have run, added up over all of them."""
        with self._locked():
            folders = (self._shares, self._of_pool)
            for folder in folders:
                self._taken(folder)  # moves the time of ended processes
            running = sum(_seconds(path) for folder in folders for path in folder.iterdir())
            return float(self._ended.read_text()) + running

    def _used(self) -> int:
        firsts = sum(int(path.read_text()) for path in self._firsts.iterdir())
        return self._reserved + firsts + self._taken(self._shares)

    @staticmethod
    def _share(folder: Path, wanted: int, model: str) -> Share:
        file = (folder / f"{wanted}-{secrets.token_hex(8)}").open("xb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(_SECONDS.pack(0.0) + model.encode())
        return Share(file)

    def _taken(self, folder: Path) -> int:
        """Return the taken memory, after the removal of what ended processes had taken."""
        used = 0
        for path in folder.iterdir():
            if _is_locked(path):
                used += _size(path)
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
    """Measures the usage of an instance's GPUs, in percent: up to 100 for each GPU."""

    def __init__(self, gpu: ModelledGpu, *, count: int) -> None:
        self._gpu, self._count = gpu, count
        self._last = (time.monotonic(), gpu.busy_s())

    def busy_percent(self) -> float:
        """Return the time for which the GPUs were busy since the last call.

        On AWS, models that run at the same time on a GPU count once. Here their times are added up.
        """
        now, busy = time.monotonic(), self._gpu.busy_s()
        (before, busy_before), self._last = self._last, (now, busy)
        share = (busy - busy_before) / max(now - before, 1e-3)
        return 100 * min(max(share, 0.0), float(self._count))

    def memory_percent(self) -> float:
        """Return the memory that the server and models have taken."""
        return 100 * self._count * self._gpu.used() / self._gpu.total


def gpu_of(args: Mapping[str, str]) -> ModelledGpu | None:
    """Return the GPU of this process's instance; None without one, or if the model is only on CPUs.

    Called in a model's process, with the arguments that the server gives to the instance.
    """
    folder = Path(__file__).parents[2] / "gpu"  # this file is in backends/<name>/ of the instance
    config = Path(args["model_repository"]) / "config.pbtxt"
    if not folder.exists() or set(_KIND.findall(config.read_text())) == {"CPU"}:
        return None
    return ModelledGpu(folder)


def take_for(args: Mapping[str, str], size: int, *, of_pool: bool = False) -> Share | None:
    """Take memory of the GPU of this process's instance, if it has one; see `gpu_of`.

    The size is that of one instance's weights in bytes, if the configuration declares no memory.
    """
    gpu = gpu_of(args)
    if gpu is None:
        return None
    config = json.loads(args["model_config"])
    declared = config.get("parameters", {}).get(_DECLARED, {}).get("string_value")
    wanted = size if declared is None else int(declared) << 20
    # By default Triton runs one instance on a GPU, and two without one.
    written = (Path(args["model_repository"]) / "config.pbtxt").read_text()
    if "instance_group" not in written and not args["model_instance_name"].endswith("_0"):
        return gpu.take(0)
    found = _FOLDER.search(args["model_repository"])
    owner = found[1] if found else ""
    if of_pool:
        return gpu.take_of_pool(wanted, model=owner)
    return gpu.take(
        wanted,
        backend=Path(__file__).parent.name,
        rows=max(1, config.get("max_batch_size", 0)),
        measured=declared is not None,
        model=owner,
    )


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _size(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _seconds(path: Path) -> float:
    content = path.read_bytes()[: _SECONDS.size]
    return float(_SECONDS.unpack(content)[0]) if len(content) == _SECONDS.size else 0.0
