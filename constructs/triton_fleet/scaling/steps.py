"""Step scaling: the further a metric is off, the more instances come or go at once.

Target tracking is the better choice where one number says how busy an instance is. Steps are for metrics that
do not fall in proportion to the instances, and for answers that shall be larger than tracking gives.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import jsii
from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.arguments.tokens import deferred, known
from triton_fleet.arguments.typed import typed
from triton_fleet.scaling.capacity_checks import scaling_steps
from triton_fleet.scaling.checks import scaling_number, scaling_number_now
from triton_fleet.scaling.target import Cooldowns
from triton_models.base.errors import Problem

_Configuration = autoscaling.CfnScalingPolicy.StepScalingPolicyConfigurationProperty
_Adjustment = autoscaling.CfnScalingPolicy.StepAdjustmentProperty


class ScalingDirection(Enum):
    """The direction of a step scaling policy."""

    OUT = "out"
    """For values at and above the steps."""
    IN = "in"
    """For values at and below the steps."""


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStep:
    """A change of capacity from a value of the metric up to the next step.

    Attributes:
        at: The metric's value where the step begins, itself included.
        change: Instances to add, or with a minus to remove; percent, or the number to have, where the
            policy's adjustment says so.
    """

    at: float
    change: int


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class StepScaling:
    """A step scaling policy with its alarm, for one direction: scaling out and in are two policies.

    Attributes:
        name: The construct's id and the last part of the names of policy and alarm.
        metric: The metric to watch, with any statistic, or a `MathExpression`.
        steps: The steps, in any order.
        direction: The side of the steps on which values count.
        adjustment: The kind of change: a number of instances more or less, a percentage of the existing ones,
            or the new number.
        minimum_change: With percentages: the fewest instances to add or remove; None for one.
        cooldown: The time to wait after scaling. By default 15 minutes after scaling out and 10 after scaling
            in, as for targets.
        minutes: The number of recent minutes to evaluate.
        out_of: The number of these minutes that must be at the first step or beyond; None for all.
    """

    name: str
    metric: cloudwatch.IMetric
    steps: Sequence[ScalingStep]
    direction: ScalingDirection = ScalingDirection.OUT
    adjustment: autoscaling.AdjustmentType = autoscaling.AdjustmentType.CHANGE_IN_CAPACITY
    minimum_change: int | None = None
    cooldown: Duration | None = None
    minutes: int = 3
    out_of: int | None = None

    @property
    def _grows(self) -> bool:
        """Return whether it adds instances when the metric rises."""
        return self.direction is ScalingDirection.OUT

    @property
    def _adjustment(self) -> str:
        """The service's name: ChangeInCapacity, where the enumeration says CHANGE_IN_CAPACITY."""
        return self.adjustment.name.title().replace("_", "")

    def _problems(self, *, where: str, has_queue: bool = False) -> Iterator[Problem]:
        """Yield the problems between the values.

        Args:
            where: The place that the problems name.
            has_queue: True if the endpoint is asynchronous.
        """
        where = f"{self.name}, {where}"
        wrong = [problem for step in self.steps for problem in _step_problems(step, where=where) if problem]
        yield from wrong
        if not wrong:
            yield from scaling_steps(
                [step.at for step in self.steps],
                [known(step.change) for step in self.steps],
                grows=self._grows,
                adjustment=self._adjustment,
                where=where,
                has_queue=has_queue,
            )

    def _threshold(self) -> float:
        """The start of the first step, which is the threshold of the alarm."""
        return self._ordered()[0].at

    def _configuration(self) -> _Configuration:
        """The policy's configuration: each step as its distance from the alarm's threshold."""
        usual = Cooldowns()
        wait = self.cooldown or (usual.scale_out if self._grows else usual.scale_in)
        return _Configuration(
            adjustment_type=self._adjustment,
            cooldown=wait.to_seconds(),
            metric_aggregation_type="Average",
            min_adjustment_magnitude=self.minimum_change,
            step_adjustments=list(self._adjustments()),
        )

    def _ordered(self) -> list[ScalingStep]:
        """The steps from the threshold on outwards."""
        return sorted(self.steps, key=lambda step: step.at, reverse=not self._grows)

    def _adjustments(self) -> Iterator[_Adjustment]:
        threshold = self._threshold()
        for step, following in pairwise([*self._ordered(), None]):
            assert step is not None  # noqa: S101 -- only the last one is None, and nothing follows it
            near = step.at - threshold
            far = None if following is None else following.at - threshold
            yield _Adjustment(
                scaling_adjustment=step.change,
                metric_interval_lower_bound=near if self._grows else far,
                metric_interval_upper_bound=far if self._grows else near,
            )


def _step_problems(step: ScalingStep, *, where: str) -> Iterator[Problem]:
    later = deferred(step.at)
    yield from scaling_number(step.at, deferred=later, name="a step's at", where=where)
    yield from scaling_number_now(deferred=later, name="a step's at", where=where)
    yield from scaling_number(
        step.change, deferred=deferred(step.change), whole=True, name="a step's change", where=where
    )


class StepPolicy(Construct):
    """The policy of a `StepScaling` and its alarm.

    Attributes:
        alarm: Runs the policy for as long as it is in alarm.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        scaling: StepScaling,
        prefix: str,
        scaling_target_id: str,
    ) -> None:
        """Create both.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            scaling: The steps, and their metric.
            prefix: The prefix of the names of policy and alarm.
            scaling_target_id: The scalable target.
        """
        super().__init__(scope, construct_id)
        policy = autoscaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{prefix}-{scaling.name}",
            policy_type="StepScaling",
            scaling_target_id=scaling_target_id,
            step_scaling_policy_configuration=scaling._configuration(),
        )
        comparison = cloudwatch.ComparisonOperator
        self.alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=f"{prefix}-scaling-{scaling.name}",
            alarm_description=f"Runs the scaling policy {prefix}-{scaling.name}; no action is needed.",
            metric=scaling.metric,
            threshold=scaling._threshold(),
            comparison_operator=(
                comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                if scaling._grows
                else comparison.LESS_THAN_OR_EQUAL_TO_THRESHOLD
            ),
            evaluation_periods=scaling.minutes,
            datapoints_to_alarm=scaling.out_of,
            # Without requests SageMaker publishes nothing: that is no reason to scale either way.
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        self.alarm.add_alarm_action(_Run(policy))


@jsii.implements(cloudwatch.IAlarmAction)
class _Run:
    """An alarm's action that runs a policy."""

    def __init__(self, policy: autoscaling.CfnScalingPolicy) -> None:
        self._policy = policy

    def bind(self, scope: Construct, alarm: cloudwatch.IAlarm) -> cloudwatch.AlarmActionConfig:  # noqa: ARG002
        """The policy's ARN."""
        return cloudwatch.AlarmActionConfig(alarm_action_arn=self._policy.ref)
