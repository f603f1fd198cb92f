"""The ways to a new configuration of an endpoint: all at once, by a canary, in steps, or in batches.

Every default here follows from two things:

* A new instance starts with no model loaded. So a step is small, the wait after it is long enough to load the
  models in use, and the alarms that roll it back look at errors and not at latency (`RollbackAlarms`).
* SageMaker suspends auto scaling until the deployment has ended. A canary of ten minutes takes 35 with the
  start of its instances, a rolling one far more.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html
* https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeploymentConfig.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aws_cdk import Duration
from aws_cdk import aws_sagemaker as sagemaker

from triton_fleet.parts.arguments.checks import whole_quantity
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

WITHOUT_ROLLBACK = "triton-fleet:deployment-without-rollback"
"""The warning of a deployment that looks at no alarm."""

_Config = sagemaker.CfnEndpoint.DeploymentConfigProperty
_Routing = sagemaker.CfnEndpoint.TrafficRoutingConfigProperty
_Size = sagemaker.CfnEndpoint.CapacitySizeProperty

MINUTES_TO_SERVE = 15
"""From asking for an instance until it serves; 12 were measured with an image of 20.6 GB, compressed.

Source, read on 2026-11-25: the belief `start-takes-twelve-minutes`.
"""
# Twice that is not yet a failure. A lack of capacity was reported after 31 minutes.
_SECONDS_TO_START_INSTANCES = 2 * MINUTES_TO_SERVE * 60
_LONG_MINUTES = 60

SHORTEST_MAXIMUM, LONGEST_MAXIMUM = 600, 28_800
"""Seconds that a deployment's maximum time may have."""

# The pages of canary, linear step and rolling batch all have these bounds.
DEPLOYMENT_PORTION = Check(
    id="deployment-portion",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html",
)
DEPLOYMENT_TIMES = Check(
    id="deployment-times",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html",
)
ROLLBACK_ALARMS = Check(
    id="rollback-alarms",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html",
)
ROLLING_ONE_VARIANT = Check(
    id="rolling-one-variant",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html",
)

_TEN_MINUTES = Duration.minutes(10)
_NO_TIME = Duration.seconds(0)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySize:
    """A part of a fleet: `CapacitySize.percent(25)` or `CapacitySize.instances(2)`.

    Attributes:
        value: An integer, 1 or more.
        by_percent: True for percent of the fleet, False for a number of instances.
    """

    value: int
    by_percent: bool

    @classmethod
    def percent(cls, value: int) -> CapacitySize:
        """Percent of the fleet, which follows its size while auto scaling changes it."""
        return cls(value=value, by_percent=True)

    @classmethod
    def instances(cls, value: int) -> CapacitySize:
        """A number of instances, whatever the size of the fleet."""
        return cls(value=value, by_percent=False)

    def _render(self) -> _Size:
        return _Size(type="CAPACITY_PERCENT" if self.by_percent else "INSTANCE_COUNT", value=self.value)

    def _steps(self, fleet: float | None) -> int | None:
        """Return the number of steps that the fleet takes; None if it is not known."""
        size = known(self.value)
        total = 100 if self.by_percent else fleet
        return math.ceil(total / size) if size and size > 0 and total is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    steps: int | None
    starts: int | None
    wait: Duration
    termination_wait: Duration = _NO_TIME

    def seconds_of_waits(self) -> float | None:
        """Return the seconds of all waits; None if they are not known, or one of them is a token."""
        wait, last = known(self.wait.to_seconds()), known(self.termination_wait.to_seconds())
        return None if self.steps is None or wait is None or last is None else wait * self.steps + last

    def maximum_seconds(self) -> float:
        """Return the seconds until it is given up; the longest there is if its course is not known."""
        waits = self.seconds_of_waits()
        if waits is None or self.starts is None:
            return LONGEST_MAXIMUM
        return min(max(waits + self.starts * _SECONDS_TO_START_INSTANCES, SHORTEST_MAXIMUM), LONGEST_MAXIMUM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portion:
    """An argument that divides the fleet, and the percentages that SageMaker accepts for it."""

    argument: str
    size: CapacitySize
    lowest: int
    highest: int

    def check(self, report: Report, capacity: int | None) -> None:
        value, fleet = known(self.size.value), 100 if self.size.by_percent else capacity
        if value is None:
            return
        if value < 1 or not float(value).is_integer():
            report(
                DEPLOYMENT_PORTION,
                f"the size is {value:g}",
                fix=self._fix(capacity),
                why="a deployment in steps of nothing would never end"
                if float(value).is_integer()
                else "SageMaker does not accept fractions of an instance or of a percent",
            )
        elif fleet and not self.lowest <= value * 100 / fleet <= self.highest:
            report(
                DEPLOYMENT_PORTION,
                f"the size is {value:g} " + ("%" if self.size.by_percent else f"of {fleet} instances"),
                fix=self._fix(capacity),
                why="SageMaker refuses the update, and the deployment fails part-way through",
            )

    def _fix(self, capacity: int | None) -> str:
        if self.size.by_percent:
            return f"give {self.lowest} to {self.highest} %, an integer"
        if not capacity:
            return "give 1 instance or more"
        least, most = math.ceil(capacity * self.lowest / 100), math.floor(capacity * self.highest / 100)
        if most < 1:
            return (
                "use AllAtOnce, or more instances: "
                f"a fleet that may have {capacity} instance cannot be divided"
            )
        amount = f"{least} to {most} instances" if least < most else f"{most} instance{'s' * (most > 1)}"
        return f"give {amount}, or a percentage, which follows the fleet's size"


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(ABC):
    """The strategy by which an endpoint moves to a new configuration.

    Attributes:
        wait: The time to watch alarms after each step, 0 to 3600 s. The default lets the
            models in use be loaded, so that the next step does not add more cold instances, and gives the
            rollback alarms twice as many minutes as they look at.
        maximum_time: The time after which the deployment is rolled back, 600 to 28800 s. By default the waits
            of all steps and half an hour each time instances are started, which is patient with a region
            that is short of GPUs.
    """

    wait: Duration = _TEN_MINUTES
    maximum_time: Duration | None = None

    def _check(self, report: Report, *, capacity: int | None) -> None:
        """Report problems for which SageMaker would refuse it."""
        fleet, report = known(capacity), report.at(type(self).__name__)
        for portion in self._portions():
            portion.check(report.at(portion.argument), fleet)
        self._check_time(report, self._course(fleet))

    @abstractmethod
    def _render(self, *, rollback_alarms: Sequence[str]) -> _Config:
        """As CloudFormation takes it."""

    def time_without_scaling(self, *, capacity: int | None = None) -> Duration | None:
        """The time for which auto scaling is suspended; None if that depends on an unknown capacity."""
        course = self._course(known(capacity))
        waits = course.seconds_of_waits()
        if waits is None or course.starts is None:
            return None
        return Duration.seconds(waits + course.starts * MINUTES_TO_SERVE * 60)

    @abstractmethod
    def _course(self, capacity: int | None) -> _Course:
        """The course with a fleet of this many instances; None if that is not known."""

    def _portions(self) -> Sequence[_Portion]:
        return ()

    def _maximum(self, course: _Course) -> float:
        return self.maximum_time.to_seconds() if self.maximum_time else course.maximum_seconds()

    def _check_time(self, report: Report, course: _Course) -> None:
        before = len(report.problems)
        whole_quantity(report, course.wait, name="wait")
        whole_quantity(report, course.termination_wait, name="termination_wait")
        whole_quantity(report, self.maximum_time, name="maximum_time")
        if len(report.problems) > before:
            return  # the sum of fractions cannot be computed
        course = replace(course, steps=course.steps or 1)
        maximum, waits = known(self._maximum(course)), course.seconds_of_waits()
        if maximum is None or waits is None or waits < maximum:
            return
        report(
            DEPLOYMENT_TIMES,
            f"maximum_time is {maximum:g} s, and the waits add up to {waits:g} s",
            fix=f"shorten the waits, use larger steps, or raise maximum_time ({LONGEST_MAXIMUM} s at most)",
            why="every deployment would be rolled back before its last step",
        )


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class BlueGreen(Deployment, ABC):
    """A second fleet is started next to the old one, takes over, and the old one goes.

    Needs quota and money for two fleets for as long as it lasts.

    Attributes:
        termination_wait: The time to keep the old fleet after the new one has all traffic, 0 to 3600 s.
            None by default: nothing rolls back to it any more, and both fleets are billed.
    """

    termination_wait: Duration = _NO_TIME

    def _course(self, capacity: int | None) -> _Course:
        return _Course(
            steps=self._steps(capacity), starts=1, wait=self.wait, termination_wait=self.termination_wait
        )

    @abstractmethod
    def _routing(self) -> _Routing:
        """The routing of the traffic."""

    @abstractmethod
    def _steps(self, capacity: int | None) -> int | None:
        """Return the number of waits; None if it depends on a capacity that is not known."""

    def _render(self, *, rollback_alarms: Sequence[str]) -> _Config:
        return _Config(
            blue_green_update_policy=sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty(
                traffic_routing_configuration=self._routing(),
                termination_wait_in_seconds=self.termination_wait.to_seconds(),
                maximum_execution_timeout_in_seconds=self._maximum(self._course(None)),
            ),
            auto_rollback_configuration=_rollback(rollback_alarms),
        )


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class AllAtOnce(BlueGreen):
    """A deployment that moves all traffic to a second fleet at once, then watches it for `wait`."""

    def _routing(self) -> _Routing:
        return _Routing(type="ALL_AT_ONCE", wait_interval_in_seconds=self.wait.to_seconds())

    def _steps(self, capacity: int | None) -> int:  # noqa: ARG002 -- one step, whatever the size
        return 1


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Canary(BlueGreen):
    """A deployment that tries a part of a second fleet with real traffic, then moves all traffic.

    Attributes:
        size: The part to try first, at most 50 % of the fleet. Small by default, because its requests meet
            instances without models.
    """

    size: CapacitySize = CapacitySize(value=10, by_percent=True)

    def _portions(self) -> Sequence[_Portion]:
        return [_Portion(argument="size", size=self.size, lowest=1, highest=50)]

    def _routing(self) -> _Routing:
        return _Routing(
            type="CANARY", canary_size=self.size._render(), wait_interval_in_seconds=self.wait.to_seconds()
        )

    def _steps(self, capacity: int | None) -> int:  # noqa: ARG002 -- the canary and the rest
        return 2


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(BlueGreen):
    """A deployment that starts a second fleet and moves the traffic in equal steps.

    Attributes:
        step: The part that moves at a time, 10 to 50 % of the fleet. A quarter by default: a step's models
            are loaded while three quarters of the traffic still meet theirs.
    """

    step: CapacitySize = CapacitySize(value=25, by_percent=True)

    def _portions(self) -> Sequence[_Portion]:
        return [_Portion(argument="step", size=self.step, lowest=10, highest=50)]

    def _routing(self) -> _Routing:
        return _Routing(
            type="LINEAR",
            linear_step_size=self.step._render(),
            wait_interval_in_seconds=self.wait.to_seconds(),
        )

    def _steps(self, capacity: int | None) -> int | None:
        return self.step._steps(capacity)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling(Deployment):
    """A deployment that replaces instances batch by batch, with quota for one batch more than the fleet.

    The best of the four for GPUs, of which an account seldom has twice as many as it uses. Only for an
    endpoint with one variant.

    Attributes:
        batch: The part that is replaced at a time, 5 to 50 % of the fleet. A quarter by default: a batch's
            models are loaded while three quarters of the fleet still have theirs.
        rollback_batch: The part that is replaced at a time in a rollback, 5 to 100 %. The default is 100 %,
            which is fastest and needs quota for a second fleet; use less if the quota is too low.
    """

    batch: CapacitySize = CapacitySize(value=25, by_percent=True)
    rollback_batch: CapacitySize | None = None

    def _course(self, capacity: int | None) -> _Course:
        steps = self.batch._steps(capacity)
        return _Course(steps=steps, starts=steps, wait=self.wait)

    def _portions(self) -> Sequence[_Portion]:
        back = self.rollback_batch
        return [
            _Portion(argument="batch", size=self.batch, lowest=5, highest=50),
            *([_Portion(argument="rollback_batch", size=back, lowest=5, highest=100)] if back else []),
        ]

    def _render(self, *, rollback_alarms: Sequence[str]) -> _Config:
        return _Config(
            rolling_update_policy=sagemaker.CfnEndpoint.RollingUpdatePolicyProperty(
                maximum_batch_size=self.batch._render(),
                wait_interval_in_seconds=self.wait.to_seconds(),
                rollback_maximum_batch_size=self.rollback_batch._render() if self.rollback_batch else None,
                maximum_execution_timeout_in_seconds=self._maximum(self._course(None)),
            ),
            auto_rollback_configuration=_rollback(rollback_alarms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Another endpoint for each change of settings, instead of an update; for `MultiModelFleet`.

    The new endpoint loads its models, and gets the instances that the fleet has, before the alias moves to
    it. So no request waits for a load, which an update cannot promise: with `AllAtOnce` the traffic moves
    first. Both endpoints are billed until the alias has moved, and the quota must hold both.

    No part of the traffic tries it first, and no rollback alarm watches it. A model that does not load keeps
    the alias where it is.
    """


def check_deployment(
    report: Report,
    deployment: Deployment | None,
    *,
    rollback_alarms: Sequence[str],
    capacity: int | None,
    variants: int,
) -> None:
    """Report everything that SageMaker would refuse about how an endpoint is deployed."""
    rollback_alarm_problems(report, rollback_alarms, has_deployment=deployment is not None)
    if deployment is None:
        return
    deployment._check(report, capacity=capacity)
    if isinstance(deployment, Rolling) and variants > 1:
        report(
            ROLLING_ONE_VARIANT,
            f"the deployment is rolling, and the endpoint has {variants} variants",
            fix="use Canary, Linear or AllAtOnce, or give each variant its own endpoint",
            why="SageMaker has no rolling deployments for several variants",
        )


def deployment_advice(
    deployment: Deployment | None, *, rollback_alarms: Sequence[str], capacity: int | None
) -> Iterator[tuple[str, str]]:
    """Yield the id and text of a warning for each accepted value with an unexpected effect."""
    if deployment is None:
        return
    name = type(deployment).__name__
    suspended = deployment.time_without_scaling(capacity=capacity)
    minutes = suspended.to_minutes(integral=False) if suspended is not None else 0
    if minutes > _LONG_MINUTES:
        yield (
            "triton-fleet:long-without-scaling",
            f"{name} takes about {minutes:.0f} minutes, and SageMaker suspends auto scaling until it has "
            "ended: the fleet does not grow. Wait less, move more at a time, or deploy at a quiet hour.",
        )
    if isinstance(deployment, AllAtOnce):
        return
    if not rollback_alarms:
        yield (
            WITHOUT_ROLLBACK,
            f"{name} without rollback alarms tries a part of the fleet and looks at nothing: a version that "
            "fails every request would still be rolled out everywhere. Name alarms, such as those of "
            "RollbackAlarms.",
        )
    if known(capacity) == 1:
        yield (
            "triton-fleet:deployment-of-one-instance",
            f"{name} divides the fleet, and the fleet may have a single instance, which cannot be divided: "
            "the first step is then all of it. Have two instances or more, or use AllAtOnce.",
        )


def _rollback(names: Sequence[str]) -> sagemaker.CfnEndpoint.AutoRollbackConfigProperty | None:
    """None rather than an empty list, which SageMaker refuses."""
    if not names:
        return None
    return sagemaker.CfnEndpoint.AutoRollbackConfigProperty(
        alarms=[sagemaker.CfnEndpoint.AlarmProperty(alarm_name=name) for name in names]
    )


def rollback_alarm_problems(report: Report, names: Sequence[str], *, has_deployment: bool) -> None:
    """Report problems with rolling back on these alarms."""
    for name in sorted({each for each in names if names.count(each) > 1}):
        report(
            ROLLBACK_ALARMS,
            f"the alarm '{name}' is named {names.count(name)} times",
            fix="keep one of them",
            why="each mention counts towards the limit of ten",
        )
    if names and not has_deployment:
        report(
            ROLLBACK_ALARMS,
            f"{len(names)} rollback alarm{'s are' if len(names) > 1 else ' is'} given without a deployment",
            fix="add a deployment, or remove the alarms",
            why="only a deployment watches alarms and rolls back",
        )
