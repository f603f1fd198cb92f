"""Every mistake in one construct found together, and reported with the construct's path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from aws_cdk import Token
from constructs import IConstruct

from triton_models.base.errors import FleetError, Problem, raise_if_any

__all__ = ["Findings", "FleetError", "Problem"]

Fact = TypeVar("Fact")


class Findings:
    """Collects mistakes while checking goes on, then raises them all at once.

    Looking a fact up may fail; the checks that need it are then skipped, and every other check still runs.
    """

    def __init__(self, place: str) -> None:
        """Start without a finding.

        Args:
            place: What holds the arguments, such as a construct's path.
        """
        self._place = place
        self._problems: list[Problem] = []

    @classmethod
    def of(cls, construct: IConstruct) -> Findings:
        """Findings about the arguments of a construct."""
        return cls(construct.node.path)

    def where(self, argument: str) -> str:
        """How a problem with this argument says where it is."""
        return f"{argument} of {self._place}"

    def look_up(self, argument: str, value: str, table: Callable[[str], Fact]) -> Fact | None:
        """The fact that an argument names, or None after noting why.

        Args:
            argument: The argument's name.
            value: What was given for it.
            table: Finds the fact, and raises FleetError without one.
        """
        if Token.is_unresolved(value):
            self.add(
                Problem(
                    what=f"{argument} is known only when the stack is deployed",
                    where=self.where(argument),
                    expected="a literal string",
                    why="image, host and scaling targets follow from it when the app is synthesised",
                    fix="give the value itself, from context instead of a CloudFormation parameter",
                )
            )
            return None
        try:
            return table(value)
        except FleetError as error:
            self.add(*(replace(problem, where=self.where(argument)) for problem in error.problems))
            return None

    def add(self, *problems: Problem | None) -> None:
        """Note problems; None, a check that found nothing, is let pass."""
        self._problems.extend(problem for problem in problems if problem is not None)

    def extend(self, problems: Iterable[Problem | None]) -> None:
        """Note the problems of several checks."""
        self.add(*problems)

    def raise_if_any(self) -> None:
        """Raise everything found so far.

        Raises:
            FleetError: At least one problem was noted.
        """
        raise_if_any(self._problems)
