"""The output of a command: progress while it works, and a result at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol


class Outcome(Protocol):
    """The result of a command. It is printed as data or as lines, never both."""

    @property
    def exit_code(self) -> int:
        """0 on success, otherwise 1."""

    def as_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document, for --json."""

    def lines(self) -> Iterable[str]:
        """The result as lines for standard output."""


def progress(message: str) -> None:
    """Report progress to a person: on standard error, and only if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
