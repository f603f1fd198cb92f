"""Problems that are known only when the app is synthesised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jsii
from constructs import IConstruct, IValidation

from triton_models.base.checks import Report
from triton_models.base.errors import FleetError, Problem

_KEPT = "_late_problems"
"""The attribute under which a construct keeps its late problems."""

_DEFERRED: ContextVar[list[LateProblems] | None] = ContextVar("_DEFERRED", default=None)


@jsii.implements(IValidation)
class LateProblems:
    """Fails the synthesis on problems that are found then.

    The CDK takes strings from a validation, and reports them in an error of its own; `defer` and
    `late_problems` have the problems themselves.
    `late_problems` have the problems themselves. What finds them is called once, and what it raises is
    reported as well.
    """

    def __init__(self, construct: IConstruct, find: Callable[[Report], None]) -> None:
        self._find, self._place = find, construct.node.path
        self._problems: tuple[Problem, ...] | None = None
        vars(construct).setdefault(_KEPT, []).append(self)
        construct.node.add_validation(self)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems."""
        if self._problems is None:
            report = Report(self._place)
            try:
                self._find(report)
            except FleetError as error:
                report.add(error.problems)
            self._problems = report.problems
        return self._problems

    def validate(self) -> list[str]:
        """Return the problems as the CDK takes them; none yet where they are deferred."""
        waiting = _DEFERRED.get()
        if waiting is not None:
            waiting.append(self)
            return []
        return [str(problem) for problem in self.problems]


@contextmanager
def defer() -> Iterator[list[LateProblems]]:
    """Collect late problems during synthesis instead of raising them."""
    waiting: list[LateProblems] = []
    token = _DEFERRED.set(waiting)
    try:
        yield waiting
    finally:
        _DEFERRED.reset(token)


def late_problems(root: IConstruct) -> Iterator[Problem]:
    """Return the late problems of an app, synthesised or not."""
    for construct in root.node.find_all():
        for late in vars(construct).get(_KEPT, ()):
            yield from late.problems
