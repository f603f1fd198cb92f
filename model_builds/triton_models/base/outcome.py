"""The output of a command: progress while it works, and a result at the end."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

from triton_models.base.errors import Problem

# C0 without tab and line feed, C1, what reverses the direction of writing, and what UTF-8 has no bytes for.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class JsonReady:
    """A dataclass with a JSON-ready form; as the result of a command, a success."""

    __slots__ = ()
    exit_code: ClassVar[int] = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data."""
        names = (each.name for each in fields(self))  # type: ignore[arg-type]
        return {name: _plain(getattr(self, name)) for name in names}


class Outcome(Protocol):
    """The result of a command. It is printed as data or as lines, never both."""

    @property
    def exit_code(self) -> int:
        """0 on success, otherwise 1."""

    def as_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document, for --json."""

    def lines(self) -> Iterable[str]:
        """The result as lines for standard output."""


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def printable(text: str) -> str:
    """Return a line for a terminal: control characters, which could move its cursor, are escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def show_problems(problems: Iterable[Problem]) -> None:
    """Write problems to standard error. What they quote has no control characters."""
    sys.stderr.writelines(f"error: {printable(str(problem))}\n" for problem in problems)


def progress(message: str) -> None:
    """Report progress to a person: on standard error, and only if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{printable(message)}\n")
        sys.stderr.flush()


def live(message: str) -> None:
    """Report progress as `progress` does, over the last message; an empty one removes it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(message)}")
        sys.stderr.flush()
