"""Checks of the numbers, times and names of scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_fleet.arguments.checks import LARGEST_INTEGER, number_range, whole_quantity
from triton_fleet.arguments.tokens import known
from triton_fleet.scaling.checks import policy_name, statistic_name
from triton_fleet.scaling.schedules import ScheduledCapacity
from triton_fleet.scaling.steps import StepScaling
from triton_fleet.scaling.target import Cooldowns, ScalingTarget
from triton_fleet.scaling.tracking import ModelLatency
from triton_models.base.errors import Problem

_A_DAY = 24 * 60  # minutes, which an alarm looks back at most


def target_values(targets: Sequence[ScalingTarget], *, where: str) -> Iterator[Problem]:
    """The problems with names, statistics and cooldowns of targets."""
    for target in targets:
        place = f"{target._policy[:60]}, {where}"
        yield from policy_name(target._policy, where=place)
        yield from cooldown_values(target.cooldowns, where=place)
        if isinstance(target, ModelLatency):
            yield from statistic_name(target.statistic, where=place)


def cooldown_values(cooldowns: Cooldowns | None, *, where: str) -> Iterator[Problem]:
    """The problems with cooldowns; None has none."""
    if cooldowns is not None:
        for name, given in (("scale_out", cooldowns.scale_out), ("scale_in", cooldowns.scale_in)):
            yield from whole_quantity(given, name=name, where=where)


def step_values(scaling: StepScaling, *, where: str) -> Iterator[Problem]:
    """The problems with the values of step scaling, each by itself."""
    place = f"{scaling.name[:60]}, {where}"
    yield from policy_name(scaling.name, where=place)
    if scaling.cooldown is not None:
        yield from whole_quantity(scaling.cooldown, name="cooldown", where=place)
    minutes = known(scaling.minutes)
    for name, given, most in (
        ("minutes", scaling.minutes, _A_DAY),
        ("out_of", scaling.out_of, minutes if minutes and minutes > 0 else _A_DAY),
        ("minimum_change", scaling.minimum_change, LARGEST_INTEGER),
    ):
        yield from number_range(known(given), least=1, most=most, name=name, where=place)
    for step in scaling.steps:
        change = known(step.change)
        yield from number_range(
            change, least=-LARGEST_INTEGER, most=LARGEST_INTEGER, name="a step's change", where=place
        )


def schedule_values(schedules: Sequence[ScheduledCapacity], *, where: str) -> Iterator[Problem]:
    """The problems with the names and the numbers of scheduled actions."""
    for each in schedules:
        place = f"{each.name[:60]}, {where}"
        yield from policy_name(each.name, where=place)
        for name, bound in (("min_capacity", each.min_capacity), ("max_capacity", each.max_capacity)):
            yield from number_range(known(bound), least=0, most=LARGEST_INTEGER, name=name, where=place)
