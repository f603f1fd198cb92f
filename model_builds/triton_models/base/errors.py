"""Errors a person can act on: the value given, its place, the accepted values, the reason and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


def one_line(text: str) -> str:
    """Return text that is a line, such as a path, with its line breaks escaped."""
    return text.replace("\n", "\\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake, with everything needed to fix it.

    Attributes:
        what: The mistake, with the given value quoted.
        where: The file, field, argument or object that holds the value.
        why: The consequence of the mistake, in one sentence. May be empty.
        rule: The stable id of the check that found the problem. Empty if no check found it.
        source: The link or document that supports the check. Empty if no check found the problem.
    """

    what: str
    where: str
    fix: str
    why: str = ""
    rule: str = ""
    source: str = ""

    def __str__(self) -> str:
        head = f"{self.what} [{self.rule}]" if self.rule else self.what
        lines = [head, f"  where:    {one_line(self.where)}"]
        if self.why:
            lines.append(f"  why:      {self.why}")
        lines.append(f"  fix:      {self.fix}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        """Return the problem as JSON-ready data, with one key per attribute."""
        return asdict(self)


class FleetError(Exception):
    """One or more mistakes by the user, reported together; never a bug in this library.

    The command line prints it without a traceback and exits with 1.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        if not self.problems:
            msg = "a FleetError needs at least one problem"
            raise ValueError(msg)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def of(cls, *, what: str, where: str, fix: str, why: str = "", rule: str = "") -> FleetError:
        """Return an error with a single problem."""
        return cls([Problem(what=what, where=where, fix=fix, why=why, rule=rule)])


def raise_if_any(problems: Iterable[Problem]) -> None:
    """Raise one FleetError with all the problems; do nothing if there are none."""
    found = tuple(problems)
    if found:
        raise FleetError(found)
