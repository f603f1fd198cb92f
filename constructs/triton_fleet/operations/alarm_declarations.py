"""The alarms of an endpoint: the meaning of each, the reason for its threshold, and what to do.

Pure: a declaration is made from metrics alone. `EndpointAlarms` and `RollbackAlarms` make resources of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.metrics.published import MINUTE, VariantMetrics, math_number
from triton_models.base.alarm_condition import RUNBOOK, alarm_condition


class Severity(Enum):
    """The urgency of an alarm.

    PAGE: requests fail or are slow now; page the person on call. TICKET: they will; look in working hours.
    """

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDeclaration:
    """One alarm, before it is a resource: `datapoints` of the last `minutes` are above the threshold."""

    name: str
    severity: Severity
    metric: cloudwatch.IMetric
    threshold: float
    minutes: int
    datapoints: int
    what: str
    why: str
    runbook: str

    @property
    def description(self) -> str:
        """The text that arrives with the alarm."""
        return f"{self.what}{RUNBOOK}{self.runbook}"

    def create(self, scope: Construct, *, alarm_name: str) -> cloudwatch.Alarm:
        """The alarm as a resource."""
        return cloudwatch.Alarm(
            scope,
            self.name,
            alarm_name=alarm_name,
            alarm_description=self.description,
            metric=self.metric,
            threshold=self.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=self.minutes,
            datapoints_to_alarm=self.datapoints,
            # SageMaker publishes nothing in a minute without requests, and no request is not a failure.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def line(self) -> cloudwatch.HorizontalAnnotation:
        """The threshold as a line in a chart."""
        return cloudwatch.HorizontalAnnotation(
            value=self.threshold,
            label=alarm_condition(
                getattr(self.metric, "label", None) or self.name,
                sign=">",
                threshold=math_number(self.threshold),
                datapoints=self.datapoints,
                periods=self.minutes,
                period_s=60,
            ),
        )


def serving(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Requests fail, or are slow."""
    yield AlarmDeclaration(
        name="ServerErrors",
        severity=Severity.PAGE,
        metric=metrics.metric_error_rate("Invocation5XXErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.server_error_percent,
        minutes=5,
        datapoints=3,
        what="The endpoint answers requests with 5XX.",
        why=(
            "Clients retry, which hides single failures. One in a hundred for three of five minutes is more "
            "than starting and stopping instances cause. Minutes with few requests do not count."
        ),
        runbook=(
            "Look for restarting containers in the endpoint's log group. If the errors began with a "
            "deployment, roll it back. If instances are missing, look for capacity or quota errors in the "
            "endpoint's scaling activities."
        ),
    )
    yield AlarmDeclaration(
        name="ModelErrors",
        severity=Severity.PAGE,
        metric=metrics.metric_error_rate("InvocationModelErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.model_error_percent,
        minutes=5,
        datapoints=5,
        what="Models refuse requests, or cannot be loaded.",
        why=(
            "Bad input counts as a model error, so some errors are normal, and the threshold is higher than "
            "for server errors. A burst from one client ends within five minutes."
        ),
        runbook=(
            "Search the log group for 'failed to load' and for the target model. If a plan is for another "
            "GPU or TensorRT, publish it again from the build job. If the version is new, undo it with "
            "`fleet rollback NAME`. If one client sends bad input, inform its owner."
        ),
    )
    yield AlarmDeclaration(
        name="Latency",
        severity=Severity.PAGE,
        metric=metrics.metric_model_latency(
            statistic="p99", label="p99, ms", min_requests=thresholds.minimum_requests
        ),
        threshold=thresholds.latency_p99.to_milliseconds(),
        minutes=5,
        datapoints=3,
        what="The slowest 1 % of requests wait too long for the model.",
        why=(
            "A model on the GPU takes far less than a second. Set the threshold to what your callers accept. "
            "This metric does not include loading, so cold starts do not raise it. Minutes with few requests "
            "do not count, because a single outlier would decide."
        ),
        runbook=(
            "Check on the dashboard if the GPUs are busy. If so, raise the maximum capacity. If not, check "
            "if models are being evicted: an eviction delays requests to other models."
        ),
    )


def silent(metrics: VariantMetrics) -> AlarmDeclaration:
    """Return the alarm about instances that report nothing."""
    return AlarmDeclaration(
        name="Silent",
        severity=Severity.TICKET,
        metric=hosts_not_reporting(metrics),
        threshold=0,
        minutes=15,
        datapoints=15,
        what="Requests arrive, but no instance has reported metrics for 15 minutes.",
        why=(
            "Each instance reports every minute. Without reports there are no instances, or the other alarms "
            "and auto scaling have no data. One minute is often late, but not fifteen in a row."
        ),
        runbook=(
            "Check if the endpoint is InService, and how many instances it has. If it serves, its role may "
            "have lost cloudwatch:PutMetricData. If it does not serve, start with the alarm about errors, "
            "which fires as well."
        ),
    )


def caching(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Yield the alarms about the cache of a multi-model endpoint."""
    yield AlarmDeclaration(
        name="Thrash",
        severity=Severity.TICKET,
        metric=thrashing(metrics, below_hit_percent=thresholds.cache_hit_percent),
        threshold=0,
        minutes=15,
        datapoints=10,
        what="Models evict each other from memory: requests miss, and models are evicted.",
        why=(
            "Evictions from a full cache are normal, and so are misses after a deployment. Both in the same "
            "minute, for ten of fifteen minutes, mean that the models in use do not fit."
        ),
        runbook=(
            "The models in use no longer fit. Use an instance type with more GPU memory, make models smaller "
            "(FP16, fewer instances in config.pbtxt), or move some to a second endpoint. More instances help "
            "only if SageMaker routes each model to a few of them."
        ),
    )
    yield AlarmDeclaration(
        name="Disk",
        severity=Severity.TICKET,
        metric=metrics.metric_disk_utilization(statistic="Maximum", label="disk, %"),
        threshold=thresholds.disk_percent,
        minutes=15,
        datapoints=15,
        what="The disk of an instance, which holds downloaded models, is nearly full.",
        why=(
            "An average would hide the fullest instance. At 85 % of 450 GB there is still room for a day of "
            "new versions, which leaves time to act."
        ),
        runbook=(
            "SageMaker now deletes models from the disk, and later requests download them again: watch the "
            "download time. Use a size with a larger local disk, or publish smaller artifacts."
        ),
    )


def queueing(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Yield the alarms about requests that wait too long or fail."""
    yield AlarmDeclaration(
        name="Waiting",
        severity=Severity.PAGE,
        metric=metrics.metric_approximate_age_of_oldest_request(label="oldest request, s"),
        threshold=thresholds.oldest_request.to_seconds(),
        minutes=5,
        datapoints=5,
        what="The oldest request in the queue has been waiting for too long.",
        why=(
            "Scaling from zero to the first answer takes less than 15 minutes. Set the threshold to what "
            "your callers accept. Requests that wait longer than their own time limit are dropped."
        ),
        runbook=(
            "Check if there are instances. If none start, AWS has no capacity, or the quota is used up. If "
            "there are some and the backlog grows, raise the maximum capacity, or lower the target."
        ),
    )
    yield AlarmDeclaration(
        name="Failures",
        severity=Severity.PAGE,
        metric=metrics.metric_invocation_failures(),
        threshold=0,
        minutes=5,
        datapoints=5,
        what="Requests keep failing.",
        why=(
            "Bad input counts as a failure, so single failures are normal. Failures in five minutes in a row "
            "are more than one caller's mistake."
        ),
        runbook=(
            "The folder of failures and the error topic have Triton's message. If access is denied, note "
            "that the role reads only the folder of requests, and writes only that of answers. Otherwise, "
            "read the log group."
        ),
    )
    yield AlarmDeclaration(
        name="NoInstance",
        severity=Severity.TICKET,
        metric=metrics.metric_has_backlog_without_capacity(),
        threshold=0,
        minutes=20,
        datapoints=20,
        what="Requests wait, and there is no instance.",
        why=(
            "Auto scaling requests an instance after two minutes, and it serves 12 to 15 minutes later. If "
            "it has not after twenty, there is no capacity, or none was requested."
        ),
        runbook=(
            "Read the scaling activities of the endpoint. If a quota is used up, request more. If the region "
            "has no capacity, wait, or add instance pools. If there is no activity, the endpoint has no "
            "EndpointScaling."
        ),
    )


def load_failures(failures: cloudwatch.IMetric) -> AlarmDeclaration:
    """Return the alarm about models that cannot be loaded, counted in the containers' log."""
    return AlarmDeclaration(
        name="LoadFailures",
        severity=Severity.TICKET,
        metric=failures,
        threshold=0,
        minutes=15,
        datapoints=3,
        what="Models cannot be loaded.",
        why=(
            "Any failure matters: every request to that model fails. Loads that run out of memory do not "
            "count, because SageMaker evicts other models and retries. One request to a withdrawn model must "
            "not open a ticket, hence three minutes of fifteen."
        ),
        runbook=(
            "The dashboard's table of failed loads names the models and the reasons. If a plan is for "
            "another GPU or TensorRT, publish it again from the build job. If the version is broken, undo it "
            "with `fleet rollback NAME`."
        ),
    )


def watched_model(
    model: str, failed: cloudwatch.IMetric, slow: cloudwatch.IMetric, thresholds: Thresholds
) -> Iterator[AlarmDeclaration]:
    """Yield the alarms about a watched model, as its clients see it."""
    yield AlarmDeclaration(
        name=f"Failing-{model}",
        severity=Severity.PAGE,
        metric=failed,
        threshold=thresholds.model_error_percent,
        minutes=5,
        datapoints=3,
        what=f"Calls to the model {model} fail.",
        why=(
            "Clients count calls after their retries, so each failure reached an application. For a model "
            "with few calls, those of up to 15 minutes count. One or two failures do not count."
        ),
        runbook=(
            f"`fleet top --sort failed` shows the errors of {model}. If its version is new, undo it with "
            f"`fleet rollback {model}`. If it does not load, the dashboard's table of failed loads says why. "
            "If one client sends bad input, inform its owner."
        ),
    )
    yield AlarmDeclaration(
        name=f"Slow-{model}",
        severity=Severity.PAGE,
        metric=slow,
        threshold=thresholds.latency_p99.to_milliseconds(),
        minutes=5,
        datapoints=3,
        what=f"The slowest 1 % of calls to the model {model} wait too long.",
        why=(
            "It is the time from the call to the answer, with the network, retries and loads. Minutes with "
            "few calls do not count, because a single outlier would decide."
        ),
        runbook=(
            "If the Latency alarm fires as well, start with that one. If calls wait for the model to load, "
            "which the dashboard's table of the worst models shows, look at the Thrash alarm. Otherwise the "
            f"model is slow: if its version is new, undo it with `fleet rollback {model}`."
        ),
    )


def failing_models(failing: cloudwatch.IMetric) -> AlarmDeclaration:
    """Return the alarm about any model that fails, as its clients see it."""
    return AlarmDeclaration(
        name="ModelFailing",
        severity=Severity.TICKET,
        metric=failing,
        threshold=0,
        minutes=5,
        datapoints=3,
        what="At least one model fails: half of its latest calls, and three or more.",
        why=(
            "Among thousands of models some always get bad input, so the limit is half of the calls. For a "
            "page, watch the model by its name."
        ),
        runbook=(
            "The dashboard's table of the worst models names it, and `fleet top --sort failed` its errors. "
            "If its version is new, undo it with `fleet rollback NAME`. If it does not load, the table of "
            "failed loads says why. If no such model is published, inform the owner of the client."
        ),
    )


def unread_signals(errors: cloudwatch.IMetric) -> AlarmDeclaration:
    """Return the alarm about the function that reads the signals."""
    return AlarmDeclaration(
        name="Signals",
        severity=Severity.TICKET,
        metric=errors,
        threshold=0,
        minutes=15,
        datapoints=10,
        what="The signals of models cannot be read: the alarms about single models are blind.",
        why="Each run reads the last five minutes again, so a few that fail lose nothing.",
        runbook=(
            "Read the log of the function. If access is denied, its role may have lost the bucket or the "
            "key. Clients are not affected, and `fleet top` has all figures."
        ),
    )


def gpu_memory(metrics: VariantMetrics, thresholds: Thresholds) -> AlarmDeclaration:
    """Return the alarm about full GPU memory, for instance types with GPUs."""
    return AlarmDeclaration(
        name="GpuMemory",
        severity=Severity.TICKET,
        metric=metrics.metric_gpu_memory_utilization(label="GPU memory, %"),
        threshold=thresholds.gpu_memory_percent,
        minutes=15,
        datapoints=15,
        what="The GPUs' memory is full.",
        why=(
            "A cache fills its memory, so the threshold is high: above it, models that need more memory "
            "while they run fail. Evictions free memory within minutes, hence 15 minutes."
        ),
        runbook=(
            "This alone is not an incident: a full cache evicts models. If the Thrash alarm fires as well, "
            "or requests run out of memory, lower max_batch_size or the instance count of the largest models."
        ),
    )


def ceiling(metrics: VariantMetrics, *, max_capacity: float) -> AlarmDeclaration:
    """Return the alarm about a fleet that cannot grow any more."""
    return AlarmDeclaration(
        name="ScaledToMaximum",
        severity=Severity.TICKET,
        metric=metrics.metric_instance_count(),
        threshold=max_capacity
        - 0.5,  # the number of instances is a ratio of two sums, so not quite an integer
        minutes=15,
        datapoints=15,
        what="Auto scaling has reached its maximum capacity.",
        why=(
            "A peak may reach the maximum. If it lasts 15 minutes, longer than starting an instance takes, "
            "the load has outgrown it."
        ),
        runbook=(
            "More load now means slower answers. Raise the maximum capacity, and the account's quota for the "
            "instance type if it is lower."
        ),
    )


def no_capacity(
    metrics: VariantMetrics, thresholds: Thresholds, *, fewest: float, most: float
) -> AlarmDeclaration:
    """Return the alarm about missing instances."""
    return AlarmDeclaration(
        name="NoCapacity",
        severity=Severity.TICKET,
        metric=missing_instances(metrics, fewest=fewest, most=most, busy_percent=thresholds.busy_percent),
        threshold=0,
        minutes=20,
        datapoints=20,
        what=(
            "Instances are missing: there are fewer than the minimum capacity, or the existing ones are busy "
            "and no new one starts."
        ),
        why=(
            "Auto scaling requests an instance after three busy minutes, and it serves 12 to 15 minutes "
            "later. If it has not after twenty, AWS has no capacity, or the account's quota is used up."
        ),
        runbook=(
            "Read the scaling activities of the endpoint. If a quota is used up, request more. If the region "
            "has no capacity, wait, or move to another instance type with the same GPU. If there is no "
            "activity, the scaling target is too high: lower it."
        ),
    )


def rolling_back(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Return the alarms that roll back a deployment: failures, but nothing that a cold start causes.

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
        datapoints=2,
        what="The endpoint answers requests with 5XX. A running deployment is rolled back.",
        why=(
            "Earlier than the alarm that pages, because a rollback costs little. Two minutes of five fit "
            "into a wait of ten minutes. A canary of 10 % that always fails is 10 % of all requests."
        ),
        runbook="See why the new version failed before deploying it again; the old one serves.",
    )
    yield AlarmDeclaration(
        name="ModelErrors",
        severity=Severity.TICKET,
        metric=metrics.metric_error_rate("InvocationModelErrors", min_requests=thresholds.minimum_requests),
        threshold=thresholds.model_error_percent,
        minutes=5,
        datapoints=3,
        what="Models refuse requests, or cannot be loaded. A running deployment is rolled back.",
        why=(
            "Bad input counts as a model error, so some errors are normal. The threshold must be below the "
            "canary's share of the traffic, or a failing canary goes unnoticed. AWS does not document if a "
            "request that times out while its model loads counts; the models in use load within two minutes, "
            "hence three of five."
        ),
        runbook="See why the new version failed before deploying it again; the old one serves.",
    )


def thrashing(metrics: VariantMetrics, *, below_hit_percent: float) -> cloudwatch.MathExpression:
    """Return the evictions in minutes with a cache hit ratio below a bound, otherwise 0.

    Evictions are normal for a full cache. Evictions while requests miss mean that models evict each other:
    the working set no longer fits.
    """
    return cloudwatch.MathExpression(
        expression=f"IF(FILL(hit_ratio, 1) * 100 < {math_number(below_hit_percent)}, FILL(evicted, 0), 0)",
        using_metrics={
            "hit_ratio": metrics.metric("ModelCacheHit"),
            "evicted": metrics.metric_model_unloading_time(statistic="SampleCount", label="evictions"),
        },
        label="evictions while requests miss",
        period=MINUTE,
    )


def hosts_not_reporting(metrics: VariantMetrics) -> cloudwatch.MathExpression:
    """Return 1 in minutes in which requests arrive and no instance reports, otherwise 0.

    The newest minute may be a false 1, because requests and hosts are reported separately: evaluate several.
    """
    return cloudwatch.MathExpression(
        expression="IF(FILL(requests, 0) > 0 AND FILL(reports, 0) == 0, 1, 0)",
        using_metrics={
            "requests": metrics.metric_invocations(),
            "reports": metrics.metric_memory_utilization(statistic="SampleCount"),
        },
        label="requests arrive, no instance reports",
        period=MINUTE,
    )


def missing_instances(
    metrics: VariantMetrics, *, fewest: float, most: float, busy_percent: float
) -> cloudwatch.MathExpression:
    """Return 1 in minutes with too few instances, otherwise 0.

    These are minutes with fewer instances than the minimum capacity, or with fewer than the maximum although
    the GPUs, or the vCPUs on a type without GPUs, are so busy that auto scaling must have requested more.
    """
    hardware = metrics._hardware
    gpus = hardware.gpu_count
    name, units = ("GPUUtilization", gpus) if gpus else ("CPUUtilization", hardware.vcpus)
    instances = metrics.metric_instance_count()
    # With a margin of half an instance: their number is a ratio of two sums, and not always an integer.
    too_few = f"{instances.expression} < {math_number(fewest)} - 0.5"
    busy, below = math_number(busy_percent), f"{instances.expression} < {math_number(most)} - 0.5"
    not_growing = f"busy > {busy} * {units} AND {below}"
    return cloudwatch.MathExpression(
        expression=f"IF({too_few} OR ({not_growing}), 1, 0)",
        using_metrics={**instances.using_metrics, "busy": metrics.metric(name)},
        label="missing instances",
        period=MINUTE,
    )


# Without a GPU there are neither plans nor GPU metrics.
_WITHOUT_GPU = (
    ("a plan is for another GPU or TensorRT", "an artifact is for other hardware"),
    ("the GPUs are busy", "the CPUs are busy"),
    ("more GPU memory", "more memory"),
    ("(FP16, fewer instances", "(fewer instances"),
    ("another instance type with the same GPU", "another family of CPU types"),
)


def without_gpu(declaration: AlarmDeclaration) -> AlarmDeclaration:
    """Return the same alarm, with the runbook for instances without a GPU."""
    runbook = declaration.runbook
    for with_gpu, without in _WITHOUT_GPU:
        runbook = runbook.replace(with_gpu, without)
    return replace(declaration, runbook=runbook)
