"""The values of metric math: operators and functions on numbers, lines and arrays of lines.

Semantics: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html. Operators
between two lines read a missing value as 0. A division by zero drops the data point.
"""

from __future__ import annotations

import ast
import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Protocol, TypeAlias

from embedded_aws.syntax import SyntaxFormError, parse


class ExpressionError(ValueError):
    """An expression that CloudWatch refuses, with the id of its query once that is known."""

    query = ""

    def __str__(self) -> str:
        message = super().__str__()
        return f"Error in expression {self.query!r}: {message}" if self.query else message


def parsed(text: str) -> ast.expr:
    try:
        return parse(text)
    except SyntaxFormError as error:
        raise ExpressionError(str(error)) from error


def ids(node: ast.expr) -> list[str]:
    """Return the ids of queries in an expression. Other names are words such as REPEAT."""
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id[:1].islower()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    label: str
    period: int
    points: Mapping[int, float]


Value: TypeAlias = float | Line | list[Line] | str
"""The value of an expression. A string stands only among the arguments of a function."""


class Queries(Protocol):
    """The other queries of a request, to which an expression refers."""

    def value(self, name: str) -> Value:
        """Return the result of a query by its id."""

    def metrics(self, part: str) -> list[Line]:
        """Return the results of the queries for metrics whose ids contain a string."""

    def times(self, period: int) -> Sequence[int]:
        """Return all times of the request."""

    def search(self, query: str, statistic: str, period: int) -> list[Line]:
        """Return the metrics that a search finds."""


def evaluate(node: ast.expr, queries: Queries, *, period: int) -> Value:
    return _Evaluation(queries, period).value(node)


def _power(base: float, exponent: float) -> float:
    result = base**exponent
    return math.nan if isinstance(result, complex) else result


_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.And: lambda left, right: bool(left) and bool(right),
    ast.Or: lambda left, right: bool(left) or bool(right),
}

_Aggregate: TypeAlias = Callable[[Sequence[float]], float]
# Of the values of one line, or of one moment in several lines.
_AGGREGATES: Mapping[str, _Aggregate] = {
    "AVG": statistics.fmean,
    "DATAPOINT_COUNT": lambda values: float(len(values)),
    "MAX": max,
    "MIN": min,
    "STDDEV": statistics.pstdev,
    "SUM": math.fsum,
}
_POINTWISE: Mapping[str, Callable[[float], float]] = {
    "ABS": abs,
    "CEIL": math.ceil,
    "FLOOR": math.floor,
    "LOG": math.log,
    "LOG10": math.log10,
}


def _differences(points: Mapping[int, float]) -> dict[int, float]:
    return {time: points[time] - points[before] for before, time in pairwise(points)}


_LINEWISE: Mapping[str, Callable[[Mapping[int, float]], Mapping[int, float]]] = {
    "DIFF": _differences,
    "RATE": lambda points: {
        time: (points[time] - points[before]) / (time - before) for before, time in pairwise(points)
    },
}


class _Evaluation:
    def __init__(self, queries: Queries, period: int) -> None:
        self._queries = queries
        self._period = period
        self._functions: Mapping[str, Callable[..., Value]] = {
            "FILL": self._fill,
            "IF": self._if,
            "METRICS": lambda part="": self._queries.metrics(str(part)),
            "METRIC_COUNT": lambda lines: float(len(self._lines(lines))),
            "PERIOD": lambda line: float(_line(line).period),
            "SEARCH": lambda query, statistic, period: self._queries.search(query, statistic, int(period)),
            "TIME_SERIES": lambda number: self._constant(_number(number)),
        }

    def value(self, node: ast.expr) -> Value:  # noqa: PLR0911 (a result for each kind of node)
        match node:
            case ast.Constant(value=str() | int() | float() as constant):
                return constant if isinstance(constant, str) else float(constant)
            case ast.Name(id=name):
                return self._queries.value(name) if name[:1].islower() else name
            case ast.List(elts=items):
                return [line for each in items for line in self._lines(self.value(each))]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._operation(operator.sub, 0.0, self.value(inner))
            case (
                ast.BinOp(left=left, op=kind, right=right)
                | ast.Compare(left=left, ops=[kind], comparators=[right])
            ) if type(kind) in _OPERATORS:
                return self._operation(_OPERATORS[type(kind)], self.value(left), self.value(right))
            case ast.BoolOp(op=kind, values=parts):
                combine = partial(self._operation, _OPERATORS[type(kind)])
                return reduce(combine, map(self.value, parts))
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
                return self._call(function, arguments)
        raise ExpressionError(f"{ast.unparse(node)} is no metric math")

    def _call(self, function: str, nodes: Sequence[ast.expr]) -> Value:
        try:
            return self._called(function, [self.value(node) for node in nodes])
        except (TypeError, IndexError, KeyError) as error:
            raise ExpressionError(f"the arguments of {function} are wrong") from error

    def _called(self, function: str, given: Sequence[Value]) -> Value:
        if (aggregate := _AGGREGATES.get(function)) is not None:
            return self._aggregated(function, aggregate, *given)
        if (pointwise := _POINTWISE.get(function)) is not None:
            return self._each(lambda line: _mapped(line, pointwise), *given)
        if (linewise := _LINEWISE.get(function)) is not None:
            return self._each(lambda line: replace(line, points=linewise(line.points)), *given)
        if function not in self._functions:
            raise ExpressionError(f"the function {function} is not known here")
        return self._functions[function](*given)

    def _operation(self, combine: Callable[[float, float], float], left: Value, right: Value) -> Value:
        if isinstance(left, list) or isinstance(right, list):
            return [_line(self._operation(combine, one, other)) for one, other in _paired(left, right)]
        if isinstance(left, Line) or isinstance(right, Line):
            first = left if isinstance(left, Line) else _line(right)
            times = sorted({*_times_of(left), *_times_of(right)})
            points = {time: _safely(combine, _at(left, time), _at(right, time)) for time in times}
            return replace(first, points=_without_gaps(points))
        return _safely(combine, _number(left), _number(right))

    def _aggregated(self, name: str, aggregate: _Aggregate, given: Value) -> Value:
        if isinstance(given, Line):
            return aggregate(list(given.points.values())) if given.points else math.nan
        lines = self._lines(given)
        times = sorted({time for line in lines for time in line.points})
        missing = [0.0] if name == "AVG" else []  # AVG alone counts what is missing, as 0
        points = {
            time: aggregate([value for line in lines for value in _value_at(line, time, missing)])
            for time in times
        }
        return Line(label=name, period=lines[0].period if lines else self._period, points=points)

    def _each(self, change: Callable[[Line], Line], given: Value) -> Value:
        return [change(line) for line in given] if isinstance(given, list) else change(_line(given))

    def _fill(self, given: Value, filler: Value | str) -> Value:
        return self._each(lambda line: replace(line, points=self._filled(line, filler)), given)

    def _filled(self, line: Line, filler: Value | str) -> dict[int, float]:
        times = self._times(line)
        if isinstance(filler, str):
            if filler != "REPEAT":
                raise ExpressionError(f"FILL takes a number, a time series or REPEAT here, not {filler}")
            return _repeated(line.points, times)
        found = {time: line.points.get(time, _at(filler, time, otherwise=math.nan)) for time in times}
        return _without_gaps(found)

    def _if(self, condition: Value, yes: Value, no: Value | None = None) -> Value:
        otherwise = math.nan if no is None else no
        if not isinstance(condition, Line):
            chosen = yes if _number(condition) else otherwise
            return self._constant(chosen) if isinstance(chosen, float | int) else _line(chosen)
        points = {
            time: _at(yes, time) if true else _at(otherwise, time, otherwise=math.nan)
            for time, true in condition.points.items()
        }
        return replace(condition, points=_without_gaps(points))

    def _constant(self, number: float) -> Line:
        times = self._queries.times(self._period)
        points = _without_gaps(dict.fromkeys(times, float(number)))
        return Line(label=f"{number:g}", period=self._period, points=points)

    def _lines(self, given: Value) -> list[Line]:
        return given if isinstance(given, list) else [_line(given)]

    def _times(self, line: Line) -> list[int]:
        return sorted({*self._queries.times(line.period), *line.points})


def _line(given: Value) -> Line:
    if isinstance(given, Line):
        return given
    kind = "an array" if isinstance(given, list) else repr(given)
    raise ExpressionError(f"{kind} stands where a time series is expected")


def _number(given: Value) -> float:
    if not isinstance(given, float | int):
        kind = repr(given) if isinstance(given, str) else "a time series"
        raise ExpressionError(f"{kind} stands where a number is expected")
    return given


def _mapped(line: Line, change: Callable[[float], float]) -> Line:
    points = {time: _safely(lambda value, _: change(value), value, 0) for time, value in line.points.items()}
    return replace(line, points=_without_gaps(points))


def _paired(left: Value, right: Value) -> list[tuple[Value, Value]]:
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            raise ExpressionError(f"an array of {len(left)} time series meets one of {len(right)}")
        return list(zip(left, right, strict=True))
    if isinstance(left, list):
        return [(each, right) for each in left]
    return [(left, each) for each in right] if isinstance(right, list) else []


def _safely(combine: Callable[[float, float], float], left: float, right: float) -> float:
    try:
        return float(combine(left, right))
    except (ZeroDivisionError, OverflowError, ValueError):  # of no number, such as the logarithm of 0
        return math.nan


def _at(given: Value, time: int, *, otherwise: float = 0.0) -> float:
    return given if isinstance(given, float | int) else _line(given).points.get(time, otherwise)


def _value_at(line: Line, time: int, missing: list[float]) -> list[float]:
    return [line.points[time]] if time in line.points else missing


def _times_of(given: Value) -> Mapping[int, float]:
    return given.points if isinstance(given, Line) else {}


def _without_gaps(points: Mapping[int, float]) -> dict[int, float]:
    return {time: value for time, value in points.items() if not math.isnan(value)}


def _repeated(points: Mapping[int, float], times: Sequence[int]) -> dict[int, float]:
    found: dict[int, float] = {}
    latest = math.nan
    for time in times:
        latest = points.get(time, latest)
        found[time] = latest
    return _without_gaps(found)
