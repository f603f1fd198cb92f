"""The syntax of metric math: an expression as text becomes a tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


class ExpressionError(ValueError):
    """An expression that CloudWatch refuses.

    Attributes:
        query: The id of its query, once that is known.
    """

    query = ""

    def __str__(self) -> str:
        """Return the message, with the query's id."""
        message = super().__str__()
        return f"Error in expression {self.query!r}: {message}" if self.query else message


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A string in quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Name:
    """The id of a query, or a word such as REPEAT."""

    value: str


@dataclass(frozen=True, slots=True)
class Array:
    """Expressions in brackets."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator between two expressions."""

    operator: str
    left: Node
    right: Node


Node: TypeAlias = Number | Text | Name | Array | Call | Operation

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
        |(?P<text>"[^"]*"|'[^']*')
        |(?P<name>[A-Za-z_]\w*)
        |(?P<mark>\|\||&&|==|!=|<=|>=|[-+*/^<>()\[\],])
    )""",
    re.VERBOSE,
)
# Operators by binding, the weakest first. Those of a row are evaluated from left to right.
_LEVELS = (("OR", "||"), ("AND", "&&"), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/"))
_SPELLINGS = {"||": "OR", "&&": "AND"}


def parse(text: str) -> Node:
    """Parse an expression."""
    parser = _Parser(list(_tokens(text)))
    node = parser.operation(0)
    parser.end()
    return node


def names(node: Node) -> Iterator[str]:
    """Yield the names in an expression: ids of queries, and words such as REPEAT."""
    match node:
        case Name(value):
            yield value
        case Array(items) | Call(_, items):
            for each in items:
                yield from names(each)
        case Operation(_, left, right):
            yield from names(left)
            yield from names(right)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ExpressionError(f"unexpected {text[place:].strip()[0]!r} at position {place}")
        yield str(found.lastgroup), found[str(found.lastgroup)]
        place = found.end()


class _Parser:
    """A parser by recursive descent: one method per kind of expression."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._next = 0

    def operation(self, level: int) -> Node:
        """Parse operators of a level and of all that bind closer."""
        if level == len(_LEVELS):
            return self._unary()
        left = self.operation(level + 1)
        while self._peek() in _LEVELS[level]:
            operator = self._take()
            right = self.operation(level + 1)
            left = Operation(_SPELLINGS.get(operator, operator), left, right)
        return left

    def end(self) -> None:
        """Fail if something follows."""
        if self._next < len(self._tokens):
            raise ExpressionError(f"unexpected {self._peek()!r}")

    def _unary(self) -> Node:
        if self._peek() == "-":
            self._take()
            return Operation("-", Number(0.0), self._unary())
        base = self._atom()
        if self._peek() == "^":
            self._take()
            return Operation("^", base, self._unary())
        return base

    def _atom(self) -> Node:
        if self._next == len(self._tokens):
            raise ExpressionError("it ends too early")
        kind, text = self._tokens[self._next]
        self._next += 1
        atoms: dict[str, Callable[[str], Node]] = {
            "number": lambda text: Number(float(text)),
            "text": lambda text: Text(text[1:-1]),
            "name": self._named,
            "mark": self._bracketed,
        }
        return atoms[kind](text)

    def _named(self, name: str) -> Node:
        if self._peek() != "(":
            return Name(name)
        self._take()
        return Call(name, self._list(")"))

    def _bracketed(self, mark: str) -> Node:
        if mark == "[":
            return Array(self._list("]"))
        if mark != "(":
            raise ExpressionError(f"unexpected {mark!r}")
        node = self.operation(0)
        self._expect(")")
        return node

    def _list(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while self._peek() != closing:
            if items:
                self._expect(",")
            items.append(self.operation(0))
        self._take()
        return tuple(items)

    def _peek(self) -> str:
        if self._next == len(self._tokens):
            return ""
        kind, text = self._tokens[self._next]
        return "" if kind == "text" else text

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise ExpressionError(f"{mark!r} is missing")
        self._take()
