"""All that a page shows, as one JSON document: dashboards, instances, models, alarms and a timeline.

The widgets of a dashboard have their data, one request for each. Their format, read 2026-11-23:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from triton_rehearsal.hosting.metrics import Download, Ended, Load, Started, Unload
from triton_rehearsal.hosting.model_figures import percentile
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.page import alarms
from triton_rehearsal.page.report import html_of

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

_DURATION = re.compile(
    r"-P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?)?"
)
_DEFAULT = timedelta(hours=3)
_MOST_EVENTS = 500
_PERIOD_S = 300
_PLACE = {"x": 0, "y": 0, "width": 6, "height": 6}
_DEPLOYED = {"AWS::CloudFormation::Stack": "stack", "AWS::SageMaker::Endpoint": "endpoint"}
_INSTANCE_WORDS = {Download: "downloaded", Load: "loaded", Unload: "unloaded"}


def read(aws: EmbeddedAws, hosting: Hosting | None) -> dict[str, Any]:
    """Return the document about an embedded AWS and the hosting of its endpoints, if they are served."""
    now, speed = aws.clock.now(), aws.clock.speed
    return {
        "now": now.timestamp(),
        "speed": None if math.isinf(speed) else speed,
        "endpoints": list(_endpoints(aws)),
        "instances": list(_instances(hosting)) if hosting else [],
        "models": list(_models(hosting)) if hosting else [],
        "counts_as": aws.clock.requests,
        "dashboards": list(_dashboards(aws, now)),
        "alarms": list(alarms.read(aws.client("cloudwatch"))),
        "timeline": _timeline(aws, hosting),
    }


def _endpoints(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    sagemaker = aws.client("sagemaker")
    for row in sagemaker.list_endpoints()["Endpoints"]:
        described = sagemaker.describe_endpoint(EndpointName=row["EndpointName"])
        yield {
            "name": described["EndpointName"],
            "status": described["EndpointStatus"],
            "variants": [
                {
                    "name": variant["VariantName"],
                    "instances": variant.get("CurrentInstanceCount"),
                    "wanted": variant.get("DesiredInstanceCount"),
                }
                for variant in described.get("ProductionVariants", ())
            ],
        }


def _instances(hosting: Hosting) -> Iterator[dict[str, Any]]:
    started = {
        moment.instance: moment.at for moment in list(hosting.timeline) if isinstance(moment.event, Started)
    }
    for fleet, instance in hosting.running():
        yield {
            "id": instance.id,
            "endpoint": fleet.endpoint,
            "variant": fleet.variant,
            "started": started.get(instance.id),
            "models": instance.loaded[::-1],
        }


def _models(hosting: Hosting) -> Iterator[dict[str, Any]]:
    """Yield the figures of each model, those with the most failed requests first."""
    memory: Counter[str] = Counter()
    for _, instance in hosting.running():
        memory |= Counter(instance.gpu_memory())
    rows = sorted(dict(hosting.figures).items(), key=lambda row: (-row[1].failed, -row[1].requests, row[0]))
    for (endpoint, target), figures in rows:
        seconds = list(figures.seconds)
        yield {
            "endpoint": endpoint,
            "target": target,
            "requests": figures.requests,
            "failed": figures.failed,
            "error": figures.error,
            "p50_ms": 1000 * percentile(seconds, 50) if seconds else None,
            "p99_ms": 1000 * percentile(seconds, 99) if seconds else None,
            "cold_percent": figures.cold_percent,
            "loads": figures.loads,
            "unloads": figures.unloads,
            "longest_load_ms": 1000 * figures.longest_load_s if figures.loads else None,
            "gpu_mib": memory[target] / (1 << 20) if target in memory else None,
        }


def _dashboards(aws: EmbeddedAws, now: datetime) -> Iterator[dict[str, Any]]:
    cloudwatch = aws.client("cloudwatch")
    for entry in cloudwatch.list_dashboards()["DashboardEntries"]:
        name = entry["DashboardName"]
        body = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])
        shown, drawn, queries = _Range(start=now - _DEFAULT, end=now), [], 0
        try:
            shown = _range(body, now)
            # The embedded AWS does not run queries of CloudWatch Logs Insights.
            given = [each for each in body.get("widgets", ()) if _mapping(each).get("type") != "log"]
            drawn = [_widget(cloudwatch, each, shown) for each in given]
            queries = len(body.get("widgets", ())) - len(given)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            wrong = f"The dashboard's body is wrong: {error}."
            drawn = [{"type": "text", **_PLACE, "y": -1, "width": 24, "title": "", "error": wrong}]
        yield {
            "name": name,
            "start": shown.start.timestamp(),
            "end": shown.end.timestamp(),
            "queries": queries,
            "widgets": sorted(drawn, key=lambda widget: (widget["y"], widget["x"])),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    start: datetime
    end: datetime


def _range(body: Mapping[str, Any], now: datetime) -> _Range:
    start, end = str(body.get("start", "")), body.get("end")
    if relative := _DURATION.fullmatch(start):
        length = timedelta(**{unit: int(count or 0) for unit, count in relative.groupdict().items()})
        return _Range(start=now - (length or _DEFAULT), end=now)
    if not start:
        return _Range(start=now - _DEFAULT, end=now)
    return _Range(start=_moment(start), end=_moment(end) if end else now)


def _moment(text: str) -> datetime:
    # Python 3.10 does not read a Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _widget(cloudwatch: Any, widget: Any, shown: _Range) -> dict[str, Any]:
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


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _content(cloudwatch: Any, kind: str, properties: Mapping[str, Any], shown: _Range) -> dict[str, Any]:
    if kind == "text":
        return {"html": html_of(properties["markdown"])}
    if kind == "alarm":
        return {"alarms": [str(each) for each in properties["alarms"]]}
    if kind == "metric":
        return _metrics(cloudwatch, properties, shown)
    msg = f"The page does not draw widgets of the type {kind!r}."
    raise ValueError(msg)


def _metrics(cloudwatch: Any, properties: Mapping[str, Any], shown: _Range) -> dict[str, Any]:
    if not properties.get("metrics"):
        msg = "The page draws widgets with `metrics`; this one has none."
        raise ValueError(msg)
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
            {"label": each.get("label", ""), "at": _moment(each["value"]).timestamp()}
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
        own: dict[str, Any] = row[-1] if row and isinstance(row[-1], dict) else {}
        options = {"stat": "Average", "period": _PERIOD_S, **properties, **own}
        query = {"Id": own.get("id", f"row{number}"), "ReturnData": own.get("visible", True)}
        if "label" in own:
            query["Label"] = own["label"]
        if "expression" in own:
            query |= {"Expression": own["expression"], "Period": options["period"]}
        else:
            above = _completed([part for part in row if isinstance(part, str)], above)
            query["MetricStat"] = _metric_stat(above, options)
        yield _Line(query=query, axis=own.get("yAxis", "left"), period=options["period"])


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


def _timeline(aws: EmbeddedAws, hosting: Hosting | None) -> list[dict[str, Any]]:
    events = [
        *_deployments(aws),
        *_activities(aws),
        *_states(aws),
        *(_on_instances(hosting) if hosting else ()),
    ]
    return sorted(events, key=lambda event: float(event["at"]), reverse=True)[:_MOST_EVENTS]


def _event(kind: str, at: float, subject: str, text: str, detail: str = "") -> dict[str, Any]:
    return {"kind": kind, "at": at, "subject": subject, "text": text, "detail": detail}


def _on_instances(hosting: Hosting) -> Iterator[dict[str, Any]]:
    for moment in list(hosting.timeline):
        event = moment.event
        if isinstance(event, Started):
            yield _event("instance", moment.at, moment.instance, "started", f"{event.seconds:.1f} s")
        elif isinstance(event, Ended):
            yield _event("instance", moment.at, moment.instance, "ended", event.reason)
        elif isinstance(event, Download | Load | Unload):
            word = _INSTANCE_WORDS[type(event)]
            detail = f"{1000 * event.seconds:,.0f} ms on {moment.instance}"
            yield _event("model", moment.at, event.target, word, detail)


def _activities(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    scaling = aws.client("application-autoscaling")
    answer = scaling.describe_scaling_activities(ServiceNamespace="sagemaker")
    for activity in answer["ScalingActivities"]:
        text = f"{activity['Description'].rstrip('.')}: {activity['StatusCode']}"
        yield _event(
            "scaling", activity["StartTime"].timestamp(), activity["ResourceId"], text, activity["Cause"]
        )


def _states(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    # The actions of scaling policies' alarms, every minute, have their effect among the scaling activities.
    cloudwatch = aws.client("cloudwatch")
    metric_alarms = [alarm for alarm in alarms.described(cloudwatch) if "AlarmRule" not in alarm]
    conditions = {alarm["AlarmName"]: alarms.condition(alarm) for alarm in metric_alarms}
    pages = cloudwatch.get_paginator("describe_alarm_history").paginate(
        AlarmTypes=list(alarms.KINDS), HistoryItemType="StateUpdate"
    )
    entries = (entry for page in pages for entry in page["AlarmHistoryItems"])
    for entry in islice(entries, _MOST_EVENTS):
        name, at = entry["AlarmName"], entry["Timestamp"].timestamp()
        kind = "policy" if alarms.of_policy(name) else "alarm"
        yield _event(kind, at, name, entry["HistorySummary"], conditions.get(name, ""))


def _deployments(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    stacks = aws.client("cloudformation")
    for stack in stacks.list_stacks()["StackSummaries"]:
        pages = stacks.get_paginator("describe_stack_events").paginate(StackName=stack["StackId"])
        for event in (each for page in pages for each in page["StackEvents"]):
            if word := _DEPLOYED.get(event["ResourceType"]):
                at = _by_clock(aws, event["Timestamp"].timestamp())
                subject = stack["StackName"] if word == "stack" else f"{word} of {stack['StackName']}"
                reason = event.get("ResourceStatusReason", "")
                yield _event("deployment", at, subject, event["ResourceStatus"], reason)


def _by_clock(aws: EmbeddedAws, wall: float) -> float:
    """Return a time of the wall clock, in which CloudFormation records, by the embedded AWS's clock."""
    return aws.clock.time() - (time.time() - wall) / aws.clock.every(1.0)
