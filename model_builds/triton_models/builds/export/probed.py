"""Which numbers a network takes in each cell of an input: its source refuses places beyond a table.

A graph says which tables it has, and little about the columns that index them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

_MOST_CELLS = 64  # with places in tables that are searched one by one
_MOST_CALLS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the cells of a row take; a dimension of open size is one cell.

    Attributes:
        free: The cells that take any number.
        low: The smallest number of the others.
        high: The largest number of the others.
    """

    free: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(slots=True, kw_only=True)
class Probe:
    """Asks a source, which refuses numbers by an exception.

    Attributes:
        usual: A row that the source takes, with one value for each cell.
        takes: Returns whether the source takes a row of such cells.
        ends: The smallest and the largest number to try.
        table: The entries of the smallest table, by the graph.
    """

    usual: np.ndarray
    takes: Callable[[np.ndarray], bool]
    ends: tuple[float, float]
    table: int
    calls: int = 0
    _found: list[tuple[float, float]] = field(default_factory=list)

    def bounds(self) -> Bounds | None:
        """Return what each cell takes; None if the source refuses the usual row, or takes too many calls."""
        cells = range(self.usual.size)
        try:
            if not self.takes(self.usual):
                return None
            free = np.zeros(self.usual.size, bool)
            free[self._free(cells)] = True
            low, high = np.zeros(self.usual.size), np.full(self.usual.size, self.table - 1.0)
            tables = np.flatnonzero(~free).tolist()
            if len(tables) <= _MOST_CELLS:
                for cell in tables:
                    low[cell], high[cell] = self._ends_of(cell)
            elif not (self._accepts(tables, 0) and self._accepts(tables, self.table - 1)):
                return None
        except _TooManyCallsError:
            return None
        shape = self.usual.shape
        return Bounds(free=free.reshape(shape), low=low.reshape(shape), high=high.reshape(shape))

    def _accepts(self, cells: Sequence[int], number: float) -> bool:
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise _TooManyCallsError
        values = self.usual.copy()
        values.ravel()[list(cells)] = number
        return self.takes(values)

    def _free(self, cells: Sequence[int]) -> list[int]:
        """Return the cells that take both ends: halves of those that do not together are asked again."""
        if not cells:
            return []
        if all(self._accepts(cells, end) for end in self.ends):
            return list(cells)
        middle = len(cells) // 2
        return self._free(cells[:middle]) + self._free(cells[middle:]) if middle else []

    def _ends_of(self, cell: int) -> tuple[float, float]:
        usual = float(self.usual.ravel()[cell])
        for low, high in [*self._found, (0.0, self.table - 1.0)]:
            if low <= usual <= high and self._is_exact(cell, low, high):
                return low, high
        high = self._last(cell, usual, self.ends[1])
        low = 0.0 if usual >= 0 and self._accepts([cell], 0) else self._last(cell, usual, self.ends[0])
        self._found.append((low, high))
        return low, high

    def _is_exact(self, cell: int, low: float, high: float) -> bool:
        inside = self._accepts([cell], high) and self._accepts([cell], low)
        return inside and not self._accepts([cell], high + 1) and not (low and self._accepts([cell], low - 1))

    def _last(self, cell: int, taken: float, end: float) -> float:
        """Return the last number towards an end that a cell takes."""
        if self._accepts([cell], end):
            return end
        refused = end
        while abs(refused - taken) > 1:
            middle = float(np.trunc((taken + refused) / 2))
            middle = taken + np.sign(refused - taken) if middle == taken else middle
            taken, refused = (middle, refused) if self._accepts([cell], middle) else (taken, middle)
        return taken


class _TooManyCallsError(Exception):
    pass
