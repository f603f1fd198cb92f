"""GetMetricData: statistics, metric math and searches over a span of time.

Syntax of searches, in which all terms must hold; OR, NOT and parentheses are refused:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from embedded_aws.cloudwatch.metric_math import ExpressionError, Line, Value, evaluate, ids, parsed
from embedded_aws.cloudwatch.series import MetricKey, MetricStore
from embedded_aws.cloudwatch.statistics import is_statistic, statistic

_MINUTE_S = 60


class Request:
    """The queries of a request, each evaluated once."""

    def __init__(
        self, store: MetricStore, queries: Sequence[Mapping[str, Any]], *, start: float, end: float
    ) -> None:
        self._store = store
        self._queries = {str(each["Id"]): each for each in queries}
        self._start = start
        self._end = int(end)
        self._values: dict[str, Value] = {}
        self._under_way: list[str] = []

    def results(self) -> Iterator[tuple[str, Line]]:
        """Yield the lines that the request wants, with the ids of their queries."""
        for name, query in self._queries.items():
            if query.get("ReturnData", True):
                value = self.value(name)
                if not isinstance(value, Line | list):
                    raise ExpressionError(f"{name} results in a number, not in a time series")
                label = query.get("Label")
                for line in value if isinstance(value, list) else [value]:
                    yield name, _labelled(line, label, several=isinstance(value, list))

    def value(self, name: str) -> Value:
        if name not in self._queries:
            raise ExpressionError(f"no query has the id {name}")
        if name in self._under_way:
            raise ExpressionError(f"{name} refers to itself")
        if name not in self._values:
            self._under_way.append(name)
            try:
                self._values[name] = self._evaluated(self._queries[name])
            except ExpressionError as error:
                error.query = error.query or name
                raise
            self._under_way.remove(name)
        return self._values[name]

    def metrics(self, part: str) -> list[Line]:
        values = [
            self.value(name) for name, each in self._queries.items() if "MetricStat" in each and part in name
        ]
        return [value for value in values if isinstance(value, Line)]

    def times(self, period: int) -> Sequence[int]:
        return range(self._from(period), self._end, period)

    def search(self, query: str, name: str, period: int) -> list[Line]:
        keys = _found(query, self._store.keys())
        return [self._line(key, name, period=period, label=_distinct(key)) for key in keys]

    def _evaluated(self, query: Mapping[str, Any]) -> Value:
        name = str(query["Id"])
        if (stat := query.get("MetricStat")) is not None:
            metric = stat["Metric"]
            key = MetricKey.of(metric["Namespace"], metric["MetricName"], metric.get("Dimensions", ()))
            return self._line(
                key, stat["Stat"], period=int(stat["Period"]), unit=stat.get("Unit"), label=key.name
            )
        node = parsed(str(query["Expression"]))
        period = int(query.get("Period") or self._longest_period(node))
        value = evaluate(node, self, period=period)
        return replace(value, label=name) if isinstance(value, Line) else value

    def _line(self, key: MetricKey, name: str, *, period: int, label: str, unit: str | None = None) -> Line:
        if not is_statistic(name):
            raise ExpressionError(f"there is no statistic {name}")
        start = self._from(period)
        periods = self._store.periods(key, start=start, end=self._end, period=period, unit=unit)
        values = {time: statistic(samples, name) for time, samples in periods.items()}
        points = {time: value for time, value in values.items() if value is not None}
        return Line(label=label, period=period, points=points)

    def _longest_period(self, node: ast.expr) -> int:
        """Return the longest period of the metrics that an expression refers to, directly or indirectly."""
        waiting, seen, periods = ids(node) or list(self._queries), set[str](), [_MINUTE_S]
        while waiting:
            query = self._queries.get(name := waiting.pop(), {})
            if name not in seen and "MetricStat" in query:
                periods.append(int(query["MetricStat"]["Period"]))
            elif name not in seen and "Expression" in query:
                waiting += ids(parsed(str(query["Expression"])))
            seen.add(name)
        return max(periods)

    def _from(self, period: int) -> int:
        step = min(period, _MINUTE_S)
        return int(self._start // step * step)


def _labelled(line: Line, label: str | None, *, several: bool) -> Line:
    """Return a line with the label of its query; of several lines each keeps its own as well."""
    if label is None:
        return line
    return replace(line, label=f"{label} {line.label}".strip() if several else label)


def _distinct(key: MetricKey) -> str:
    return " ".join([*(value for _, value in key.dimensions), key.name])


_SCHEMA = re.compile(r"\s*\{([^}]*)\}\s*,?")
_SCHEMA_PART = re.compile(r'\s*(?:"([^"]*)"|([^,"]+?))\s*(?:,|$)')
_TERM = re.compile(r'((?:[^\s()="]+=)?)(?:"([^"]*)"|([^\s"]+))')
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _found(query: str, keys: Iterable[MetricKey]) -> list[MetricKey]:
    """Return the metrics that a search finds by a schema in braces, terms, or both, in their order."""
    schema = _SCHEMA.match(query)
    terms = [each for each in _TERM.findall(query[schema.end() :] if schema else query) if each[2] != "AND"]
    if not schema and not terms:
        raise ExpressionError("a search needs a schema or a term")
    if any(word in {"OR", "NOT"} or "(" in word for _, _, word in terms):
        raise ExpressionError("the embedded AWS has no OR, NOT and parentheses in searches")
    named = [quoted or plain for quoted, plain in _SCHEMA_PART.findall(schema[1])] if schema else []
    return [
        key
        for key in keys
        if (not named or (named[0], set(named[1:])) == (key.namespace, {name for name, _ in key.dimensions}))
        and all(_matches(key, *term) for term in terms)
    ]


def _matches(key: MetricKey, named: str, exact: str, partial: str) -> bool:
    """Return True if a name or a value matches: exactly in quotes, and otherwise some of its words."""
    values = _values(key, named.removesuffix("="))
    return exact in values if exact else any(_contains(_words(value), _words(partial)) for value in values)


def _values(key: MetricKey, name: str) -> list[str]:
    """Return what a term may match: the value of its property, or every name and value of the metric."""
    if not name:
        return [key.namespace, key.name, *(each for pair in key.dimensions for each in pair)]
    known = {**dict(key.dimensions), "MetricName": key.name, "Namespace": key.namespace}
    return [known[name]] if name in known else []


def _words(text: str) -> list[str]:
    """Return the words of a name, in lower case: they begin at capitals, digits and punctuation."""
    return [word.lower() for word in _WORD.findall(text)]


def _contains(words: list[str], wanted: list[str]) -> bool:
    width = len(wanted)
    return any(words[start : start + width] == wanted for start in range(len(words) - width + 1))
