"""Counts a process's calls, and writes what they add up to, each minute and each hour, besides the calls."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from triton_models.repository.objects import Store
from triton_models.repository.s3 import LOST_RACE, error_code
from triton_models.signals.counts import MOST_MODELS, OTHERS, Artifact, Counts, added
from triton_models.signals.report import HOUR_S, MINUTE_S, UNRESOLVED, Period, Report

MOST_PENDING = 60
"""The most reports that wait for S3. Beyond, the oldest minute is dropped, which its hour has too. If all
are hours, the oldest is dropped, and its requests are reported as lost."""

_CLOSING_S = 20.0  # two attempts of a report, and a little more


@dataclass(slots=True)
class _Written:
    """What was written of an endpoint."""

    number: int = 0
    active: bool = False
    hour: int = 0
    of_hour: dict[Artifact, Counts] = field(default_factory=dict)


class Recorder:
    """Counts calls by endpoint and artifact; safe to use from many threads, and after a fork.

    A thread writes a minute that is over. What S3 does not take is written with the next one.
    """

    def __init__(self, store: Store, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now
        self._reopening = threading.Lock()
        self._begin()
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _begin_again(itself))
        atexit.register(_close, itself)

    def _begin(self) -> None:
        self._lock, self._writing, self._wake = threading.Lock(), threading.Lock(), threading.Condition()
        self._process = secrets.token_hex(8)
        self._minute = 0
        self._open: dict[str, dict[Artifact, Counts]] = {}
        self._over: deque[tuple[int, dict[str, dict[Artifact, Counts]]]] = deque()
        self._written: dict[str, _Written] = {}
        self._pending: deque[tuple[str, Report]] = deque()
        self._lost = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def record(
        self, *, endpoint: str, artifact: Artifact, seconds: float, error: str, waited_s: float | None
    ) -> None:
        """Count a call that ended, in the minute in which it does.

        Args:
            endpoint: The endpoint; "" if it is not known.
            artifact: The model and its artifact.
            seconds: The time of the call.
            error: The rule of its error; "" if it was answered.
            waited_s: The time until its model was loaded; None if it was.
        """
        minute = int(self._now()) // MINUTE_S * MINUTE_S
        if self._closed:
            with self._reopening:
                if self._closed:
                    self._begin()
        with self._lock:
            counts = self._counts(minute, endpoint, artifact)
            counts.count(seconds=seconds, error=error, waited_s=waited_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fleet-signals", daemon=True)
                self._thread.start()

    def compared(self, *, endpoint: str, artifact: Artifact, same: bool) -> None:
        """Count a comparison of the answer to a call that was recorded just now."""
        with self._lock:
            counts = self._counts(int(self._now()) // MINUTE_S * MINUTE_S, endpoint, artifact)
            counts.compared += 1
            counts.differing += not same

    def _counts(self, minute: int, endpoint: str, artifact: Artifact) -> Counts:
        """Return the counts of an artifact in the open minute. The caller has the lock."""
        if minute > self._minute:
            self._turn(minute)
        counts = self._open.setdefault(endpoint or UNRESOLVED, {})
        if artifact not in counts and len(counts) >= MOST_MODELS:
            artifact = (OTHERS, OTHERS)
        return counts.setdefault(artifact, Counts())

    def close(self) -> None:
        """Write what was counted until now, and the hour. Later calls count as those of another process."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(_CLOSING_S)

    def write(self) -> None:
        """Write all minutes that are over."""
        minute = int(self._now()) // MINUTE_S * MINUTE_S
        with self._writing:
            with self._lock:
                if minute > self._minute:
                    self._turn(minute)
                over, self._over = self._over, deque()
            for start, by_endpoint in over:
                self._report(start, by_endpoint)
            self._send()

    def _turn(self, minute: int) -> None:
        """Begin another minute. The caller has the lock."""
        if self._minute:
            self._over.append((self._minute, self._open))
        self._minute, self._open = minute, {}

    def _run(self) -> None:
        while not self._closed:
            with self._wake:
                if not self._closed:  # `close` may have come since
                    self._wake.wait(MINUTE_S - self._now() % MINUTE_S + 0.1)
            self.write()
        with self._lock:
            self._turn(self._minute + MINUTE_S)
        self.write()
        for endpoint, written in self._written.items():
            self._report_hour(endpoint, written)
        self._send()

    def _report(self, start: int, by_endpoint: dict[str, dict[Artifact, Counts]]) -> None:
        """Add a minute to those that wait for S3, and an empty one after the last calls to an endpoint."""
        for endpoint in {*self._written, *by_endpoint}:
            written = self._written.setdefault(endpoint, _Written(hour=start // HOUR_S * HOUR_S))
            if start // HOUR_S * HOUR_S > written.hour:
                self._report_hour(endpoint, written)
                written.hour, written.number = start // HOUR_S * HOUR_S, 0
            counts = by_endpoint.get(endpoint, {})
            if not counts and not written.active:
                continue
            period = Period(start=start, seconds=MINUTE_S, process=self._process)
            report = Report(
                period=period, counts=counts, number=written.number, idle=not counts or self._closed
            )
            self._pending.append((endpoint, report))
            written.number, written.active = written.number + 1, bool(counts)
            written.of_hour = added([written.of_hour, counts])

    def _report_hour(self, endpoint: str, written: _Written) -> None:
        if written.of_hour:
            period = Period(start=written.hour, seconds=HOUR_S, process=self._process)
            self._pending.append((endpoint, Report(period=period, counts=written.of_hour, idle=True)))
            written.of_hour = {}

    def _send(self) -> None:
        """Write the reports that wait, the oldest first, until S3 does not take one."""
        while len(self._pending) > MOST_PENDING:
            minutes = (n for n, (_, each) in enumerate(self._pending) if each.period.seconds == MINUTE_S)
            oldest = next(minutes, 0)
            _, dropped = self._pending[oldest]
            del self._pending[oldest]
            if dropped.period.seconds == HOUR_S:
                self._lost += sum(each.requests for each in dropped.counts.values())
        while self._pending:
            endpoint, report = self._pending[0]
            if not self._put(f"{endpoint}/{report.period.name}", report):
                return
            self._pending.popleft()

    def _put(self, name: str, report: Report) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._store.s3.put_object(
                **self._store.at(name),
                Body=replace(report, lost=self._lost).encoded(),
                ContentType="application/json",
                ContentEncoding="gzip",
                IfNoneMatch="*",
            )
        except ClientError as error:
            return error_code(error) in LOST_RACE  # it was written, and the answer was lost
        except (BotoCoreError, OSError):
            return False
        return True


def _begin_again(recorder: weakref.ref[Recorder]) -> None:
    if (found := recorder()) is not None:
        found._reopening = threading.Lock()
        found._begin()


def _close(recorder: weakref.ref[Recorder]) -> None:
    if (found := recorder()) is not None:
        found.close()
