"""A thread that publishes models while the next ones are built."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from triton_models.base.errors import FleetError, Problem
from triton_models.deliver.steps import Made
from triton_models.deliver.worker import UNEXPECTED
from triton_models.repository.publish import Published
from triton_models.repository.s3 import CONTENDED

MOST_BYTES = 4 << 30
"""The maximum size of waiting artifacts; beyond that, building waits, because disk space is limited."""

# Publications of a batch that other publishers won every race against. Splitting it would not help.
_ATTEMPTS = 3


class Publisher:
    """A thread that publishes models in batches, while the next ones are built.

    A publication replaces the manifest, which is megabytes for thousands of models, and only one runs at a
    time. Models that become ready meanwhile wait and share the next one. A model that took minutes is
    therefore published at once, and hundreds of faster ones share a few publications. There is no batch size
    or delay to configure. If the machine dies, only the models finished during the current publication are
    lost; `fleet diff` lists them again.

    If a batch is refused, its halves are published separately, so one bad artifact does not block the others.

    Args:
        publish: Publishes all given models or none.
        report: Receives each model with its publication, or with the problems that prevented it.
    """

    def __init__(
        self,
        publish: Callable[[Sequence[Made]], Published],
        report: Callable[[Made, Published | None, tuple[Problem, ...]], None],
    ) -> None:
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
            self._changed.wait_for(lambda: sum(each.artifact.size for each in self._waiting) <= MOST_BYTES)

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
        middle = len(batch) // 2
        if problems and not middle:
            self._report(batch[0], None, problems)
        elif problems:
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
                unexpected = UNEXPECTED.problem(
                    what=f"publishing failed: {type(error).__name__}: {error}",
                    where="the publication",
                    why="the model's name still points to its previous artifact",
                    fix="report this error with the log; `fleet publish` may show more",
                )
                return (unexpected,)
            else:
                for made in batch:
                    self._report(made, published, ())
                return ()
            if any(problem.rule != CONTENDED.id for problem in problems):
                break
        return problems
