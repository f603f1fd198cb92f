"""The fields of a protobuf message, read without its schema and without copies of what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple, TypeAlias

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED = {_FIXED_64: 8, _FIXED_32: 4}
_HIGH_BIT = 0x80
_MAX_VARINT_BYTES = 10
_FIRST_KEY = 1 << 3  # protobuf numbers fields from 1 on

Content: TypeAlias = bytes | mmap


class Message(NamedTuple):
    """A part of a file that consists of fields."""

    content: Content
    start: int
    end: int

    @classmethod
    def of(cls, content: Content) -> Message:
        """Return the message that is all of a file."""
        return cls(content, 0, len(content))

    def __bytes__(self) -> bytes:
        return self.content[self.start : self.end]

    def fields(self) -> Iterator[Field]:
        """Yield the fields, in order.

        Raises:
            ValueError: The bytes are not a message.
        """
        at = self.start
        while at < self.end:
            start = at
            key, at = self._varint(at)
            if key < _FIRST_KEY:  # as in a file of zeros, which would be read byte by byte
                raise ValueError
            kind, value = key & 7, 0
            if kind == _VARINT:
                value, at = self._varint(at)
            elif kind == _BYTES:
                value, at = self._varint(at)
                at += value
            else:
                at += _FIXED.get(kind, self.end)  # nothing else is written
            if at > self.end:
                raise ValueError
            message = Message(self.content, at - value, at) if kind == _BYTES else None
            yield Field(key >> 3, value, message, Message(self.content, start, at))

    def parts(self, number: int) -> Iterator[Message]:
        """Yield the messages and strings of a field."""
        return (each.message for each in self.fields() if each.number == number and each.message)

    def number(self, number: int) -> int:
        """Return the integer of a field; 0 if it is missing."""
        found = [each.value for each in self.fields() if each.number == number and each.message is None]
        return found[-1] if found else 0

    def numbers(self, number: int) -> Iterator[int]:
        """Yield the integers of a repeated field, packed or not."""
        for field in self.fields():
            if field.number == number and field.message is None:
                yield field.value
            elif field.number == number and field.message is not None:
                at = field.message.start
                while at < field.message.end:
                    value, at = field.message._varint(at)
                    yield value

    def text(self, number: int) -> bytes:
        """Return the string of a field; empty if it is missing."""
        return b"".join(map(bytes, self.parts(number)))

    def _varint(self, at: int) -> tuple[int, int]:
        number = 0
        for index in range(_MAX_VARINT_BYTES):
            if at + index >= self.end:
                break
            byte = self.content[at + index]
            number |= (byte & (_HIGH_BIT - 1)) << 7 * index
            if byte < _HIGH_BIT:
                return number, at + index + 1
        raise ValueError


class Field(NamedTuple):
    """A field of a message: its number, its integer or the size of its content, the content, all bytes."""

    number: int
    value: int
    message: Message | None
    raw: Message


def encoded(number: int, content: bytes) -> bytes:
    """Return the bytes of a field that has a length."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value >= _HIGH_BIT:
        parts.append(value & (_HIGH_BIT - 1) | _HIGH_BIT)
        value >>= 7
    parts.append(value)
    return bytes(parts)
