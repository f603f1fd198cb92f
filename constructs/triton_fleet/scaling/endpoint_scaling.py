"""Auto scaling: as many instances of an endpoint's variant as its load needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws_cdk import Annotations, Stack
from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from triton_fleet.arguments.checks import LARGEST_INTEGER, number_range
from triton_fleet.arguments.collector import Problem, ProblemCollector
from triton_fleet.arguments.service_model import hold_against_services
from triton_fleet.arguments.tokens import deferred, known
from triton_fleet.arguments.typed import typed
from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.endpoint.sequence_advice import SequenceAdvice
from triton_fleet.hosting.variants import DeployedVariant
from triton_fleet.scaling.capacity_checks import capacity
from triton_fleet.scaling.checks import (
    FROM_ZERO,
    ONE_TARGET_A_METRIC,
    one_scaling,
    scaling_hardware,
    scaling_names,
    scaling_number,
    scaling_number_now,
    scaling_target,
    target_published,
)
from triton_fleet.scaling.schedules import ScheduledCapacity, schedule_problems
from triton_fleet.scaling.steps import ScalingStep, StepPolicy, StepScaling
from triton_fleet.scaling.suspended_scaling import SuspendedScaling
from triton_fleet.scaling.target import Cooldowns, ScalingTarget
from triton_fleet.scaling.tracking import GpuMemoryUtilization, default_targets
from triton_fleet.scaling.values import cooldown_values, schedule_values, step_values, target_values

_DIMENSION = "sagemaker:variant:DesiredInstanceCount"


@typed
class EndpointScaling(Construct):
    """Auto scaling of a variant of an endpoint.

    With several targets the fleet grows if any asks for it, and shrinks only if all agree.

    SageMaker refuses to change the instance type of a variant, or to remove it, for as long as it is scaled.
    Give the endpoint a name with the instance type in it (`endpoint_name_for`) and applications an
    `EndpointAlias`, and a change of the instance type is an ordinary deployment.

    Attributes:
        endpoint: The scaled endpoint.
        variant: The variant of it.
        min_capacity: The fewest instances.
        max_capacity: The most instances.
        targets: The targets.
        steps: The step scaling policies.
        schedules: The scheduled changes of the range.
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
        steps: Sequence[StepScaling] = (),
        schedules: Sequence[ScheduledCapacity] = (),
        cooldowns: Cooldowns | None = None,
        suspended: SuspendedScaling | None = None,
    ) -> None:
        """Register the variant, and create a policy for each target and for each set of steps.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            endpoint: The endpoint to scale.
            variant: The name of the variant to scale; None for the only one, or the first. Give each further
                one an EndpointScaling of its own.
            min_capacity: The fewest instances, 1 or more. 0 is for asynchronous endpoints only: requests wait
                in the queue meanwhile, and the first of them brings an instance back.
            max_capacity: The most instances. The default is a new account's quota for one endpoint.
            targets: The targets, each metric once. By default the requests and the utilization per GPU, or
                the vCPU utilization without GPUs; for an asynchronous endpoint the backlog. No target is
                possible with steps or schedules.
            steps: Policies for metrics that are far from their targets.
            schedules: Scheduled changes of the range.
            cooldowns: The times to wait after scaling, for targets without cooldowns of their own.
            suspended: Suspended activities of auto scaling.

        Raises:
            FleetError: There is no such variant, or it is scaled already; a capacity below one, or a minimum
                above the maximum; nothing to scale by; a target out of its metric's reach, for GPUs where
                there are none, or of a metric that such an endpoint does not publish; two policies of one
                name; steps that overlap or go the wrong way; a schedule that sets nothing, sets no range, or
                never comes due. All that apply are named.
        """
        super().__init__(scope, construct_id)
        self.endpoint = endpoint
        self.variant = endpoint.variant(variant)
        self.min_capacity = min_capacity
        self.max_capacity = max_capacity
        self.targets = default_targets(self.variant) if targets is None else tuple(targets)
        self.steps = tuple(steps)
        self.schedules = tuple(schedules)
        self._suspended = suspended
        self._resource_id = f"endpoint/{endpoint.literal_name}/variant/{self.variant.name}"
        self._check(cooldowns)
        self._advise()
        self._target = self._register()
        for target in self.targets:
            self._follow(target, cooldowns or Cooldowns())
        for each in (*self.steps, *self._from_zero()):
            StepPolicy(
                self, each.name, scaling=each, prefix=self._prefix(), scaling_target_id=self._target.ref
            )
        hold_against_services(self)

    def _register(self) -> autoscaling.CfnScalableTarget:
        target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension=_DIMENSION,
            resource_id=self._resource_id,
            min_capacity=self.min_capacity,
            max_capacity=self.max_capacity,
            scheduled_actions=[each._render() for each in self.schedules] or None,
            suspended_state=self._suspended._render() if self._suspended else None,
        )
        # The id above is a literal, so CloudFormation does not see that the endpoint has to be there first.
        resource = self.endpoint.node.find_child("Resource")
        target.node.add_dependency(resource, self.endpoint._change.settled)
        return target

    def _follow(self, target: ScalingTarget, cooldowns: Cooldowns) -> None:
        autoscaling.CfnScalingPolicy(
            self,
            target._policy,
            policy_name=f"{self._prefix()}-{target._policy}",
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=target._tracking(self.variant, cooldowns=cooldowns),
        )

    def _from_zero(self) -> Iterator[StepScaling]:
        """The alarm that brings the first instance back, since the backlog per instance needs an instance.

        Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
        """
        lowest = (self.min_capacity, *(each.min_capacity for each in self.schedules))
        if self.variant.asynchronous and any(known(each) == 0 or deferred(each) for each in lowest):
            yield StepScaling(
                name=FROM_ZERO,
                metric=self.variant.metric_has_backlog_without_capacity(),
                steps=[ScalingStep(at=1, change=1)],
                minutes=2,
            )

    def _prefix(self) -> str:
        """Return the prefix of the names of policies, with the variant if the endpoint has several."""
        name = self.endpoint.literal_name
        return name if len(self.endpoint.variants) == 1 else f"{name}-{self.variant.name}"

    def _check(self, cooldowns: Cooldowns | None) -> None:
        collector = ProblemCollector.of(self)
        where = collector.where
        collector.add(cooldown_values(cooldowns, where=where("cooldowns")))
        collector.add(target_values(self.targets, where=where("targets")))
        collector.add(schedule_values(self.schedules, where=where("schedules")))
        collector.add(one_scaling(self._resource_id, already=self._scaled_by(), where=where("variant")))
        collector.add(self._bounds_problems(collector))
        names = [*(target._policy for target in self.targets), *(each.name for each in self.steps)]
        collector.add(scaling_names(names, where=where("targets")))
        if not (names or self.schedules):
            collector.add(_nothing(where=where("targets")))
        collector.add(_target_problems(self.targets, self.variant, where=where("targets")))
        for each in self.steps:
            collector.add(step_values(each, where=where("steps")))
            collector.add(each._problems(where=where("steps"), has_queue=self.variant.asynchronous))
        standing = (self.min_capacity, self.max_capacity)
        collector.add(
            schedule_problems(
                self.schedules,
                standing=standing,
                where=where("schedules"),
                has_queue=self.variant.asynchronous,
            )
        )
        collector.raise_if_any()

    def _bounds_problems(self, collector: ProblemCollector) -> Iterator[Problem]:
        bounds = {"min_capacity": self.min_capacity, "max_capacity": self.max_capacity}
        wrong = [
            problem
            for name, value in bounds.items()
            for problem in scaling_number(
                value, deferred=deferred(value), whole=True, name=name, where=collector.where(name)
            )
        ]
        yield from wrong
        for name, value in bounds.items():
            place = collector.where(name)
            yield from number_range(
                known(value), least=-LARGEST_INTEGER, most=LARGEST_INTEGER, name=name, where=place
            )
        if not wrong:
            yield from capacity(
                *map(known, bounds.values()),
                where=collector.where("min_capacity"),
                has_queue=self.variant.asynchronous,
            )

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

    def _scaled_by(self) -> str | None:
        """The path of what scales the variant already, in this stack."""
        for each in Stack.of(self).node.find_all():
            if isinstance(each, autoscaling.CfnScalableTarget) and each.resource_id == self._resource_id:
                return each.node.path.rpartition("/")[0]
        return None


def _nothing(*, where: str) -> Iterator[Problem]:
    yield ONE_TARGET_A_METRIC.problem(
        what="no target",
        where=where,
        expected="one or more, such as GpuUtilization(percent=60), or steps or schedules",
        why="without a target the fleet never changes its size",
        fix="name a target, or leave EndpointScaling out",
    )


def _target_problems(
    targets: Sequence[ScalingTarget], variant: DeployedVariant, *, where: str
) -> Iterator[Problem]:
    instance = variant.instance
    for target in targets:
        place = f"{target._policy}, {where}"
        later = target._deferred
        if not later:
            yield from scaling_target(target._amount, limit=target._LIMIT, per=target._PER, where=place)
        computed = target._factor(gpu_count=instance.gpu_count, vcpus=instance.vcpus) != 1
        yield from scaling_number_now(deferred=later and computed, name="the target", where=place)
        yield from target_published(
            target._policy,
            of_queue=target._OF_QUEUE,
            of_answers=target._COUNTS_ANSWERS,
            has_queue=variant.asynchronous,
            where=place,
        )
        yield from scaling_hardware(
            instance, per_gpu=target._PER == "GPU", policy=target._policy, where=place
        )
