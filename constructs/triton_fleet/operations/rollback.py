"""Alarms that roll back a deployment, created before the endpoint.

Those of the endpoint name it and nothing else. Those of the new fleet name its configuration, too:
CloudFormation makes the configuration, then points the alarm to it, then updates the endpoint, and none of
the three needs a later one. Source, read on 2026-11-21:
https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.execution_role import see_alarms
from triton_fleet.endpoint.hosting.variants import resource_name
from triton_fleet.operations.alarm_declarations import AlarmDeclaration, rolling_back
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.facts import DEFAULT_VARIANT
from triton_fleet.parts.metrics.published import EndpointMetrics, Failure, MathOptions, inner_options
from triton_models.base.checks import Report


@typed
class RollbackAlarms(Construct):
    """Alarms on which SageMaker rolls back a deployment: errors, but nothing that a cold start causes.

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

    They see the old and the new instances together: of a canary's failures only its share of the traffic, and
    while the old version fails already, no deployment gets through. `GreenFleetAlarms` look at the new
    instances alone; have both, or in such a case only those.

    Attributes:
        alarms: The alarms by name.
        names: Their names, for the endpoint's `rollback_alarms`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        variant_name: str = DEFAULT_VARIANT,
        thresholds: Thresholds | None = None,
    ) -> None:
        """Create the alarms.

        Of the thresholds, the errors and the minimum of requests are used.
        """
        super().__init__(scope, construct_id)
        limits = thresholds or Thresholds()
        report = Report(self.node.path)
        look_up(report, "endpoint_name", endpoint_name, str)
        look_up(report, "variant_name", variant_name, str)
        resource_name(report.at("endpoint_name"), known(endpoint_name), what="the endpoint")
        resource_name(report.at("variant_name"), known(variant_name), what="the variant")
        limits._check(report.at("thresholds"))
        report.raise_if_any()
        metrics = EndpointMetrics(endpoint_name=endpoint_name, variant_name=variant_name)
        self.alarms = _created(self, metrics, rolling_back(metrics, limits))
        self.names: Sequence[str] = tuple(alarm.alarm_name for alarm in self.alarms.values())


@typed
class GreenFleetAlarms(Construct):
    """Alarms on the new fleet alone, on which SageMaker rolls back a deployment.

    A canary that fails every request is at a hundred percent here, however little of the traffic it gets, and
    what the old version does counts for nothing. One statement after the endpoint:

        endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository, deployment=Canary())
        GreenFleetAlarms(stack, "Rollback", endpoint=endpoint)

    SageMaker publishes the metrics of invocations with the dimension EndpointConfigName as well, from when a
    fleet gets traffic. AWS documents that for ModelLatency and errors alone. So requests are counted here as
    the samples of the errors' own metric, which is 1 or 0 for each request, and `RollbackAlarms` in addition
    are the safe side. As those do, they look at errors, and at nothing that a cold start causes.

    Attributes:
        alarms: The alarms by name. The endpoint is rolled back on them already.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Endpoint,
        variant: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        """Create the alarms and roll the endpoint back on them.

        Args:
            endpoint: The endpoint; it has to say how it is deployed.
            variant: The name of the variant; None for the only one, or the first.
            thresholds: The limits of normal operation; of these, the errors and the minimum of requests are
                used. Of a canary, requests are few: lower the minimum if its share is less.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        limits = thresholds or Thresholds()
        report = Report(self.node.path)
        limits._check(report.at("thresholds"))
        report.raise_if_any()
        metrics = _FleetMetrics(
            endpoint_name=endpoint.literal_name,
            variant_name=endpoint.variant(variant).name,
            endpoint_config_name=endpoint.endpoint_config_name,
        )
        declared = [
            replace(each, name=f"NewFleet{each.name}", what=f"In the new fleet: {each.what}")
            for each in rolling_back(metrics, limits)
        ]
        self.alarms = _created(self, metrics, declared)
        # By their literal names: the alarms are made after the role, on which the configuration depends.
        names = [_name(metrics, each) for each in declared]
        endpoint.role.add_to_principal_policy(see_alarms(endpoint, names))
        endpoint._roll_back_on([alarm.alarm_name for alarm in self.alarms.values()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _FleetMetrics(EndpointMetrics):
    endpoint_config_name: str

    @property
    def _dimensions(self) -> Mapping[str, str]:
        names = {"EndpointName": self.endpoint_name, "VariantName": self.variant_name}
        return {**names, "EndpointConfigName": self.endpoint_config_name}

    def _requests_counted(self, error: Failure, options: MathOptions) -> cloudwatch.Metric:
        return self.metric(error, **inner_options(options, statistic="SampleCount"))


def _name(metrics: EndpointMetrics, declared: AlarmDeclaration) -> str:
    endpoint, variant = metrics.endpoint_name, metrics.variant_name
    prefix = endpoint if variant == DEFAULT_VARIANT else f"{endpoint}-{variant}"
    return f"{prefix}-rollback-{declared.name}"


def _created(
    scope: Construct, metrics: EndpointMetrics, declared: Iterable[AlarmDeclaration]
) -> Mapping[str, cloudwatch.Alarm]:
    alarms = {each.name: each.create(scope, alarm_name=_name(metrics, each)) for each in declared}
    return MappingProxyType(alarms)
