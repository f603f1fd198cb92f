"""CloudWatch's metrics: data points, statistics, metric math and searches.

moto's gaps, which is why another store replaces its list of data points:
- Every value is an object, and every request looks through all of them.
- Percentiles, expressions and searches are not computed; the times of data points do not begin at minutes.
- Statistics of a metric include metrics with additional dimensions. In AWS those are other metrics.
- ListMetrics has a row per data point.
- Infinity and values beyond 2 to the power of 360 are accepted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from moto.cloudwatch.exceptions import InvalidParameterCombination, InvalidParameterValue, ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

from embedded_aws import clock
from embedded_aws.clock import moment
from embedded_aws.cloudwatch.metric_math import ExpressionError
from embedded_aws.cloudwatch.queries import Request
from embedded_aws.cloudwatch.series import MetricKey, MetricStore, Samples, StatisticSet
from embedded_aws.cloudwatch.statistics import is_statistic, statistic
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import page

_MINUTE_S = 60
_SHORT_PERIODS_S = (1, 5, 10, 20, 30)
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricStatistics.html, and
# .../API_ListMetrics.html, read 2026-11-23.
_MOST_POINTS = 1440
_PAGE = 500
_RECENT_S = 3 * 3600
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html, and what the service
# refused when Netflix tried: com.netflix.servo.publish.cloudwatch.CloudWatchValueTest of Netflix/servo,
# both read 2026-11-25.
_LARGEST, _SMALLEST = 2.0**360, 2.0**-360
_STATISTICS = ("SampleCount", "Sum", "Minimum", "Maximum")


def metrics_of(backend: CloudWatchBackend) -> MetricStore:
    store: MetricStore = vars(backend).setdefault("embedded_aws_metrics", MetricStore())
    return store


@patch.replaces(CloudWatchBackend, "put_metric_data")
def _put_metric_data(self: CloudWatchBackend, namespace: str, metric_data: list[dict[str, Any]]) -> None:
    for number, datum in enumerate(metric_data, start=1):
        self._validate_parameters_put_metric_data(datum, number)
        _check_values(datum, f"MetricData.member.{number}")
    store = metrics_of(self)
    for datum in metric_data:
        key = MetricKey.of(namespace, datum["MetricName"], datum.get("Dimensions", ()))
        given = datum.get("Timestamp")
        second = clock.current().time() if given is None else seconds(given)
        store.put(key, second=int(second), samples=_samples(datum))


def is_value(value: float) -> bool:
    return value == 0 or _SMALLEST <= abs(value) <= _LARGEST


def _check_values(datum: Mapping[str, Any], where: str) -> None:
    summary = datum.get("StatisticValues") or {}
    given = [
        ("Value", datum.get("Value", 0)),
        *(("Values", value) for value in datum.get("Values") or ()),
        *((f"StatisticValues.{name}", summary.get(name, 0)) for name in _STATISTICS),
    ]
    for name, value in ((name, float(value)) for name, value in given):
        if not is_value(value):
            shown = str(value).replace("inf", "\u221e").replace("nan", "NaN")
            raise InvalidParameterValue(f"The value {shown} for parameter {where}.{name} is invalid.")


def _samples(datum: Mapping[str, Any]) -> Samples:
    unit = datum.get("Unit") or "None"
    if given := datum.get("StatisticValues"):
        summary = StatisticSet(
            count=float(given["SampleCount"]),
            total=float(given["Sum"]),
            least=float(given["Minimum"]),
            most=float(given["Maximum"]),
        )
        return Samples(sets=[summary], unit=unit)
    if values := datum.get("Values"):
        counts = datum.get("Counts") or [1] * len(values)
        times = Counter[float]()
        for value, count in zip(values, counts, strict=True):
            times[float(value)] += int(float(count))
        return Samples(values=times, unit=unit)
    return Samples(values=Counter([float(datum.get("Value", 0))]), unit=unit)


def seconds(moment: datetime) -> float:
    """Return a time in seconds since 1970; without a zone it is in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


@patch.replaces(CloudWatchResponse, "get_metric_data")
def _get_metric_data(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    start, end = int(seconds(given["StartTime"])), int(seconds(given["EndTime"]))
    if start >= end:
        msg = "The parameter EndTime must be greater than StartTime."
        if start == end:
            msg = "The parameter StartTime must not equal parameter EndTime."
        raise ValidationError(msg)
    queries = given.get("MetricDataQueries", [])
    for number, query in enumerate(queries, start=1):
        if not {"MetricStat", "Expression"} & query.keys():
            msg = f"The parameter MetricDataQueries.member.{number}.MetricStat is required.\n"
            raise ValidationError(msg)
    request = Request(metrics_of(self.cloudwatch_backend), queries, start=start, end=end)
    ascending = given.get("ScanBy") == "TimestampAscending"
    try:
        results = list(request.results())
    except ExpressionError as error:
        raise ValidationError(str(error)) from error
    rows = []
    for name, line in results:
        times = sorted(line.points, reverse=not ascending)
        row = {"Id": name, "Label": line.label, "StatusCode": "Complete"}
        rows.append(
            {**row, "Timestamps": list(map(moment, times)), "Values": [line.points[at] for at in times]}
        )
    return ActionResult({"MetricDataResults": rows, "Messages": []})


@patch.replaces(CloudWatchResponse, "get_metric_statistics")
def _get_metric_statistics(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    start, end, period = seconds(given["StartTime"]), seconds(given["EndTime"]), int(given["Period"])
    if int(start) >= int(end):
        raise InvalidParameterValue("The parameter StartTime must be less than the parameter EndTime.")
    simple, extended = given.get("Statistics") or [], given.get("ExtendedStatistics") or []
    _check_statistics(simple, extended)
    _check_points(start, end, period)
    key = MetricKey.of(given["Namespace"], given["MetricName"], given.get("Dimensions") or ())
    begin = int(start // min(period, _MINUTE_S) * min(period, _MINUTE_S))
    periods = metrics_of(self.cloudwatch_backend).periods(
        key, start=begin, end=int(end), period=period, unit=given.get("Unit")
    )
    points = [_point(second, samples, simple, extended) for second, samples in periods.items()]
    return ActionResult({"Label": key.name, "Datapoints": points})


def _point(second: int, samples: Samples, simple: list[str], extended: list[str]) -> dict[str, Any]:
    found = {name: statistic(samples, name) for name in (*simple, *extended)}
    known = {name: value for name, value in found.items() if value is not None}
    point: dict[str, Any] = {"Timestamp": moment(second), "Unit": samples.unit}
    point |= {name: known[name] for name in simple if name in known}
    if extended:
        point["ExtendedStatistics"] = {name: known[name] for name in extended if name in known}
    return point


def _check_statistics(simple: list[str], extended: list[str]) -> None:
    if bool(simple) == bool(extended):
        raise InvalidParameterCombination("Must specify either Statistics or ExtendedStatistics")
    for name in extended:
        if not is_statistic(name):
            msg = f"The value {name} for parameter ExtendedStatistics is not supported."
            raise InvalidParameterValue(msg)


def _check_points(start: float, end: float, period: int) -> None:
    if period not in _SHORT_PERIODS_S and (period < _MINUTE_S or period % _MINUTE_S):
        listed = ", ".join(map(str, _SHORT_PERIODS_S))
        msg = f"The parameter Period must be one of {listed}, or a multiple of {_MINUTE_S}."
        raise InvalidParameterValue(msg)
    points = math.ceil((end - start) / period)
    if points > _MOST_POINTS:
        raise InvalidParameterCombination(
            f"You have requested up to {points:,} datapoints, which exceeds the limit of {_MOST_POINTS:,}. "
            "You may reduce the datapoints requested by increasing Period, or decreasing the time range."
        )


@patch.replaces(CloudWatchResponse, "list_metrics")
def _list_metrics(self: CloudWatchResponse) -> ActionResult:
    given = self._get_params()
    rows = [
        {
            "Namespace": key.namespace,
            "MetricName": key.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in key.dimensions],
        }
        for key in _listed(metrics_of(self.cloudwatch_backend), given)
    ]
    refusal = InvalidParameterValue("Request parameter NextToken is invalid")
    return ActionResult(page(given, "Metrics", rows, size=_PAGE, refusal=refusal))


def _listed(store: MetricStore, given: Mapping[str, Any]) -> Iterator[MetricKey]:
    namespace, name = given.get("Namespace"), given.get("MetricName")
    wanted = [(each["Name"], each.get("Value")) for each in given.get("Dimensions") or ()]
    since = clock.current().time() - _RECENT_S if given.get("RecentlyActive") else -math.inf
    for key in store.keys():  # noqa: SIM118 -- no dictionary
        values = dict(key.dimensions)
        if (
            namespace in (None, key.namespace)
            and name in (None, key.name)
            and all(each in values and value in (None, values[each]) for each, value in wanted)
            and (since == -math.inf or store.latest(key) >= since)
        ):
            yield key
