"""The limits of normal operation, for alarms that notify and alarms that roll back."""

from __future__ import annotations

from dataclasses import dataclass, fields

from aws_cdk import Duration

from triton_fleet.parts.arguments.checks import Unit, in_unit, whole_quantity
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

# The page has the ranges of the metrics.
ALARM_THRESHOLD = Check(
    id="alarm-threshold",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
_ONE_SECOND = Duration.seconds(1)
_A_QUARTER_OF_AN_HOUR = Duration.minutes(15)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The limits of normal operation. Percentages are 0 to 100 of one instance, or of all requests.

    Attributes:
        server_error_percent: 5XX answers of all requests.
        model_error_percent: Requests that the model's container did not answer with success. Above the server
            errors, because a client's bad input counts as one.
        latency_p99: The limit of the container's 99th percentile latency, without the time for loading
            models.
        cache_hit_percent: Evictions in minutes with fewer hits than this are thrash.
        disk_percent: The disk that keeps downloaded models. When it is full, unloaded ones are deleted and
            have to be downloaded again.
        gpu_memory_percent: A cache is meant to be full; above this not even one more small model fits.
        busy_percent: GPUs (or vCPUs, on a type without) busier than this while the fleet could grow: auto
            scaling has long asked for an instance that does not come.
        minimum_requests: The requests per minute from which percentages and percentiles count. Of fewer
            requests, one failure is a large share. Lower it for an endpoint that is rarely called.
        oldest_request: The limit for the age of the oldest request in the queue of an asynchronous endpoint.
    """

    server_error_percent: float = 1
    model_error_percent: float = 5
    latency_p99: Duration = _ONE_SECOND
    cache_hit_percent: float = 80
    disk_percent: float = 85
    gpu_memory_percent: float = 95
    busy_percent: float = 90
    minimum_requests: float = 10
    oldest_request: Duration = _A_QUARTER_OF_AN_HOUR

    def _check(self, report: Report) -> None:
        """Report problems with thresholds that no metric, or every metric, exceeds."""
        for name in (each.name for each in fields(self) if each.name.endswith("_percent")):
            alarm_threshold(report.at(name), known(getattr(self, name)), lowest=0, below=100, unit="%")
        requests, unit = known(self.minimum_requests), "requests per minute"
        alarm_threshold(report.at("minimum_requests"), requests, lowest=1, unit=unit)
        self._check_time(report.at("latency_p99"), self.latency_p99, "milliseconds", "ms")
        self._check_time(report.at("oldest_request"), self.oldest_request, "seconds", "s")

    def _check_time(self, report: Report, given: Duration, unit: Unit, short: str) -> None:
        whole_quantity(report, given, name="the threshold", unit=unit)
        alarm_threshold(report, in_unit(given, unit), lowest=1, unit=short)


def alarm_threshold(
    report: Report, value: float | None, *, lowest: float, below: float | None = None, unit: str
) -> None:
    """Report problems with this threshold."""
    if value is None or (value >= lowest and (below is None or value < below)):
        return
    expected = f"{lowest:g} {unit} or more" + ("" if below is None else f", and below {below:g} {unit}")
    report(
        ALARM_THRESHOLD,
        f"the threshold is {value:g}",
        fix=f"set a threshold of {expected}",
        why="the alarm would always fire, or never",
    )
