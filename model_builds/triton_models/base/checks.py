"""Checks: each has a stable id and a source, and gives both to the problems that it finds."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.base.errors import FleetError, Problem

FROM_ARGUMENTS = "follows from the arguments alone"
"""The source of a check that rests on no fact about a service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is checked.

    Attributes:
        id: Stable: it is printed with every problem and may be searched for.
        source: The link or the document that says so, with the day on which it was read.
    """

    id: str
    source: str

    def problem(self, *, what: str, where: str, expected: str, fix: str, why: str = "") -> Problem:
        """A problem that this check found."""
        return Problem(
            what=what, where=where, expected=expected, fix=fix, why=why, rule=self.id, source=self.source
        )

    def error(self, *, what: str, where: str, expected: str, fix: str, why: str = "") -> FleetError:
        """An error with a single problem that this check found."""
        return FleetError([self.problem(what=what, where=where, expected=expected, fix=fix, why=why)])
