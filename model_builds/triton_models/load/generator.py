"""The open loop: every request is sent at its moment, whatever became of those before it."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from triton_models.base.encoding import Array
from triton_models.load.schedule import Schedule
from triton_models.load.targets import Askable

ANSWERED, WAITING = 0, -1

_SECOND = 1.0
_START_S = 0.2
_P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A run in progress: its second, how many requests were sent, are on their way and have failed.

    Attributes:
        recent: The times of the answers of the last second, in seconds.
    """

    second: float
    sent: int
    waiting: int
    failed: int
    recent: Sequence[float]

    def line(self) -> str:
        """Return it as a line."""
        times = sorted(self.recent)
        found = ""
        if times:
            middle, high = times[len(times) // 2] * 1e3, times[int(len(times) * _P99)] * 1e3
            found = f", p50 {middle:,.0f} ms, p99 {high:,.0f} ms"
        sent = f"{self.second:,.0f} s: {self.sent:,} sent, {self.waiting:,} on their way"
        return f"{sent}, {self.failed:,} failed{found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What happened: one entry for each request of the schedule.

    Attributes:
        sent: When it was sent, in seconds from the beginning.
        done: When it was answered or failed; NaN if it was not before the end of the run.
        kind: 0 if it was answered, or the index of its error in `kinds`, from 1.
        cpu: The share of a core that the generator used in each second.
        stopped: True if the run was ended early.
    """

    schedule: Schedule
    sent: Array
    done: Array
    kind: Array
    kinds: tuple[str, ...]
    cpu: Array
    stopped: bool = False


async def run(schedule: Schedule, target: Askable, *, say: Callable[[Live], object] = lambda _: None) -> Run:
    """Send all requests, and wait for their answers."""
    _more_descriptors()
    return await _Loop(schedule, target).run(say)


class _Loop:
    """The requests of a run, on their way."""

    def __init__(self, schedule: Schedule, target: Askable) -> None:
        count = len(schedule.at)
        self._schedule, self._target = schedule, target
        self._moments, self._models = schedule.at.tolist(), schedule.model.tolist()
        self._sent, self._done = np.full(count, np.nan), np.full(count, np.nan)
        self._kind, self._kinds = np.full(count, WAITING, np.int32), {"": ANSWERED}
        self._tasks: set[asyncio.Task[None]] = set()
        self._recent: list[float] = []
        self._at = self._failed = 0
        self._began = 0.0

    async def run(self, say: Callable[[Live], object]) -> Run:
        """Send all requests; if this is cancelled, the rest is not sent."""
        self._began = time.perf_counter() + _START_S
        watching, stopped = asyncio.ensure_future(_watched(lambda: say(self._live()))), False
        try:
            await self._send()
        except asyncio.CancelledError:
            stopped = True
            for task in self._tasks:
                task.cancel()
        watching.cancel()
        return Run(
            schedule=self._schedule,
            sent=self._sent,
            done=self._done,
            kind=self._kind,
            kinds=tuple(each for each in self._kinds if each),
            cpu=np.array(await watching),
            stopped=stopped,
        )

    async def _send(self) -> None:
        for index, moment in enumerate(self._moments):
            wait = self._began + moment - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self._sent[index] = time.perf_counter() - self._began
            self._at = index + 1
            task = asyncio.ensure_future(self._one(index))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _one(self, index: int) -> None:
        found = await self._target.ask(self._models[index])
        self._done[index] = now = time.perf_counter() - self._began
        self._kind[index] = self._kinds.setdefault(found, len(self._kinds))
        if found:
            self._failed += 1
        else:
            self._recent.append(now - self._moments[index])

    def _live(self) -> Live:
        last, self._recent = self._recent, []
        return Live(
            second=time.perf_counter() - self._began,
            sent=self._at,
            waiting=len(self._tasks),
            failed=self._failed,
            recent=last,
        )


async def _watched(say: Callable[[], object]) -> list[float]:
    """Note the share of a core that this process uses in each second, until it is cancelled."""
    shares: list[float] = []
    try:
        while True:
            start, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(_SECOND)
            elapsed = time.perf_counter() - start
            shares.append((time.process_time() - used) / elapsed)
            say()
    except asyncio.CancelledError:
        return shares


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the collector of garbage from stopping the loop."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _more_descriptors() -> None:
    if os.name != "posix":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
