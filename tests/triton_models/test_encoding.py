"""Tensors become requests, and answers become tensors, or an error that says what is wrong with them."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from triton_models.base.encoding import BINARY_TYPE, JSON_TYPE, decode, encode
from triton_models.base.errors import FleetError

ROW = np.array([[1.0, 2.0]], dtype=np.float32)
TYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def test_every_input_of_an_impossible_type_is_named_at_once():
    inputs = {"a": np.array([1j]), "b": ROW, "c": np.array([object()])}
    with pytest.raises(FleetError) as error:
        encode(inputs, outputs=None, content="binary")
    assert [problem.what for problem in error.value.problems] == [
        "input 'a' has elements of type complex128",
        "input 'c' has elements of type object",
    ]


@pytest.mark.parametrize(
    "text",
    [
        ["häuser", ""],
        [b"h\xc3\xa4user", b""],
        pytest.param(
            np.array(["häuser", ""], dtype=np.dtypes.StringDType())
            if hasattr(np.dtypes, "StringDType")
            else ["häuser", ""],
            id="StringDType",
        ),
    ],
)
def test_text_travels_as_bytes(text):
    body, kind = encode({"TEXT": np.array([text])}, outputs=None, content="binary")
    header = int(kind.removeprefix(BINARY_TYPE))
    assert json.loads(body[:header])["inputs"][0]["datatype"] == "BYTES"
    assert body[header:] == b"\x07\x00\x00\x00h\xc3\xa4user\x00\x00\x00\x00"


@pytest.mark.parametrize("content", ["binary", "json"])
def test_half_of_a_character_is_refused_with_the_input_and_the_text(content):
    with pytest.raises(FleetError, match=r"input 'TEXT' has a lone surrogate, '.ud800', in text 1") as error:
        encode({"TEXT": np.array([["ok"], ["a\ud800"]])}, outputs=None, content=content)
    code = error.value.problems[0].fix.partition("send text")[2]
    assert eval(f"text{code}", {"text": "a\ud800"}) == b"a?"  # noqa: S307


def test_ragged_lists_are_refused_by_the_input():
    with pytest.raises(FleetError, match="input 'X' is no array"):
        encode({"X": [[1, 2], [3]]}, outputs=None, content="binary")


def test_json_holds_everything_in_the_open():
    assert encode({}, outputs=None, content="binary")[1] == JSON_TYPE  # nothing is in binary
    inputs = {"TEXT": np.array([["a"]]), "N": np.array([[1, 2]], dtype=np.int64)}
    body, kind = encode(inputs, outputs=["Y"], content="json")
    assert kind == "application/json"
    assert json.loads(body) == {
        "inputs": [
            {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": ["a"]},
            {"name": "N", "shape": [1, 2], "datatype": "INT64", "data": [1, 2]},
        ],
        "outputs": [{"name": "Y"}],
    }


@pytest.mark.parametrize(
    "values", [np.array([np.nan]), np.array([np.inf], np.float32), np.ones(1, np.float16)]
)
def test_what_json_or_triton_in_json_lacks_is_refused(values):
    with pytest.raises(FleetError, match="json-values"):
        encode({"X": values}, outputs=None, content="json")


def test_bf16_is_sent_and_read_in_two_bytes():
    values = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    body, kind = encode({"X": values}, outputs=None, content="binary")
    at = int(kind.removeprefix(BINARY_TYPE))
    assert json.loads(body[:at])["inputs"][0]["datatype"] == "BF16"
    answer = binary(output("BF16", [2], 4), data=body[at:])
    np.testing.assert_array_equal(decode(*answer)["Y"], np.array([1.5, -2.0], np.float32), strict=True)
    theirs = InferInput("X", [2], "BF16")
    theirs.set_data_from_numpy(values)
    assert body[at:] == theirs._get_binary_data()


@pytest.mark.parametrize("outputs", [None, ["Y"]])
@pytest.mark.parametrize("content", ["binary", "json"])
def test_a_request_has_parameters_of_its_own(content, outputs):
    body, kind = encode({"X": ROW}, outputs=outputs, content=content, parameters={"priority": 1})
    document = json.loads(body[: int(kind.removeprefix(BINARY_TYPE))] if content == "binary" else body)
    ours = {"binary_data_output": True} if content == "binary" and outputs is None else {}
    assert document["parameters"] == {"priority": 1, **ours}


@given(
    st.sampled_from(TYPES).flatmap(
        lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
    ),
    st.booleans(),
)
def test_a_request_is_what_nvidias_client_makes_of_it(array: np.ndarray, turned: bool) -> None:
    array = array.T if turned else array
    tensor = InferInput("X", list(array.shape), {"?": "BOOL"}.get(array.dtype.char) or triton_type(array))
    tensor.set_data_from_numpy(array)
    for outputs in (None, ["Y"]):
        wanted = [InferRequestedOutput(name) for name in outputs or []]
        theirs, size = InferenceServerClient.generate_request_body([tensor], outputs=wanted)
        body, kind = encode({"X": array}, outputs=outputs, content="binary")
        header = int(kind.removeprefix(BINARY_TYPE))
        assert json.loads(body[:header]) == json.loads(theirs[:size])
        assert body[header:] == theirs[size:]


def triton_type(array: np.ndarray) -> str:
    kind = {"i": "INT", "u": "UINT", "f": "FP"}[array.dtype.kind]
    return f"{kind}{array.dtype.itemsize * 8}"


NUMBERS = np.arange(100_000, dtype=np.float32)


@pytest.mark.parametrize("array", [NUMBERS.reshape(100, 1000).T, NUMBERS[::2], NUMBERS[::-1]])
def test_a_large_array_that_does_not_lie_in_order_is_sent_in_order(array: np.ndarray) -> None:
    body, kind = encode({"X": array}, outputs=None, content="binary")
    assert body[int(kind.removeprefix(BINARY_TYPE)) :] == array.tobytes()


def binary(*outputs: dict[str, object], data: bytes = b"") -> tuple[bytes, str]:
    header = json.dumps({"outputs": outputs}).encode()
    return header + data, f"{BINARY_TYPE}{len(header)}"


def output(datatype: str = "FP32", shape: object = (2,), size: object = 8) -> dict[str, object]:
    return {"name": "Y", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


@pytest.mark.parametrize("kind", TYPES)
def test_an_answer_of_each_type_is_read(kind: str) -> None:
    for array in (np.ones((2, 1), dtype=kind), np.ones((0, 3), dtype=kind)):
        shape, datatype = list(array.shape), "BOOL" if kind == "?" else triton_type(array)
        answer = binary(output(datatype, shape, array.nbytes), data=array.tobytes())
        np.testing.assert_array_equal(decode(*answer)["Y"], array, strict=True)
        plain = {"name": "Y", "datatype": datatype, "shape": shape, "data": array.ravel().tolist()}
        in_json = json.dumps({"outputs": [plain]}).encode()
        np.testing.assert_array_equal(decode(in_json, JSON_TYPE)["Y"], array, strict=True)


@pytest.mark.parametrize("content", ["binary", "json"])
def test_text_comes_back_as_bytes(content: str) -> None:
    entries = ["häuser", ""]
    if content == "json":
        plain = {"name": "Y", "datatype": "BYTES", "shape": [2, 1], "data": entries}
        answer = (json.dumps({"outputs": [plain]}).encode(), JSON_TYPE)
    else:
        data = b"".join(struct.pack("<I", len(entry.encode())) + entry.encode() for entry in entries)
        answer = binary(output("BYTES", [2, 1], len(data)), data=data)
    assert decode(*answer)["Y"].tolist() == [["häuser".encode()], [b""]]


WHOLE = binary(output(), data=b"\0" * 8)
GARBAGE = {
    "nothing": (b"", JSON_TYPE),
    "no content type": (b"\x00\xff", ""),
    "no text": (b"\xff\xfe", JSON_TYPE),
    "no outputs": (b"{}", JSON_TYPE),
    "deep nesting": (b"[" * 200_000, JSON_TYPE),
    "an output without a name": (b'{"outputs": [{}]}', JSON_TYPE),
    "a header without a length": (WHOLE[0], BINARY_TYPE),
    "a header of a negative length": (WHOLE[0], f"{BINARY_TYPE}-1"),
    "a header that is cut": (WHOLE[0], f"{BINARY_TYPE}10"),
    "too many bytes": (WHOLE[0] + b"\0", WHOLE[1]),
    "another shape": binary(output(shape=[3]), data=b"\0" * 8),
    "a negative shape": binary(output(shape=[-1, -2]), data=b"\0" * 8),
    "a negative size": binary(output(shape=[0], size=-8), output(shape=[4], size=16), data=b"\0" * 8),
    "a size that is text": binary(output(size="8"), data=b"\0" * 8),
    "a type that does not exist": binary(output("FP5", [1]), data=b"\0" * 8),
    "text that is cut": binary(output("BYTES", [1]), data=b"\x09\0\0\0abcd"),
    "half a length of a text": binary(output("BYTES", [1], 2), data=b"\0\0"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_not_an_answer_is_an_error_that_shows_it(kind: str) -> None:
    body, content_type = GARBAGE[kind]
    with pytest.raises(FleetError) as caught:
        decode(body, content_type, where="an answer of m")
    (problem,) = caught.value.problems
    assert (problem.rule, problem.where) == ("answer", "an answer of m")
    assert repr(body[:80]) in problem.why


@given(st.data())
def test_an_answer_that_is_cut_anywhere_is_an_error(data: st.DataObject) -> None:
    values = np.arange(6, dtype=np.float32)
    body, kind = binary(output("FP32", [6], 24), data=values.tobytes())
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(FleetError, match=r"\[answer\]"):
        decode(body[:cut], kind)
