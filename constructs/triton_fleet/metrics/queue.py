"""The metrics that only asynchronous endpoints have.

Of the metrics of other endpoints it publishes the errors, the model's latency and those of the hosts; no
Invocations, so nothing that is computed from the number of requests.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html, read on 2026-11-21.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.arguments.typed import typed
from triton_fleet.metrics.facts import INVOCATION_NAMESPACE


class QueueMetrics:
    """The metrics of an asynchronous endpoint's queue. They belong to the endpoint and to no variant."""

    @typed
    def __init__(self, *, endpoint_name: str) -> None:
        """Name the endpoint.

        Args:
            endpoint_name: The endpoint's literal name.
        """
        self._dimensions = {"EndpointName": endpoint_name}

    def backlog(self) -> cloudwatch.Metric:
        """Requests in the queue, those being worked on included."""
        return self._metric("ApproximateBacklogSize")

    def backlog_per_instance(self) -> cloudwatch.Metric:
        """The same divided by the instances; nothing without instances."""
        return self._metric("ApproximateBacklogSizePerInstance")

    def oldest_request_seconds(self) -> cloudwatch.Metric:
        """The age of the oldest waiting request, in seconds."""
        return self._metric("ApproximateAgeOfOldestRequest", statistic="Maximum")

    def without_capacity(self) -> cloudwatch.Metric:
        """1 while requests wait and there is no instance, else 0."""
        return self._metric("HasBacklogWithoutCapacity")

    @typed
    def failures(self, *, variant_name: str) -> cloudwatch.Metric:
        """Requests that failed for whatever reason; of a variant.

        Args:
            variant_name: The variant.
        """
        return self._metric("InvocationFailures", statistic="Sum", VariantName=variant_name)

    def _metric(self, name: str, *, statistic: str = "Average", **dimensions: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=INVOCATION_NAMESPACE,
            metric_name=name,
            dimensions_map=self._dimensions | dimensions,
            statistic=statistic,
            period=Duration.minutes(1),
        )
