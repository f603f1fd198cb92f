"""Checks: each has a stable id and a source, and adds both to the problems it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triton_models.base.errors import FleetError, Problem, raise_if_any

FROM_ARGUMENTS = "follows from the arguments alone"
"""The source of a check that does not depend on a fact about a service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A single check.

    Attributes:
        id: A stable id, printed with every problem so that users can search for it.
        source: A link or document that supports the check, with the date it was read.
    """

    id: str
    source: str

    def problem(self, *, what: str, where: str, fix: str, why: str = "") -> Problem:
        """Return a problem found by this check."""
        return Problem(what=what, where=where, fix=fix, why=why, rule=self.id, source=self.source)

    def error(self, *, what: str, where: str, fix: str, why: str = "") -> FleetError:
        """Return an error with a single problem found by this check."""
        return FleetError([self.problem(what=what, where=where, fix=fix, why=why)])


class Report:
    """Collects the problems of one place, each once.

    Example:
        >>> report = Report("scaling of Fleet/Endpoint")
        >>> report(CAPACITY, "the minimum capacity is 0", fix="set the minimum to 1 or more")
        >>> report.raise_if_any()
    """

    def __init__(self, where: str) -> None:
        """Start without a problem at a place, such as a file or a construct's path."""
        self.where = where
        self._found: dict[Problem, None] = {}

    def __call__(self, check: Check, what: str, *, fix: str, why: str = "") -> None:
        """Add a problem: what is wrong, with the given value, the fix, and why if that is not obvious."""
        self.add([check.problem(what=what, where=self.where, fix=fix, why=why)])

    def at(self, part: str) -> Report:
        """Return a report of a part of this place, such as an argument. It adds to this one."""
        report = Report(f"{part} of {self.where}")
        report._found = self._found
        return report

    def add(self, *found: Iterable[Problem]) -> None:
        """Add problems that have their place already."""
        for problems in found:
            self._found.update(dict.fromkeys(problems))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems, in the order in which they were found."""
        return tuple(self._found)

    def raise_if_any(self) -> None:
        """Raise every problem that was found."""
        raise_if_any(self._found)


UNREADABLE = Check(id="unreadable", source=FROM_ARGUMENTS)
"""The check of files and folders that cannot be read."""
