"""Every problem of one construct found together, and reported with the construct's path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from aws_cdk import Annotations, Token
from constructs import IConstruct

from triton_models.base.errors import FleetError, Problem, raise_if_any

__all__ = ["FleetError", "Problem", "ProblemCollector", "warn"]

Fact = TypeVar("Fact")


class ProblemCollector:
    """Collects problems while checking goes on, then raises them all at once.

    Looking a fact up may fail; the checks that need it are then skipped, and every other check still runs.
    """

    def __init__(self, place: str) -> None:
        """Start without a problem.

        Args:
            place: The place of the arguments, such as a construct's path.
        """
        self._place = place
        self._problems: list[Problem] = []

    @classmethod
    def of(cls, construct: IConstruct) -> ProblemCollector:
        """A collector of problems with the arguments of a construct."""
        return cls(construct.node.path)

    def where(self, argument: str) -> str:
        """The place of an argument, as a problem names it."""
        return f"{argument} of {self._place}"

    def look_up(self, argument: str, value: str, table: Callable[[str], Fact]) -> Fact | None:
        """The fact that an argument names, or None after collecting why there is none.

        Args:
            argument: The argument's name.
            value: The given value.
            table: Finds the fact, and raises FleetError without one.
        """
        if Token.is_unresolved(value):
            self._problems.append(
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
            self.add(replace(problem, where=self.where(argument)) for problem in error.problems)
            return None

    def add(self, *found: Iterable[Problem]) -> None:
        """Collect what checks find, each problem once."""
        for problems in found:
            self._problems.extend(each for each in problems if each not in self._problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that were collected."""
        return tuple(self._problems)

    def raise_if_any(self) -> None:
        """Raise every problem that was collected.

        Raises:
            FleetError: At least one problem was collected.
        """
        raise_if_any(self._problems)


def warn(construct: IConstruct, problems: Iterable[Problem]) -> None:
    """Show problems as warnings of a construct, under the ids of their checks."""
    for problem in problems:
        sentences = (problem.what, problem.why, problem.fix)
        text = " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)
        Annotations.of(construct).add_warning_v2(problem.rule, text)
