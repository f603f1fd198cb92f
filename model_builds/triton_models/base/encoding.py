"""The encoding of requests from arrays, and the decoding of responses to arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

if TYPE_CHECKING:
    import numpy as np

Tensors = Mapping[str, "np.ndarray[Any, Any]"]
Content = Literal["binary", "json"]
Parameters = Mapping[str, bool | int | str]

BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON_TYPE = "application/json"

DATATYPE = Check(id="datatype", source=FROM_ARGUMENTS)
ANSWER = Check(id="answer", source=FROM_ARGUMENTS)
ANSWER_ERROR = Check(id="answer-error", source=FROM_ARGUMENTS)

_TEXT = "BYTES"
_LENGTH_SIZE = 4

# Up to this many bytes, copying is faster than avoiding the copy.
_SMALL = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    """An input, whose values are an array or encoded strings."""

    name: str
    shape: list[int]
    datatype: str
    values: np.ndarray[Any, Any] | list[bytes]

    def declared(self) -> dict[str, Any]:
        return {"name": self.name, "shape": self.shape, "datatype": self.datatype}


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
    import numpy as np

    report = Report(where)
    tensors = []
    for name, given in inputs.items():
        tensor = _tensor(name, array := np.asarray(given))
        if tensor is None:
            fix = "convert it with .astype() to a boolean, an integer, float16 to float64, or strings"
            what = f"input {name!r} has elements of type {array.dtype}"
            report(DATATYPE, what, fix=fix, why="Triton does not support that type")
        else:
            tensors.append(tensor)
    report.raise_if_any()
    return (_encode_binary if content == "binary" else _encode_json)(tensors, outputs, parameters or {})


def _tensor(name: str, array: np.ndarray[Any, Any]) -> _Tensor | None:
    from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

    shape = list(array.shape)
    if array.dtype.kind in "USO":
        entries = [entry.encode() if isinstance(entry, str) else entry for entry in array.ravel().tolist()]
        is_text = all(isinstance(entry, bytes) for entry in entries)
        return _Tensor(name=name, shape=shape, datatype=_TEXT, values=entries) if is_text else None
    datatype = np_to_triton_dtype(array.dtype)
    return _Tensor(name=name, shape=shape, datatype=datatype, values=array) if datatype else None


def _encode_binary(
    tensors: list[_Tensor], outputs: Sequence[str] | None, parameters: Parameters
) -> tuple[bytes, str]:
    parts = [_bytes_of(tensor.values) for tensor in tensors]
    inputs = [
        {**tensor.declared(), "parameters": {"binary_data_size": len(part)}}
        for tensor, part in zip(tensors, parts, strict=True)
    ]
    document: dict[str, Any] = {"inputs": inputs}
    if outputs:
        document["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    else:
        parameters = {**parameters, "binary_data_output": True}
    if parameters:
        document["parameters"] = parameters
    header = json.dumps(document).encode()
    if not parts:
        return header, JSON_TYPE
    return b"".join([header, *parts]), f"{BINARY_TYPE}{len(header)}"


def _bytes_of(values: np.ndarray[Any, Any] | list[bytes]) -> bytes | memoryview:
    """Return the bytes of a tensor, without a copy if it is a large contiguous array."""
    import numpy as np

    if isinstance(values, list):
        lengths = (len(entry).to_bytes(_LENGTH_SIZE, "little") for entry in values)
        return b"".join(chain.from_iterable(zip(lengths, values, strict=True)))
    if values.nbytes < _SMALL:
        return values.tobytes()
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _encode_json(
    tensors: list[_Tensor], outputs: Sequence[str] | None, parameters: Parameters
) -> tuple[bytes, str]:
    inputs = [{**tensor.declared(), "data": _plain(tensor.values)} for tensor in tensors]
    document: dict[str, Any] = {"inputs": inputs}
    if outputs:
        document["outputs"] = [{"name": name} for name in outputs]
    if parameters:
        document["parameters"] = parameters
    return json.dumps(document).encode(), JSON_TYPE


def _plain(values: np.ndarray[Any, Any] | list[bytes]) -> list[Any]:
    if isinstance(values, list):
        return [entry.decode() for entry in values]
    plain: list[Any] = values.ravel().tolist()
    return plain


def decode(body: bytes, content_type: str, *, where: str = "an answer") -> dict[str, np.ndarray[Any, Any]]:
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
            why=f"it starts with {body[:80]!r}",
            fix="invoke the model directly, and look for a proxy that replaces or truncates responses",
        ) from error


def _decoded(body: bytes, content_type: str, where: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    is_binary = content_type.startswith(BINARY_TYPE)
    at = int(content_type.removeprefix(BINARY_TYPE)) if is_binary else len(body)
    document = json.loads(body[:at])
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


def _part(body: bytes, at: int, count: int) -> memoryview:
    if not 0 <= count <= len(body) - at:
        raise ValueError(f"an output has {count} bytes")
    return memoryview(body)[at : at + count]


def _array(values: Any, datatype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    dtype = triton_to_np_dtype(datatype)
    if dtype is None:
        raise ValueError(f"unknown data type: {datatype}")
    if datatype == _TEXT:
        is_binary = isinstance(values, memoryview)
        entries = list(_entries(values)) if is_binary else [value.encode() for value in values]
        array = np.empty(len(entries), dtype=np.object_)
        array[:] = entries
    elif isinstance(values, memoryview):
        array = np.frombuffer(values, dtype=dtype)
    else:
        array = np.array(values, dtype=dtype)
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
