"""The head of a forest's file is read from any bytes, without its framework."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triton_models.correct_artifacts import checkpoint_file
from triton_models.artifact.forest_head import ForestHead, gpu_refuses, read_checkpoint, read_lightgbm

WHOLE = checkpoint_file(base_scores=(1.0, 0.5, 0.5))


def refused(head: ForestHead | None, release: str) -> str:
    return "" if head is None else gpu_refuses(head, release, probabilities=True, classifier=True)


@given(st.integers(0, len(WHOLE)), st.binary(max_size=12), st.integers(0, len(WHOLE)))
def test_any_bytes_are_a_checkpoint_or_none(at: int, others: bytes, end: int) -> None:
    content = (WHOLE[:at] + others + WHOLE[at + len(others) :])[:end]
    assert isinstance(refused(read_checkpoint(io.BytesIO(content)), "24.05"), str)


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
