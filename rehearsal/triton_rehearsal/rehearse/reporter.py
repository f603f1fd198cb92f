"""The progress of a rehearsal on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

_SPINNER_WIDTH = 4


class Reporter:
    """Reports each running step and its outcome on standard error.

    Without a terminal it reports nothing: the result is on standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._shows = self._console.is_terminal

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Report a step. Yields a function for lines of detail, which are shown next to the title.

        The last line that starts with "=> " is the outcome.
        """
        start = time.perf_counter()
        result = ""
        status = self._console.status(title) if self._shows else None

        def detail(line: str) -> None:
            nonlocal result
            if line.startswith("=> "):
                result = line.removeprefix("=> ")
            elif status is not None and line.strip():
                room = max(0, self._console.width - len(title) - _SPINNER_WIDTH)
                status.update(Text.assemble(title, (f"  {line.strip()}"[:room], "dim")))

        shown: AbstractContextManager[Any] = status if status is not None else nullcontext()
        with shown:
            yield detail
        if self._shows:
            seconds = time.perf_counter() - start
            self._console.print(
                Text.assemble(("ok", "green"), f" {seconds:5.1f} s  {title}  ", (result, "dim")),
                no_wrap=True,
                overflow="ellipsis",
            )
