"""The hosting metrics in CloudWatch, with SageMaker's names, namespaces, dimensions and units."""

from __future__ import annotations

import datetime
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_aws import clock
from triton_rehearsal.assumptions import holds

INVOCATION_NAMESPACE = "AWS/SageMaker"
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"

# The interval, in seconds, at which SageMaker reports the usage of an instance.
PERIOD_S = 60.0

# The time, in seconds, for which events are collected into one call.
_GATHER_S = 1.0

# The maximum number of metric data per call (API reference of PutMetricData).
_CALL_LIMIT = 1000

# The maximum number of values per datum (API reference of MetricDatum).
_VALUE_LIMIT = 150

_SUCCESS, _CLIENT_ERROR, _SERVER_ERROR = range(200, 300), range(400, 500), range(500, 600)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The namespace, dimensions and unit of a metric."""

    namespace: str
    unit: str


def _invocation(unit: str) -> Metric:
    return Metric(namespace=INVOCATION_NAMESPACE, unit=unit)


def _instance(unit: str) -> Metric:
    return Metric(namespace=INSTANCE_NAMESPACE, unit=unit)


# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html and
# .../multi-model-endpoint-cloudwatch-metrics.html, read 2026-11-21. All have the dimensions EndpointName
# and VariantName. Those of invocations also come with EndpointConfigName, which separates the fleets of a
# deployment: .../deployment-guardrails-configuration.html. CPUUtilization counts 100 for every core,
# and the two of GPUs up to 100 for every GPU.
METRICS: Mapping[str, Metric] = {
    "Invocations": _invocation("None"),
    "InvocationsPerInstance": _invocation("None"),
    "Invocation4XXErrors": _invocation("None"),
    "Invocation5XXErrors": _invocation("None"),
    "InvocationModelErrors": _invocation("None"),
    "ModelLatency": _invocation("Microseconds"),
    "OverheadLatency": _invocation("Microseconds"),
    "ModelCacheHit": _invocation("None"),
    "ModelLoadingWaitTime": _invocation("Microseconds"),
    "ModelDownloadingTime": _invocation("Microseconds"),
    "ModelLoadingTime": _invocation("Microseconds"),
    "ModelUnloadingTime": _invocation("Microseconds"),
    "LoadedModelCount": _instance("None"),
    "CPUUtilization": _instance("Percent"),
    "MemoryUtilization": _instance("Percent"),
    "DiskUtilization": _instance("Percent"),
    "GPUUtilization": _instance("Percent"),
    "GPUMemoryUtilization": _instance("Percent"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A request that was sent to a model. Times in seconds.

    Attributes:
        status: The container's HTTP status; 0 without an answer.
        instances: Number of the variant's instances.
        model_s: The time from sending the request to the container until its full answer; None if the model
            could not be loaded.
        overhead_s: The rest of the caller's waiting time.
        cache_hit: True if the model was loaded when the request arrived.
        loading_wait_s: The request's wait for the model; None if it did not wait.
    """

    status: int
    instances: int
    model_s: float | None
    overhead_s: float
    cache_hit: bool
    loading_wait_s: float | None = None

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        times = {
            "ModelLatency": self.model_s,
            "OverheadLatency": None if self.model_s is None else self.overhead_s,
            "ModelLoadingWaitTime": self.loading_wait_s,
        }
        return {
            "Invocations": 1.0,
            "InvocationsPerInstance": 1.0 / self.instances,
            "Invocation4XXErrors": float(self.status in _CLIENT_ERROR),
            "Invocation5XXErrors": float(self.status in _SERVER_ERROR),
            "InvocationModelErrors": float(self.status not in _SUCCESS),
            "ModelCacheHit": float(self.cache_hit),
            **{name: _microseconds(value) for name, value in times.items() if value is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A model that an instance downloaded from S3."""

    seconds: float

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        return {"ModelDownloadingTime": _microseconds(self.seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A model that the container loaded."""

    seconds: float

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        return {"ModelLoadingTime": _microseconds(self.seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unload:
    """A model that the container unloaded."""

    seconds: float

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        return {"ModelUnloadingTime": _microseconds(self.seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of an instance at one moment, in percent as SageMaker counts. None without a GPU."""

    loaded_models: int
    cpu_percent: float
    memory_percent: float
    disk_percent: float
    gpu_percent: float | None = None
    gpu_memory_percent: float | None = None

    def samples(self) -> dict[str, float]:
        """One value for each metric that this event changes."""
        values = {
            "LoadedModelCount": float(self.loaded_models),
            "CPUUtilization": self.cpu_percent,
            "MemoryUtilization": self.memory_percent,
            "DiskUtilization": self.disk_percent,
            "GPUUtilization": self.gpu_percent,
            "GPUMemoryUtilization": self.gpu_memory_percent,
        }
        return {name: value for name, value in values.items() if value is not None}


Event = Invocation | Download | Load | Unload | Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of metrics, with its dimensions. The configuration identifies a fleet of the endpoint."""

    endpoint: str
    variant: str
    config: str = ""

    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """The names and values of the dimensions."""
        return ("EndpointName", self.endpoint), ("VariantName", self.variant)

    def fleet_dimensions(self) -> tuple[tuple[str, str], ...]:
        """The dimensions of one fleet."""
        return (*self.dimensions(), ("EndpointConfigName", self.config))


class MetricsPublisher:
    """Sends events to CloudWatch from its own thread, so that no request waits for it.

    Args:
        cloudwatch: A boto3 CloudWatch client.
        usage: Returns the usage of each instance. Called every minute, and after every load and unload.
    """

    def __init__(self, cloudwatch: Any, *, usage: Callable[[], Mapping[Source, Usage]]) -> None:
        self._cloudwatch = cloudwatch
        self._usage = usage
        self._queue: queue.SimpleQueue[tuple[Source, Event, float] | threading.Event | None]
        self._queue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def add(self, source: Source, event: Event) -> None:
        """Report an event that happened now."""
        self._queue.put((source, event, clock.current().time()))

    def flush(self) -> None:
        """Wait until all added events are in CloudWatch."""
        done = threading.Event()
        self._queue.put(done)
        while self._thread.is_alive() and not done.wait(1.0):
            pass

    def close(self) -> None:
        """Send the remaining events and stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        report_at = time.monotonic() + clock.current().every(PERIOD_S)
        while True:
            flushed: list[threading.Event] = []
            events: list[tuple[Source, Event, float]] = []
            go_on = self._collect(events, flushed, report_at - time.monotonic())
            if time.monotonic() >= report_at or any(isinstance(e, Load | Unload) for _, e, _ in events):
                events += self._usage_events()
                report_at = time.monotonic() + clock.current().every(PERIOD_S)
            self._send(events)
            for done in flushed:
                done.set()
            if not go_on:
                return

    def _collect(
        self, events: list[tuple[Source, Event, float]], flushed: list[threading.Event], wait_s: float
    ) -> bool:
        """Collect entries that arrive shortly after the first one. Returns False at the end of the queue."""
        deadline = time.monotonic() + max(wait_s, 0.0)
        try:
            while True:
                entry = self._queue.get(timeout=max(deadline - time.monotonic(), 0.0))
                if entry is None:
                    return False
                if isinstance(entry, threading.Event):
                    flushed.append(entry)
                    return True
                if not events:
                    deadline = min(
                        deadline, time.monotonic() + min(_GATHER_S, clock.current().every(PERIOD_S) / 4)
                    )
                events.append(entry)
        except queue.Empty:
            return True

    def _usage_events(self) -> list[tuple[Source, Event, float]]:
        try:
            return [(source, usage, clock.current().time()) for source, usage in self._usage().items()]
        except OSError:
            # An instance may end while its usage is measured.
            return []

    def _send(self, events: list[tuple[Source, Event, float]]) -> None:
        for namespace, data in _by_namespace(events).items():
            for start in range(0, len(data), _CALL_LIMIT):
                try:
                    self._cloudwatch.put_metric_data(
                        Namespace=namespace, MetricData=data[start : start + _CALL_LIMIT]
                    )
                except Exception:  # noqa: BLE001  a lost metric must not take the endpoint down
                    _log.warning("metrics were lost", exc_info=True)


def _by_namespace(events: Iterable[tuple[Source, Event, float]]) -> dict[str, list[dict[str, Any]]]:
    """Return PutMetricData's data of events, with the values of each metric in a second counted together."""
    counted: dict[tuple[str, tuple[tuple[str, str], ...], int], Counter[float]] = {}
    for source, event, at in events:
        for name, value in event.samples().items():
            for dimensions in _dimension_sets(source, METRICS[name]):
                counted.setdefault((name, dimensions, int(at)), Counter())[value] += 1
    data: dict[str, list[dict[str, Any]]] = {}
    for (name, dimensions, second), values in counted.items():
        items = list(values.items())
        for start in range(0, len(items), _VALUE_LIMIT):
            some = items[start : start + _VALUE_LIMIT]
            data.setdefault(METRICS[name].namespace, []).append(_datum(name, dimensions, second, some))
    return data


def _dimension_sets(source: Source, metric: Metric) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield the dimensions under which a metric of a source is known."""
    yield source.dimensions()
    if source.config and metric.namespace == INVOCATION_NAMESPACE and holds("endpoint_config_dimension"):
        yield source.fleet_dimensions()


def _datum(
    name: str, dimensions: Iterable[tuple[str, str]], second: int, values: Iterable[tuple[float, int]]
) -> dict[str, Any]:
    return {
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions],
        "Timestamp": datetime.datetime.fromtimestamp(second, tz=datetime.timezone.utc),
        "Values": [value for value, _ in values],
        "Counts": [float(count) for _, count in values],
        "Unit": METRICS[name].unit,
    }


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 1)
