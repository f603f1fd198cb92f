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
from itertools import zip_longest

import jsii
from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.operations.scaling.target import Cooldowns, policy_name, scaling_number_now
from triton_fleet.parts.arguments.checks import number_range, whole_quantity
from triton_fleet.parts.arguments.tokens import deferred, known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

_Configuration = autoscaling.CfnScalingPolicy.StepScalingPolicyConfigurationProperty
_Adjustment = autoscaling.CfnScalingPolicy.StepAdjustmentProperty


_A_DAY = 24 * 60  # minutes, which an alarm looks back at most

# The second about scaling to zero.
SCALING_STEPS = Check(
    id="scaling-steps",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html"
    ),
)


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
        return self.direction is ScalingDirection.OUT

    def _check(self, report: Report, *, has_queue: bool) -> None:
        """Check the values; a queue is that of an asynchronous endpoint."""
        policy_name(report, self.name)
        whole_quantity(report, self.cooldown, name="cooldown")
        minutes = known(self.minutes)
        number_range(report, minutes, least=1, most=_A_DAY, name="minutes")
        number_range(report, known(self.out_of), least=1, most=max(minutes or _A_DAY, 1), name="out_of")
        number_range(report, known(self.minimum_change), least=1, most=None, name="minimum_change")
        for step in self.steps:
            if deferred(step.at):
                scaling_number_now(report, "a step's at")
        self._check_steps(report, fewest=0 if has_queue else 1)

    def _check_steps(self, report: Report, *, fewest: int) -> None:
        bounds = [step.at for step in self.steps]
        if not bounds:
            report(SCALING_STEPS, "no step", fix="add one, such as ScalingStep(at=80, change=1)")
        for bound in sorted({each for each in bounds if bounds.count(each) > 1}):
            report(SCALING_STEPS, f"{bounds.count(bound)} steps begin at {bound:g}", fix="keep one of them")
        for step in self.steps:
            change = known(step.change)
            if change is None:
                continue
            if self.adjustment is autoscaling.AdjustmentType.EXACT_CAPACITY:
                if change < fewest:
                    what = f"the step at {step.at:g} sets the fleet to {change:g} instances"
                    why = "only asynchronous endpoints scale to zero" if fewest else ""
                    report(SCALING_STEPS, what, fix=f"set it to {fewest} or more", why=why)
            elif not (change > 0 if self._grows else change < 0):
                report(
                    SCALING_STEPS,
                    f"the step at {step.at:g} changes the fleet by {change:g}",
                    why="a policy only adds instances, or only removes them",
                    fix="reverse the sign, or put the step into a separate policy for the other direction",
                )

    def _configuration(self) -> _Configuration:
        """The policy's configuration: each step as its distance from the alarm's threshold."""
        usual = Cooldowns()
        wait = self.cooldown or (usual.scale_out if self._grows else usual.scale_in)
        return _Configuration(
            # ChangeInCapacity, where the enumeration says CHANGE_IN_CAPACITY.
            adjustment_type=self.adjustment.name.title().replace("_", ""),
            cooldown=wait.to_seconds(),
            metric_aggregation_type="Average",
            min_adjustment_magnitude=self.minimum_change,
            step_adjustments=list(self._adjustments()),
        )

    def _ordered(self) -> list[ScalingStep]:
        """The steps from the threshold on outwards."""
        return sorted(self.steps, key=lambda step: step.at, reverse=not self._grows)

    def _adjustments(self) -> Iterator[_Adjustment]:
        steps = self._ordered()
        for step, following in zip_longest(steps, steps[1:]):
            near = step.at - steps[0].at
            far = None if following is None else following.at - steps[0].at
            yield _Adjustment(
                scaling_adjustment=step.change,
                metric_interval_lower_bound=near if self._grows else far,
                metric_interval_upper_bound=far if self._grows else near,
            )


class StepPolicy(Construct):
    """The policy of a `StepScaling`, and the alarm that runs it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        scaling: StepScaling,
        prefix: str,
        scaling_target_id: str,
    ) -> None:
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
        alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=f"{prefix}-scaling-{scaling.name}",
            alarm_description=f"Runs the scaling policy {prefix}-{scaling.name}; no action is needed.",
            metric=scaling.metric,
            threshold=scaling._ordered()[0].at,
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
        alarm.add_alarm_action(_Run(policy))


@jsii.implements(cloudwatch.IAlarmAction)
class _Run:
    def __init__(self, policy: autoscaling.CfnScalingPolicy) -> None:
        self._policy = policy

    def bind(self, scope: Construct, alarm: cloudwatch.IAlarm) -> cloudwatch.AlarmActionConfig:  # noqa: ARG002
        return cloudwatch.AlarmActionConfig(alarm_action_arn=self._policy.ref)
