"""Removal of source locations from a serialized DALI pipeline.

Every operator contains the path, line, function and source text of its stack frames, for error messages. They
reveal paths of the build machine, and make the bytes depend on it. The format is
dali/pipeline/proto/dali.proto of NVIDIA/DALI (read 2026-11-21, DALI 2.4). Fields are removed without a
schema, so that all other bytes stay unchanged in any version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SUFFIX = ".dali"

_OPERATORS = 5  # PipelineDef.op
_ARGUMENTS = 4  # OpDef.args
_NAME = 1  # Argument.name
_ORIGIN = b"_origin_stack_"

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_MAX_VARINT_BYTES = 10


def without_origin(pipeline: bytes) -> bytes:
    """Return the pipeline without the origins of its operators; return other content unchanged."""
    try:
        return b"".join(
            _rewritten(field, _without_origin(field.content)) if field.number == _OPERATORS else field.raw
            for field in _fields(pipeline)
        )
    except _NotProtobufError:
        return pipeline


class _NotProtobufError(Exception):
    """The bytes are not a protobuf message."""


class _Field(NamedTuple):
    number: int
    content: bytes  # of a field that has a length; otherwise empty
    raw: bytes


def _without_origin(operator: bytes) -> bytes:
    return b"".join(field.raw for field in _fields(operator) if not _is_origin(field))


def _is_origin(field: _Field) -> bool:
    return field.number == _ARGUMENTS and any(
        part.number == _NAME and part.content.startswith(_ORIGIN) for part in _fields(field.content)
    )


def _rewritten(field: _Field, content: bytes) -> bytes:
    if content == field.content:
        return field.raw
    return _varint_bytes(field.number << 3 | _BYTES) + _varint_bytes(len(content)) + content


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a message, in order."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        kind, content = key & 7, b""
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            size, at = _varint(message, at)
            content = message[at : at + size]
            at += size
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise _NotProtobufError
        if at > len(message):
            raise _NotProtobufError
        yield _Field(number=key >> 3, content=content, raw=message[start:at])


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = 0
    for index, byte in enumerate(message[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 (the bit that marks further bytes)
            return value, at + index + 1
    raise _NotProtobufError


def _varint_bytes(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
