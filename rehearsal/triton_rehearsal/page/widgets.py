"""The widgets of a dashboard with their data, one request for each.

Format: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html,
read 2026-11-23.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from triton_rehearsal.page.report import html_of

_PERIOD_S = 300
_PLACE = {"x": 0, "y": 0, "width": 6, "height": 6}
_NO_METRICS = "The page draws widgets with `metrics`; this one has none."


class UnknownWidgetError(ValueError):
    """A widget that the page does not draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The time range of a dashboard."""

    start: datetime
    end: datetime


def moment(text: str) -> datetime:
    """Return a time in the form of a dashboard, such as 2026-11-23T08:00:00.000Z.

    Raises:
        ValueError: The text is not a time.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def read(cloudwatch: Any, widget: Any, shown: Range) -> dict[str, Any]:
    """Return a widget with its data. If something is wrong with it, `error` says so."""
    given = _mapping(widget)
    properties = _mapping(given.get("properties"))
    place = {name: given.get(name, default) for name, default in _PLACE.items()}
    wrong = [f"{name}: {value!r} is not a number." for name, value in place.items() if not _is_number(value)]
    place = {name: value if _is_number(value) else _PLACE[name] for name, value in place.items()}
    result = {"type": str(given.get("type")), **place, "title": str(properties.get("title", ""))}
    if wrong:
        return {**result, "error": " ".join(wrong)}
    try:
        return {**result, **_content(cloudwatch, result["type"], properties, shown)}
    except ClientError as error:
        return {**result, "error": error.response["Error"].get("Message") or str(error)}
    except Exception as error:  # noqa: BLE001 (any mistake of a dashboard's author is shown in its place)
        return {**result, "error": str(error) or type(error).__name__}


def is_query(widget: Any) -> bool:
    """Return True for a query of CloudWatch Logs Insights, which the embedded AWS does not run."""
    return _mapping(widget).get("type") == "log"


def failed(error: str) -> dict[str, Any]:
    """Return a widget at the top that says what is wrong with its dashboard."""
    return {"type": "text", **_PLACE, "y": -1, "width": 24, "title": "", "error": error}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _content(cloudwatch: Any, kind: str, properties: Mapping[str, Any], shown: Range) -> dict[str, Any]:
    if kind == "text":
        return {"html": html_of(properties["markdown"])}
    if kind == "alarm":
        return {"alarms": [str(each) for each in properties["alarms"]]}
    if kind == "metric":
        return _metrics(cloudwatch, properties, shown)
    msg = f"The page does not draw widgets of the type {kind!r}."
    raise UnknownWidgetError(msg)


def _metrics(cloudwatch: Any, properties: Mapping[str, Any], shown: Range) -> dict[str, Any]:
    if not properties.get("metrics"):
        raise UnknownWidgetError(_NO_METRICS)
    lines = list(_lines(properties))
    results = cloudwatch.get_metric_data(
        MetricDataQueries=[line.query for line in lines],
        StartTime=shown.start,
        EndTime=shown.end,
        ScanBy="TimestampAscending",
    )["MetricDataResults"]
    by_id = {line.query["Id"]: line for line in lines}
    annotations = _mapping(properties.get("annotations"))
    return {
        "view": properties.get("view", "timeSeries"),
        "stacked": bool(properties.get("stacked")),
        "sparkline": bool(properties.get("sparkline")),
        "axes": _mapping(properties.get("yAxis")),
        "series": [_series(by_id[result["Id"]], result) for result in results],
        "horizontal": [
            {**each, "value": float(each["value"])}
            for each in annotations.get("horizontal", ())
            if "value" in each
        ],
        "vertical": [
            {"label": each.get("label", ""), "at": moment(each["value"]).timestamp()}
            for each in annotations.get("vertical", ())
            if "value" in each
        ],
    }


def _series(line: _Line, result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "label": result["Label"],
        "axis": line.axis,
        "period": line.period,
        "points": [
            [at.timestamp(), value]
            for at, value in zip(result["Timestamps"], result["Values"], strict=True)
            if math.isfinite(value)
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row of `metrics`: its query for GetMetricData, its axis and its period in seconds."""

    query: dict[str, Any]
    axis: str
    period: int


def _lines(properties: Mapping[str, Any]) -> Iterator[_Line]:
    above: list[str] = []
    for number, row in enumerate(properties["metrics"]):
        options = {"stat": "Average", "period": _PERIOD_S, **properties, **_options(row)}
        own = _options(row)
        query = {"Id": own.get("id", f"row{number}"), "ReturnData": own.get("visible", True)}
        if "label" in own:
            query["Label"] = own["label"]
        if "expression" in own:
            query |= {"Expression": own["expression"], "Period": options["period"]}
        else:
            above = _completed([part for part in row if isinstance(part, str)], above)
            query["MetricStat"] = _metric_stat(above, options)
        yield _Line(query=query, axis=own.get("yAxis", "left"), period=options["period"])


def _options(row: Sequence[Any]) -> dict[str, Any]:
    return row[-1] if row and isinstance(row[-1], dict) else {}


def _completed(row: Sequence[str], above: Sequence[str]) -> list[str]:
    """Return a row with what "." and "..." take from the row above."""
    if "..." in row:
        at = row.index("...")
        taken = len(above) - (len(row) - 1)
        row = [*row[:at], *above[at : at + taken], *row[at + 1 :]]
    return [above[place] if part == "." else part for place, part in enumerate(row)]


def _metric_stat(row: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    namespace, name, *dimensions = row
    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
    return {
        "Metric": {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": dimension, "Value": value} for dimension, value in pairs],
        },
        "Period": options["period"],
        "Stat": options["stat"],
    }
