"""Values of arguments that many constructs have: times, texts and names, and which of them may be tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from aws_cdk import Duration, Token

from triton_fleet.arguments.tokens import known
from triton_fleet.rules.number_range import number_range
from triton_models.base.errors import Problem

RULE = "literal-needed"

Unit = Literal["seconds", "minutes"]


def time_problem(
    given: Duration | None, *, least: int, most: int, name: str, where: str, unit: Unit = "seconds"
) -> Problem | None:
    """The problem with a time; one that is known only at deployment is let pass.

    Args:
        given: The time; None without one.
        least: The shortest, in this unit.
        most: The longest.
        name: The argument's name.
        where: What the problem is reported for.
        unit: What the service counts in.
    """
    if given is None:
        return None
    try:
        counted = given.to_seconds() if unit == "seconds" else given.to_minutes()
    except RuntimeError:  # the CDK's own: a part of a unit is left over, or a token of another unit
        return not_whole(given, name=name, where=where, unit=unit)
    return number_range(known(counted), least=least, most=most, name=name, where=where, unit=unit)


def not_whole(given: Duration, *, name: str, where: str, unit: Unit = "seconds") -> Problem | None:
    """The problem with a time that is not a whole number of units; arguments as of `time_problem`."""
    try:
        given.to_seconds() if unit == "seconds" else given.to_minutes()
    except RuntimeError:
        return Problem(
            what=f"{name} is not a whole number of {unit}",
            where=where,
            expected=f"a Duration in whole {unit}",
            why=f"the service counts in {unit}, and a token of another unit cannot be converted",
            fix=f"write it with Duration.{unit}(...)",
            rule="whole-time",
        )
    return None


def literal_texts(given: Sequence[str], *, name: str, where: str) -> Iterator[Problem]:
    """The problems with a list that is known only at deployment: its length is needed now.

    Args:
        given: The list; each of its texts may be a token.
        name: The argument's name.
        where: What the problem is reported for.
    """
    if is_list_token(given):
        expected = "a list written down; each text in it may be a token"
        yield literal_needed(name, where=where, expected=expected)


def is_list_token(given: Sequence[str]) -> bool:
    """Whether a list stands for one that is known only at deployment."""
    return bool(given) and Token.is_unresolved(list(given)) and not any(map(Token.is_unresolved, given))


def literal_needed(name: str, *, where: str, expected: str) -> Problem:
    """The problem with a value that is known only at deployment where it is needed now."""
    return Problem(
        what=f"{name} is known only when the stack is deployed",
        where=where,
        expected=expected,
        why="what is synthesised depends on it",
        fix="give the value itself, from context instead of a CloudFormation parameter",
        rule=RULE,
    )
