"""All that a page shows, as one JSON document: dashboards, instances, models, alarms and a timeline."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from triton_rehearsal.hosting.metrics import Download, Ended, Load, Started, Unload
from triton_rehearsal.hosting.model_figures import percentile
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.page import alarms, widgets

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

_DURATION = re.compile(
    r"-P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?)?"
)
_DEFAULT = timedelta(hours=3)
_MOST_EVENTS = 500
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
        shown, drawn, queries = widgets.Range(start=now - _DEFAULT, end=now), [], 0
        try:
            shown = _range(body, now)
            given = [widget for widget in body.get("widgets", ()) if not widgets.is_query(widget)]
            drawn = [widgets.read(cloudwatch, widget, shown) for widget in given]
            queries = len(body.get("widgets", ())) - len(given)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            drawn = [widgets.failed(f"The dashboard's body is wrong: {error}.")]
        yield {
            "name": name,
            "start": shown.start.timestamp(),
            "end": shown.end.timestamp(),
            "queries": queries,
            "widgets": sorted(drawn, key=lambda widget: (widget["y"], widget["x"])),
        }


def _range(body: Mapping[str, Any], now: datetime) -> widgets.Range:
    start, end = str(body.get("start", "")), body.get("end")
    if relative := _DURATION.fullmatch(start):
        length = timedelta(**{unit: int(count or 0) for unit, count in relative.groupdict().items()})
        return widgets.Range(start=now - (length or _DEFAULT), end=now)
    if not start:
        return widgets.Range(start=now - _DEFAULT, end=now)
    return widgets.Range(start=widgets.moment(start), end=widgets.moment(end) if end else now)


def _timeline(aws: EmbeddedAws, hosting: Hosting | None) -> list[dict[str, Any]]:
    """Return the newest events, newest first. Times are the embedded AWS's, in seconds since 1970."""
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
