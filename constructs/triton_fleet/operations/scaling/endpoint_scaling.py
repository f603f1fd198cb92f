"""Auto scaling: as many instances of an endpoint's variant as its load needs."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Annotations, Stack
from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.endpoint.sequence_advice import SequenceAdvice
from triton_fleet.operations.scaling.from_zero import FROM_ZERO, FromZero
from triton_fleet.operations.scaling.schedules import ScheduledCapacity, capacity, check_schedules
from triton_fleet.operations.scaling.target import Cooldowns, ScalingTarget
from triton_fleet.operations.scaling.tracking import GpuMemoryUtilization, default_targets
from triton_fleet.parts.arguments.service_model import hold_against_services
from triton_fleet.parts.arguments.tokens import deferred, known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

ONE_SCALING_PER_VARIANT = Check(
    id="one-scaling-per-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)
ONE_TARGET_PER_METRIC = Check(
    id="one-target-per-metric",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html",
)

# Construct ids that scaling has taken for itself.
_RESERVED_NAMES = frozenset({"Target", FROM_ZERO})


@typed
class EndpointScaling(Construct):
    """Auto scaling of a variant of an endpoint.

    With several targets the fleet grows if any asks for it, and shrinks only if all agree.

    SageMaker refuses to change the instance type of a variant, or to remove it, for as long as it is scaled.
    Give the endpoint a name with the instance type in it (`endpoint_name_for`) and applications an
    `EndpointAlias`, and a change of the instance type is an ordinary deployment.

    Its arguments but `cooldowns` are also its attributes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Endpoint,
        variant: str | None = None,
        min_capacity: int = 1,
        max_capacity: int = 4,
        targets: Sequence[ScalingTarget] | None = None,
        schedules: Sequence[ScheduledCapacity] = (),
        cooldowns: Cooldowns | None = None,
    ) -> None:
        """Register the variant, and create a policy for each target.

        Args:
            variant: The name of the variant to scale; None for the only one, or the first. Give each further
                one an EndpointScaling of its own.
            min_capacity: The fewest instances, 1 or more. 0 is for asynchronous endpoints only: requests wait
                in the queue meanwhile, and the first of them brings an instance back.
            max_capacity: The most instances. The default is a new account's quota for one endpoint.
            targets: The targets, each metric once. By default the requests and the utilization per GPU, or
                the vCPU utilization without GPUs; for an asynchronous endpoint the backlog. No target is
                possible with schedules.
            schedules: Scheduled changes of the range.
            cooldowns: The times to wait after scaling, for targets without cooldowns of their own.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        self.variant = endpoint.variant(variant)
        self.min_capacity = min_capacity
        self.max_capacity = max_capacity
        self.targets = default_targets(self.variant) if targets is None else tuple(targets)
        self.schedules = tuple(schedules)
        self._watched = f"{endpoint.literal_name}/{self.variant.name}"
        self._resource_id = f"endpoint/{endpoint.literal_name}/variant/{self.variant.name}"
        self._check(cooldowns)
        self._advise()
        self._target = self._register()
        prefix = endpoint.literal_name
        if len(endpoint.variants) > 1:
            prefix += f"-{self.variant.name}"
        for target in self.targets:
            autoscaling.CfnScalingPolicy(
                self,
                target._policy,
                policy_name=f"{prefix}-{target._policy}",
                policy_type="TargetTrackingScaling",
                scaling_target_id=self._target.ref,
                target_tracking_scaling_policy_configuration=target._tracking(
                    self.variant, cooldowns=cooldowns or Cooldowns()
                ),
            )
        lowest = (min_capacity, *(schedule.min_capacity for schedule in self.schedules))
        if self.variant.asynchronous and any(known(least) == 0 or deferred(least) for least in lowest):
            backlog = self.variant.metric_has_backlog_without_capacity()
            FromZero(self, backlog=backlog, prefix=prefix, scaling_target_id=self._target.ref)
        hold_against_services(self)

    def _register(self) -> autoscaling.CfnScalableTarget:
        target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=self._resource_id,
            min_capacity=self.min_capacity,
            max_capacity=self.max_capacity,
            scheduled_actions=[each._render() for each in self.schedules] or None,
        )
        # The id above is a literal, so CloudFormation does not see that the endpoint has to be there first.
        resource = self.endpoint.node.find_child("Resource")
        target.node.add_dependency(resource, self.endpoint._change.settled)
        return target

    def _check(self, cooldowns: Cooldowns | None) -> None:
        report, has_queue = Report(self.node.path), self.variant.asynchronous
        targets = report.at("targets")
        if cooldowns is not None:
            cooldowns._check(report.at("cooldowns"))
        self._check_alone(report.at("variant"))
        standing = (self.min_capacity, self.max_capacity)
        capacity(report.at("min_capacity"), *map(known, standing), has_queue=has_queue)
        names = [target._policy for target in self.targets]
        scaling_names(targets, names)
        if not (names or self.schedules):
            fix = "add one, such as GpuUtilization(percent=60), or leave EndpointScaling out"
            targets(ONE_TARGET_PER_METRIC, "no target", fix=fix)
        for target in self.targets:
            target._check(targets.at(target._policy[:60]), self.variant)
        check_schedules(report.at("schedules"), self.schedules, standing=standing, has_queue=has_queue)
        report.raise_if_any()

    def _advise(self) -> None:
        SequenceAdvice(
            self, self.endpoint._sequence_models, instances=known(self.max_capacity), setting="max_capacity=1"
        )
        if isinstance(self.endpoint, MultiModelEndpoint) and any(
            isinstance(target, GpuMemoryUtilization) for target in self.targets
        ):
            Annotations.of(self).add_warning_v2(
                "triton-fleet:gpu-memory-of-many-models",
                "GPU memory is the cache of a multi-model endpoint: it stays full however little is asked. "
                "This target grows the fleet to its maximum and keeps it there. Use GpuUtilization.",
            )

    def _check_alone(self, report: Report) -> None:
        for each in Stack.of(self).node.find_all():
            if isinstance(each, autoscaling.CfnScalableTarget) and each.resource_id == self._resource_id:
                report(
                    ONE_SCALING_PER_VARIANT,
                    f"{self._resource_id} is already scaled by {each.node.path.rpartition('/')[0]}",
                    why="a second one overwrites the first one's bounds, and removing either removes both",
                    fix="move all targets and schedules to the first one, or scale another variant",
                )


def scaling_names(report: Report, names: Sequence[str]) -> None:
    """Check the names of policies."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        report(
            ONE_TARGET_PER_METRIC,
            f"{names.count(name)} targets for {name}",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them, or use different names if their metrics differ",
        )
    for name in sorted(_RESERVED_NAMES.intersection(names)):
        fix = "name it after its metric, such as QueueDepth"
        report(
            ONE_TARGET_PER_METRIC, f"a policy is named {name!r}, which EndpointScaling uses itself", fix=fix
        )
