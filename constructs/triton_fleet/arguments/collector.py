"""Every problem of one construct found together, and reported with the construct's path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from aws_cdk import Annotations, Token
from constructs import IConstruct

from triton_fleet.arguments.checks import not_literal
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError

Fact = TypeVar("Fact")


def look_up(report: Report, argument: str, value: str, table: Callable[[str], Fact]) -> Fact | None:
    """Return the fact that an argument names, or None after reporting why there is none."""
    place = report.at(argument)
    if Token.is_unresolved(value):
        not_literal(place, argument)
        return None
    try:
        return table(value)
    except FleetError as error:
        place.add(replace(problem, where=place.where) for problem in error.problems)
        return None


def warn(construct: IConstruct, report: Report) -> None:
    """Show problems as warnings of a construct, under the ids of their checks."""
    for problem in report.problems:
        sentences = (problem.what, problem.why, problem.fix)
        text = " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)
        Annotations.of(construct).add_warning_v2(problem.rule, text)
