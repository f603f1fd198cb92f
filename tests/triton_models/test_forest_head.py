"""The head of a forest's file is read from any bytes, without its framework."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triton_models.correct_artifacts import checkpoint_file
from triton_models.artifact.forest_head import (
    ForestHead,
    gpu_refuses,
    read_checkpoint,
    read_lightgbm,
    read_xgboost,
)

WHOLE = checkpoint_file(base_scores=(1.0, 0.5, 0.5))
TEXTS = st.lists(
    st.sampled_from(
        [
            *(b'"name":"multi:softprob"', b'"num_class":"3"', b'"num_class":"99999"', b"{", b","),
            *(b"nameSL\0\0\0\0\0\0\0\x0dcount:poisson", b'"num_parallel_tree":"2"', b"\n", b" sqrt"),
            *(b"objective=binary", b" sigmoid:2", b" num_class:1.5", b" sigmoid:1.2.3", b" num_class:0"),
        ]
    )
).map(b"".join)


def refused(head: ForestHead | None, release: str) -> str:
    return "" if head is None else gpu_refuses(head, release, probabilities=True, classifier=True)


@given(st.integers(0, len(WHOLE)), st.binary(max_size=12), st.integers(0, len(WHOLE)))
def test_any_bytes_are_a_checkpoint_or_none(at: int, others: bytes, end: int) -> None:
    content = (WHOLE[:at] + others + WHOLE[at + len(others) :])[:end]
    assert isinstance(refused(read_checkpoint(io.BytesIO(content)), "24.05"), str)


@given(TEXTS | st.binary(max_size=200))
def test_any_bytes_are_a_file_of_a_framework_or_none(content: bytes) -> None:
    for read in (read_xgboost, read_lightgbm):
        assert isinstance(refused(read(io.BytesIO(content)), "24.05"), str)


@pytest.mark.parametrize("end", range(0, len(WHOLE), 7))
def test_a_checkpoint_that_is_cut_off_is_none(end: int) -> None:
    assert read_checkpoint(io.BytesIO(WHOLE[:end])) is None


@pytest.mark.parametrize(
    ("content", "release", "expected"),
    [
        (b"tree\nobjective=binary sigmoid:2\n", "25.04", True),
        (b"tree\nobjective=binary sigmoid:2\n", "25.09", False),
        (b"tree\nobjective=binary sigmoid:1\n", "25.04", False),
        (b"tree\nobjective=regression sqrt\n", "25.04", True),
        (b"tree\nobjective=poisson\n", "25.04", True),
        (b"tree\nobjective=multiclass num_class:3\n", "24.05", False),
    ],
)
def test_the_objective_of_lightgbm_decides(content: bytes, release: str, expected: bool) -> None:
    assert bool(refused(read_lightgbm(io.BytesIO(content)), release)) is expected
