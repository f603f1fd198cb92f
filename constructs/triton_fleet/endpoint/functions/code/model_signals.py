"""Reads each minute what clients counted of each model, for the alarms and the dashboard.

Runs in AWS Lambda, which gets this file alone, with `counts` and `report` of the signals in it: it imports
nothing else but Python and boto3. An EventBridge rule invokes it each minute.

It puts metrics of the models that fail and of those that are watched, and writes a line for each of the
worst models. A figure is that of all processes in a minute, never a part of it, and is read by its maximum: a
second run for a minute, or one with an object that came late, adds nothing to what is there. What was read is
kept for the next run; a new process of Lambda reads it again.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from typing import Any, Literal

import boto3

from triton_models.signals.counts import Counts
from triton_models.signals.report import MINUTE_S, UNRESOLVED, Period, Report

# A rule fires at any second of a minute. Clients write within some seconds of its end: an earlier run waits.
# So does one that begins late, for the end of the next minute: its figures would be two minutes old.
EARLIEST_S, LATEST_S = 8, 45
# The minutes of a model's latest calls, and those whose figures are put again when an object arrives late.
LOOK_BACK, AGAIN = 15, 5
# A model fails if half of its latest calls do, and this many: one failure of two calls is no sign.
FAILING_PERCENT, FEWEST_FAILURES = 50, 3
# The lines of a minute, by each of the orders.
WORST = 20
ORDERS: tuple[Callable[[Counts], float], ...] = (
    lambda counts: counts.failed,
    lambda counts: counts.percentile(0.99) if counts.times else 0,
    lambda counts: counts.waited_s,
    lambda counts: counts.seconds,
)
AT_ONCE = 8

logger = logging.getLogger(__name__)


@dataclass
class Minute:
    """Counts of a minute by model, the objects that were read, and their number when figures were put."""

    counts: dict[str, Counts] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    put: int = -1


_minutes: dict[int, Minute] = {}
_NONE = Counts()


def handler(
    event: Mapping[str, Any],  # noqa: ARG001
    context: Any,  # noqa: ARG001
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Read the minutes that are over, and put the figures of those of which anything is new."""
    sleep(wait_s(clock()))
    newest = int(clock()) // MINUTE_S * MINUTE_S - MINUTE_S
    window = range(newest - (LOOK_BACK + AGAIN - 2) * MINUTE_S, newest + 1, MINUTE_S)
    for start in [*_minutes]:
        if start not in window:
            del _minutes[start]
    for start in window:
        _minutes.setdefault(start, Minute())
    read(since=window[0])
    changed = [start for start in window[-AGAIN:] if _minutes[start].put != len(_minutes[start].read)]
    data = [datum for start in changed for datum in figures(start)]
    if data:
        client("cloudwatch").put_metric_data(Namespace=os.environ["NAMESPACE"], MetricData=data)
    for start in changed:
        sys.stdout.write("".join(f"{line}\n" for line in lines(start)))
        _minutes[start].put = len(_minutes[start].read)


def wait_s(now: float) -> float:
    """Return the seconds until a minute that is over can be read, and is not old."""
    second = now % MINUTE_S
    if second > LATEST_S:
        return EARLIEST_S + MINUTE_S - second
    return max(0.0, EARLIEST_S - second)


@cache
def client(service: Literal["cloudwatch", "s3"]) -> Any:
    """Return a client, which takes longer to make than to use."""
    return boto3.client(service)


def read(*, since: int) -> None:
    """Read the objects that were not read before."""
    where = os.environ["BUCKET"]
    new = [
        (key, period)
        for key, period in listed(since)
        if period.start in _minutes and key not in _minutes[period.start].read
    ]

    def content(entry: tuple[str, Period]) -> bytes:
        found: bytes = client("s3").get_object(Bucket=where, Key=entry[0])["Body"].read()
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (key, period), body in zip(new, pool.map(content, new), strict=True):
            minute = _minutes[period.start]
            try:
                counts = Report.decoded(body, period).counts
            except ValueError as error:
                logger.error("s3://%s/%s: %s; its requests are missing", where, key, error)
                counts = {}
            for (model, _), each in counts.items():
                minute.counts.setdefault(model, Counts()).add(each)
            minute.read.add(key)


def listed(since: int) -> Iterator[tuple[str, Period]]:
    """Yield the minutes of processes since a minute, with their keys."""
    first = f"{datetime.fromtimestamp(since, timezone.utc):%Y-%m-%d/%H-%M}"
    for endpoint in (os.environ["ENDPOINT_NAME"], UNRESOLVED):
        folder = f"{os.environ['PREFIX']}{endpoint}/"
        pages = (
            client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=os.environ["BUCKET"], Prefix=folder, StartAfter=folder + first)
        )
        for each in (entry for page in pages for entry in page.get("Contents", [])):
            period = Period.of_name(each["Key"].removeprefix(folder))
            if period is not None and period.seconds == MINUTE_S:
                yield each["Key"], period


def figures(start: int) -> Iterator[dict[str, Any]]:
    """Yield the metrics of a minute."""
    enough, counts = float(os.environ["MINIMUM_REQUESTS"]), _minutes[start].counts
    window = range(start, start - LOOK_BACK * MINUTE_S, -MINUTE_S)
    suspects = {name for each in window for name, found in _minutes[each].counts.items() if found.errors}

    def failed_percent(model: str) -> float:
        """Return the share of the latest calls that failed: of the last minutes, until there are enough."""
        latest = Counts()
        for each in window:
            latest.add(_minutes[each].counts.get(model, _NONE))
            if latest.requests >= enough:
                break
        return 100 * latest.failed / latest.requests if latest.failed >= FEWEST_FAILURES else 0.0

    failing = sum(failed_percent(model) >= FAILING_PERCENT for model in suspects)
    yield datum(start, "ModelsFailing", failing)
    for model in json.loads(os.environ["WATCH"]):
        yield datum(start, "FailedPercent", failed_percent(model), model)
        found = counts.get(model, _NONE)
        if found.times and found.requests >= enough:
            yield datum(start, "LatencyP99", 1000 * found.percentile(0.99), model)


def datum(start: int, name: str, value: float, model: str = "") -> dict[str, Any]:
    """Return a value of a metric as CloudWatch takes it."""
    of_model = [{"Name": "Model", "Value": model}] if model else []
    return {"MetricName": name, "Timestamp": start, "Value": value, "Dimensions": of_model}


def lines(start: int) -> Iterator[str]:
    """Yield a line for each of the worst models of a minute."""
    counts, chosen = _minutes[start].counts, dict[str, Counts]()
    for order in ORDERS:
        for model in heapq.nlargest(WORST, counts, key=lambda each: order(counts[each])):
            if order(counts[model]):
                chosen[model] = counts[model]
    minute = f"{datetime.fromtimestamp(start, timezone.utc):%Y-%m-%dT%H:%MZ}"
    for model, each in chosen.items():
        line = {
            "minute": minute,
            "model": model,
            "requests": each.requests,
            "failed": each.failed,
            "p99_ms": round(1000 * each.percentile(0.99), 1) if each.times else 0,
            "waited": each.waited,
            "seconds": round(each.seconds, 3),
        }
        yield json.dumps(line)
