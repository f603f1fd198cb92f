"""One instance of an endpoint: a Triton server, its usage, and the requests for its only model."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_rehearsal.hosting.budget import Budget
from triton_rehearsal.hosting.container_log import ContainerLog
from triton_rehearsal.hosting.metrics import Ended, Event, Started, Usage
from triton_rehearsal.triton.contract import (
    INVOCATION_LIMIT_S,
    INVOCATIONS,
    Answer,
    Contract,
    NoAnswerError,
    SingleModelContract,
)
from triton_rehearsal.triton.gpu import GpuMeter
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.server import START_LIMIT_S, TritonServer

if TYPE_CHECKING:
    from triton_rehearsal.triton.invocations import Invocations

_log = logging.getLogger(__name__)

_NO_LIMITS = Budget()
# Seconds in which a server that closed its connections has ended and cleared up, on a busy machine as well.
_END_LIMIT_S = 5.0
# The fields of /proc/<pid>/stat after the command's name, counted from 0: see proc(5).
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _RESIDENT_PAGES = 3, 11, 12, 21


class EndingError(Exception):
    """The instance is closing. The request was not sent to its server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoked:
    """An answered invocation. Times in seconds."""

    answer: Answer  # status 0 without an answer
    cache_hit: bool | None  # the model was loaded when the request arrived; None with one model
    loading_wait_s: float | None = None  # for the model; None if the request did not wait
    model_s: float | None = None  # the container's time; None if it was not invoked


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """An instance's machine and container."""

    id: str = ""  # as in the names of log streams
    environment: Mapping[str, str]  # of the deployed container
    directory: Path  # which the instance creates and owns; removed on close
    report: Callable[[Event], None]
    machine: Machine | None = None
    follow_log: Callable[[Path], ContainerLog] | None = None
    budget: Budget = _NO_LIMITS
    ready_limit_s: float = START_LIMIT_S


class Instance(ABC):
    """A Triton server that answers requests.

    `fill` puts the only model into a folder before the container starts; None if it serves many models.
    """

    _contract: Contract
    _counts_models = False  # in LoadedModelCount, which multi-model endpoints alone publish

    def __init__(self, setup: Setup, *, fill: Callable[[Path], None] | None = None) -> None:
        self.id = setup.id
        self._report = setup.report
        self._change = threading.Condition()
        self._ending = self._closed = False
        began = time.monotonic()
        self.server = TritonServer(
            setup.environment,
            setup.directory,
            machine=setup.machine,
            gpu_memory=setup.budget.gpu,
            whole_gpu=setup.budget.whole_gpu,
            fill=fill,
            ready_limit_s=setup.ready_limit_s,
        )
        self._log = setup.follow_log(self.server.log) if setup.follow_log else None
        budget = setup.budget
        self._meter = _Meter(
            self.server.pid, self.server.directory / "opt", memory=budget.memory, disk=budget.disk
        )
        self._gpu = None if self.server.gpu is None else GpuMeter(self.server.gpu, count=budget.gpu_count)
        self._report(Started(seconds=time.monotonic() - began))

    @property
    @abstractmethod
    def loaded(self) -> list[str]:
        """The models that can be invoked without a load, least recently used first."""

    def gpu_memory(self) -> Mapping[str, int]:
        """Return the memory of each GPU that each model has taken, in bytes; empty if it is not known."""
        return {}

    @property
    @abstractmethod
    def model_count(self) -> int:
        """The number of models that it has or loads."""

    @abstractmethod
    def requests_of(self, target: str) -> int | None:
        """Return the number of requests in progress for a model; None if the instance does not have it."""

    def claim(self, target: str) -> Any:
        """Count a request from now on, and return what `invoke` needs to answer it, or None.

        EndingError: the instance is closing.
        """
        del target

    @abstractmethod
    def invoke(self, target: str, *, body: bytes, headers: Mapping[str, str], claimed: Any = None) -> Invoked:
        """Answer a request for a model; wait for all that is needed. EndingError: the instance is closing."""

    @abstractmethod
    async def invoke_now(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Invoked | None:
        """Answer a request for a model that is loaded, on the event loop; None if it takes more: `invoke`."""

    @property
    @abstractmethod
    def _requests(self) -> int:
        """The number of requests in progress."""

    @cached_property
    def _invocations(self) -> Invocations:
        # Imported by a gateway alone: `fleet compare` works without its packages.
        from triton_rehearsal.triton.invocations import Invocations

        return Invocations(self.server.socket)

    def responds(self) -> bool:
        """Ask the container as the platform does every few seconds; return True if it answers the ping."""
        return self._contract.ping()

    def _notice_end(self, error: NoAnswerError) -> Answer:
        """Return what stands for a lost answer, once a server that ends has ended and gets no request."""
        self.server.wait_for_end(_END_LIMIT_S)
        return Answer(status=0, body=str(error).encode())

    def usage(self) -> Usage:
        """Return the instance's current usage."""
        return Usage(
            loaded_models=len(self.loaded) if self._counts_models else None,
            cpu_percent=self._meter.cpu_percent(),
            memory_percent=self._meter.memory_percent(),
            disk_percent=self._meter.disk_percent(),
            gpu_percent=self._gpu.busy_percent() if self._gpu else None,
            gpu_memory_percent=self._gpu.memory_percent() if self._gpu else None,
        )

    def drain(self) -> None:
        """Take no more requests, and close after those that are in progress, or after their time limit."""
        with self._change:
            self._ending = True
            if self.server.alive:
                self._change.wait_for(lambda: not self._requests, INVOCATION_LIMIT_S)
        self.close()

    def fail(self, reason: str) -> None:
        """Close an instance that does not work, and log the end of its server's log."""
        log = self.server.log_tail()
        _log.warning("instance %s is replaced: %s. The end of its log:\n%s", self.id, reason, log)
        with self._change:
            self._ending = True
        self._end(reason)

    def close(self) -> None:
        """Kill the server and remove every copy of a model."""
        self._end("")

    def _end(self, reason: str) -> None:
        with self._change:
            first, self._closed = not self._closed, True
        if first:
            self._report(Ended(reason=reason))
        self.server.close()
        self._contract.close()
        if self._log is not None:
            self._log.close()


class SingleModelInstance(Instance):
    """A Triton server with one model, which is there, and loaded, before the first request."""

    _contract: SingleModelContract

    def __init__(self, setup: Setup, *, fill: Callable[[Path], None]) -> None:
        self._users = 0
        super().__init__(setup, fill=fill)
        self._contract = SingleModelContract(self.server.socket)

    @property
    def loaded(self) -> list[str]:
        """The model's name in the server."""
        return [] if self.server.model is None else [self.server.model]

    @property
    def model_count(self) -> int:
        """One."""
        return 1

    def requests_of(self, target: str) -> int:
        """Return the number of requests in progress."""
        del target
        return self._users

    @property
    def _requests(self) -> int:
        return self._users

    def invoke(self, target: str, *, body: bytes, headers: Mapping[str, str], claimed: Any = None) -> Invoked:
        """Answer a request; see `Instance`."""
        del claimed
        if not self._began():
            raise EndingError(target)
        started = time.monotonic()
        try:
            answer = self._contract.invoke(body=body, headers=headers)
        except NoAnswerError as error:
            answer = Answer(status=0, body=str(error).encode())
        finally:
            self._ended()
        return Invoked(answer=answer, cache_hit=None, model_s=time.monotonic() - started)

    async def invoke_now(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Invoked | None:
        """Answer a request on the event loop; see `Instance`."""
        del target
        if not self._began():
            return None
        try:
            answer, seconds = await self._invocations.invoke(INVOCATIONS, body=body, headers=headers)
        finally:
            self._ended()
        return Invoked(answer=answer, cache_hit=None, model_s=seconds)

    def _began(self) -> bool:
        with self._change:
            self._users += not self._ending
            return not self._ending

    def _ended(self) -> None:
        with self._change:
            self._users -= 1
            self._change.notify_all()


class _Meter:
    """Measures the processes of a session and their folder, on this machine by default."""

    def __init__(self, session: int, directory: Path, *, memory: int | None, disk: int | None) -> None:
        self._session, self._directory, self._disk = str(session), directory, disk
        self._memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._last = (time.monotonic(), self._totals()[0])

    def cpu_percent(self) -> float:
        """Return the processor usage since the last call; 100 per busy core."""
        now, ticks = time.monotonic(), self._totals()[0]
        (before, ticks_before), self._last = self._last, (now, ticks)
        seconds = (ticks - ticks_before) / os.sysconf("SC_CLK_TCK")
        return max(0.0, 100 * seconds / max(now - before, 1e-3))

    def memory_percent(self) -> float:
        return 100 * self._totals()[1] * os.sysconf("SC_PAGE_SIZE") / self._memory

    def disk_percent(self) -> float:
        used = 0
        for folder, _, files in os.walk(self._directory):
            for name in files:
                with suppress(FileNotFoundError):
                    used += (Path(folder) / name).lstat().st_size
        return 100 * used / (self._disk or shutil.disk_usage(self._directory).total)

    def _totals(self) -> tuple[int, int]:
        ticks = pages = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                fields = path.read_text().rpartition(")")[2].split()
                if fields[_SESSION] == self._session:
                    ticks += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
                    pages += int(fields[_RESIDENT_PAGES])
        return ticks, pages
