"""The encoding of requests from arrays, and the decoding of responses to arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from triton_models.base.errors import FleetError, Problem, raise_if_any

if TYPE_CHECKING:
    import numpy as np

Tensors = Mapping[str, "np.ndarray[Any, Any]"]
Content = Literal["binary", "json"]
Parameters = Mapping[str, bool | int | str]

BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON_TYPE = "application/json"

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
    tensors = {name: _tensor(name, given) for name, given in inputs.items()}
    raise_if_any(_no_datatype(name, inputs[name], where) for name, found in tensors.items() if found is None)
    known = [tensor for tensor in tensors.values() if tensor is not None]
    encoded = _encode_binary if content == "binary" else _encode_json
    return encoded(known, outputs, parameters or {})


def _tensor(name: str, given: np.ndarray[Any, Any]) -> _Tensor | None:
    import numpy as np
    from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

    array = np.asarray(given)
    values: np.ndarray[Any, Any] | list[bytes] = array
    datatype: str | None = _TEXT
    if array.dtype.kind in "USO":
        values = [entry.encode() if isinstance(entry, str) else entry for entry in array.ravel().tolist()]
        if not all(isinstance(entry, bytes) for entry in values):
            return None
    else:
        datatype = np_to_triton_dtype(array.dtype)
    if datatype is None:
        return None
    return _Tensor(name=name, shape=list(array.shape), datatype=datatype, values=values)


def _encode_binary(
    tensors: list[_Tensor], outputs: Sequence[str] | None, parameters: Parameters
) -> tuple[bytes, str]:
    parts = [_bytes_of(tensor.values) for tensor in tensors]
    document: dict[str, Any] = {
        "inputs": [
            {**_declared(tensor), "parameters": {"binary_data_size": len(part)}}
            for tensor, part in zip(tensors, parts, strict=True)
        ]
    }
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
    document: dict[str, Any] = {
        "inputs": [{**_declared(tensor), "data": _plain(tensor.values)} for tensor in tensors]
    }
    if outputs:
        document["outputs"] = [{"name": name} for name in outputs]
    if parameters:
        document["parameters"] = parameters
    return json.dumps(document).encode(), JSON_TYPE


def _declared(tensor: _Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype}


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
        raise FleetError.of(
            what=f"{len(body)} bytes with {kind} are not a Triton response: {type(error).__name__} {error}",
            where=where,
            why=f"it starts with {body[:80]!r}",
            fix="invoke the model directly, and look for a proxy that replaces or truncates responses",
            rule="answer",
        ) from error


def _decoded(body: bytes, content_type: str, where: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    size = _header_size(body, content_type)
    document = json.loads(body[:size])
    if "error" in document:
        raise FleetError.of(
            what=str(document["error"]),
            where=where,
            why="the server returned this error with status 200",
            fix="correct the inputs or the model",
            rule="answer-error",
        )
    at = size
    for output in document["outputs"]:
        count = output.get("parameters", {}).get("binary_data_size")
        values = output["data"] if count is None else _part(body, at, count)
        at += count or 0
        yield output["name"], _array(values, output["datatype"], output["shape"])
    if at != len(body):
        msg = f"{at} bytes are announced"
        raise ValueError(msg)


def _header_size(body: bytes, content_type: str) -> int:
    if not content_type.startswith(BINARY_TYPE):
        return len(body)
    return int(content_type.removeprefix(BINARY_TYPE))


def _part(body: bytes, at: int, count: int) -> memoryview:
    if not 0 <= count <= len(body) - at:
        msg = f"an output has {count} bytes"
        raise ValueError(msg)
    return memoryview(body)[at : at + count]


def _array(values: Any, datatype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    dtype = triton_to_np_dtype(datatype)
    if dtype is None:
        msg = f"unknown data type: {datatype}"
        raise ValueError(msg)
    if datatype == _TEXT:
        entries = list(_entries(values) if isinstance(values, memoryview) else _encoded(values))
        array = np.empty(len(entries), dtype=np.object_)
        array[:] = entries
    elif isinstance(values, memoryview):
        array = np.frombuffer(values, dtype=dtype)
    else:
        array = np.array(values, dtype=dtype)
    if array.size != math.prod(shape):
        msg = f"{array.size} elements for the shape {shape}"
        raise ValueError(msg)
    return array.reshape(shape)


def _entries(values: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(values):
        start = at + _LENGTH_SIZE
        at = start + int.from_bytes(values[at:start], "little")
        if at > len(values):
            msg = f"a string ends {at - len(values)} bytes after the response"
            raise ValueError(msg)
        yield values[start:at].tobytes()


def _encoded(values: Iterable[Any]) -> Iterator[bytes]:
    return (value.encode() for value in values)


def _no_datatype(name: str, given: np.ndarray[Any, Any], where: str) -> Problem:
    import numpy as np

    return Problem(
        what=f"input {name!r} has elements of type {np.asarray(given).dtype}",
        where=where,
        why="Triton does not support that type",
        fix="convert it with .astype() to a boolean, an integer, float16 to float64, or strings",
        rule="datatype",
    )
