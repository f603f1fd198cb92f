"""A source is asked which numbers it takes in each cell of an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from triton_models.builds.export.answers import run_module
from triton_models.builds.export.probed import Bounds, Probe, Questions, TooManyQuestionsError

ENDS = (-1e9, 1e9)


def probe(
    usual: Sequence[float], *, inside: Callable[[np.ndarray], object], table: int = 5
) -> tuple[Bounds, int]:
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
        ([3], lambda row: -8 <= row[0] < 8, [(0, 7)]),
        ([3], lambda row: -30 <= row[0] <= 30, [(-30, 30)]),
        ([0] * 70, lambda row: row <= 41, [(-1e9, 41)] * 70),
    ],
    ids=[
        *("next to amounts", "two tables", "years", "numbers from 1", "from the end of a table"),
        *("also counted from its end", "days before and after", "more than are searched one by one"),
    ],
)
def test_each_cell_is_free_or_has_the_ends_of_its_table(usual, inside, expected):
    bounds, _ = probe(usual, inside=inside)
    ends = zip(bounds.free, bounds.low, bounds.high, strict=True)
    assert [None if free else (low, high) for free, low, high in ends] == expected


def test_cells_of_one_table_are_searched_once():
    _, calls = probe([1] * 20, inside=lambda row: (row >= 0) & (row < 30_000), table=100)
    assert calls < 20 * 6 + 120


def test_hundreds_of_amounts_are_found_with_few_questions():
    bounds, calls = probe([2] + [19.5] * 400, inside=lambda row: 0 <= row[0] < 5)
    assert bounds.free.sum() == 400
    assert calls < 150


@pytest.mark.parametrize("lengthy", [False, True], ids=["size", "loop"])
def test_numbers_that_are_sizes_are_searched_without_gigabytes(lengthy):
    largest = 0

    class Net(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> torch.Tensor:
            nonlocal largest
            largest = max(largest, int(n))
            if not lengthy:
                return torch.arange(int(n)).sum()
            answer = n
            for _ in range(int(n)):
                answer = answer + 1
            return answer

    questions = Questions.of(run_module(Net(), ["n"], ["Y"]), 0)
    assert questions.takes({"n": np.ones(1, np.int64)})
    takes = lambda row: questions.takes({"n": row.astype(np.int64)})  # noqa: E731
    bounds = Probe(usual=np.ones(1), takes=takes, ends=ENDS).bounds()
    assert 100 < bounds.high[0] < largest < 3e6


@pytest.mark.parametrize(("operations", "most"), [(0, 4000), (1e9, 97), (6e9, 32), (2e10, 0)])
def test_the_cost_of_a_row_limits_the_questions(operations, most):
    questions = Questions.of(lambda _: {}, operations)
    assert all(questions.takes({}) for _ in range(most))
    with pytest.raises(TooManyQuestionsError):
        questions.takes({})
