"""The results of a current run: collected, printed as they arrive, and written to a document."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterable
from datetime import datetime, timezone

from triton_models.base.errors import FleetError, Problem
from triton_models.base.outcome import printable
from triton_models.deliver.places import Place
from triton_models.deliver.results import ModelResult, Results
from triton_models.repository.s3 import publisher

# Seconds between two writes of the document during a run; every write contains all results.
_EVERY_S = 2.0
_EVERY_S_IN_S3 = 30.0


class Record:
    """The results of a run. The initial result of every model is that the run did not reach it.

    The document is therefore correct at any time, even after a power failure.
    """

    def __init__(self, models: Iterable[str], place: Place | None) -> None:
        self._place = place
        self._results = {
            model: ModelResult(model=model, status="failed", step="wait", problems=(_not_reached(model),))
            for model in models
        }
        self._given: set[str] = set()
        self._lock = threading.Lock()
        self._written_at = time.monotonic()
        self.write(finished=False)

    def give(self, result: ModelResult) -> None:
        """Record a result and print it to standard error; only the first result of a model counts."""
        with self._lock:
            if result.model in self._given:
                return
            self._given.add(result.model)
            self._results[result.model] = result
        say(result.line())

    def refuse(self, problems: tuple[Problem, ...]) -> None:
        """Record the same problems for all models, and write the document.

        Raises:
            FleetError: The document cannot be written.
        """
        with self._lock:
            for model in self._results:
                self._results[model] = ModelResult(
                    model=model, status="failed", step="wait", problems=problems
                )
        self.write(finished=True)

    def without(self) -> list[str]:
        """Return the models without a result so far."""
        with self._lock:
            return [model for model in self._results if model not in self._given]

    def results(self, *, finished: bool) -> Results:
        """Return the current results."""
        with self._lock:
            return Results(
                results=tuple(self._results.values()),
                by=publisher(),
                at=datetime.now(timezone.utc),
                finished=finished,
            )

    def write(self, *, finished: bool) -> None:
        """Write the document.

        Raises:
            FleetError: It cannot be written.
        """
        if self._place is not None:
            self._place.write(self.results(finished=finished).to_json())
            self._written_at = time.monotonic()

    def write_if_due(self) -> None:
        """Write the document if the interval has passed; ignore errors, which the last write reports."""
        every = _EVERY_S_IN_S3 if self._place is not None and self._place.in_s3 else _EVERY_S
        if self._place is None or time.monotonic() - self._written_at < every:
            return
        try:
            self.write(finished=False)
        except FleetError as error:
            self._written_at = time.monotonic()
            say(f"warning: {error}")


def say(line: str) -> None:
    """Write a line to standard error; ignore a closed pipe."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def _not_reached(model: str) -> Problem:
    return Problem(
        what="the run ended before it reached this model",
        where=f"model {model!r}",
        why="the model was not built",
        fix="find the cause of the interruption, then deliver this model again",
        rule="not-reached",
    )
