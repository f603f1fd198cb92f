"""The events of a rehearsal in one order: instances, models, scaling, alarms and deployments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from triton_rehearsal.hosting.metrics import Download, Ended, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.page.alarms import KINDS, condition, described, of_policy

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

LONGEST = 500
"""The number of events on a page: the newest."""

_DEPLOYED = {"AWS::CloudFormation::Stack": "stack", "AWS::SageMaker::Endpoint": "endpoint"}
_INSTANCE_WORDS = {Download: "downloaded", Load: "loaded", Unload: "unloaded"}


def read(aws: EmbeddedAws, hosting: Hosting | None) -> list[dict[str, Any]]:
    """Return the events, newest first. Times are the embedded AWS's, in seconds since 1970."""
    events = [*_deployments(aws), *_activities(aws), *_alarms(aws), *(_instances(hosting) if hosting else ())]
    return sorted(events, key=lambda event: float(event["at"]), reverse=True)[:LONGEST]


def _event(kind: str, at: float, subject: str, text: str, detail: str = "") -> dict[str, Any]:
    return {"kind": kind, "at": at, "subject": subject, "text": text, "detail": detail}


def _instances(hosting: Hosting) -> Iterator[dict[str, Any]]:
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


def _alarms(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    # The actions of scaling policies' alarms, every minute, have their effect among the scaling activities.
    cloudwatch = aws.client("cloudwatch")
    metric_alarms = [alarm for alarm in described(cloudwatch) if "AlarmRule" not in alarm]
    conditions = {alarm["AlarmName"]: condition(alarm) for alarm in metric_alarms}
    pages = cloudwatch.get_paginator("describe_alarm_history").paginate(
        AlarmTypes=list(KINDS), HistoryItemType="StateUpdate"
    )
    entries = (entry for page in pages for entry in page["AlarmHistoryItems"])
    for entry in islice(entries, LONGEST):
        name, at = entry["AlarmName"], entry["Timestamp"].timestamp()
        kind = "policy" if of_policy(name) else "alarm"
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
