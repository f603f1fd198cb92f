"""The hosting metrics in CloudWatch, with SageMaker's names, namespaces, dimensions and units."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from embedded_aws import current_clock

INVOCATION_NAMESPACE = "AWS/SageMaker"
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"

PERIOD_S = 60.0  # between SageMaker's reports of the usage of an instance
_GATHER_S = 1.0  # for which events are collected into one call
_LONGEST_GAP_S = 10.0  # of the wall clock, between two events of one kind that are taken for a rate
_CALL_LIMIT = 1000  # metric data per call (API reference of PutMetricData)
_VALUE_LIMIT = 150  # values per datum (API reference of MetricDatum)

_SUCCESS, _CLIENT_ERROR, _SERVER_ERROR = range(200, 300), range(400, 500), range(500, 600)

_log = logging.getLogger(__name__)


class Metric(NamedTuple):
    """The namespace and unit of a metric."""

    namespace: str
    unit: str


# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html and
# .../multi-model-endpoint-cloudwatch-metrics.html, read 2026-11-21. All have the dimensions EndpointName and
# VariantName. Those of invocations also come with EndpointConfigName, for each fleet of a deployment:
# .../deployment-guardrails-configuration.html. CPUUtilization counts 100 for every core, and the two of GPUs
# up to 100 for every GPU.
METRICS: Mapping[str, Metric] = {
    "Invocations": Metric(INVOCATION_NAMESPACE, "None"),
    "InvocationsPerInstance": Metric(INVOCATION_NAMESPACE, "None"),
    "Invocation4XXErrors": Metric(INVOCATION_NAMESPACE, "None"),
    "Invocation5XXErrors": Metric(INVOCATION_NAMESPACE, "None"),
    "InvocationModelErrors": Metric(INVOCATION_NAMESPACE, "None"),
    "ModelLatency": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "OverheadLatency": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "ModelCacheHit": Metric(INVOCATION_NAMESPACE, "None"),
    "ModelLoadingWaitTime": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "ModelDownloadingTime": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "ModelLoadingTime": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "ModelUnloadingTime": Metric(INVOCATION_NAMESPACE, "Microseconds"),
    "LoadedModelCount": Metric(INSTANCE_NAMESPACE, "None"),
    "CPUUtilization": Metric(INSTANCE_NAMESPACE, "Percent"),
    "MemoryUtilization": Metric(INSTANCE_NAMESPACE, "Percent"),
    "DiskUtilization": Metric(INSTANCE_NAMESPACE, "Percent"),
    "GPUUtilization": Metric(INSTANCE_NAMESPACE, "Percent"),
    "GPUMemoryUtilization": Metric(INSTANCE_NAMESPACE, "Percent"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A request that was sent to a model. Times in seconds."""

    status: int  # of the container's answer; 0 without one
    instances: int  # of the variant
    model_s: float | None  # until the container's full answer; None if the model could not be loaded
    overhead_s: float  # the rest of the caller's waiting time
    cache_hit: bool | None  # the model was loaded when the request arrived; None with one model
    loading_wait_s: float | None = None  # for the model; None if the request did not wait

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        samples = {
            "Invocations": 1.0,
            "InvocationsPerInstance": 1.0 / self.instances,
            "Invocation4XXErrors": float(self.status in _CLIENT_ERROR),
            "Invocation5XXErrors": float(self.status in _SERVER_ERROR),
            "InvocationModelErrors": float(self.status not in _SUCCESS),
        }
        if self.cache_hit is not None:
            samples["ModelCacheHit"] = float(self.cache_hit)
        if self.model_s is not None:
            samples["ModelLatency"] = _microseconds(self.model_s)
            samples["OverheadLatency"] = _microseconds(self.overhead_s)
        if self.loading_wait_s is not None:
            samples["ModelLoadingWaitTime"] = _microseconds(self.loading_wait_s)
        return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Work on a model, with its time."""

    target: str
    seconds: float
    metric: ClassVar[str]

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        return {self.metric: _microseconds(self.seconds)}


class Download(_Work):
    """A model that an instance downloaded from S3."""

    metric = "ModelDownloadingTime"


class Load(_Work):
    """A model that the container loaded."""

    metric = "ModelLoadingTime"


class Unload(_Work):
    """A model that the container unloaded."""

    metric = "ModelUnloadingTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of an instance at one moment, in percent as SageMaker counts. None is not published."""

    loaded_models: int | None
    cpu_percent: float
    memory_percent: float
    disk_percent: float
    gpu_percent: float | None = None
    gpu_memory_percent: float | None = None

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        values = {
            "LoadedModelCount": self.loaded_models,
            "CPUUtilization": self.cpu_percent,
            "MemoryUtilization": self.memory_percent,
            "DiskUtilization": self.disk_percent,
            "GPUUtilization": self.gpu_percent,
            "GPUMemoryUtilization": self.gpu_memory_percent,
        }
        return {name: float(value) for name, value in values.items() if value is not None}


class _NoMetric:
    __slots__ = ()

    def samples(self) -> dict[str, float]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(_NoMetric):
    """An instance that began to take requests."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(_NoMetric):
    """An instance that ended; the reason is empty if it was to end."""

    reason: str


Event = Invocation | Download | Load | Unload | Usage | Started | Ended


class Source(NamedTuple):
    """The source of metrics, with its dimensions. The configuration identifies a fleet of the endpoint."""

    endpoint: str
    variant: str
    config: str = ""

    def dimensions(self, namespace: str) -> Iterator[Mapping[str, str]]:
        """Yield the dimensions under which a metric is known."""
        names = {"EndpointName": self.endpoint, "VariantName": self.variant}
        yield names
        if self.config and namespace == INVOCATION_NAMESPACE:
            yield {**names, "EndpointConfigName": self.config}


_Events = dict[tuple[Source, int], Counter[Event]]
"""The events of each source and second of the epoch, with the numbers of their likes for which they count."""


class MetricsPublisher:
    """Sends events to CloudWatch from its own thread, so that no request waits for it.

    `usage` is called every minute, and after every load and unload.
    """

    def __init__(self, cloudwatch: Any, *, usage: Callable[[], Iterable[tuple[Source, Usage]]]) -> None:
        self._cloudwatch = cloudwatch
        self._usage = usage
        self._change = threading.Condition()
        self._events: _Events = {}
        self._last: dict[tuple[Source, type[Event]], float] = {}
        self._flushes: list[threading.Event] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def add(self, source: Source, event: Event) -> None:
        """Report an event that happened now.

        On a fast clock it counts for several. They belong to the time since the last event of the kind, or
        the minutes between two rare ones would have none, and the next one too many.
        """
        with self._change:
            if not self._events:
                self._change.notify()
            now = current_clock()
            at = now.time()
            last = self._last.get((source, type(event)), at)
            self._last[source, type(event)] = at
            since = last if at - last <= now.pace * _LONGEST_GAP_S else at
            for second, number in _spread(now.requests, since, at):
                self._events.setdefault((source, second), Counter())[event] += number

    def flush(self) -> None:
        """Wait until all added events are in CloudWatch."""
        done = threading.Event()
        with self._change:
            self._flushes.append(done)
            self._change.notify()
        while self._thread.is_alive() and not done.wait(1.0):
            pass

    def close(self) -> None:
        """Send the remaining events and stop."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()

    def _run(self) -> None:
        report_at = _next_report()
        while True:
            events, flushed, closed = self._collect(report_at)
            if time.monotonic() >= report_at or any(
                isinstance(event, Load | Unload) for some in events.values() for event in some
            ):
                for source, usage in self._usages():
                    events.setdefault((source, int(current_clock().time())), Counter())[usage] += 1
                report_at = _next_report()
            self._send(events)
            for done in flushed:
                done.set()
            if closed:
                return

    def _collect(self, report_at: float) -> tuple[_Events, list[threading.Event], bool]:
        """Return the events of about a second, the waiting flushes, and True if there will be no more."""
        with self._change:
            self._change.wait_for(lambda: self._events or self._hurried(), report_at - time.monotonic())
            gather_s = min(_GATHER_S, current_clock().every(PERIOD_S) / 4)
            self._change.wait_for(self._hurried, min(gather_s, report_at - time.monotonic()))
            events, self._events = self._events, {}
            flushed, self._flushes = self._flushes, []
            return events, flushed, self._closed

    def _hurried(self) -> bool:
        return self._closed or bool(self._flushes)

    def _usages(self) -> Sequence[tuple[Source, Usage]]:
        try:
            return list(self._usage())
        except OSError:  # an instance has ended meanwhile
            return []

    def _send(self, events: _Events) -> None:
        for namespace, data in _by_namespace(events).items():
            for start in range(0, len(data), _CALL_LIMIT):
                try:
                    self._cloudwatch.put_metric_data(
                        Namespace=namespace, MetricData=data[start : start + _CALL_LIMIT]
                    )
                except Exception:  # noqa: BLE001  a lost metric must not take the endpoint down
                    _log.warning("metrics were lost", exc_info=True)


def _spread(number: int, since: float, at: float) -> Iterator[tuple[int, int]]:
    """Yield the seconds to which an event counts, and how often.

    One that counts for several has its share in each minute of a time span, at the minute's first second: a
    fast clock has too many seconds to report each.
    """
    if number == 1:
        yield int(at), 1
        return
    counted, last = 0, int(at // PERIOD_S)
    for minute in range(int(since // PERIOD_S), last + 1):
        share = 1.0 if minute == last else ((minute + 1) * PERIOD_S - since) / (at - since)
        if (until := round(number * share)) > counted:
            yield minute * int(PERIOD_S), until - counted
            counted = until


def _next_report() -> float:
    """Return the time of the next report, on the monotonic clock.

    It is early in a minute of the control plane, so that none is left out if a report is a little late.
    """
    now = current_clock()
    return time.monotonic() + now.every(PERIOD_S - (now.time() - PERIOD_S / 4) % PERIOD_S)


def _by_namespace(events: _Events) -> dict[str, list[dict[str, Any]]]:
    """Return PutMetricData's data of events, by metric, dimensions and second."""
    data: dict[str, list[dict[str, Any]]] = {}
    for (source, second), some in events.items():
        counted: dict[str, Counter[float]] = defaultdict(Counter)
        for event, number in some.items():
            for name, value in event.samples().items():
                counted[name][value] += number
        for name, values in counted.items():
            namespace = METRICS[name].namespace
            for dimensions in source.dimensions(namespace):
                of_namespace = data.setdefault(namespace, [])
                of_namespace += (_datum(name, dimensions, second, part) for part in _parts(values))
    return data


def _parts(values: Mapping[float, int]) -> Iterator[list[tuple[float, int]]]:
    """Yield values with their numbers, as many at a time as a datum takes."""
    items = sorted(values.items())
    for start in range(0, len(items), _VALUE_LIMIT):
        yield items[start : start + _VALUE_LIMIT]


def _datum(
    name: str, dimensions: Mapping[str, str], second: int, values: Iterable[tuple[float, int]]
) -> dict[str, Any]:
    return {
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        "Timestamp": datetime.datetime.fromtimestamp(second, tz=datetime.timezone.utc),
        "Values": [value for value, _ in values],
        "Counts": [float(count) for _, count in values],
        "Unit": METRICS[name].unit,
    }


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 1)
