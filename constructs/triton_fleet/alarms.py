"""Alarms: what is wrong, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.metrics import EndpointMetrics
from triton_fleet.scaling import EndpointScaling

_Above = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD


class Severity(Enum):
    """Who has to know, and when.

    PAGE: requests fail or are slow now; wake somebody up. TICKET: it will come to that; in working hours.
    """

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where normal ends. Percentages are 0 to 100 of one instance, or of all requests.

    Attributes:
        server_error_percent: 5XX answers of all requests.
        model_error_percent: Requests that the model's container did not answer with success. Above the server
            errors, because a client's bad input counts as one.
        latency_p99_ms: The slowest hundredth of requests, in the container, in milliseconds. Without the time
            in which a model is loaded first.
        cache_hit_percent: Evictions in minutes with fewer hits than this are thrash.
        disk_percent: The disk that keeps downloaded models. When it is full, unloaded ones are deleted and
            have to be downloaded again.
        gpu_memory_percent: A cache is meant to be full; above this not even one more small model fits.
    """

    server_error_percent: float = 1
    model_error_percent: float = 5
    latency_p99_ms: float = 1000
    cache_hit_percent: float = 80
    disk_percent: float = 85
    gpu_memory_percent: float = 95


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDeclaration:
    """One alarm, before it is a resource.

    Attributes:
        name: The construct's id.
        severity: Who has to know.
        metric: What is watched.
        threshold: The highest value that is still normal.
        minutes: How many of the last minutes are looked at.
        out_of: How many of them have to be above the threshold.
        what: What the alarm means, in a sentence.
        runbook: What to do, first thing first.
    """

    name: str
    severity: Severity
    metric: cloudwatch.IMetric
    threshold: float
    minutes: int
    out_of: int
    what: str
    runbook: str

    @property
    def description(self) -> str:
        """The text that arrives with the alarm."""
        return f"{self.what}\n\nWhat to do: {self.runbook}"


def declarations(metrics: EndpointMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """The alarms that every endpoint has."""
    yield AlarmDeclaration(
        name="ServerErrors",
        severity=Severity.PAGE,
        metric=metrics.error_percent("Invocation5XXErrors"),
        threshold=thresholds.server_error_percent,
        minutes=5,
        out_of=3,
        what="The endpoint answers requests with 5XX.",
        runbook=(
            "Read the endpoint's log group for containers that restart. If it began with a deployment, roll "
            "that back. If instances are missing, look for a capacity or quota error in the endpoint's "
            "scaling activities."
        ),
    )
    yield AlarmDeclaration(
        name="ModelErrors",
        severity=Severity.PAGE,
        metric=metrics.error_percent("InvocationModelErrors"),
        threshold=thresholds.model_error_percent,
        minutes=5,
        out_of=5,
        what="Models refuse requests, or cannot be loaded.",
        runbook=(
            "Search the log group for 'failed to load' and for the target model. A plan for another GPU or "
            "TensorRT: publish it again from the build job. A version published just now: move the name back "
            "to the artifact before it. Bad input from one client: tell its owner."
        ),
    )
    yield AlarmDeclaration(
        name="Latency",
        severity=Severity.PAGE,
        metric=metrics.milliseconds("ModelLatency", statistic="p99"),
        threshold=thresholds.latency_p99_ms,
        minutes=5,
        out_of=3,
        what="The slowest hundredth of requests waits too long for the model.",
        runbook=(
            "On the dashboard, see whether the GPUs are busy: then raise the largest capacity. If they are "
            "not, see whether models are being evicted: an eviction holds up requests to other models."
        ),
    )
    yield AlarmDeclaration(
        name="Thrash",
        severity=Severity.TICKET,
        metric=metrics.thrashing(below_hit_percent=thresholds.cache_hit_percent),
        threshold=0,
        minutes=15,
        out_of=10,
        what="Models push each other out of memory: they are evicted while requests miss.",
        runbook=(
            "The models in use no longer fit. Use an instance type with more GPU memory, or make models "
            "smaller (FP16, fewer instances in config.pbtxt), or move some to a second endpoint. More "
            "instances help only as far as SageMaker sends a model to few of them."
        ),
    )
    yield AlarmDeclaration(
        name="Disk",
        severity=Severity.TICKET,
        metric=metrics.metric("DiskUtilization", statistic="Maximum"),
        threshold=thresholds.disk_percent,
        minutes=15,
        out_of=15,
        what="An instance's disk, which keeps downloaded models, is nearly full.",
        runbook=(
            "From here on models are deleted from disk, and a later request downloads them again: watch the "
            "download time. Use a size with a larger local disk, or publish smaller artifacts."
        ),
    )
    yield AlarmDeclaration(
        name="GpuMemory",
        severity=Severity.TICKET,
        metric=metrics.gpu_memory_percent(),
        threshold=thresholds.gpu_memory_percent,
        minutes=15,
        out_of=15,
        what="The GPUs' memory is full.",
        runbook=(
            "That alone is no incident: a full cache evicts. If models also thrash, or if requests fail "
            "for want of memory, lower max_batch_size or the instance count of the largest models."
        ),
    )


def ceiling(metrics: EndpointMetrics, *, max_capacity: float) -> AlarmDeclaration:
    """The alarm of a fleet that cannot grow any more."""
    return AlarmDeclaration(
        name="ScaledToMaximum",
        severity=Severity.TICKET,
        metric=metrics.instances(),
        threshold=max_capacity - 0.5,  # the number of instances is a ratio of two sums, so not quite whole
        minutes=15,
        out_of=15,
        what="Auto scaling has reached its largest capacity.",
        runbook=(
            "More load now means slower answers. Raise the largest capacity, and the account's quota for "
            "instances of the type if it is lower."
        ),
    )


class EndpointAlarms(Construct):
    """The alarms of an endpoint.

    Those that page are gathered in one composite alarm, so that one outage is one page. Alarms that are
    tickets notify on their own.

    Attributes:
        alarms: Alarms by name, such as "Latency". The dashboard draws their thresholds.
        paging: In alarm if any alarm that pages is.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        scaling: EndpointScaling | None = None,
        thresholds: Thresholds | None = None,
        topic: sns.ITopic | None = None,
    ) -> None:
        """Create the alarms.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            endpoint: What to watch.
            scaling: Its auto scaling, to be told when it can grow no more.
            thresholds: Where normal ends.
            topic: Who is told. Without one the alarms can be looked at, and nobody is.
        """
        super().__init__(scope, construct_id)
        declared = list(declarations(endpoint.metrics, thresholds or Thresholds()))
        if scaling is not None:
            declared.append(ceiling(endpoint.metrics, max_capacity=scaling.max_capacity))
        self.alarms: Mapping[str, cloudwatch.Alarm] = MappingProxyType(
            {declaration.name: self._alarm(declaration, endpoint) for declaration in declared}
        )
        pages = [self.alarms[each.name] for each in declared if each.severity is Severity.PAGE]
        self.paging = self._composite(pages, endpoint)
        if topic is not None:
            tickets = [self.alarms[each.name] for each in declared if each.severity is Severity.TICKET]
            _notify(topic, [self.paging, *tickets])

    def _alarm(self, declaration: AlarmDeclaration, endpoint: MultiModelEndpoint) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            declaration.name,
            alarm_name=f"{endpoint.name}-{declaration.severity.value}-{declaration.name}",
            alarm_description=declaration.description,
            metric=declaration.metric,
            threshold=declaration.threshold,
            comparison_operator=_Above,
            evaluation_periods=declaration.minutes,
            datapoints_to_alarm=declaration.out_of,
            # SageMaker publishes nothing in a minute without requests, and no request is not a failure.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def _composite(
        self, pages: list[cloudwatch.Alarm], endpoint: MultiModelEndpoint
    ) -> cloudwatch.CompositeAlarm:
        rules = [cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM) for alarm in pages]
        return cloudwatch.CompositeAlarm(
            self,
            "Paging",
            composite_alarm_name=f"{endpoint.name}-page",
            alarm_description="Requests fail or are slow now. The alarms in alarm below this one say which.",
            alarm_rule=cloudwatch.AlarmRule.any_of(*rules),
        )


def _notify(topic: sns.ITopic, alarms: list[cloudwatch.AlarmBase]) -> None:
    for alarm in alarms:
        alarm.add_alarm_action(actions.SnsAction(topic))
        alarm.add_ok_action(actions.SnsAction(topic))
