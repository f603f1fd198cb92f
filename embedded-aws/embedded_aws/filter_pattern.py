"""CloudWatch Logs' filter patterns: terms, and selectors of JSON events.

Read on 2026-11-23: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html

Patterns in brackets, for events with columns, and regular expressions are refused.
"""

from __future__ import annotations

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from embedded_aws.syntax import Logic

Test = Callable[[Any], bool]

_TERM = re.compile(r'\s*([?-]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))')
_CONDITION = re.compile(
    r"""(?P<selector>\$[.\[][^\s=!<>()&|]*)\s*(?:(?P<state>(?i:IS\s+(?:TRUE|FALSE|NULL)|(?:NOT\s+)?EXISTS))"""
    r"""|(?P<sign>!=|<=|>=|[=<>])\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^\s=!<>()&|"]+)))"""
)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"?'?([^\]\"']+)\"?'?\]")
_ORDERS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)
_ABSENT = object()
_STATES: Mapping[str, Test] = MappingProxyType(
    {
        "IS TRUE": lambda value: value is True,
        "IS FALSE": lambda value: value is False,
        "IS NULL": lambda value: value is None,
        "EXISTS": lambda value: value is not _ABSENT,
        "NOT EXISTS": lambda value: value is _ABSENT,
    }
)


class PatternError(ValueError):
    """A pattern that CloudWatch Logs, or this package, does not understand."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test of an event's message for a pattern. An empty pattern matches every event."""
    text = pattern.strip()
    if text.startswith("{") and text.endswith("}"):
        test = _json_test(text[1:-1])
        return lambda message: (event := json_of(message)) is not None and test(event)
    if text.startswith(("[", "%")):
        raise PatternError(f"Invalid filter pattern: {pattern}")
    return _terms_test(text)


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


def _terms_test(text: str) -> Callable[[str], bool]:
    """Return the test of terms, all case-sensitive. Optional ones count only among themselves, as in AWS."""
    kinds: dict[str, list[str]] = {"": [], "?": [], "-": []}
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None:
            raise PatternError(f"Invalid filter pattern: {text}")
        kind, quoted, plain = found.groups()
        kinds[kind].append(_unescaped(quoted) if quoted is not None else plain)
        position = found.end()
    required, optional, excluded = kinds.values()
    return lambda message: (
        all(term in message for term in required)
        and not any(term in message for term in excluded)
        and (bool(required or excluded or not optional) or any(term in message for term in optional))
    )


def _json_test(text: str) -> Test:
    """Return the test for the condition between the braces of a pattern."""
    try:
        logic = Logic(text, _CONDITION)
        tests = {each: _condition_test(each) for each in logic.conditions}
    except ValueError as error:
        raise PatternError(f"Invalid filter pattern: {{{text}}}") from error
    return lambda event: logic.holds(lambda each: tests[each](_find(event, each["selector"])))


def _condition_test(found: re.Match[str]) -> Test:
    _find({}, found["selector"])
    if found["state"]:
        return _STATES[" ".join(found["state"].upper().split())]
    sign, quoted = found["sign"], found["text"] is not None
    wanted = _unescaped(found["text"]) if quoted else found["word"]
    if sign in _ORDERS:
        order, limit = _ORDERS[sign], float(wanted)
        return lambda value: _is_number(value) and order(float(value), limit)
    equal = _equality(wanted, quoted=quoted)
    return equal if sign == "=" else lambda value: value is not _ABSENT and not equal(value)


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
