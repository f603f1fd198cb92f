"""Inputs are held against a model's signature, and become its types if nothing is lost."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from triton_models.base.encoding import BINARY_TYPE, encode
from triton_models.base.errors import FleetError
from triton_models.client.signature import Signature, signature_of

BUILD = {
    "request": {"X": "FP32 [-1, 2]", "IDS": "INT32 [-1, -1]", "TEXT": "STRING [-1, 1] (optional)"},
    "answer": {"Y": "FP32 [-1, 1]"},
    "max_batch_size": 4,
}
FITTING: dict[str, Any] = {"X": [[1, 0.1]], "IDS": np.array([[1, 2, 3]])}


def of(data_type: str, dims: str = "[-1]") -> Signature:
    found = signature_of({"request": {"X": f"{data_type} {dims}"}})
    assert found is not None
    return found


def checked(signature: Signature, **inputs: Any) -> dict[str, np.ndarray]:
    return signature.checked(inputs, None, where="here")


def refused(build: dict[str, Any], inputs: dict[str, Any], outputs: list[str] | None = None) -> list[str]:
    signature = signature_of(build)
    assert signature is not None
    with pytest.raises(FleetError) as raised:
        signature.checked(inputs, outputs, where="here")
    return [f"{each.rule}: {each.what}; {each.fix}" for each in raised.value.problems]


def test_inputs_that_fit_become_the_types_of_the_model() -> None:
    signature = signature_of(BUILD)
    assert signature is not None
    found = signature.checked(FITTING, ["Y"], where="here")
    assert {name: (each.dtype.name, each.shape) for name, each in found.items()} == {
        "X": ("float32", (1, 2)),
        "IDS": ("int32", (1, 3)),
    }


def test_all_mistakes_of_a_request_are_told_at_once() -> None:
    given = {"X": np.zeros((5, 3), np.float32), "IDZ": [[1]], "TEXT": [[1]]}
    found = refused(BUILD, given, ["Z"])
    assert [each.partition(";")[0] for each in found] == [
        "client-input: input 'X' has the shape [5, 3], not [-1, 2]",
        "client-input: the model has no input 'IDZ'",
        "client-input: input 'TEXT' has elements of type int64, not STRING",
        "client-input: input 'IDS' is missing, INT32 [-1, -1]",
        "client-output: the model has no output 'Z'",
    ]
    assert "did you mean IDS?" in found[1]


def test_a_batch_has_as_many_rows_of_each_input_as_the_model_allows() -> None:
    rows = {"X": np.zeros((5, 2), np.float32), "IDS": np.zeros((5, 1), np.int32)}
    assert "a request has 5 rows" in refused(BUILD, rows)[0]
    assert "5 of X, 1 of IDS" in refused(BUILD, {**rows, "IDS": [[1]]})[0]
    assert "X[None]" in refused(BUILD, {"X": np.zeros(2, np.float32), "IDS": [[1]]})[0]


@pytest.mark.parametrize(
    ("data_type", "values", "becomes"),
    [
        ("FP32", np.array([0.5], np.float64), "float32"),
        ("FP32", [0.1], "float32"),
        ("FP16", [0.1, 1], "float16"),
        ("FP64", np.array([1], np.int32), "float64"),
        ("INT8", [127, -128], "int8"),
        ("UINT64", [2**64 - 1], "uint64"),
        ("INT64", np.array([True]), "int64"),
        ("BOOL", [0, 1], "bool"),
        ("FP32", np.array([np.nan, np.inf]), "float32"),
        ("FP32", np.array([1.0], ">f4"), "float32"),
        ("FP32", np.zeros((0,), np.float64), "float32"),
        ("STRING", ["ä"], "str32"),
        ("STRING", [b"\xff"], "bytes8"),
        ("STRING", [], "object"),
    ],
)
def test_a_value_that_stays_the_same_becomes_the_type(data_type: str, values: Any, becomes: str) -> None:
    assert checked(of(data_type), X=values)["X"].dtype.name == becomes


@pytest.mark.parametrize(
    ("data_type", "values", "lost"),
    [
        ("FP32", np.array([0.1]), "0.1"),
        ("FP16", [1e6], "1000000.0"),
        ("INT8", [128], "128"),
        ("UINT8", [-1], "-1"),
        ("UINT32", np.array([-1]), "-1"),
        ("UINT64", np.array([-1]), "-1"),
        ("INT64", np.array([2**64 - 1], np.uint64), "18446744073709551615"),
        ("FP32", [2**24 + 1], "16777217"),
        ("BF16", np.array([0.1], np.float32), "0.1"),
        ("INT32", [1.0], ""),
        ("BOOL", [2], "2"),
        ("FP32", ["1"], ""),
        ("STRING", [1], ""),
        ("BF16", ["1"], ""),
    ],
)
def test_a_value_that_would_change_is_refused(data_type: str, values: Any, lost: str) -> None:
    with pytest.raises(FleetError, match="client-input") as raised:
        checked(of(data_type), X=values)
    (problem,) = raised.value.problems
    assert f"not {data_type}" in problem.what
    assert (f", and {lost} would change" in problem.what) == bool(lost)


def test_rows_of_unequal_length_are_no_tensor() -> None:
    with pytest.raises(FleetError, match="rows of equal length"):
        checked(of("INT32", "[-1, -1]"), X=[[1, 2], [3]])


@given(arrays.arrays(np.float32, st.integers(0, 20)))
def test_bf16_is_rounded_as_ml_dtypes_rounds(array: np.ndarray) -> None:
    there = array.astype(ml_dtypes.bfloat16)
    finite = np.isfinite(array) == np.isfinite(there.astype(np.float32))
    for values in (there, [float(each) for each in array[finite]]):
        body, kind = encode(checked(of("BF16"), X=values), outputs=None, content="binary")
        sent = np.frombuffer(body[int(kind.removeprefix(BINARY_TYPE)) :], ml_dtypes.bfloat16)
        expected = there if values is there else there[finite]
        np.testing.assert_array_equal(sent.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("build", [{}, {"request": 5}, {"request": {}}, {"request": {"X": "FP32 of 4"}}])
def test_a_build_that_recorded_no_signature_has_none(build: dict[str, Any]) -> None:
    assert signature_of(build) is None


def test_a_build_of_an_earlier_release_recorded_no_batch_and_no_outputs() -> None:
    signature = signature_of({"request": {"X": "FP32 [-1, 2]"}})
    assert signature is not None
    assert signature.checked({"X": np.zeros((99, 2), np.float32)}, ["any"], where="here").keys() == {"X"}
