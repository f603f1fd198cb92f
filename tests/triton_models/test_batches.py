"""Many inputs become requests of a good size, and each gets its own rows of the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_models.base.errors import FleetError
from triton_models.client.batches import Gathered, batches
from triton_models.facts.limits import PAYLOAD_LIMIT


def rows(first: int, count: int, width: int = 2) -> dict[str, Any]:
    return {"X": np.arange(first, first + count, dtype=np.float32).repeat(width).reshape(count, width)}


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 4), st.data())
def test_every_input_gets_the_answer_to_its_rows(counts: list[int], most: int, data: st.DataObject) -> None:
    given_inputs = [
        rows(10 * number, count, width=data.draw(st.sampled_from([1, 2])))
        for number, count in enumerate(counts)
    ]
    seen: list[int] = []
    gathered, answers, sent = Gathered(seen.append), [], 0
    for batch in batches(given_inputs, most):
        assert not most or len(batch.inputs["X"]) <= most
        assert batch.size == batch.inputs["X"].nbytes
        sent += len(batch.inputs["X"])
        answers += gathered.add(batch, {"Y": batch.inputs["X"] * 2})
    assert sent == sum(counts)
    assert seen == list(range(1, len(counts) + 1))
    for inputs, answer in zip(given_inputs, answers, strict=True):
        np.testing.assert_array_equal(answer["Y"], inputs["X"] * 2)


def test_inputs_of_one_kind_are_joined_and_others_are_not() -> None:
    given_inputs = [rows(0, 1), rows(1, 1), rows(2, 1, width=3), {"TEXT": np.array([["a"]])}]
    assert [[*batch.inputs] for batch in batches(given_inputs, 8)] == [["X"], ["X"], ["TEXT"]]
    assert len(list(batches(given_inputs, 0))) == len(given_inputs)


def test_a_request_stays_below_the_limit_of_a_payload() -> None:
    wide = {"X": np.zeros((10, PAYLOAD_LIMIT // 16), dtype=np.float32)}
    found = list(batches([wide, wide], 64))
    assert all(batch.size < PAYLOAD_LIMIT for batch in found)
    assert sum(len(batch.inputs["X"]) for batch in found) == 20


@pytest.mark.parametrize("answer", [np.zeros(3), np.float32(1)])
def test_an_answer_without_a_row_for_each_is_refused(answer: Any) -> None:
    (batch,) = batches([rows(0, 1), rows(1, 1)], 8)
    with pytest.raises(FleetError, match="client-rows"):
        list(Gathered(None).add(batch, {"Y": np.asarray(answer)}))
