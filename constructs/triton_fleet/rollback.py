"""Alarms that undo a deployment, made before the endpoint that is deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.alarm_declarations import rolling_back
from triton_fleet.errors import Findings
from triton_fleet.metrics import InvocationMetrics
from triton_fleet.thresholds import Thresholds


class RollbackAlarms(Construct):
    """Alarms for which SageMaker rolls a deployment back: errors, and nothing that a cold start causes.

    A new fleet starts with no model loaded. Latency and cache misses of its first minutes say nothing about
    the new version, so no alarm here looks at them.

    They name the endpoint by its literal name and exist before it does. Give the same name to both:

        rollback = RollbackAlarms(stack, "Rollback", endpoint_name="search")
        MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=repository,
            endpoint_name="search",
            deployment=Rolling(),
            rollback_alarms=rollback.names,
        )

    They see the old and the new instances together, as all metrics by endpoint and variant do: while the old
    version fails already, no deployment gets through. Then deploy without them.

    Attributes:
        alarms: The alarms by name.
        names: The alarms' names, for the endpoint's `rollback_alarms`. CloudFormation makes an alarm before
            whatever uses its name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        variant_name: str = "AllTraffic",
        thresholds: Thresholds | None = None,
    ) -> None:
        """Create the alarms.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            endpoint_name: The literal name of the endpoint that will be deployed.
            variant_name: The name of its variant.
            thresholds: Where normal ends; of these, the errors and the minimum of requests are used.

        Raises:
            FleetError: A name that is known only at deployment, or thresholds that no metric can pass.
        """
        super().__init__(scope, construct_id)
        limits = thresholds or Thresholds()
        findings = Findings.of(self)
        findings.look_up("endpoint_name", endpoint_name, str)
        findings.extend(limits.problems(where=findings.where("thresholds")))
        findings.raise_if_any()
        metrics = InvocationMetrics(endpoint_name=endpoint_name, variant_name=variant_name)
        prefix = endpoint_name if variant_name == "AllTraffic" else f"{endpoint_name}-{variant_name}"
        self.alarms: Mapping[str, cloudwatch.Alarm] = MappingProxyType(
            {
                each.name: each.create(self, alarm_name=f"{prefix}-rollback-{each.name}")
                for each in rolling_back(metrics, limits)
            }
        )
        self.names: Sequence[str] = tuple(alarm.alarm_name for alarm in self.alarms.values())
