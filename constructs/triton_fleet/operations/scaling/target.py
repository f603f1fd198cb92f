"""The parts of every tracking target: a metric, its value, and the time to wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from aws_cdk import Duration

from triton_fleet.endpoint.hosting.deployment import MINUTES_TO_SERVE
from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.operations.scaling.metric_specification import Customized, Predefined, Tracking
from triton_fleet.parts.arguments.checks import whole_quantity
from triton_fleet.parts.arguments.tokens import deferred
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Report

Per = Literal["GPU", "vCPU", "instance"]

_UNTIL_IT_SERVES = Duration.minutes(MINUTES_TO_SERVE)
_TEN_MINUTES = Duration.minutes(10)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldowns:
    """The times between scaling activities.

    Attributes:
        scale_out: After adding instances. One takes 12 to 15 minutes to serve; asking again sooner would pay
            for the same load twice. A higher demand is still followed meanwhile.
        scale_in: After removing one. Its loaded models go with it and are loaded again elsewhere, so the
            fleet shrinks slowly.
    """

    scale_out: Duration = _UNTIL_IT_SERVES
    scale_in: Duration = _TEN_MINUTES

    def _check(self, report: Report) -> None:
        """Check for fractions of a second."""
        for name in ("scale_out", "scale_in"):
            whole_quantity(report, getattr(self, name), name=name)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTarget(ABC):
    """A metric and its target value.

    Targets are given for one GPU, one vCPU or one instance, so they stay right when the instance type
    changes; what Application Auto Scaling compares with the metric follows from the instance.

    Attributes:
        cooldowns: The times to wait after scaling for this target; None for those of the EndpointScaling.
        disable_scale_in: Only ever add instances for this target. For a target that says when there are too
            few instances but not when there are too many; another one then has to remove them.
    """

    _POLICY: ClassVar[str] = ""
    _PER: ClassVar[Per] = "instance"
    _LIMIT: ClassVar[float | None] = None  # the most that the metric of one can reach
    _UNITS: ClassVar[int] = 1  # of the metric's in one that the target is given in
    _COUNTS_ANSWERS: ClassVar[bool] = False
    _OF_QUEUE: ClassVar[bool] = False

    cooldowns: Cooldowns | None = None
    disable_scale_in: bool = False

    @property
    def _policy(self) -> str:
        """The construct's id and the last part of the policy's name; one policy for each."""
        return self._POLICY

    @property
    @abstractmethod
    def _amount(self) -> float:
        """The target as it is given, of one GPU, vCPU or instance."""

    @property
    def _deferred(self) -> bool:
        """Return whether the target is known only at deployment."""
        return deferred(self._amount)

    def _value(self, *, gpu_count: int = 1, vcpus: int = 1) -> float:
        """The number that Application Auto Scaling compares the metric with."""
        return self._amount * self._factor(gpu_count=gpu_count, vcpus=vcpus)

    def _factor(self, *, gpu_count: int, vcpus: int) -> int:
        """Return the factor of the target on an instance; arguments as in `value`."""
        return self._UNITS * {"GPU": gpu_count, "vCPU": vcpus, "instance": 1}[self._PER]

    def _tracking(self, variant: DeployedVariant, *, cooldowns: Cooldowns) -> Tracking:
        """The policy's configuration."""
        metric = self._metric(variant)
        waits = self.cooldowns or cooldowns
        return Tracking(
            target_value=self._value(gpu_count=variant.instance.gpu_count, vcpus=variant.instance.vcpus),
            predefined_metric_specification=metric if isinstance(metric, Predefined) else None,
            customized_metric_specification=metric if isinstance(metric, Customized) else None,
            scale_out_cooldown=waits.scale_out.to_seconds(),
            scale_in_cooldown=waits.scale_in.to_seconds(),
            disable_scale_in=True if self.disable_scale_in else None,
        )

    @abstractmethod
    def _metric(self, variant: DeployedVariant) -> Predefined | Customized:
        """The metric of a variant."""
