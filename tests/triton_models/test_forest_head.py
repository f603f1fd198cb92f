"""The head of a forest's file is read from any bytes, without its framework."""

from __future__ import annotations

import io
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triton_models.correct_artifacts import checkpoint_file
from triton_models.artifact.forest_head import (
    ForestHead,
    format_of,
    gpu_refuses,
    read_checkpoint,
    read_legacy,
    read_lightgbm,
    read_xgboost,
)

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


def legacy_file(objective: bytes, classes: int) -> bytes:
    """The head of a binary file of XGBoost 2.1, which the files that it writes begin with."""
    parameters = struct.pack("<fIi124x", 0.5, 7, classes)
    return b"binf" + parameters + struct.pack("<Q", len(objective)) + objective


def test_a_checkpoint_says_its_features() -> None:
    head = read_checkpoint(io.BytesIO(WHOLE))
    assert head is not None
    assert (head.features, head.classes) == (5, 3)


@pytest.mark.parametrize(
    ("objective", "classes", "expected"),
    [(b"binary:logistic", 0, (7, 1, "sigmoid")), (b"multi:softprob", 3, (7, 3, "softmax"))],
)
def test_a_binary_file_of_xgboost_says_its_features_and_classes(
    objective: bytes, classes: int, expected: tuple[int, int, str]
) -> None:
    content = legacy_file(objective, classes)
    head = read_legacy(io.BytesIO(content))
    assert head is not None
    assert (head.features, head.classes, head.last) == expected
    assert read_legacy(io.BytesIO(content[4:])) == head  # as before XGBoost 1.0
    assert read_legacy(io.BytesIO(content[:60])) is None
    assert read_legacy(io.BytesIO(b"tree\n")) is None


@given(st.binary(max_size=200))
def test_any_bytes_after_the_mark_are_a_binary_file_or_none(content: bytes) -> None:
    assert isinstance(refused(read_legacy(io.BytesIO(b"binf" + content)), "24.05"), str)


def test_json_and_ubjson_say_the_same() -> None:
    parameters = {"num_class": "3", "num_feature": "7", "num_target": "1"}
    objective = {"name": "multi:softmax"}
    document = {"learner": {"learner_model_param": parameters, "objective": objective}}
    head = read_xgboost(io.BytesIO(json.dumps(document).encode()))
    texts = [*parameters.items(), ("name", "multi:softmax")]
    ubjson = b"{" + b"".join(
        b"L"
        + struct.pack(">q", len(key))
        + key.encode()
        + b"SL"
        + struct.pack(">q", len(value))
        + value.encode()
        for key, value in texts
    )
    assert head == read_xgboost(io.BytesIO(ubjson + b"}"))
    assert head is not None
    assert (head.features, head.classes, head.targets) == (7, 3, 1)


def test_a_file_of_lightgbm_says_its_features_and_classes_also_with_an_objective_of_ones_own() -> None:
    head = read_lightgbm(io.BytesIO(b"tree\nversion=v4\nnum_class=3\nmax_feature_idx=6\n"))
    assert head is not None
    assert (head.features, head.classes) == (7, 3)
    assert read_lightgbm(io.BytesIO(b"{}")) is None


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (b'{"learner"', "json"),
        (b'{\n  "learner"', "json"),
        (b"{L\0\0\0\0\0\0\0\x07learner", "ubjson"),
        (b'{"version":[3,2,0],"learner"', "json"),
        (b'{"name": "tree", "version": "v4", "num_class": 1', ""),  # dump_model() of LightGBM
        (b"{'name': 'tree', 'version': 'v4'", ""),
        (b'{"features_info":{', ""),  # CatBoost
        (b"binf\0\0", "legacy"),
        (b"tree\nversion=v4", "lightgbm"),
        (b"\x80\x04\x95", "pickle"),
        (b"\x04\0\0\0\x07\0\0\0", "treelite"),
        (b"", ""),
    ],
)
def test_the_first_bytes_tell_the_format(beginning: bytes, expected: str) -> None:
    assert format_of(beginning) == expected
