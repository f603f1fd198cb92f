"""Checks: each has a stable id and a source, and adds both to the problems it finds."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.base.errors import FleetError, Problem

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

    def problem(self, *, what: str, where: str, expected: str, fix: str, why: str = "") -> Problem:
        """Return a problem found by this check."""
        return Problem(
            what=what, where=where, expected=expected, fix=fix, why=why, rule=self.id, source=self.source
        )

    def error(self, *, what: str, where: str, expected: str, fix: str, why: str = "") -> FleetError:
        """Return an error with a single problem found by this check."""
        return FleetError([self.problem(what=what, where=where, expected=expected, fix=fix, why=why)])
