"""The alarms of an endpoint: what each means, the reason for its threshold, and what to do.

Pure: a declaration is made from metrics alone. `EndpointAlarms` and `RollbackAlarms` make resources of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.metrics.published import VariantMetrics
from triton_fleet.operations.alarm_metrics import hosts_not_reporting, missing_instances, thrashing
from triton_fleet.operations.thresholds import Thresholds


class Severity(Enum):
    """The urgency of an alarm.

    PAGE: requests fail or are slow now; page the person on call. TICKET: they will; look in working hours.
    """

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDeclaration:
    """One alarm, before it is a resource.

    Attributes:
        name: The construct's id.
        severity: How urgent it is.
        metric: What is watched, by the minute.
        threshold: The highest value that is still normal.
        minutes: How many of the last minutes are looked at.
        out_of: How many of them have to be above the threshold.
        what: What the alarm means, in a sentence.
        why: Why the threshold and the minutes are what they are.
        runbook: What to do, first thing first.
    """

    name: str
    severity: Severity
    metric: cloudwatch.IMetric
    threshold: float
    minutes: int
    out_of: int
    what: str
    why: str
    runbook: str

    @property
    def description(self) -> str:
        """The text that arrives with the alarm."""
        return f"{self.what}\n\nWhat to do: {self.runbook}"

    def create(self, scope: Construct, *, alarm_name: str) -> cloudwatch.Alarm:
        """The alarm as a resource.

        Args:
            scope: The parent construct.
            alarm_name: The alarm's literal name.
        """
        return cloudwatch.Alarm(
            scope,
            self.name,
            alarm_name=alarm_name,
            alarm_description=self.description,
            metric=self.metric,
            threshold=self.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=self.minutes,
            datapoints_to_alarm=self.out_of,
            # SageMaker publishes nothing in a minute without requests, and no request is not a failure.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )


def serving(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Requests fail, or are slow."""
    yield AlarmDeclaration(
        name="ServerErrors",
        severity=Severity.PAGE,
        metric=metrics.metric_error_rate("Invocation5XXErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.server_error_percent,
        minutes=5,
        out_of=3,
        what="The endpoint answers requests with 5XX.",
        why=(
            "A client that retries hides single failures; one in a hundred, in most of five minutes, is more "
            "than instances that come and go cause. Minutes with few requests do not count."
        ),
        runbook=(
            "Read the endpoint's log group for containers that restart. If it began with a deployment, roll "
            "that back. If instances are missing, look for a capacity or quota error in the endpoint's "
            "scaling activities."
        ),
    )
    yield AlarmDeclaration(
        name="ModelErrors",
        severity=Severity.PAGE,
        metric=metrics.metric_error_rate("InvocationModelErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.model_error_percent,
        minutes=5,
        out_of=5,
        what="Models refuse requests, or cannot be loaded.",
        why=(
            "Bad input of a client counts as a model error, so some are normal and the threshold is above "
            "that of server errors; all of five minutes, for one client's burst is soon over."
        ),
        runbook=(
            "Search the log group for 'failed to load' and for the target model. A plan for another GPU or "
            "TensorRT: publish it again from the build job. A version published just now: move the name back "
            "with `fleet rollback NAME`. Bad input from one client: inform its owner."
        ),
    )
    yield AlarmDeclaration(
        name="Latency",
        severity=Severity.PAGE,
        metric=metrics.metric_model_latency(statistic="p99", min_requests=thresholds.minimum_requests),
        threshold=thresholds.latency_p99.to_milliseconds(),
        minutes=5,
        out_of=3,
        what="The slowest hundredth of requests waits too long for the model.",
        why=(
            "One second is far above what a model that is on the GPU takes, and yours to set: what your "
            "callers wait for. Loading a model is not in this metric, so a cold start does not raise it. "
            "Minutes with few requests do not count: of a handful, the slowest hundredth is one outlier."
        ),
        runbook=(
            "On the dashboard, see whether the GPUs are busy: then raise the largest capacity. If they are "
            "not, see whether models are being evicted: an eviction holds up requests to other models."
        ),
    )


def hosting(metrics: VariantMetrics) -> Iterator[AlarmDeclaration]:
    """Instances say nothing."""
    yield AlarmDeclaration(
        name="Silent",
        severity=Severity.TICKET,
        metric=hosts_not_reporting(metrics),
        threshold=0,
        minutes=15,
        out_of=15,
        what="Requests arrive, and no instance has reported for a quarter of an hour.",
        why=(
            "Each instance reports every minute, so none at all means that none is there, or that the "
            "other alarms and auto scaling are blind. The newest minute is often reported late; fifteen in a "
            "row are not."
        ),
        runbook=(
            "Look whether the endpoint is InService and how many instances it has. If it serves, its role "
            "may have lost cloudwatch:PutMetricData. If it does not, the page about errors has come as well: "
            "begin there."
        ),
    )


def caching(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """The cache of a multi-model endpoint does not work."""
    yield AlarmDeclaration(
        name="Thrash",
        severity=Severity.TICKET,
        metric=thrashing(metrics, below_hit_percent=thresholds.cache_hit_percent),
        threshold=0,
        minutes=15,
        out_of=10,
        what="Models push each other out of memory: they are evicted while requests miss.",
        why=(
            "A full cache evicts all day, and after a deployment every request misses; neither is wrong. "
            "Both in the same minute, in ten of fifteen, is: the models in use do not fit."
        ),
        runbook=(
            "The models in use no longer fit. Use an instance type with more GPU memory, or make models "
            "smaller (FP16, fewer instances in config.pbtxt), or move some to a second endpoint. More "
            "instances help only as far as SageMaker sends a model to few of them."
        ),
    )
    yield AlarmDeclaration(
        name="Disk",
        severity=Severity.TICKET,
        metric=metrics.metric_disk_utilization(statistic="Maximum"),
        threshold=thresholds.disk_percent,
        minutes=15,
        out_of=15,
        what="An instance's disk, which keeps downloaded models, is nearly full.",
        why=(
            "The fullest instance counts, for an average hides it. At 85 % of 450 GB there is room for a "
            "day's new versions still, which is time to act in."
        ),
        runbook=(
            "From here on models are deleted from disk, and a later request downloads them again: watch the "
            "download time. Use a size with a larger local disk, or publish smaller artifacts."
        ),
    )


def load_failures(failures: cloudwatch.IMetric) -> AlarmDeclaration:
    """Models that cannot be loaded, counted in the containers' log.

    Args:
        failures: How many loads failed, by the minute.
    """
    return AlarmDeclaration(
        name="LoadFailures",
        severity=Severity.TICKET,
        metric=failures,
        threshold=0,
        minutes=15,
        out_of=3,
        what="Models cannot be loaded.",
        why=(
            "Any failure matters: every request to such a model fails. A load that fails for lack of memory "
            "is not counted, because SageMaker evicts other models and tries again. Three minutes of "
            "fifteen, so that one request to a model that was withdrawn opens no ticket."
        ),
        runbook=(
            "The dashboard's table of failed loads says which model and why. A plan for another GPU or "
            "TensorRT: publish it again from the build job. A broken version: move the name back with "
            "`fleet rollback NAME`."
        ),
    )


def gpu_memory(metrics: VariantMetrics, thresholds: Thresholds) -> AlarmDeclaration:
    """GPUs that are full; for an instance type that has some."""
    return AlarmDeclaration(
        name="GpuMemory",
        severity=Severity.TICKET,
        metric=metrics.metric_gpu_memory_utilization(),
        threshold=thresholds.gpu_memory_percent,
        minutes=15,
        out_of=15,
        what="The GPUs' memory is full.",
        why=(
            "A cache fills what it gets, so the threshold is near the end: above it a model that needs more "
            "memory while it runs fails. A quarter of an hour, for evicting makes room again within minutes."
        ),
        runbook=(
            "That alone is no incident: a full cache evicts. If models also thrash, or if requests fail "
            "for want of memory, lower max_batch_size or the instance count of the largest models."
        ),
    )


def ceiling(metrics: VariantMetrics, *, max_capacity: float) -> AlarmDeclaration:
    """A fleet that cannot grow any more."""
    return AlarmDeclaration(
        name="ScaledToMaximum",
        severity=Severity.TICKET,
        metric=metrics.metric_instance_count(),
        threshold=max_capacity
        - 0.5,  # the number of instances is a ratio of two sums, so not quite an integer
        minutes=15,
        out_of=15,
        what="Auto scaling has reached its largest capacity.",
        why=(
            "A peak may touch the largest capacity; a quarter of an hour there, longer than it takes to get "
            "an instance, is load that has outgrown it."
        ),
        runbook=(
            "More load now means slower answers. Raise the largest capacity, and the account's quota for "
            "instances of the type if it is lower."
        ),
    )


def no_capacity(
    metrics: VariantMetrics, thresholds: Thresholds, *, fewest: float, most: float
) -> AlarmDeclaration:
    """Instances that should be there and are not."""
    return AlarmDeclaration(
        name="NoCapacity",
        severity=Severity.TICKET,
        metric=missing_instances(metrics, fewest=fewest, most=most, busy_percent=thresholds.busy_percent),
        threshold=0,
        minutes=20,
        out_of=20,
        what=(
            "Instances are missing: there are fewer than the smallest capacity, or those there are cannot "
            "keep up and no new one comes."
        ),
        why=(
            "Auto scaling asks for an instance after three busy minutes, and it serves within ten more. "
            "After twenty it is not coming: AWS is out of the type, or the account's quota is used up."
        ),
        runbook=(
            "Read the scaling activities of the endpoint. A quota: ask for more. No capacity in the region: "
            "wait, or move to another instance type of the same GPU. No activity at all: the target is above "
            "what the models need; lower it."
        ),
    )


def rolling_back(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Return the alarms that undo a deployment: failures, and nothing that an instance without models causes.

    A new instance has no model loaded, so right after a deployment requests miss and wait, models load, and a
    client may be asked to try again (429, a 4XX). None of that is looked at: not the latency, not the cache,
    not 4XX.
    """
    yield AlarmDeclaration(
        name="ServerErrors",
        severity=Severity.TICKET,
        metric=metrics.metric_error_rate("Invocation5XXErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.server_error_percent,
        minutes=5,
        out_of=2,
        what="The endpoint answers requests with 5XX. A deployment under way is rolled back.",
        why=(
            "Sooner than the alarm that pages, for going back costs little. Two minutes of five, so that a "
            "wait of ten minutes sees it whole. A canary of 10 % that always fails is 10 % of all requests."
        ),
        runbook="See why the new version failed before deploying it again; the old one serves.",
    )
    yield AlarmDeclaration(
        name="ModelErrors",
        severity=Severity.TICKET,
        metric=metrics.metric_error_rate("InvocationModelErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.model_error_percent,
        minutes=5,
        out_of=3,
        what="Models refuse requests, or cannot be loaded. A deployment under way is rolled back.",
        why=(
            "Bad input of a client counts as a model error, so some are normal. It has to be below the share "
            "of the traffic that is tried first, or a canary that always fails is not noticed. Three minutes "
            "of five: AWS does not say whether a request that gives up waiting for its model counts, and the "
            "models in use are loaded within the first two."
        ),
        runbook="See why the new version failed before deploying it again; the old one serves.",
    )
