"""The alarms of an asynchronous endpoint: the reason for each threshold, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from triton_fleet.metrics.published import VariantMetrics
from triton_fleet.operations.alarm_declarations import AlarmDeclaration, Severity
from triton_fleet.operations.thresholds import Thresholds


def queueing(metrics: VariantMetrics, thresholds: Thresholds) -> Iterator[AlarmDeclaration]:
    """Requests wait too long, or fail."""
    yield AlarmDeclaration(
        name="Waiting",
        severity=Severity.PAGE,
        metric=metrics.metric_approximate_age_of_oldest_request(),
        threshold=thresholds.oldest_request.to_seconds(),
        minutes=5,
        out_of=5,
        what="The oldest request in the queue has been waiting for too long.",
        why=(
            "A quarter of an hour is longer than it takes from no instance to the first answer, and yours to "
            "set: what your callers wait for. A request that waits past its own time limit is thrown away."
        ),
        runbook=(
            "See whether there are instances. None, and none comes: AWS is out of the type, or the quota "
            "is used up. Some, and the backlog grows: raise the largest capacity, or lower the target."
        ),
    )
    yield AlarmDeclaration(
        name="Failures",
        severity=Severity.PAGE,
        metric=metrics.metric_invocation_failures(),
        threshold=0,
        minutes=5,
        out_of=5,
        what="Requests fail, minute after minute.",
        why=(
            "Bad input of a caller counts as a failure, so single ones are normal; one in each of five "
            "minutes is more than one caller's mistake."
        ),
        runbook=(
            "The failures' folder and the error topic hold what Triton said. Access denied: the role reads "
            "the folder of requests and writes that of answers, and no other. Else read the log group."
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
            "Auto scaling asks for an instance after two minutes, and it serves within ten more. After "
            "twenty it is not coming, or none was requested."
        ),
        runbook=(
            "Read the scaling activities of the endpoint. A quota: ask for more. No capacity in the region: "
            "wait, or add instance pools. No activity at all: the endpoint has no EndpointScaling."
        ),
    )
