"""Mistakes that are known only when the app is synthesised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jsii
from constructs import IConstruct, IValidation

from triton_models.base.errors import FleetError, Problem

_PUT_OFF: ContextVar[list[LateFindings] | None] = ContextVar("_PUT_OFF", default=None)


@jsii.implements(IValidation)
class LateFindings:
    """Fails the synthesis on what is found then. A construct that has some keeps them as `late_findings`.

    The CDK takes strings from a validation, and reports them in an error of its own; `put_off` and
    `late_problems` have the mistakes themselves.

    Args:
        construct: Whose mistakes they are.
        find: Finds them, or waits until they are found; called once. What it raises is what is found.
    """

    def __init__(self, construct: IConstruct, find: Callable[[], Iterable[Problem]]) -> None:
        self._find = find
        self._problems: tuple[Problem, ...] | None = None
        construct.node.add_validation(self)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is found."""
        if self._problems is None:
            try:
                self._problems = tuple(self._find())
            except FleetError as error:
                self._problems = error.problems
        return self._problems

    def validate(self) -> list[str]:
        """What is found, as the CDK takes it; nothing yet where it is put off."""
        waiting = _PUT_OFF.get()
        if waiting is not None:
            waiting.append(self)
            return []
        return [str(problem) for problem in self.problems]


@contextmanager
def put_off() -> Iterator[list[LateFindings]]:
    """Let a synthesis go on while its late findings are being found, to be looked at when it is over.

    Yields:
        The late findings, in the end.
    """
    waiting: list[LateFindings] = []
    token = _PUT_OFF.set(waiting)
    try:
        yield waiting
    finally:
        _PUT_OFF.reset(token)


def late_problems(root: IConstruct) -> Iterator[Problem]:
    """What the late findings of an app are, whether it was synthesised or not."""
    for construct in root.node.find_all():
        late = getattr(construct, "late_findings", None)
        if isinstance(late, LateFindings):
            yield from late.problems
