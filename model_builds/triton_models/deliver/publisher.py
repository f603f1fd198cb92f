"""Publication of finished models, in batches, while the next model is built.

A publication replaces the manifest, which is megabytes for thousands of models, and only one runs at a time.
Models that become ready meanwhile wait and share the next publication. A model that took minutes is therefore
published at once, and hundreds of faster ones share a few publications. There is no batch size or
delay to configure. If the machine dies, only the models finished during the current publication are lost;
`fleet diff` lists them again.

If a batch is refused, its halves are published separately, so one bad artifact does not block the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_models.base.errors import FleetError, Problem
from triton_models.deliver.steps import Made
from triton_models.repository.publish import Published
from triton_models.repository.s3 import CONTENDED

# The maximum number of waiting models; beyond that, building waits, because disk space is limited.
_MOST_BYTES = 4 << 30


# The source of the problem when other publishers won every race. Splitting the batch would not help.
_ATTEMPTS = 3


class Publish(Protocol):
    """A function that publishes all given artifacts or none."""

    def __call__(self, made: Sequence[Made]) -> Published:
        """Publish the artifacts.

        Raises:
            FleetError: None of them was published.
        """


Report = Callable[[Made, Published | None, tuple[Problem, ...]], None]
"""A callback that receives each model with its publication, or with the problems that prevented it."""


class Publisher:
    """A thread that publishes models."""

    def __init__(self, publish: Publish, report: Report) -> None:
        self._publish, self._report = publish, report
        self._waiting: list[Made] = []
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="publisher")
        self._thread.start()

    def add(self, made: Made) -> None:
        """Queue a model for publication; return when there is room for another one."""
        with self._changed:
            self._waiting.append(made)
            self._changed.notify_all()
            self._changed.wait_for(lambda: sum(each.artifact.size for each in self._waiting) <= _MOST_BYTES)

    def close(self) -> None:
        """Wait until every queued model is published or refused."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                batch, self._waiting = self._waiting, []
                self._changed.notify_all()
            if not batch:
                return
            self._together(batch)

    def _together(self, batch: Sequence[Made]) -> None:
        problems = self._problems(batch)
        if not problems:
            return
        if len(batch) == 1:
            self._report(batch[0], None, problems)
            return
        middle = len(batch) // 2
        self._together(batch[:middle])
        self._together(batch[middle:])

    def _problems(self, batch: Sequence[Made]) -> tuple[Problem, ...]:
        """Publish artifacts together and report each; otherwise return the problems."""
        problems: tuple[Problem, ...] = ()
        for _ in range(_ATTEMPTS):
            try:
                published = self._publish(batch)
            except FleetError as error:
                problems = error.problems
            except Exception as error:  # noqa: BLE001  reported, and must not end the thread
                return (_unexpected(error),)
            else:
                for made in batch:
                    self._report(made, published, ())
                return ()
            if any(problem.rule != CONTENDED.id for problem in problems):
                break
        return problems


def _unexpected(error: Exception) -> Problem:
    return Problem(
        what=f"publishing failed: {type(error).__name__}: {error}",
        where="the publication",
        why="the model's name still points to its previous artifact",
        fix="report this error with the log; `fleet publish` may show more",
        rule="unexpected",
    )
