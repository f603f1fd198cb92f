"""The encoding of requests from arrays, and the decoding of responses to arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError

if TYPE_CHECKING:
    import numpy as np

Tensors = Mapping[str, "np.ndarray[Any, Any]"]
Content = Literal["binary", "json"]
Parameters = Mapping[str, bool | int | str]
Buffer: TypeAlias = bytes | memoryview
Array: TypeAlias = "np.ndarray[Any, Any]"

BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON_TYPE = "application/json"

DATATYPE = Check(id="datatype", source=FROM_ARGUMENTS)
ANSWER = Check(id="answer", source=FROM_ARGUMENTS)
ANSWER_ERROR = Check(id="answer-error", source=FROM_ARGUMENTS)
JSON_VALUES = Check(id="json-values", source=FROM_ARGUMENTS)

_TEXT = "BYTES"

TEXT_KINDS = "USOT"
"""The kinds of NumPy's types whose elements may be strings; T is StringDType of NumPy 2.

NumPy drops zero bytes at the end of elements of S, so bytes that may end with them need dtype=object.
"""
_LENGTH_SIZE = 4

# NumPy has no BF16. It is the upper half of an FP32, so answers become FP32.
_BF16 = "BF16"

# The types of Triton for those of NumPy, which has no BF16: two bytes stand for it, as in ml_dtypes.
DATATYPES: Mapping[str, str] = {
    "|b1": "BOOL",
    **{f"|{kind}1": f"{name}8" for kind, name in (("i", "INT"), ("u", "UINT"))},
    **{
        f"{order}{kind}{size}": f"{name}{size * 8}"
        for order in "<>"
        for kind, name in (("i", "INT"), ("u", "UINT"), ("f", "FP"))
        for size in (2, 4, 8)
    },
    **dict.fromkeys(("|V2", "<V2"), _BF16),
}
_NUMPY: Mapping[str, str] = {
    **{ours: theirs for theirs, ours in DATATYPES.items() if theirs[0] != ">"},
    _BF16: "<f4",
}

# Up to this many bytes, copying is faster than avoiding the copy.
_SMALL = 1 << 14


def encode(
    inputs: Tensors,
    *,
    outputs: Sequence[str] | None,
    content: Content,
    parameters: Parameters | None = None,
    where: str = "a request",
) -> tuple[bytes, str]:
    """Return a request's body and content type.

    Raises:
        FleetError: Triton does not support the element type of some inputs; all are listed.
    """
    buffers, content_type = encode_buffers(
        inputs, outputs=outputs, content=content, parameters=parameters, where=where
    )
    return b"".join(buffers), content_type


def encode_buffers(
    inputs: Tensors,
    *,
    outputs: Sequence[str] | None,
    content: Content,
    parameters: Parameters | None = None,
    where: str = "a request",
) -> tuple[list[Buffer], str]:
    """Return the buffers whose bytes in order are a request's body, and its content type.

    Large arrays that lie in order are not copied: a buffer is a view of the array, which must not change
    before the request is sent.

    Raises:
        FleetError: As `encode`.
    """
    headers: list[str] = []
    values: list[Array | list[bytes]] = []
    wrong: list[str] = []
    for name, given in inputs.items():
        array = _tensor(name, given, where)
        datatype = DATATYPES.get(array.dtype.str, "")
        if array.dtype.kind in TEXT_KINDS and (entries := _texts(name, array, where)) is not None:
            datatype = _TEXT
            values.append(entries)
        elif datatype:
            values.append(array)
        else:
            wrong.append(f"input {name!r} has elements of type {array.dtype}")
        headers.append(f'"name": {quoted(name)}, "shape": {list(array.shape)}, "datatype": "{datatype}"')
    if wrong:
        fix = "convert it with .astype() to a boolean, an integer, float16 to float64, or strings"
        why = "Triton does not support that type"
        raise FleetError([DATATYPE.problem(what=each, where=where, fix=fix, why=why) for each in wrong])
    if content == "json":
        _refuse_binary_only(headers, where)
        return [_json(headers, values, outputs, parameters, where)], JSON_TYPE
    parts = list(map(_bytes_of, values))
    declared = ", ".join(
        f'{{{header}, "parameters": {{"binary_data_size": {len(part)}}}}}'
        for header, part in zip(headers, parts, strict=True)
    )
    more = _ALL_BINARY if outputs is None and not parameters else _rest(outputs, parameters)
    header = f'{{"inputs": [{declared}]{more}}}'.encode()
    return [header, *parts], f"{BINARY_TYPE}{len(header)}" if parts else JSON_TYPE


_ALL_BINARY = ', "parameters": {"binary_data_output": true}'


def _rest(outputs: Sequence[str] | None, parameters: Parameters | None) -> str:
    """Return the members of a binary request after its inputs."""
    asked = [{"name": each, "parameters": {"binary_data": True}} for each in outputs or []]
    given = {**(parameters or {}), **({} if outputs else {"binary_data_output": True})}
    members = {"outputs": asked, "parameters": given}
    return f", {json.dumps({name: each for name, each in members.items() if each})[1:-1]}"


def _tensor(name: str, given: Any, where: str) -> Array:
    import numpy as np

    try:
        return np.asarray(given)
    except ValueError as error:
        what = f"input {name!r} is no array: {error}"
        raise DATATYPE.error(what=what, where=where, fix="send rows of equal length") from None


def _texts(name: str, array: Array, where: str) -> list[bytes] | None:
    """Return what `_entries_of` does, with an error for a text that UTF-8 lacks."""
    try:
        return _entries_of(array)
    except UnicodeEncodeError as error:
        texts = array.ravel().tolist()
        at = next(n for n, each in enumerate(texts) if isinstance(each, str) and error.object == each)
        what = f"input {name!r} has a lone surrogate, {error.object[error.start]!r}, in text {at}"
        fix = 'correct the text where it is read, or send text.encode("utf-8", "replace")'
        why = "half of a character cannot be sent as UTF-8"
        raise DATATYPE.error(what=what, where=where, why=why, fix=fix) from None


def _entries_of(array: Array) -> list[bytes] | None:
    """Return an array's strings as bytes; None if it has others than strings."""
    entries = [entry.encode() if isinstance(entry, str) else entry for entry in array.ravel().tolist()]
    return entries if all(isinstance(entry, bytes) for entry in entries) else None


def _bytes_of(values: Array | list[bytes]) -> Buffer:
    """Return the bytes of a tensor, without a copy if it is a large contiguous array."""
    import numpy as np

    if isinstance(values, list):
        lengths = (len(entry).to_bytes(_LENGTH_SIZE, "little") for entry in values)
        return b"".join(chain.from_iterable(zip(lengths, values, strict=True)))
    if values.dtype.byteorder == ">":
        values = values.astype(values.dtype.newbyteorder("<"))
    if values.nbytes < _SMALL:
        return values.tobytes()
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _refuse_binary_only(headers: Sequence[str], where: str) -> None:
    """Refuse types that Triton does not take in JSON: seen with release 24.10 on 2026-11-26."""
    found = [each for each in headers if each.endswith(('"FP16"', '"BF16"'))]
    if found:
        raise JSON_VALUES.error(
            what=f"Triton does not take these inputs in JSON: {'; '.join(found)}",
            where=where,
            fix='send them with content="binary"',
        )


def _json(
    headers: Sequence[str],
    values: Sequence[Array | list[bytes]],
    outputs: Sequence[str] | None,
    parameters: Parameters | None,
    where: str,
) -> bytes:
    try:
        data = [json.dumps(_plain(each), allow_nan=False) for each in values]
    except (ValueError, TypeError) as error:
        raise JSON_VALUES.error(
            what=f"the inputs have values that JSON lacks: {error}",
            where=where,
            why="JSON has no NaN, no infinity and no BF16",
            fix='send them with content="binary"',
        ) from None
    inputs = ", ".join(f'{{{header}, "data": {each}}}' for header, each in zip(headers, data, strict=True))
    more = {
        **({"outputs": [{"name": each} for each in outputs]} if outputs else {}),
        **({"parameters": parameters} if parameters else {}),
    }
    rest = f", {json.dumps(more)[1:-1]}" if more else ""
    return f'{{"inputs": [{inputs}]{rest}}}'.encode()


def _plain(values: Array | list[bytes]) -> list[Any]:
    if isinstance(values, list):
        return [entry.decode() for entry in values]
    plain: list[Any] = values.ravel().tolist()
    return plain


def decode(
    body: Buffer | bytearray, content_type: str, *, where: str = "an answer"
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the tensors of a response. Strings are arrays of bytes.

    Raises:
        FleetError: The response is an error, or not a complete response of Triton.
    """
    try:
        return dict(_decoded(body, content_type, where))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        kind = f"the content type {content_type!r}" if content_type else "no content type"
        raise ANSWER.error(
            what=f"{len(body)} bytes with {kind} are not a Triton response: {type(error).__name__} {error}",
            where=where,
            why=f"it starts with {bytes(body[:80])!r}",
            fix="invoke the model directly, and look for a proxy that replaces or truncates responses",
        ) from error


def _decoded(
    body: Buffer | bytearray, content_type: str, where: str
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    is_binary = content_type.startswith(BINARY_TYPE)
    at = int(content_type.removeprefix(BINARY_TYPE)) if is_binary else len(body)
    document = json.loads(bytes(body[:at]))
    if "error" in document:
        raise ANSWER_ERROR.error(
            what=str(document["error"]),
            where=where,
            why="the server returned this error with status 200",
            fix="correct the inputs or the model",
        )
    for output in document["outputs"]:
        count = output.get("parameters", {}).get("binary_data_size")
        values = output["data"] if count is None else _part(body, at, count)
        at += count or 0
        yield output["name"], _array(values, output["datatype"], output["shape"])
    if at != len(body):
        raise ValueError(f"{at} bytes are announced")


def _part(body: Buffer | bytearray, at: int, count: int) -> memoryview:
    if not 0 <= count <= len(body) - at:
        raise ValueError(f"an output has {count} bytes")
    return memoryview(body)[at : at + count].toreadonly()


def _array(values: Any, datatype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    import numpy as np

    if datatype == _TEXT:
        is_binary = isinstance(values, memoryview)
        entries = list(_entries(values)) if is_binary else [value.encode() for value in values]
        array = np.empty(len(entries), dtype=np.object_)
        array[:] = entries
    elif datatype not in _NUMPY:
        raise ValueError(f"unknown data type: {datatype}")
    elif not isinstance(values, memoryview):
        array = np.array(values, dtype=_NUMPY[datatype])
    elif datatype == _BF16:
        array = (np.frombuffer(values, dtype="<u2").astype("<u4") << 16).view("<f4")
    else:
        array = np.frombuffer(values, dtype=_NUMPY[datatype])
    if array.size != math.prod(shape):
        raise ValueError(f"{array.size} elements for the shape {shape}")
    return array.reshape(shape)


def _entries(values: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(values):
        start = at + _LENGTH_SIZE
        at = start + int.from_bytes(values[at:start], "little")
        if at > len(values):
            raise ValueError(f"a string ends {at - len(values)} bytes after the response")
        yield values[start:at].tobytes()
