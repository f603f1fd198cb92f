"""What clients count of each model, read each minute: metrics, and a table of the worst models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.alarm_declarations import (
    AlarmDeclaration,
    failing_models,
    unread_signals,
    watched_model,
)
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.published import MINUTE, math_number
from triton_fleet.parts.repository.model_repository import allow
from triton_models.artifact.layout import MODEL_NAME
from triton_models.base.checks import Check, Report

MOST_WATCHED = 20
LONGEST_WATCHED = 80
# PutCompositeAlarm in the API model of CloudWatch: the rule of the alarm that pages has 10,240 characters at
# most, and names each alarm by its ARN.
WATCHED_MODELS = Check(id="watched-models", source="2026-11-27: cloudwatch in botocore 1.44.5")

_KEPT = Duration.days(90)

# A minute may have been written twice, or again with an object that came late: the larger counts. Two stats
# commands are the most that a query may have. Source, read on 2026-11-27:
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Stats.html
WORST_MODELS = (
    "filter ispresent(model)",
    "stats max(requests) as asked, max(failed) as lost, max(p99_ms) as slow, max(waited) as cold, "
    "max(seconds) as busy by model, minute",
    "stats sum(asked) as requests, sum(lost) as failed, max(slow) as slowest_p99_ms, sum(cold) as waited, "
    "sum(busy) as total_seconds by model",
    "sort failed desc, total_seconds desc",
    "limit 20",
)


@typed
class ModelSignals(Construct):
    """Metrics and a table of single models, from what their clients count.

    Clients write to `signals_url` of the repository with `Client(signals=...)`, and `fleet top` reads there.
    So does a function, each minute that is over. It puts the number of models that fail, and two metrics of
    each watched model: `EndpointAlarms` and `EndpointDashboard` use them if they get this construct. Objects
    are deleted after 90 days.

    Attributes:
        watch: The models that have metrics and alarms of their own.
        repository: The repository whose bucket has the signals.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        watch: Sequence[str] = (),
        thresholds: Thresholds | None = None,
    ) -> None:
        """Create the function, and let S3 delete old signals.

        Args:
            endpoint: The endpoint whose models are counted. The signals are in the bucket of its repository.
            watch: The names of the models that have alarms of their own: at most 20.
            thresholds: The limits of the errors and the latency of a watched model.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        _check_watched(report.at("watch"), watch)
        report.raise_if_any()
        self.watch = tuple(watch)
        self.thresholds = thresholds or Thresholds()
        self.repository = repository = endpoint.repository
        self._watched = f"{endpoint.literal_name}/{endpoint.variant(None).name}"
        self._namespace = f"TritonFleet/{endpoint.literal_name}"
        repository.expire(rule="Signals", prefix=repository.signals_prefix, after=_KEPT)
        self.function = InlineFunction(
            self,
            "Function",
            source="model_signals",
            description=f"Reads each minute what clients count of the models of {endpoint.literal_name}",
            environment={
                "BUCKET": repository.bucket.bucket_name,
                "PREFIX": repository.signals_prefix,
                "ENDPOINT_NAME": endpoint.literal_name,
                "NAMESPACE": self._namespace,
                "MINIMUM_REQUESTS": math_number(self.thresholds.minimum_requests),
                "WATCH": json.dumps(watch),
            },
            memory_mb=256,  # twenty minutes of some thousand models
            timeout_s=120,
        )
        self._objects_arn = repository.bucket.arn_for_objects(f"{repository.signals_prefix}*")
        self.grant_read(self.function.role)
        named = {"StringEquals": {"cloudwatch:namespace": self._namespace}}
        allow(self.function.role, "cloudwatch:PutMetricData", on="*", conditions=named)
        rule = events.CfnRule(
            self,
            "Rule",
            description="A minute of signals is over",
            schedule_expression="rate(1 minute)",
            targets=[events.CfnRule.TargetProperty(id="Signals", arn=self.function.function.attr_arn)],
        )
        self.function.allow_rule(self, rule)

    def grant_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow what a client with `signals` does: add objects, and read none.

        Decrypt is needed to verify the key of a bucket: AWS documents that for replication. Read 2026-11-27:
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-config-for-kms-objects.html
        """
        key = self.repository.key.key_arn
        return allow(grantee, "s3:PutObject", on=self._objects_arn).combine(
            allow(grantee, "kms:Decrypt", "kms:GenerateDataKey", on=key)
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow what `fleet top` does: list and read the signals."""
        bucket, key = self.repository.bucket.bucket_arn, self.repository.key.key_arn
        listed = {"StringLike": {"s3:prefix": f"{self.repository.signals_prefix}*"}}
        return (
            allow(grantee, "s3:ListBucket", on=bucket, conditions=listed)
            .combine(allow(grantee, "s3:GetObject", on=self._objects_arn))
            .combine(allow(grantee, "kms:Decrypt", on=key))
        )

    def metric_models_failing(self) -> cloudwatch.Metric:
        """The number of models whose latest calls fail: half of them, and three or more."""
        return self._metric("ModelsFailing", "models that fail")

    def metric_failed(self, model: str) -> cloudwatch.Metric:
        """The share of a watched model's latest calls that failed, in percent; 0 for one or two."""
        return self._metric("FailedPercent", f"{model}, %", model)

    def metric_latency_p99(self, model: str) -> cloudwatch.Metric:
        """The 99th percentile of the time that clients wait for a watched model, in milliseconds."""
        return self._metric("LatencyP99", f"{model}, p99, ms", model)

    def _alarms(self) -> Iterator[AlarmDeclaration]:
        for model in self.watch:
            yield from watched_model(
                model, self.metric_failed(model), self.metric_latency_p99(model), self.thresholds
            )
        yield failing_models(self.metric_models_failing())
        yield unread_signals(
            cloudwatch.Metric(
                namespace="AWS/Lambda",
                metric_name="Errors",
                dimensions_map={"FunctionName": self.function.function.ref},
                statistic="Sum",
                period=MINUTE,
                label="failed runs",
            )
        )

    def _metric(self, name: str, label: str, model: str = "") -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self._namespace,
            metric_name=name,
            dimensions_map={"Model": model} if model else None,
            statistic="Maximum",
            period=MINUTE,
            label=label,
        )


def _check_watched(report: Report, watch: Sequence[str]) -> None:
    """Report names that no model has, repeated ones, and more than one alarm can gather."""
    for name, times in Counter(watch).items():
        if not MODEL_NAME.fullmatch(name) or len(name) > LONGEST_WATCHED:
            report(
                WATCHED_MODELS,
                f"the watched model is {name[:100]!a}",
                fix=f"write the published name of a model, of 1 to {LONGEST_WATCHED} characters",
                why="no model has this name, or no alarm could",
            )
        elif times > 1:
            report(WATCHED_MODELS, f"the model {name!r} is watched {times} times", fix="name it once")
    if len(watch) > MOST_WATCHED:
        report(
            WATCHED_MODELS,
            f"{len(watch)} models are watched",
            fix=f"name {MOST_WATCHED} at most; the alarm ModelFailing is about all models",
            why="the alarm that pages can gather no more alarms",
        )
