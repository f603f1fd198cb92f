"""Tables of text that fit a width: columns are shortened first, then left out."""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")

LOG_WIDTH = 100
"""The width where there is no terminal, in characters. COLUMNS overrides it."""

_GAP = "  "
_LEAST_TEXT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column.

    Attributes:
        short: A shorter text of each row, for a table that does not fit; empty if there is none.
        right: True to align numbers to the right.
        rank: 0 for a column that always stays. The one with the highest rank is the first to be shortened,
            and the first to be left out.
    """

    title: str
    cells: Sequence[str]
    short: Sequence[str] = ()
    right: bool = False
    rank: int = 0

    @property
    def width(self) -> int:
        """The width of the longest text, in characters."""
        return max(map(len, (self.title, *self.cells)))

    def line(self, text: str) -> str:
        """Return a text of this column with its padding."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def numbers(rows: Sequence[T], cells: Mapping[str, Callable[[T], str]]) -> list[Column]:
    """Return a column of numbers for each title, with what its function says of each row."""
    return [
        Column(title=title, cells=[cell(each) for each in rows], right=True) for title, cell in cells.items()
    ]


def in_units(seconds: float) -> str:
    """Return a time in milliseconds, or in seconds from 1 s; "-" for NaN."""
    if math.isnan(seconds):
        return "-"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def output_width() -> int:
    """Return the width of standard output: COLUMNS, that of the terminal, or `LOG_WIDTH`."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or LOG_WIDTH
    except (OSError, ValueError):  # no terminal, or no file
        return LOG_WIDTH


def table(columns: Sequence[Column], *, width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, with the titles first.

    The text of the last column wraps at words if nothing is left to shorten or to leave out. Nothing else is
    ever cut or wrapped.
    """
    room = output_width() if width is None else width
    fitting = _fitted(columns, room)
    *others, last = fitting
    indent = sum(each.width + len(_GAP) for each in others)
    wraps = not last.right and room - indent >= _LEAST_TEXT
    for row in zip(*((each.title, *each.cells) for each in fitting), strict=True):
        start = "".join(each.line(text) + _GAP for each, text in zip(others, row, strict=False))
        if not wraps or len(row[-1]) <= room - indent:
            yield (start + (last.line(row[-1]) if last.right else row[-1])).rstrip()
            continue
        lines = textwrap.wrap(row[-1], room - indent, break_long_words=False, break_on_hyphens=False)
        yield start + lines[0]
        yield from (" " * indent + line for line in lines[1:])


def _fitted(columns: Sequence[Column], room: int) -> list[Column]:
    """Return the columns that fit: shortened if necessary, then without some."""
    shown = dict(enumerate(columns))
    order = sorted(shown, key=lambda number: -columns[number].rank)
    for number in order:
        if _width(shown.values()) > room and columns[number].short:
            shown[number] = replace(columns[number], cells=columns[number].short)
    for number in order:
        if _width(shown.values()) > room and columns[number].rank:
            del shown[number]
    return list(shown.values())


def _width(columns: Collection[Column]) -> int:
    return sum(each.width for each in columns) + len(_GAP) * (len(columns) - 1)
