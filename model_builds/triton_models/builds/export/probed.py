"""Which numbers a network takes in each cell of an input: its source refuses places beyond a table.

A graph says which tables and constants it has, and little about the columns that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from triton_models.base.encoding import Tensors

_MOST_CELLS = 64  # with places in tables that are searched one by one
_MOST_CALLS = 4000
_MOST_VARIANTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the cells of a row take; a dimension of open size is one cell.

    Attributes:
        free: The cells that take any number.
        low: The smallest number of the others.
        high: The largest number of the others.
        known: Numbers that the graph or an example knows, and that the cells take, along the first dimension.
    """

    free: np.ndarray
    low: np.ndarray
    high: np.ndarray
    known: np.ndarray = field(default_factory=lambda: np.zeros(0))


def with_numbers(request: Tensors, numbers: Mapping[str, Sequence[int]]) -> Iterator[Tensors]:
    """Yield a request, and the same with one number in all cells of an input: 1, or one that it knows."""
    yield request
    whole = {name: value for name, value in request.items() if value.dtype.kind in "iuf"}
    tried = {name: (1, *numbers.get(name, ())) for name in whole}
    for place in range(min(max(map(len, tried.values()), default=0), _MOST_VARIANTS)):
        chosen = {name: of[place % len(of)] for name, of in tried.items()}
        yield {**request, **{name: np.full_like(whole[name], number) for name, number in chosen.items()}}


@dataclass(slots=True, kw_only=True)
class Probe:
    """Asks a source, which refuses numbers by an exception.

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
    table: int
    numbers: Sequence[float] = ()
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
            known = self._known(tables, low, high)
        except _TooManyCallsError:
            return None
        shape = self.usual.shape
        return Bounds(
            free=free.reshape(shape),
            low=low.reshape(shape),
            high=high.reshape(shape),
            known=known.reshape(-1, *shape),
        )

    def _known(self, tables: Sequence[int], low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the numbers that each cell takes, in a row for each; shorter columns repeat theirs."""
        beyond = [cell for cell in tables if any(not low[cell] <= one <= high[cell] for one in self.numbers)]
        affordable = (_MOST_CALLS - self.calls) // (1 + len(beyond))
        numbers = np.array(self.numbers[:affordable], float)
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
        if not (self._accepts([cell], usual + 1) or self._accepts([cell], usual - 1)):
            return usual, usual
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
