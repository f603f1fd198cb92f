"""CloudWatch Logs' filter patterns: terms, and selectors of JSON events.

Read on 2026-11-23: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html

Patterns in brackets, for events with columns, and regular expressions are refused.
"""

from __future__ import annotations

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

Test = Callable[[Any], bool]

_TERM = re.compile(r'\s*([?-]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))')
_TOKEN = re.compile(
    r"""\s*(?:(?P<selector>\$[.\[][^\s=!<>()&|]*)|(?P<symbol>&&|\|\||!=|<=|>=|[=<>()])"""
    r"""|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^\s=!<>()&|"]+))"""
)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"?'?([^\]\"']+)\"?'?\]")
_ORDERS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)
_ABSENT = object()


class PatternError(ValueError):
    """A pattern that CloudWatch Logs, or this package, does not understand."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test of an event's message for a pattern. An empty pattern matches every event."""
    text = pattern.strip()
    if text.startswith("{") and text.endswith("}"):
        test = _Json(text[1:-1]).parsed()
        return lambda message: (event := json_of(message)) is not None and test(event)
    if text.startswith(("[", "%")):
        raise PatternError(f"Invalid filter pattern: {pattern}")
    terms = _Terms.of(text)
    return terms.within


def json_of(message: str) -> Any:
    """Return a message's JSON object; None if it has another form."""
    try:
        event = json.loads(message)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def selected(event: Any, selector: str) -> Any:
    """Return the value that a selector such as `$.a.b[0]` finds in an event; None if there is none."""
    value = _find(event, selector)
    return None if value is _ABSENT else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """Terms, all case-sensitive. Optional ones count only among themselves."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    excluded: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Terms:
        kinds: dict[str, list[str]] = {"": [], "?": [], "-": []}
        position = 0
        while position < len(text):
            found = _TERM.match(text, position)
            if found is None:
                raise PatternError(f"Invalid filter pattern: {text}")
            kind, quoted, plain = found.groups()
            kinds[kind].append(_unescaped(quoted) if quoted is not None else plain)
            position = found.end()
        return cls(required=tuple(kinds[""]), optional=tuple(kinds["?"]), excluded=tuple(kinds["-"]))

    def within(self, message: str) -> bool:
        """Return True if a message has the terms."""
        return (
            all(term in message for term in self.required)
            and not any(term in message for term in self.excluded)
            # AWS ignores optional terms next to required or excluded ones.
            and (
                bool(self.required or self.excluded or not self.optional)
                or any(term in message for term in self.optional)
            )
        )


class _Json:
    """The condition between the braces of a pattern for JSON events."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._position = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        position, text = 0, self._text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error()
            yield str(found.lastgroup), found[str(found.lastgroup)]
            position = found.end()

    def parsed(self) -> Test:
        """Return the test of an event."""
        test = self._any()
        if self._position < len(self._tokens):
            raise self._error()
        return test

    def _any(self) -> Test:
        tests = [self._all()]
        while self._took("||"):
            tests.append(self._all())
        return lambda event: any(test(event) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._took("&&"):
            tests.append(self._one())
        return lambda event: all(test(event) for test in tests)

    def _one(self) -> Test:
        if self._took("("):
            test = self._any()
            if not self._took(")"):
                raise self._error()
            return test
        kind, selector = self._next()
        if kind != "selector":
            raise self._error()
        kind, sign = self._next()
        if kind == "word":
            return self._state(selector, sign)
        kind, wanted = self._next()
        compare = _comparison(sign, wanted, quoted=kind == "text")
        if compare is None or kind not in ("text", "word"):
            raise self._error()
        return lambda event: compare(_find(event, selector))

    def _state(self, selector: str, first: str) -> Test:
        """Return the test of IS TRUE, IS FALSE, IS NULL, EXISTS or NOT EXISTS."""
        words = first.upper() if first.upper() == "EXISTS" else f"{first} {self._next()[1]}".upper()
        tests: dict[str, Test] = {
            "IS TRUE": lambda value: value is True,
            "IS FALSE": lambda value: value is False,
            "IS NULL": lambda value: value is None,
            "EXISTS": lambda value: value is not _ABSENT,
            "NOT EXISTS": lambda value: value is _ABSENT,
        }
        if words not in tests:
            raise self._error()
        return lambda event: tests[words](_find(event, selector))

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise self._error()
        self._position += 1
        return self._tokens[self._position - 1]

    def _took(self, symbol: str) -> bool:
        """Return True, and go on, if the next token is a symbol."""
        if self._tokens[self._position : self._position + 1] == [("symbol", symbol)]:
            self._position += 1
            return True
        return False

    def _error(self) -> PatternError:
        return PatternError(f"Invalid filter pattern: {{{self._text}}}")


def _comparison(sign: str, wanted: str, *, quoted: bool) -> Test | None:
    """Return the test of a value; None for a sign that is no comparison."""
    if sign in _ORDERS:
        order, limit = _ORDERS[sign], _number(wanted)
        if limit is None:
            return None
        return lambda value: _is_number(value) and order(float(value), limit)
    if sign == "=":
        return _equality(_unescaped(wanted) if quoted else wanted, quoted=quoted)
    if sign == "!=":
        equal = _equality(_unescaped(wanted) if quoted else wanted, quoted=quoted)
        return lambda value: value is not _ABSENT and not equal(value)
    return None


def _equality(wanted: str, *, quoted: bool) -> Test:
    """Return the test for a text, in which * stands for any characters, or for a number without quotes."""
    number = None if quoted else _number(wanted)
    form = re.compile(fnmatch.translate(wanted.replace("[", "[[]").replace("?", "[?]")))

    def equal(value: Any) -> bool:
        if _is_number(value):
            return number is not None and float(value) == number
        return isinstance(value, str) and form.match(value) is not None

    return equal


def _find(event: Any, selector: str) -> Any:
    value, position = event, 1
    while position < len(selector):
        step = _STEP.match(selector, position)
        if step is None:
            raise PatternError(f"Invalid filter pattern: {selector}")
        position = step.end()
        name, index, quoted = step.groups()
        if index is not None:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else _ABSENT
        else:
            value = value.get(name or quoted, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            break
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
