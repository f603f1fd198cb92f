"""The sections of a dashboard about an asynchronous endpoint: its queue, and how fast it is worked off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_fleet.metrics.published import EndpointMetrics
from triton_fleet.metrics.queue import QueueMetrics
from triton_fleet.operations.charts import MILLISECONDS, Line, Row, chart, numbers, question, row


def queue_sections(
    metrics: EndpointMetrics,
    queue: QueueMetrics,
    *,
    variant_name: str,
    waiting: Sequence[Line],
    targets: Sequence[Line],
) -> Iterator[Row]:
    """The rows.

    Args:
        metrics: The variant's metrics.
        queue: The endpoint's.
        variant_name: The variant.
        waiting: The threshold of the oldest request's age.
        targets: What auto scaling keeps the backlog at.
    """
    yield numbers(
        ("Requests in the queue", queue.backlog()),
        ("Oldest request, s", queue.oldest_request_seconds()),
        ("Failures a minute", queue.failures(variant_name=variant_name)),
    )
    yield question(
        "Is it keeping up?",
        "A backlog that shrinks again is what the queue is for. An oldest request that gets older: too few "
        "instances, or none. A failure leaves what Triton said in the failures' folder.",
    )
    yield row(
        chart("Requests in the queue", queue.backlog()),
        chart("Age of the oldest request, s", queue.oldest_request_seconds(), lines=waiting),
        chart("Failures a minute", queue.failures(variant_name=variant_name)),
    )
    yield question(
        "Is it scaling?",
        "Above the line of its target for some minutes the fleet grows. Without an instance there is no "
        "backlog of each: then the first request brings one back, which takes minutes.",
    )
    yield row(
        chart("Requests in the queue for each instance", queue.backlog_per_instance(), lines=targets),
        chart("Requests wait and there is no instance", queue.without_capacity()),
    )
    yield question(
        "Is it fast?", "Model latency is Triton's time for a request, without the wait in the queue."
    )
    yield row(
        chart(
            "Model latency",
            *(metrics.milliseconds("ModelLatency", statistic=each) for each in ("p50", "p90", "p99")),
            axis=MILLISECONDS,
        )
    )
