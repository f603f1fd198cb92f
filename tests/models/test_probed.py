"""A source is asked which numbers it takes in each cell of an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from triton_models.builds.export.probed import Bounds, Probe

ENDS = (-1e9, 1e9)


def probe(
    usual: Sequence[float], *, inside: Callable[[np.ndarray], object], table: int = 5
) -> tuple[Bounds | None, int]:
    """Return the bounds of a source that takes rows inside its tables, and how often it was asked."""
    asking = Probe(
        usual=np.array(usual, float), takes=lambda row: bool(np.all(inside(row))), ends=ENDS, table=table
    )
    return asking.bounds(), asking.calls


@pytest.mark.parametrize(
    ("usual", "inside", "expected"),
    [
        ([2, 7, 9], lambda row: 0 <= row[0] < 5, [(0, 4), None, None]),
        ([2, 700], lambda row: (0 <= row[0] < 5, 0 <= row[1] < 1000), [(0, 4), (0, 999)]),
        ([3, 2012], lambda row: 2000 <= row[1] < 2031, [None, (2000, 2030)]),
        ([1, 1], lambda row: (row >= 1) & (row <= 50), [(1, 50), (1, 50)]),
        ([-3], lambda row: -8 <= row[0] < 8, [(-8, 7)]),
    ],
    ids=["beside amounts", "two tables", "years", "numbers from 1", "from the end of a table"],
)
def test_each_cell_is_free_or_has_the_ends_of_its_table(usual, inside, expected):
    bounds, _ = probe(usual, inside=inside)
    assert bounds is not None
    ends = zip(bounds.free, bounds.low, bounds.high, strict=True)
    assert [None if free else (low, high) for free, low, high in ends] == expected


def test_cells_of_one_table_are_searched_once():
    _, calls = probe([1] * 20, inside=lambda row: (row >= 0) & (row < 30_000), table=100)
    assert calls < 20 * 6 + 120


def test_hundreds_of_amounts_are_found_with_few_questions():
    bounds, calls = probe([2] + [19.5] * 400, inside=lambda row: 0 <= row[0] < 5)
    assert bounds is not None
    assert bounds.free.sum() == 400
    assert calls < 60


def test_a_source_that_refuses_its_usual_row_says_nothing():
    assert probe([9], inside=lambda row: row < 5) == (None, 0)
