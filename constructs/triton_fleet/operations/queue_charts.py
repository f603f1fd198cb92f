"""The sections of a dashboard about the queue of an asynchronous endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_fleet.operations.charts import MILLISECONDS, Line, Row, chart, numbers, question, row
from triton_fleet.parts.metrics.published import VariantMetrics


def queue_sections(
    metrics: VariantMetrics, *, waiting: Sequence[Line], targets: Sequence[Line]
) -> Iterator[Row]:
    """Yield the rows."""
    yield numbers(
        ("Requests in the queue", metrics.metric_approximate_backlog_size()),
        ("Oldest request, s", metrics.metric_approximate_age_of_oldest_request()),
        ("Failures per minute", metrics.metric_invocation_failures()),
    )
    yield question(
        "Is it keeping up?",
        "A backlog that shrinks again is normal. If the oldest request gets older, there are too few "
        "instances, or none. Triton's messages about failures are in the folder of failures.",
    )
    yield row(
        chart("Requests in the queue", metrics.metric_approximate_backlog_size()),
        chart(
            "Age of the oldest request, s", metrics.metric_approximate_age_of_oldest_request(), lines=waiting
        ),
        chart("Failures per minute", metrics.metric_invocation_failures()),
    )
    yield question(
        "Is it scaling?",
        "Instances are added while the backlog is above its target for some minutes. Without instances there "
        "is no backlog per instance: the first request then starts one, which takes minutes.",
    )
    yield row(
        chart(
            "Requests in the queue per instance",
            metrics.metric_approximate_backlog_size_per_instance(),
            lines=targets,
        ),
        chart("Requests wait without an instance", metrics.metric_has_backlog_without_capacity()),
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
