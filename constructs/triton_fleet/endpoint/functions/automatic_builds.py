"""Starts runs of builds when weights arrive, and at intervals."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Annotations as Advice
from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.arguments.checks import quantity_range
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

AUTOMATIC_BUILDS = Check(id="automatic-builds", source=FROM_ARGUMENTS)

_FUNCTION_S = 60
# In seconds, a queue's. Source, read on 2026-11-26:
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html
DEDUPLICATED_S = 300
# So that a request which the queue drops arrives before the one that stands for it is delivered.
_DELAY = Duration.seconds(DEDUPLICATED_S + 60)
# The interval at which requests that wait for the end of a run come back; a function needs six times its
# time-out. Source, read on 2026-11-26: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
_AGAIN = Duration.seconds(6 * _FUNCTION_S)
_KEPT = Duration.days(14)
_LONGEST_INTERVAL_MINUTES = 527_040  # a year


@typed
class AutomaticBuilds(Construct):
    """Starts a run of builds when weights arrive in S3, and at intervals.

    A new or replaced object is a request, if builds may read it: an address of `weights`, or anything under a
    prefix of `weights_from`. So is the end of an interval. A queue collects requests for six minutes, and a
    function starts one run for all of them: a thousand objects that arrive together are one run. Requests
    that come during a run wait for its end, and start another one. A run builds what has changed, so one
    too many builds nothing.

    S3 sends a bucket's events only where this is turned on. A bucket of weights exists before the stack, so
    turn it on yourself; the synthesis prints the command.

    Sources, read on 2026-11-26:

    * https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventBridge.html
    * https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_SqsParameters.html (FIFO queues)
    * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-exactly-once-processing.html

    Attributes:
        queue: The queue of requests. A message from elsewhere starts a run as well.
        function: The function that starts runs.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        runs: BuildRuns,
        on_new_weights: bool = True,
        every: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the queue, its function, and the rules of EventBridge.

        Args:
            runs: The runs to start.
            on_new_weights: Start one when weights arrive.
            every: The interval at which one starts in any case, such as for a list of models that is not in
                S3. By default none does.
            log_retention: The retention of the function's log.
        """
        super().__init__(scope, construct_id)
        watched = _by_bucket(runs.builds._inputs.objects) if on_new_weights else {}
        report = Report(self.node.path)
        if on_new_weights and not watched:
            report.at("on_new_weights")(
                AUTOMATIC_BUILDS,
                "builds read no weights from S3",
                fix="name their prefix in weights_from, or give an interval instead",
                why="no object would start a run",
            )
        quantity_range(
            report.at("every"),
            every,
            least=DEDUPLICATED_S // 60,
            most=_LONGEST_INTERVAL_MINUTES,
            name="every",
            unit="minutes",
        )
        report.raise_if_any()
        self.queue = sqs.Queue(
            self,
            "Queue",
            fifo=True,
            content_based_deduplication=True,
            delivery_delay=_DELAY,
            visibility_timeout=_AGAIN,
            retention_period=_KEPT,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        machine = runs.state_machine.state_machine_arn
        self.function = InlineFunction(
            self,
            "Function",
            source="start_run",
            description="Starts runs of builds",
            environment={"STATE_MACHINE": machine, "DEDUPLICATED_S": str(DEDUPLICATED_S)},
            timeout_s=_FUNCTION_S,
            log_retention=log_retention,
        )
        self.function.allow("Runs", ["states:ListExecutions", "states:StartExecution"], [machine])
        actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        self.function.allow("Requests", actions, [self.queue.queue_arn])
        lambda_.CfnEventSourceMapping(
            self,
            "Requests",
            event_source_arn=self.queue.queue_arn,
            function_name=self.function.function.ref,
            function_response_types=["ReportBatchItemFailures"],
        )
        for bucket, keys in watched.items():
            self._rule(
                f"Weights-{bucket}", f"Weights arrive in {bucket}", event_pattern=_arrival(bucket, keys)
            )
            command = (
                f"aws s3api put-bucket-notification-configuration --bucket {bucket} "
                "--notification-configuration '{\"EventBridgeConfiguration\": {}}'"
            )
            Advice.of(self).add_info_v2(
                f"triton-fleet:bucket-events:{bucket}",
                f"New weights start a build once {bucket} sends its events to EventBridge. "
                f"If it has no other notifications, which this replaces: {command}",
            )
        if every is not None:
            self._rule("Every", "A run of builds is due", schedule=events.Schedule.rate(every))

    def _rule(
        self,
        construct_id: str,
        description: str,
        *,
        event_pattern: events.EventPattern | None = None,
        schedule: events.Schedule | None = None,
    ) -> None:
        # The same message for every event, so that the queue takes them for one.
        target = targets.SqsQueue(
            self.queue, message=events.RuleTargetInput.from_object({}), message_group_id="runs"
        )
        events.Rule(
            self,
            construct_id,
            description=description,
            event_pattern=event_pattern,
            schedule=schedule,
            targets=[target],
        )


def _by_bucket(addresses: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys of addresses in S3 by bucket."""
    found: dict[str, list[str]] = {}
    for address in addresses:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        found.setdefault(bucket, []).append(key)
    return found


def _arrival(bucket: str, keys: Iterable[str]) -> events.EventPattern:
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={
            "bucket": {"name": [bucket]},
            "object": {"key": [{"prefix": key} if key.endswith("/") or not key else key for key in keys]},
        },
    )
