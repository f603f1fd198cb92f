"""The policy that brings the first instance of an asynchronous endpoint back.

Targets cannot: the backlog per instance needs an instance. Source, read on 2026-11-21:
https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
"""

from __future__ import annotations

import jsii
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from triton_fleet.operations.scaling.target import Cooldowns

FROM_ZERO = "FromZero"
"""The construct's id, and the last part of the names of policy and alarm."""

_Configuration = autoscaling.CfnScalingPolicy.StepScalingPolicyConfigurationProperty
_Adjustment = autoscaling.CfnScalingPolicy.StepAdjustmentProperty


class FromZero(Construct):
    """A step scaling policy that adds an instance, and the alarm about a backlog that runs it."""

    def __init__(
        self, scope: Construct, *, backlog: cloudwatch.IMetric, prefix: str, scaling_target_id: str
    ) -> None:
        super().__init__(scope, FROM_ZERO)
        policy = autoscaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{prefix}-{FROM_ZERO}",
            policy_type="StepScaling",
            scaling_target_id=scaling_target_id,
            step_scaling_policy_configuration=_Configuration(
                adjustment_type="ChangeInCapacity",
                cooldown=Cooldowns().scale_out.to_seconds(),
                metric_aggregation_type="Average",
                step_adjustments=[_Adjustment(scaling_adjustment=1, metric_interval_lower_bound=0)],
            ),
        )
        alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=f"{prefix}-scaling-{FROM_ZERO}",
            alarm_description=f"Runs the scaling policy {prefix}-{FROM_ZERO}; no action is needed.",
            metric=backlog,
            threshold=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=2,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        alarm.add_alarm_action(_Run(policy))


@jsii.implements(cloudwatch.IAlarmAction)
class _Run:
    def __init__(self, policy: autoscaling.CfnScalingPolicy) -> None:
        self._policy = policy

    def bind(self, scope: Construct, alarm: cloudwatch.IAlarm) -> cloudwatch.AlarmActionConfig:  # noqa: ARG002
        return cloudwatch.AlarmActionConfig(alarm_action_arn=self._policy.ref)
