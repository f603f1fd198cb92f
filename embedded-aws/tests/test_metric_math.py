"""Metric math on lines of five minutes: the examples of CloudWatch's user guide, and every function."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from embedded_aws.cloudwatch.metric_math import ExpressionError
from embedded_aws.cloudwatch.queries import Request
from embedded_aws.cloudwatch.series import MetricKey, MetricStore, Samples

START = 1_790_000_040  # a full minute
_ = None

Line = list[float | None]


def results(expression: str, *, period: int = 60, **metrics: Line) -> list[Line]:
    """Return the lines of an expression over metrics, whose values stand at one minute after another."""
    store, queries = MetricStore(), list[dict[str, Any]]()
    length = max((len(values) for values in metrics.values()), default=5)
    for name, values in metrics.items():
        key = MetricKey(namespace="Test", name=name, dimensions=(("Of", name),))
        for minute, value in enumerate(values):
            if value is not None:
                store.put(key, second=START + 60 * minute, samples=Samples(values=Counter([value])))
        metric = {"Namespace": "Test", "MetricName": name, "Dimensions": [{"Name": "Of", "Value": name}]}
        stat = {"Metric": metric, "Stat": "Average", "Period": period}
        queries.append({"Id": name, "MetricStat": stat, "ReturnData": False})
    queries.append({"Id": "e1", "Expression": expression})
    request = Request(store, queries, start=START, end=START + 60 * length)
    times = [START + 60 * minute for minute in range(length)]
    return [[line.points.get(time) for time in times] for _, line in request.results()]


def result(expression: str, **metrics: Line) -> Line:
    [line] = results(expression, **metrics)
    return line


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("(metric1 < metric2)", [0, 0, 1, 0]), ("(metric1 > 15 AND metric2 > 15)", [1, 0, 0, 0])],
)
def test_a_comparison_reads_a_missing_value_as_zero(expression: str, expected: Line) -> None:
    assert result(expression, metric1=[30, 20, 0, 0], metric2=[20, _, 20, _]) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("IF(m1, m2, m3)", [30, 0, 20, _, _]),
        ("IF(m1, m2)", [30, 0, _, _, _]),
        ("IF(1, m2, m3)", [30, _, 0, 0, 30]),
        ("IF(0, m2)", [_, _, _, _, _]),
        ("IF(m2 < 30, 10, 2)", [2, _, 10, 10, 2]),
    ],
)
def test_if_chooses_per_data_point(expression: str, expected: Line) -> None:
    lines = {"m1": [1, 1, 0, 0, _], "m2": [30, _, 0, 0, 30], "m3": [0, 0, 20, _, 20]}
    assert result(expression, **lines) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m1 - m2 * 2", [-19, 2, -60]),
        ("-m1 ^ 2", [-1, -4, _]),
        ("m2 / m1", [10, 0, _]),
        ("100 / m2", [10, _, 100 / 30]),
        ("PERIOD(m1) / 60 * m1", [1, 2, _]),
        ("m1 == 1 OR m2 == 30", [1, 0, 1]),
        ("m1 - AVG(m1)", [-0.5, 0.5, _]),
        ("ABS(m1 - m2)", [9, 2, 30]),
        ("CEIL(m2 / 4)", [3, _, 8]),
        ("LOG10(m2)", [1, _, pytest.approx(1.4771, abs=1e-4)]),
        ("FILL(m2, 0)", [10, 0, 30]),
        ("FILL(m2, REPEAT)", [10, 10, 30]),
        ("FILL(m2, m1)", [10, 2, 30]),
        ("DIFF(m1)", [_, 1, _]),
        ("RATE(m2)", [_, _, 20 / 120]),
        ("TIME_SERIES(MAX(m2))", [30, 30, 30]),
        ("m1 * 0 + DATAPOINT_COUNT(m2)", [2, 2, _]),
        ("SUM([m1, m2])", [11, 2, 30]),
        ("MAX(METRICS())", [10, 2, 30]),
        ('SUM(METRICS("m1")) / METRIC_COUNT(METRICS())', [0.5, 1, _]),
        ("AVG([m1, m2] / m1)", [5.5, 0.5, _]),
    ],
)
def test_a_function_or_an_operator(expression: str, expected: Line) -> None:
    assert result(expression, m1=[1, 2, _], m2=[10, _, 30]) == expected


def test_an_array_gives_a_line_for_each_of_its_own() -> None:
    assert results("METRICS() * 100", m1=[1, 2], m2=[3, _]) == [[100, 200], [300, _]]


def test_an_expression_may_refer_to_another() -> None:
    store = MetricStore()
    queries = [
        {"Id": "e1", "Expression": "e2 + 1"},
        {"Id": "e2", "Expression": "TIME_SERIES(2)", "ReturnData": False},
    ]
    [(name, line)] = Request(store, queries, start=START, end=START + 60).results()

    assert (name, line.points) == ("e1", {START: 3.0})


@pytest.mark.parametrize(
    "expression",
    [
        "m1 +",
        "(m1",
        "m1 $ 2",
        "e1 + m1",
        "NOTHING(m1)",
        "AVG(m1)",
        "5",
        "FILL(m1)",
        "IF(m1)",
        "[m1, m1] + [m1]",
        "m1 + 'text'",
        "SORT(METRICS(), SUM, ASC)",
        "SEARCH('', 'Average', 60)",
        "SEARCH('{Test,Of} (a OR b)', 'Average', 60)",
        "SEARCH('{Test,Of}', 'average', 60)",
    ],
)
def test_an_invalid_expression_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        results(expression, m1=[1, 2])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('{AWS/SageMaker,EndpointName} MetricName="Invocations"', ["Invocations"]),
        ("{AWS/SageMaker}", []),
        ("errors", ["Invocation5XXErrors"]),
        ('"search"', []),
        ("EndpointName=search", ["Invocation5XXErrors", "Invocations"]),
        ("Namespace=SageMaker AND Errors", ["Invocation5XXErrors"]),
        ('{"AWS/Lambda", "Function Name"} Duration', ["Duration"]),
    ],
)
def test_a_search_finds_metrics_by_schema_and_terms(query: str, expected: list[str]) -> None:
    store = MetricStore()
    for namespace, name, dimension in (
        ("AWS/SageMaker", "Invocations", ("EndpointName", "search-prod")),
        ("AWS/SageMaker", "Invocation5XXErrors", ("EndpointName", "search-prod")),
        ("AWS/Lambda", "Duration", ("Function Name", "names")),
    ):
        key = MetricKey(namespace=namespace, name=name, dimensions=(dimension,))
        store.put(key, second=START, samples=Samples(values=Counter([1.0])))
    queries = [{"Id": "e1", "Expression": f"SEARCH('{query}', 'Sum', 60)"}]
    found = Request(store, queries, start=START, end=START + 60).results()

    assert sorted(line.label.split()[-1] for _, line in found) == expected
