"""Auto scaling that is halted for a while, without forgetting how it is set up."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_applicationautoscaling as autoscaling

from triton_fleet.arguments.typed import typed

_State = autoscaling.CfnScalableTarget.SuspendedStateProperty


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedScaling:
    """Suspended activities of auto scaling, for load tests and incidents. Remove it to resume.

    Source, read on 2026-11-21:
    https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-suspend-resume-scaling.html

    Attributes:
        scale_in: Do not remove instances.
        scale_out: Do not add instances.
        schedules: Let no scheduled action come due.
    """

    scale_in: bool = False
    scale_out: bool = False
    schedules: bool = False

    def _render(self) -> _State:
        """As CloudFormation takes it."""
        return _State(
            dynamic_scaling_in_suspended=self.scale_in,
            dynamic_scaling_out_suspended=self.scale_out,
            scheduled_scaling_suspended=self.schedules,
        )
