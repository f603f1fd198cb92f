"""The problems in an error, as the user sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import pytest

from triton_models.base.checks import Report
from triton_models.base.errors import FleetError, Problem

P = ParamSpec("P")


def problems_of(check: Callable[..., None], *given: object, **named: object) -> tuple[Problem, ...]:
    """Return what a check reports of these arguments."""
    report = Report("here")
    check(report, *given, **named)
    return report.problems


@contextmanager
def reported(*rules: str) -> Iterator[list[Problem]]:
    """Expect an error whose problems have these rules, in order. Yields a list that gets the problems."""
    problems: list[Problem] = []
    with pytest.raises(FleetError) as raised:
        yield problems
    problems += raised.value.problems
    assert [problem.rule for problem in problems] == list(rules)


def refused(act: Callable[P, object], *given: P.args, **named: P.kwargs) -> Problem:
    """Return the only problem of the error that a call ends with."""
    with pytest.raises(FleetError) as raised:
        act(*given, **named)
    (problem,) = raised.value.problems
    return problem
