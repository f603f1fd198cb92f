"""docs/alarms.md: every alarm with why its threshold is what it is, from the declarations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.metrics.published import EndpointMetrics
from triton_fleet.operations.alarm_declarations import (
    AlarmDeclaration,
    Severity,
    caching,
    ceiling,
    gpu_memory,
    hosting,
    load_failures,
    no_capacity,
    rolling_back,
    serving,
)
from triton_fleet.operations.queue_alarms import queueing
from triton_fleet.operations.thresholds import Thresholds
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE

PAGE = Path(__file__).resolve().parents[1] / "alarms.md"

_HEAD = """\
# Alarms

`EndpointAlarms` creates them and `EndpointDashboard` draws their thresholds. Thresholds are the defaults of
`Thresholds`; the numbers of instances are those of a fleet from 1 to 4. This page is made from the
declarations in `constructs/triton_fleet/operations/alarm_declarations.py`, and a test keeps the two in step.

An alarm that **pages** says that requests fail or are slow now: wake someone up. All that page are gathered
in one composite alarm, so that one outage is one page. A **ticket** says that it will come to that, and waits
for working hours.

Shares and percentiles count only in minutes with at least {minimum_requests:g} requests
(`Thresholds.minimum_requests`): of two requests, one failure is half. Lower it for an endpoint that is seldom
called. A minute without any data is no failure, for SageMaker publishes nothing in a minute without requests.

An endpoint has those that make sense for it: Thrash and Disk with many models, GpuMemory with a GPU,
ScaledToMaximum with auto scaling, NoCapacity with auto scaling or more than one instance, and LoadFailures
where `EndpointAlarms` is given the endpoint's log group: it counts lines of the log, which costs a metric of
your own.

Nothing here watches 4XX answers, which are the callers' mistakes or the 429 of a model still being loaded;
nor cache misses, loads and evictions by themselves, which are what a fleet of more models than memory does
all day.
"""

_ROLLBACK = """\
# Alarms that roll a deployment back

`RollbackAlarms` creates them, before the endpoint that names them: they know it by its literal name. A new
fleet starts with no model loaded, so in the minutes after a deployment requests miss and wait for models.
None of these alarms looks at latency, cache or 4XX, so none mistakes that for a failure. All decide within
half of the ten minutes for which a deployment waits.

`RollbackAlarms` see old and new instances together; `GreenFleetAlarms` are the same alarms for the newest
fleet alone. While the old version fails already, the former let no deployment through: deploy without them
then. And what is tried first has to be a larger share of the traffic than their threshold, or they do not
notice: a canary of 10 % that always fails makes 10 % of all requests fail.
"""

_QUEUE = """\
# Alarms of an asynchronous endpoint

AWS publishes no invocations of such an endpoint, but its queue. These stand in the place of all alarms above
that look at requests or latency.
"""


def page() -> str:
    """The page as it should be."""
    thresholds = Thresholds()
    metrics = EndpointMetrics(endpoint_name="fleet", instance_type=DEFAULT_INSTANCE_TYPE)
    failures = cloudwatch.Metric(
        namespace="TritonFleet/fleet", metric_name="ModelLoadFailures", statistic="Sum"
    )
    regular = [
        *serving(metrics, thresholds),
        *caching(metrics, thresholds),
        load_failures(failures),
        gpu_memory(metrics, thresholds),
        ceiling(metrics, max_capacity=4),
        no_capacity(metrics, thresholds, fewest=1, most=4),
        *hosting(metrics),
    ]
    parts = [
        _HEAD.format(minimum_requests=thresholds.minimum_requests),
        _table(regular),
        *(_section(each) for each in regular),
        _ROLLBACK,
        *(_section(each, rollback=True) for each in rolling_back(metrics, thresholds)),
        _QUEUE,
        *(_section(each) for each in queueing(metrics, thresholds)),
    ]
    return "\n".join(parts)


def _table(declarations: Iterable[AlarmDeclaration]) -> str:
    lines = ["| alarm | who | what |", "|---|---|---|"]
    lines += [
        f"| [{each.name}](#{each.name.lower()}) | {each.severity.value} | {each.what} |"
        for each in declarations
    ]
    return "\n".join(lines) + "\n"


def _section(declaration: AlarmDeclaration, *, rollback: bool = False) -> str:
    who = (
        "Rolls back."
        if rollback
        else {Severity.PAGE: "Pages.", Severity.TICKET: "A ticket."}[declaration.severity]
    )
    title = f"Rollback: {declaration.name}" if rollback else declaration.name
    often = f"{declaration.out_of} of the last {declaration.minutes} minutes"
    return f"""\
## {title}

{who} {declaration.what}

In alarm when `{_watched(declaration.metric)}` is above {declaration.threshold:g} in {often}.

**Why so:** {declaration.why}

**What to do:** {declaration.runbook}
"""


def _watched(metric: cloudwatch.IMetric) -> str:
    """The expression, with the metrics' own names in it; or the metric."""
    if not isinstance(metric, cloudwatch.MathExpression):
        assert isinstance(metric, cloudwatch.Metric)  # noqa: S101
        return f"{metric.statistic}({metric.metric_name})"
    names = {}
    for variable, each in metric.using_metrics.items():
        assert isinstance(each, cloudwatch.Metric)  # noqa: S101
        names[variable] = f"{each.statistic}({each.metric_name})"
    return re.sub(r"[a-z_]+", lambda found: names.get(found[0], found[0]), metric.expression)
