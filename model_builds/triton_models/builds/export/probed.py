"""Which numbers a network takes in each cell of an input: its source refuses places beyond a table.

A graph says which tables and constants it has, and little about the columns that they belong to.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from triton_models.base.encoding import Tensors
from triton_models.builds.export.answers import ModuleRun

_MOST_CELLS = 64  # with places in tables that are searched one by one
_MOST_VARIANTS = 32
_STEP = 64
"""By how much the search grows, until the source refuses a number, because some are sizes."""

_OPERATIONS = 1e11  # of all questions
_LEAST_OPERATIONS, _MOST_OPERATIONS = 2.5e7, 1e10  # of each
_FEWEST_CALLS = 32
_FREE_BYTES = 1 << 18  # in addition to twice as many as those of a usual row


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the cells of a row take; a dimension of open size is one cell.

    Attributes:
        free: The cells that take any number.
        low: The smallest number of the others.
        high: The largest number of the others.
        known: Numbers that the graph or an example knows, and that the cells take, along the first dimension.
        size: The open dimension, and its size, that was the largest number when the source was asked.
    """

    free: np.ndarray
    low: np.ndarray
    high: np.ndarray
    known: np.ndarray = field(default_factory=lambda: np.zeros(0))
    size: tuple[str, int] | None = None

    def of_sizes(self, sizes: Mapping[str, int]) -> Bounds:
        """Return what the cells take next to other open sizes."""
        if self.size is None:
            return self
        key, size = self.size
        return replace(self, high=np.where(self.high == size, sizes[key], self.high))


@dataclass(slots=True)
class Questions:
    """Asks a source whether it takes requests, as often as a row's operations allow; never by the clock.

    What takes far more memory or operators than the first request counts as refused: numbers may be sizes, or
    say how often a loop runs.
    """

    source: Callable[[Tensors], Any]
    left: int
    most: float = math.inf

    @classmethod
    def of(cls, source: Callable[[Tensors], Any], operations: float) -> Questions:
        """Return questions to a source whose rows cost so many operations; none if these are too many."""
        calls = max(_FEWEST_CALLS, int(_OPERATIONS / (_LEAST_OPERATIONS + operations)))
        return cls(source, calls if operations <= _MOST_OPERATIONS else 0)

    def takes(self, request: Tensors) -> bool:
        """Return whether the source takes a request.

        Raises:
            TooManyQuestionsError: No more questions are allowed.
        """
        if self.left <= 0:
            raise TooManyQuestionsError
        self.left -= 1
        with contextlib.suppress(Exception):  # whatever a framework raises
            if isinstance(self.source, ModuleRun):
                taken = self.source.answer_within(request, self.most)
                self.most = min(self.most, 2 * taken + _FREE_BYTES)
            else:
                self.source(request)
            return True
        return False


class TooManyQuestionsError(Exception):
    """A source has been asked as often as its cost allows."""


def with_numbers(request: Tensors, numbers: Mapping[str, Sequence[int]]) -> Iterator[Tensors]:
    """Yield a request, and the same with one number in all cells of an input: 1, 0, or one that it knows."""
    yield request
    whole = {name: value for name, value in request.items() if value.dtype.kind in "iuf"}
    tried = {name: (1, 0, *numbers.get(name, ())) for name in whole}
    for place in range(min(max(map(len, tried.values()), default=0), _MOST_VARIANTS)):
        chosen = {name: of[place % len(of)] for name, of in tried.items()}
        yield {**request, **{name: np.full_like(whole[name], number) for name, number in chosen.items()}}


@dataclass(slots=True, kw_only=True)
class Probe:
    """Searches the numbers that the cells of one input take.

    Attributes:
        usual: A row that the source takes, with one value for each cell.
        takes: Returns whether the source takes a row of such cells.
        ends: The smallest and the largest number to try.
        table: The entries of the smallest table, by the graph; 1 without one.
        numbers: Numbers that the graph or an example knows, the most important first.
    """

    usual: np.ndarray
    takes: Callable[[np.ndarray], bool]
    ends: tuple[float, float]
    table: int = 1
    numbers: Sequence[float] = ()
    calls: int = 0
    _found: list[tuple[float, float]] = field(default_factory=list)

    def bounds(self) -> Bounds:
        """Return what each cell takes."""
        free = np.zeros(self.usual.size, bool)
        free[self._free(range(self.usual.size))] = True
        low, high = np.zeros(self.usual.size), np.full(self.usual.size, self.table - 1.0)
        tables = np.flatnonzero(~free).tolist()
        for cells in [tables] if len(tables) > _MOST_CELLS else [[cell] for cell in tables]:
            low[cells], high[cells] = self._ends_of(cells)
        known, shape = self._known(tables, low, high), self.usual.shape
        return Bounds(
            free=free.reshape(shape),
            low=low.reshape(shape),
            high=high.reshape(shape),
            known=known.reshape(-1, *shape),
        )

    def _known(self, tables: Sequence[int], low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the numbers that each cell takes, in a row for each; shorter columns repeat theirs."""
        beyond = [cell for cell in tables if any(not low[cell] <= one <= high[cell] for one in self.numbers)]
        numbers = np.array(self.numbers, float)
        alone = len(beyond) <= _MOST_CELLS
        taken = {cell: (low[cell] <= numbers) & (numbers <= high[cell]) for cell in tables}
        for place, number in enumerate(numbers.tolist() if beyond else ()):
            together = self._accepts(beyond, number)
            for cell in beyond:
                taken[cell][place] |= together or (alone and self._accepts([cell], number))
        columns = [numbers[taken[cell]] if cell in taken else numbers for cell in range(self.usual.size)]
        filled = np.empty((max(map(len, columns), default=0), len(columns)))
        for cell, column in enumerate(columns):
            filled[:, cell] = np.resize(column if column.size else self.usual.ravel()[cell], len(filled))
        return filled

    def _accepts(self, cells: Sequence[int], number: float) -> bool:
        self.calls += 1
        values = self.usual.copy()
        values.ravel()[list(cells)] = number
        return self.takes(values)

    def _free(self, cells: Sequence[int]) -> list[int]:
        """Return the cells that take both ends: halves of those that do not together are asked again."""
        if not cells:
            return []
        if all(self._reach(cells, 0.0, end)[0] == end for end in self.ends):
            return list(cells)
        middle = len(cells) // 2
        return self._free(cells[:middle]) + self._free(cells[middle:]) if middle else []

    def _reach(self, cells: Sequence[int], start: float, end: float) -> tuple[float, float]:
        """Return the last number that cells take in growing steps, and the first that they refuse."""
        taken, step = start, 1.0
        while taken != end:
            step *= _STEP
            number = start + step if start < end else start - step
            number = min(number, end) if start < end else max(number, end)
            if not self._accepts(cells, number):
                return taken, number
            taken = number
        return taken, end

    def _ends_of(self, cells: Sequence[int]) -> tuple[float, float]:
        """Return the smallest and the largest number that cells take together."""
        usual = float(self.usual.ravel()[cells[0]])
        for low, high in [*self._found, *[(0.0, self.table - 1.0)] * (self.table > 1)]:
            if low <= usual <= high and self._is_exact(cells, low, high):
                return low, high
        if len(cells) > 1 and not self._accepts(cells, usual):
            return 0.0, self.table - 1.0
        low, high = (self._last(cells, usual, end) for end in self.ends)
        if usual >= 0 and low == -high - 1:  # counted from the end of a table
            low = 0.0
        self._found.append((low, high))
        return low, high

    def _is_exact(self, cells: Sequence[int], low: float, high: float) -> bool:
        below = low - 1 if low else -high - 2
        inside = self._accepts(cells, high) and self._accepts(cells, low)
        beyond = (one for one in (high + 1, below) if self.ends[0] <= one <= self.ends[1])
        return inside and not any(self._accepts(cells, one) for one in beyond)

    def _last(self, cells: Sequence[int], usual: float, end: float) -> float:
        """Return the last number towards an end that cells take."""
        next_one = usual + np.sign(end - usual)
        if usual == end or not self._accepts(cells, next_one):
            return usual
        taken, refused = self._reach(cells, usual, end)
        if taken == refused:
            return end
        while abs(refused - taken) > 1:
            middle = float(np.trunc((taken + refused) / 2))
            middle = taken + np.sign(refused - taken) if middle == taken else middle
            taken, refused = (middle, refused) if self._accepts(cells, middle) else (taken, middle)
        return taken
