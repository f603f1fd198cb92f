"""Publishing what is ready while the next model is made: all that has become ready since, in one go.

A publication replaces the manifest, which for thousands of models is megabytes, and one replaces it at a
time. So what is made while a publication is under way waits, and goes with the next one: a model that took
minutes is published by itself at once, and hundreds that take a second each share a few publications. Nothing
waits for a number or a time to be reached. What a machine that dies can lose is what was made during the
publication under way; `fleet diff` names it again.

If artifacts are refused together, they are published in halves, so that what is wrong with one keeps back
no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_models.base.errors import FleetError, Problem
from triton_models.deliver.steps import Made
from triton_models.repository.publish import Published
from triton_models.repository.s3 import CONTENDED

# What may wait to be published. Making waits when it is more: a disk holds so much and not more.
_MOST_BYTES = 4 << 30


# Of publications that others were faster than, every time. Halves would only be more publications.
_ATTEMPTS = 3


class Publish(Protocol):
    """Publishes artifacts, all or none."""

    def __call__(self, made: Sequence[Made]) -> Published:
        """Publish them.

        Raises:
            FleetError: Why none of them is published.
        """


Told = Callable[[Made, Published | None, tuple[Problem, ...]], None]
"""Called for each model with its publication, or with what kept it from being published."""


class Publisher:
    """A thread that publishes.

    Args:
        publish: Publishes artifacts.
        told: Called in that thread for each model.
    """

    def __init__(self, publish: Publish, told: Told) -> None:
        self._publish, self._told = publish, told
        self._waiting: list[Made] = []
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="publisher")
        self._thread.start()

    def add(self, made: Made) -> None:
        """Publish a model as soon as may be; returns when there is room for another one."""
        with self._changed:
            self._waiting.append(made)
            self._changed.notify_all()
            self._changed.wait_for(lambda: sum(each.artifact.size for each in self._waiting) <= _MOST_BYTES)

    def close(self) -> None:
        """Return when everything is published or refused."""
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
            self._told(batch[0], None, problems)
            return
        middle = len(batch) // 2
        self._together(batch[:middle])
        self._together(batch[middle:])

    def _problems(self, batch: Sequence[Made]) -> tuple[Problem, ...]:
        """Publish artifacts together, and tell; or why none of them is published."""
        problems: tuple[Problem, ...] = ()
        for _ in range(_ATTEMPTS):
            try:
                published = self._publish(batch)
            except FleetError as error:
                problems = error.problems
            except Exception as error:  # noqa: BLE001  it must not end the thread, and is told
                return (_unexpected(error),)
            else:
                for made in batch:
                    self._told(made, published, ())
                return ()
            if any(problem.rule != CONTENDED for problem in problems):
                break
        return problems


def _unexpected(error: Exception) -> Problem:
    return Problem(
        what=f"publishing failed: {type(error).__name__}: {error}",
        where="the publication",
        expected="an answer of S3 that this Triton Fleet knows",
        why="the model's name stands for what it stood for before",
        fix="report it, with the log; `fleet publish` may say more",
        rule="unexpected",
    )
