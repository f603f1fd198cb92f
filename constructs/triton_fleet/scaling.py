"""Auto scaling: more instances when the GPUs or the request rate ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.errors import Findings, Problem
from triton_fleet.metrics import METRICS
from triton_fleet.rules.capacity import capacity
from triton_fleet.rules.scaling_target import scaling_target
from triton_fleet.tokens import known

_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_Tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldowns:
    """How long scaling waits for what it has just done to show.

    Attributes:
        scale_out: After adding instances. A GPU instance takes about five minutes to serve; asking again
            sooner would pay for the same load twice.
        scale_in: After removing one. Its loaded models go with it and are loaded again elsewhere, so the
            fleet shrinks slowly.
    """

    scale_out: Duration
    scale_in: Duration

    @classmethod
    def default(cls) -> Cooldowns:
        """Five minutes after scaling out, ten after scaling in."""
        return cls(scale_out=Duration.minutes(5), scale_in=Duration.minutes(10))


class Target(Protocol):
    """What to keep constant by adding and removing instances. Targets are given per GPU."""

    @property
    def policy(self) -> str:
        """The construct's id and the last part of the policy's name; one policy for each."""

    @property
    def limit(self) -> float | None:
        """The most that the metric of one GPU can reach; None if it has no bound."""

    def value(self, *, gpu_count: int) -> float:
        """The number that Application Auto Scaling compares the metric with."""

    def tracking(self, endpoint: MultiModelEndpoint, *, cooldowns: Cooldowns) -> _Tracking:
        """The policy's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsPerGpu:
    """Keep the requests that each GPU answers in a minute constant. AWS's advice for multi-model endpoints.

    The right number depends on the models and on how often they are cached: measure it, with
    `from_load_test`.

    Attributes:
        per_minute: Requests a minute for each GPU. The default, ten a second, is low: too many instances cost
            money, too few cost requests.
    """

    per_minute: float = 600

    @classmethod
    def from_load_test(cls, *, requests_per_second: float, safety_factor: float = 0.5) -> InvocationsPerGpu:
        """The target for the highest rate that one GPU sustained.

        Args:
            requests_per_second: That rate.
            safety_factor: The share of it to aim for: a new instance takes minutes to come, and
                meanwhile the load grows. AWS starts at 0.5.
        """
        return cls(per_minute=requests_per_second * safety_factor * 60)

    @property
    def policy(self) -> str:
        """See `Target`."""
        return "Invocations"

    @property
    def limit(self) -> None:
        """See `Target`."""
        return

    def value(self, *, gpu_count: int) -> float:
        """Requests a minute for each instance."""
        return self.per_minute * gpu_count

    def tracking(self, endpoint: MultiModelEndpoint, *, cooldowns: Cooldowns) -> _Tracking:
        """See `Target`."""
        return _Tracking(
            target_value=self.value(gpu_count=endpoint.instance.gpu_count),
            predefined_metric_specification=(
                autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                )
            ),
            scale_out_cooldown=cooldowns.scale_out.to_seconds(),
            scale_in_cooldown=cooldowns.scale_in.to_seconds(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUtilization:
    """Keep the GPUs equally busy: it follows the work instead of the number of requests.

    Attributes:
        percent: 0 to 100, of each GPU. The default leaves room for the minutes until a new instance serves.
    """

    percent: float = 60

    @property
    def policy(self) -> str:
        """See `Target`."""
        return "GpuUtilization"

    @property
    def limit(self) -> float:
        """See `Target`."""
        return 100

    def value(self, *, gpu_count: int) -> float:
        """SageMaker adds the percentages of an instance's GPUs up."""
        return self.percent * gpu_count

    def tracking(self, endpoint: MultiModelEndpoint, *, cooldowns: Cooldowns) -> _Tracking:
        """See `Target`."""
        fact = METRICS["GPUUtilization"]
        # EndpointName and VariantName. AWS's page about scaling multi-model endpoints says ModelName, under
        # which nothing is published: such a policy is accepted and never acts.
        dimensions = {"EndpointName": endpoint.name, "VariantName": endpoint.variant_name}
        return _Tracking(
            target_value=self.value(gpu_count=endpoint.instance.gpu_count),
            customized_metric_specification=(
                autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty(
                    metric_name=fact.name,
                    namespace=fact.namespace,
                    statistic=fact.statistic,
                    unit=fact.unit,
                    dimensions=[
                        autoscaling.CfnScalingPolicy.MetricDimensionProperty(name=name, value=value)
                        for name, value in dimensions.items()
                    ],
                )
            ),
            scale_out_cooldown=cooldowns.scale_out.to_seconds(),
            scale_in_cooldown=cooldowns.scale_in.to_seconds(),
        )


class EndpointScaling(Construct):
    """Lets an endpoint have as many instances as its load needs.

    With several targets the fleet grows if any asks for it, and shrinks only if all agree.

    Attributes:
        endpoint: What is scaled.
        min_capacity: The fewest instances.
        max_capacity: The most instances.
        targets: What is kept constant.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: MultiModelEndpoint,
        min_capacity: int = 1,
        max_capacity: int = 4,
        targets: Sequence[Target] = (InvocationsPerGpu(), GpuUtilization()),
        cooldowns: Cooldowns | None = None,
    ) -> None:
        """Register the endpoint and create a policy for each target.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            endpoint: What to scale.
            min_capacity: The fewest instances, 1 or more: a multi-model endpoint cannot scale to zero.
            max_capacity: The most instances. The default is a new account's quota for one endpoint.
            targets: What to keep constant, each metric once.
            cooldowns: How long to wait for what scaling has just done to show.

        Raises:
            FleetError: A capacity below one, a minimum above the maximum, no target, a target that is not
                above zero or above what its metric can reach, or two targets for one metric.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        self.min_capacity = min_capacity
        self.max_capacity = max_capacity
        self.targets = tuple(targets)
        self._check()
        self._target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension=_DIMENSION,
            resource_id=f"endpoint/{endpoint.name}/variant/{endpoint.variant_name}",
            min_capacity=min_capacity,
            max_capacity=max_capacity,
        )
        # The id above is a literal, so CloudFormation does not see that the endpoint has to be there first.
        self._target.node.add_dependency(endpoint.node.find_child("Resource"))
        for target in self.targets:
            self._follow(target, cooldowns or Cooldowns.default())

    def _follow(self, target: Target, cooldowns: Cooldowns) -> None:
        autoscaling.CfnScalingPolicy(
            self,
            target.policy,
            policy_name=f"{self.endpoint.name}-{target.policy}",
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=target.tracking(self.endpoint, cooldowns=cooldowns),
        )

    def _check(self) -> None:
        findings = Findings.of(self)
        findings.add(
            capacity(known(self.min_capacity), known(self.max_capacity), where=findings.where("min_capacity"))
        )
        findings.extend(_target_problems(self.targets, where=findings.where("targets")))
        findings.raise_if_any()


def _target_problems(targets: Sequence[Target], *, where: str) -> Iterator[Problem]:
    policies = [target.policy for target in targets]
    for policy in sorted({name for name in policies if policies.count(name) > 1}):
        yield Problem(
            what=f"{policies.count(policy)} targets for {policy}",
            where=where,
            expected="each metric once",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them",
            rule="one-target-a-metric",
        )
    if not targets:
        yield Problem(
            what="no target",
            where=where,
            expected="one or more, such as GpuUtilization(percent=60)",
            why="without a target the fleet never changes its size",
            fix="name a target, or leave EndpointScaling out",
            rule="one-target-a-metric",
        )
    for target in targets:
        problem = scaling_target(
            known(target.value(gpu_count=1)), limit=target.limit, where=f"{target.policy}, {where}"
        )
        if problem is not None:
            yield problem
