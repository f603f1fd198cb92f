"""Reads the usual spelling of a config.pbtxt, seven times faster than protobuf's own reader for Python.

What is not usual (escapes, strings in parts, octal numbers, angle brackets, a mistake of any kind) is left to
protobuf's reader. So this one knows no error, and must only never read a text in another way than that one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from triton_models.config.pbtxt import ModelConfig, schema

# Spaces and comments, then a word, a string without escapes, a decimal number, a bracket or separator, or the
# end. A comment ends with its line: nothing of it is taken for a token. Anything else is one token up to the
# end of the text with its last line break, which is no field's value: so nothing is passed over.
_TOKEN = re.compile(
    r"""(?:[ \t\r\n]|\#[^\n]*\n)*
    ([A-Za-z_][A-Za-z0-9_]*|"[^"\\\x00-\x1f]*"|'[^'\\\x00-\x1f]*'
    |-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?![\w.])|[{}\[\]:,]|\Z|.+)""",
    re.VERBOSE | re.DOTALL,
)
_END = ""
_BOOLEANS = {"true": True, "false": False}
_WHOLE = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
    }
)
_BROKEN = frozenset({FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE})


class _UnusualError(Exception):
    """Something that protobuf's own reader has to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    repeated: bool
    is_map: bool
    has_messages: bool
    value: Callable[[str], Any]
    once: str  # what may be set only once: the field's own name, or its oneof's


def read_usual(text: str) -> ModelConfig | None:
    """The message that a text says; None if the text is unusual or wrong."""
    tokens = _TOKEN.findall(f"{text}\n")
    message = schema().ModelConfig()
    try:
        _read(message, tokens, 0, _END)
    except (_UnusualError, ValueError, KeyError, IndexError, TypeError):
        return None
    return message


def _read(message: Any, tokens: list[str], at: int, end: str) -> int:
    """Read fields into a message up to its end; returns the place after that."""
    fields = _fields(message.DESCRIPTOR)
    seen: set[str] = set()
    while tokens[at] != end:
        field = fields[tokens[at]]
        if field.once in seen and not field.repeated:
            raise _UnusualError
        seen.add(field.once)
        read = _read_messages if field.has_messages else _read_values
        at = read(message, field, tokens, at + 1)
        if tokens[at] == ",":
            at += 1
    return at + 1


def _read_values(message: Any, field: _Field, tokens: list[str], at: int) -> int:
    _expect(tokens[at], ":")
    at += 1
    if not field.repeated:
        setattr(message, field.name, field.value(tokens[at]))
    elif tokens[at] != "[":
        getattr(message, field.name).append(field.value(tokens[at]))
    else:
        values = getattr(message, field.name)
        while True:
            values.append(field.value(tokens[at + 1]))
            at += 2
            if tokens[at] == "]":
                break
            _expect(tokens[at], ",")
    at += 1
    if tokens[at][:1] in {'"', "'"}:
        raise _UnusualError  # a string in parts
    return at


def _read_messages(message: Any, field: _Field, tokens: list[str], at: int) -> int:
    if tokens[at] == ":":
        at += 1
    if tokens[at] != "[":
        return _read_message(message, field, tokens, at)
    if not field.repeated:
        raise _UnusualError
    while True:
        at = _read_message(message, field, tokens, at + 1)
        if tokens[at] == "]":
            return at + 1
        _expect(tokens[at], ",")


def _read_message(message: Any, field: _Field, tokens: list[str], at: int) -> int:
    _expect(tokens[at], "{")
    values = getattr(message, field.name)
    if not field.is_map:
        if field.repeated:
            return _read(values.add(), tokens, at + 1, "}")
        values.SetInParent()
        return _read(values, tokens, at + 1, "}")
    entry: Any = message_factory.GetMessageClass(values.GetEntryClass().DESCRIPTOR)()
    at = _read(entry, tokens, at + 1, "}")
    if entry.DESCRIPTOR.fields_by_name["value"].message_type is None:
        values[entry.key] = entry.value
    else:
        values[entry.key].CopyFrom(entry.value)
    return at


def _expect(token: str, wanted: str) -> None:
    if token != wanted:
        raise _UnusualError


@functools.cache
def _fields(descriptor: Descriptor) -> Mapping[str, _Field]:
    found = {}
    for field in descriptor.fields:
        oneof = field.containing_oneof
        found[field.name] = _Field(
            name=field.name,
            repeated=field.is_repeated,
            is_map=field.message_type is not None and field.message_type.GetOptions().map_entry,
            has_messages=field.message_type is not None,
            value=_reader(field),
            once=field.name if oneof is None else f"oneof {oneof.name}",
        )
    return found


def _reader(field: FieldDescriptor) -> Callable[[str], Any]:
    """What makes a value of a token; it raises a ValueError or a KeyError for another one."""
    if field.type in _WHOLE:
        return _whole
    if field.type in _BROKEN:
        return _number
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _BOOLEANS.__getitem__
    if field.enum_type is not None:
        return {value.name: value.number for value in field.enum_type.values}.__getitem__
    return _string


def _whole(token: str) -> int:
    if not (token.isascii() and token.removeprefix("-").isdigit()):
        raise _UnusualError
    return int(token)


def _number(token: str) -> float:
    if not (token.isascii() and token.removeprefix("-").replace(".", "", 1).isdigit()):
        raise _UnusualError
    return float(token)


def _string(token: str) -> str:
    if token[:1] not in {'"', "'"} or token[-1] != token[0] or len(token) < len('""'):
        raise _UnusualError
    return token[1:-1]
