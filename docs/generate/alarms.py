"""The page of alarms: each with the reason for its threshold, from the declarations."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.operations.alarm_declarations import (
    AlarmDeclaration,
    Severity,
    caching,
    ceiling,
    failing_models,
    gpu_memory,
    load_failures,
    no_capacity,
    queueing,
    rolling_back,
    serving,
    silent,
    unread_signals,
    watched_model,
)
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.metrics.published import EndpointMetrics
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE

_HEAD = """\
# Alarms

`EndpointAlarms` creates them, and `EndpointDashboard` draws their thresholds. This page shows the defaults of
`Thresholds`, for a fleet of 1 to 4 instances.

An alarm that **pages** says that requests fail or are slow now: wake someone up. All paging alarms belong to
one composite alarm, so that one outage is one page. A **ticket** is an early warning, which can wait for
working hours.

Percentages and percentiles count only in minutes with at least {minimum_requests:g} requests
(`Thresholds.minimum_requests`): one failure of two requests would be half. Lower it for an endpoint that is
rarely called. A minute without data is not a failure: SageMaker publishes nothing in a minute without
requests.

An endpoint has the alarms that apply to it: Thrash and Disk with many models, GpuMemory with a GPU,
ScaledToMaximum with auto scaling, NoCapacity with auto scaling or more than one instance, and LoadFailures
if `EndpointAlarms` gets the endpoint's log group, whose lines it counts in a custom metric.

There is no alarm for 4XX answers, which are mistakes of callers, or 429 while a model loads. Nor is there one
for cache misses, loads and evictions alone, which are normal for a fleet with more models than memory.

"""
_ROLLBACK = """\
# Alarms that roll back a deployment

`RollbackAlarms` watch old and new instances together; `GreenFleetAlarms` are the same alarms for the new
fleet alone. They ignore latency, cache and 4XX, because a new fleet starts with no model loaded. All of them
decide within half of the ten minutes that a deployment waits. If the old version already fails,
`RollbackAlarms` stop every deployment: deploy without them. The canary's share of the traffic must be larger
than their threshold: a canary of 10 % that always fails makes 10 % of all requests fail.

"""
_QUEUE = """\
# Alarms of an asynchronous endpoint

AWS publishes metrics of the queue of such an endpoint, but not of its invocations. These alarms replace those
above that look at requests or latency.

"""
_SIGNALS = """\
# Alarms about single models

A fleet with `signals` has these as well. AWS publishes no metrics of a model, so they watch what clients
count: see [See each model](../signals.md#in-the-stack). The first two are there for each model in `watch`.

"""
_URGENCY = {Severity.PAGE: "Pages.", Severity.TICKET: "A ticket."}


def page() -> str:
    """Return the page."""
    thresholds = Thresholds()
    metrics = EndpointMetrics(endpoint_name="fleet", instance_type=DEFAULT_INSTANCE_TYPE)
    failures = cloudwatch.Metric(namespace="TritonFleet/fleet", metric_name="ModelLoadFailures")
    regular = [
        *serving(metrics, thresholds),
        *caching(metrics, thresholds),
        load_failures(failures),
        gpu_memory(metrics, thresholds),
        ceiling(metrics, max_capacity=4),
        no_capacity(metrics, thresholds, fewest=1, most=4),
        silent(metrics),
    ]
    signals = [
        *watched_model("NAME", _labelled("NAME, %"), _labelled("NAME, p99, ms"), thresholds),
        failing_models(_labelled("models that fail")),
        unread_signals(_labelled("failed runs")),
    ]
    parts = [
        _HEAD.format(minimum_requests=thresholds.minimum_requests),
        *(_section(each, _URGENCY[each.severity]) for each in regular),
        _SIGNALS,
        *(_section(each, _URGENCY[each.severity]) for each in signals),
        _ROLLBACK,
        *(_section(each, "Rolls back.", "Rollback: ") for each in rolling_back(metrics, thresholds)),
        _QUEUE,
        *(_section(each, _URGENCY[each.severity]) for each in queueing(metrics, thresholds)),
    ]
    return "".join(parts)


def _labelled(label: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(namespace="TritonFleet/fleet", metric_name="Signals", label=label)


def _section(declaration: AlarmDeclaration, urgency: str, kind: str = "") -> str:
    return f"""\
## {kind}{declaration.name}

{urgency} {declaration.what}

**In alarm:** {declaration.line().label}

**Why:** {declaration.why}

**What to do:** {declaration.runbook}

"""
