"""The progress of a rehearsal: each step with its time, on a terminal and in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_EVERY_S = 15.0


@dataclass(slots=True, kw_only=True)
class Step:
    """A running step."""

    title: str
    on_phase: Callable[[str], None]  # called with the name of each part that begins
    note: Callable[[str], None]  # prints a line that stays
    phase: str = ""  # the current part, such as "minilm: build"
    detail: str = ""  # the latest line of output
    outcome: str = ""
    failed: bool = False

    def say(self, line: str) -> None:
        """Show a line of output until the next one."""
        self.detail = " ".join(line.split()) or self.detail

    def enter(self, phase: str, *, is_minor: bool = False) -> None:
        """Begin a part of the step; a minor one has no line of its own in a log."""
        self.phase, self.detail = phase, ""
        if not is_minor:
            self.on_phase(phase)

    def end(self, outcome: str, *, failed: bool = False) -> None:
        """Set the outcome."""
        self.outcome, self.failed = outcome, failed

    @property
    def latest(self) -> str:
        """The current part and the latest line of output."""
        return "  ".join(each for each in (self.phase, self.detail) if each)


class Reporter:
    """Reports steps on standard error.

    A terminal shows the running step with its time. A log gets a line for each step and each part of it, and
    one more whenever an interval has passed.
    """

    def __init__(self, console: Console | None = None, *, every_s: float = _EVERY_S) -> None:
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._every_s = every_s
        self._began = time.monotonic()
        self._newest = ""
        # Standard error may have colors without being a terminal, but then it cannot take lines back.
        self._is_live = self._console.file.isatty() and not self._console.is_dumb_terminal

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(Text(text), soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Report a step, which fails with the exception that ends it."""
        began = time.monotonic()
        on_phase: Callable[[str], None] = (lambda _: None) if self._is_live else self._log
        step = Step(title=title, on_phase=on_phase, note=self.say)
        try:
            with self._console.status(_Running(step, began)) if self._is_live else self._logged(step):
                yield step
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            step.end("interrupted" if interrupted else str(error).partition("\n")[0], failed=True)
            raise
        finally:
            self._print_end(step, time.monotonic() - began)

    def _print_end(self, step: Step, seconds: float) -> None:
        word = ("FAILED", "bold red") if step.failed else ("ok", "green")
        line = Text.assemble(word, f" {seconds:5.1f} s  {step.title}")
        if step.outcome:
            line.append(f"  {step.outcome}", style="dim")
        if self._is_live:
            self._console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(line, soft_wrap=True)

    @contextmanager
    def _logged(self, step: Step) -> Iterator[None]:
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(self._every_s):
                # An event that is repeated would look like another one.
                if step.latest in ("", self._newest):
                    self._say_at(step.title)
                else:
                    self._log(step.latest)

        self._log(step.title)
        thread = threading.Thread(target=repeat, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _log(self, text: str) -> None:
        self._newest = text
        self._say_at(text)

    def _say_at(self, text: str) -> None:
        self.say(f"{_clock(time.monotonic() - self._began)}  {text}")


class _Running:
    """A line about a running step, which is drawn anew several times per second."""

    def __init__(self, step: Step, began: float) -> None:
        self._step = step
        self._began = began

    def __rich__(self) -> Text:
        clock = _clock(time.monotonic() - self._began)
        parts = (f"{clock}  {self._step.title}", (f"  {self._step.latest}", "dim"))
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
