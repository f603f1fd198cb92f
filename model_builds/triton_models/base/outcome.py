"""The output of a verb of the command line: progress while it works, a result at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol


class Outcome(Protocol):
    """The result of a verb. It is shown as data or as lines, never both."""

    @property
    def exit_code(self) -> int:
        """0 if what was asked for is true or done, else 1."""

    def as_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document, for --json."""

    def lines(self) -> Iterable[str]:
        """The result as lines for standard output."""


def progress(message: str) -> None:
    """Say what is being done, to a person who is watching: on standard error, and only on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
