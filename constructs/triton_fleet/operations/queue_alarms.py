"""The alarms of an asynchronous endpoint: the reason for each threshold, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from triton_fleet.operations.alarm_declarations import AlarmDeclaration, Severity
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.metrics.published import VariantMetrics


def queueing(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Yield the alarms about requests that wait too long or fail."""
    yield AlarmDeclaration(
        name="Waiting",
        severity=Severity.PAGE,
        metric=metrics.metric_approximate_age_of_oldest_request(label="oldest request, s"),
        threshold=thresholds.oldest_request.to_seconds(),
        minutes=5,
        out_of=5,
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
        out_of=5,
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
        out_of=20,
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
