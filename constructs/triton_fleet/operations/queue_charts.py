"""The sections of a dashboard about an asynchronous endpoint: its queue, and how fast it is worked off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_fleet.metrics.published import VariantMetrics
from triton_fleet.operations.charts import MILLISECONDS, Line, Row, chart, numbers, question, row


def queue_sections(
    metrics: VariantMetrics,
    *,
    waiting: Sequence[Line],
    targets: Sequence[Line],
) -> Iterator[Row]:
    """The rows.

    Args:
        metrics: The variant's metrics.
        waiting: The threshold of the oldest request's age.
        targets: What auto scaling keeps the backlog at.
    """
    yield numbers(
        ("Requests in the queue", metrics.metric_approximate_backlog_size()),
        ("Oldest request, s", metrics.metric_approximate_age_of_oldest_request()),
        ("Failures a minute", metrics.metric_invocation_failures()),
    )
    yield question(
        "Is it keeping up?",
        "A backlog that shrinks again is what the queue is for. An oldest request that gets older: too few "
        "instances, or none. A failure leaves what Triton said in the failures' folder.",
    )
    yield row(
        chart("Requests in the queue", metrics.metric_approximate_backlog_size()),
        chart(
            "Age of the oldest request, s", metrics.metric_approximate_age_of_oldest_request(), lines=waiting
        ),
        chart("Failures a minute", metrics.metric_invocation_failures()),
    )
    yield question(
        "Is it scaling?",
        "Above the line of its target for some minutes the fleet grows. Without an instance there is no "
        "backlog of each: then the first request brings one back, which takes minutes.",
    )
    yield row(
        chart(
            "Requests in the queue for each instance",
            metrics.metric_approximate_backlog_size_per_instance(),
            lines=targets,
        ),
        chart("Requests wait and there is no instance", metrics.metric_has_backlog_without_capacity()),
    )
    yield question(
        "Is it fast?", "Model latency is Triton's time for a request, without the wait in the queue."
    )
    yield row(
        chart(
            "Model latency",
            *(metrics.metric_model_latency(statistic=each, label=each) for each in ("p50", "p90", "p99")),
            axis=MILLISECONDS,
        )
    )
