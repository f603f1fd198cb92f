"""SEARCH expressions: the metrics whose names and dimensions match some terms.

Syntax: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from embedded_aws.cloudwatch.expressions import ExpressionError
from embedded_aws.cloudwatch.series import MetricKey

_SCHEMA = re.compile(r"\s*\{([^}]*)\}\s*,?")
_SCHEMA_PART = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]+?))\s*(?:,|$)')
_TERM = re.compile(r'\s*(?:([()])|((?:[^\s()="]+=)?)(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+)))')
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_Test: TypeAlias = Callable[[MetricKey], bool]


def found(query: str, keys: Iterable[MetricKey]) -> list[MetricKey]:
    """Return the metrics that a search finds, in their order."""
    schema = _SCHEMA.match(query)
    tests: list[_Test] = [] if schema is None else [_schema(schema[1])]
    terms = query[schema.end() :] if schema else query
    if terms.strip():
        tests.append(_Terms(terms).test())
    if not tests:
        raise ExpressionError("a search needs a schema or a term")
    return [key for key in keys if all(test(key) for test in tests)]


def _schema(text: str) -> _Test:
    parts = [_unescaped(quoted) if quoted else plain for quoted, plain in _SCHEMA_PART.findall(text)]
    if not parts:
        raise ExpressionError("the schema of a search needs a namespace")
    namespace, *dimensions = parts
    wanted = set(dimensions)
    return lambda key: key.namespace == namespace and {name for name, _ in key.dimensions} == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """A term: its property, if it names one, and its text, which may have to match exactly."""

    property: str
    text: str
    exact: bool


class _Terms:
    """A parser of terms with AND, OR, NOT and parentheses. Terms side by side must all hold."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0

    def test(self) -> _Test:
        """Parse all terms."""
        test = self._any()
        if self._next < len(self._tokens):
            raise ExpressionError("a parenthesis of the search is not opened")
        return test

    def _any(self) -> _Test:
        tests = [self._all()]
        while self._taken("OR"):
            tests.append(self._all())
        return lambda key: any(test(key) for test in tests)

    def _all(self) -> _Test:
        tests = [self._one()]
        while self._next < len(self._tokens) and self._tokens[self._next] not in ("OR", ")"):
            self._taken("AND")
            tests.append(self._one())
        return lambda key: all(test(key) for test in tests)

    def _one(self) -> _Test:
        if self._taken("NOT"):
            test = self._one()
            return lambda key: not test(key)
        if self._taken("("):
            test = self._any()
            if not self._taken(")"):
                raise ExpressionError("a parenthesis of the search is not closed")
            return test
        term = self._tokens[self._next] if self._next < len(self._tokens) else ")"
        if isinstance(term, str):
            raise ExpressionError("a term of the search is missing")
        self._next += 1
        return _matching(term)

    def _taken(self, word: str) -> bool:
        taken = self._next < len(self._tokens) and self._tokens[self._next] == word
        self._next += taken
        return taken


def _tokens(text: str) -> Iterator[str | _Term]:
    """Yield operators and parentheses as strings, between the terms."""
    for mark, property_, exact, partial in _TERM.findall(text):
        if mark or (partial in ("AND", "OR", "NOT") and not property_):
            yield mark or partial
        else:
            text_ = _unescaped(exact) or partial
            yield _Term(property=property_.removesuffix("="), text=text_, exact=bool(exact))


def _matching(term: _Term) -> _Test:
    wanted = _parts(term.text)

    def test(key: MetricKey) -> bool:
        values = _values(key, term.property)
        if term.exact:
            return term.text in values
        return any(_contains(_parts(value), wanted) for value in values)

    return test


def _values(key: MetricKey, property_: str) -> list[str]:
    """Return what a term may match: the value of its property, or every name and value of the metric."""
    if property_ in ("MetricName", "Namespace"):
        return [key.name if property_ == "MetricName" else key.namespace]
    if property_:
        return [value for name, value in key.dimensions if name == property_]
    return [key.namespace, key.name, *(each for pair in key.dimensions for each in pair)]


def _parts(text: str) -> list[str]:
    """Return the words of a name, in lower case: they begin at capitals, digits and punctuation."""
    return [word.lower() for word in _WORD.findall(text)]


def _contains(parts: list[str], wanted: list[str]) -> bool:
    width = len(wanted)
    return any(parts[start : start + width] == wanted for start in range(len(parts) - width + 1))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
