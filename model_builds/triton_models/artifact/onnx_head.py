"""A reader of an ONNX file's metadata that needs no onnx package and does not read the weights.

The file is a protobuf message, ModelProto of onnx.proto (onnx 1.23, read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from triton_models.artifact.signature import TYPES, NetworkTensor, Signature

# Numbers of fields: of ModelProto, OperatorSetIdProto, GraphProto, TensorProto, ValueInfoProto, TypeProto and
# its Tensor, TensorShapeProto and its Dimension.
_IR_VERSION, _GRAPH, _OPSET = 1, 7, 8
_DOMAIN, _VERSION = 1, 2
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12
_TENSOR_NAME, _EXTERNAL_DATA, _KEY, _VALUE = 8, 13, 1, 2
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TENSOR_TYPE, _ELEMENT, _SHAPE, _DIMENSION, _SIZE, _SIZE_NAME = 1, 1, 2, 1, 1, 2

# TensorProto.DataType by number; Triton does not support the missing types.
_ELEMENTS = MappingProxyType(
    dict(enumerate(["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL"], 1))
    | {10: "FLOAT16", 11: "DOUBLE", 12: "UINT32", 13: "UINT64", 16: "BFLOAT16"}
)
_DOMAINS = frozenset({b"", b"ai.onnx"})

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED = MappingProxyType({_FIXED_64: 8, _FIXED_32: 4})
_HIGH_BIT = 0x80
_FIRST_KEY = 1 << 3  # protobuf numbers fields from 1 on

Content: TypeAlias = bytes | mmap


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxHead:
    """An ONNX file without its operators and weights.

    Attributes:
        ir_version: The version of the file's format.
        opset: The version of ONNX's own operators; 0 if it uses none.
        signature: Its inputs and outputs.
        constants: Its inputs with a value in the file, which a request may omit.
        side_files: The files with the rest of its weights, relative to its folder.
    """

    ir_version: int
    opset: int
    signature: Signature
    constants: frozenset[str]
    side_files: tuple[str, ...] = ()


def read_onnx_file(path: Path) -> OnnxHead | None:
    """Read the metadata of a file on disk; return None if it is not an ONNX file.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.stat().st_size:
        return None
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return read_onnx_head(content)


def read_onnx_head(content: Content) -> OnnxHead | None:
    """Read the metadata of a file; return None if it is not an ONNX file."""
    try:
        return _head(_Message(content, 0, len(content)))
    except (ValueError, IndexError):
        return None


def side_files(path: Path) -> tuple[str, ...]:
    """Return the files with the rest of an ONNX file's weights; none for any other file.

    PyTorch's exporter writes `fraud.onnx.data` next to `fraud.onnx`.

    Raises:
        OSError: The file cannot be read.
    """
    if path.suffix != ".onnx" or not path.is_file():
        return ()
    head = read_onnx_file(path)
    return head.side_files if head else ()


@dataclass(frozen=True, slots=True)
class _Message:
    """A part of a file that consists of fields."""

    content: Content
    start: int
    end: int

    def fields(self) -> Iterator[tuple[int, int | _Message]]:
        """Yield each field's number, with its integer or its part of the file."""
        at = self.start
        while at < self.end:
            key, at = self._varint(at)
            if key < _FIRST_KEY:  # as in a file of zeros, which would be read byte by byte
                raise ValueError
            kind = key & 7
            value: int | _Message = 0
            if kind == _VARINT:
                value, at = self._varint(at)
            elif kind == _BYTES:
                size, at = self._varint(at)
                value = _Message(self.content, at, at + size)
                at += size
            else:
                at += _FIXED.get(kind, self.end)  # nothing else is written
            if at > self.end:
                raise ValueError
            yield key >> 3, value

    def parts(self, number: int) -> Iterator[_Message]:
        """Yield the messages and strings of a field."""
        return (value for field, value in self.fields() if field == number and isinstance(value, _Message))

    def number(self, number: int) -> int:
        """Return the integer of a field; 0 if it is missing."""
        found = [value for field, value in self.fields() if field == number and isinstance(value, int)]
        return found[-1] if found else 0

    def text(self, number: int) -> bytes:
        """Return the string of a field; empty if it is missing."""
        return b"".join(each.content[each.start : each.end] for each in self.parts(number))

    def _varint(self, at: int) -> tuple[int, int]:
        number, shift = 0, 0
        while True:
            byte = self.content[at]
            number |= (byte & (_HIGH_BIT - 1)) << shift
            at, shift = at + 1, shift + 7
            if byte < _HIGH_BIT:
                return number, at


def _head(model: _Message) -> OnnxHead | None:
    ir_version = opset = 0
    inputs: list[NetworkTensor] = []
    outputs: list[NetworkTensor] = []
    weights: set[str] = set()
    files: set[str] = set()
    for field, value in model.fields():
        if field == _IR_VERSION and isinstance(value, int):
            ir_version = value
        elif field == _OPSET and isinstance(value, _Message) and value.text(_DOMAIN) in _DOMAINS:
            opset = value.number(_VERSION)
        elif field == _GRAPH and isinstance(value, _Message):
            for part, each in value.fields():
                if isinstance(each, _Message) and part in {_INPUT, _OUTPUT}:
                    (inputs if part == _INPUT else outputs).append(_tensor(each))
                elif isinstance(each, _Message) and part == _INITIALIZER:
                    weights.add(each.text(_TENSOR_NAME).decode())
                    files.update(_locations(each))
    if not (ir_version and outputs):
        return None
    return OnnxHead(
        ir_version=ir_version,
        opset=opset,
        signature=Signature(inputs=[each for each in inputs if each.name not in weights], outputs=outputs),
        constants=frozenset(each.name for each in inputs) & weights,
        side_files=tuple(sorted(files)),
    )


def _locations(weight: _Message) -> Iterator[str]:
    """Yield the file that has a weight's values, if that is another one."""
    for entry in weight.parts(_EXTERNAL_DATA):
        if entry.text(_KEY) == b"location":
            yield entry.text(_VALUE).decode()


def _tensor(value: _Message) -> NetworkTensor:
    name = value.text(_VALUE_NAME).decode()
    for kind in value.parts(_VALUE_TYPE):
        for tensor in kind.parts(_TENSOR_TYPE):
            own = _ELEMENTS.get(tensor.number(_ELEMENT), "another type")
            shapes = [[_size(size) for size in shape.parts(_DIMENSION)] for shape in tensor.parts(_SHAPE)]
            return NetworkTensor(
                name=name, data_type=TYPES.get(own, own), dims=shapes[-1] if shapes else None
            )
    return NetworkTensor(name=name, data_type="another type", dims=None)


def _size(dimension: _Message) -> int | str | None:
    for field, value in dimension.fields():
        if field == _SIZE and isinstance(value, int):
            return value if value < 1 << 63 else None  # a negative number
    return dimension.text(_SIZE_NAME).decode() or None
