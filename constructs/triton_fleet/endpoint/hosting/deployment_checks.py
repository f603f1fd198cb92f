"""Checks of deployments: their sizes, times and alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_models.base.checks import Check, Report

# The pages of canary, linear step and rolling batch all have these bounds.
DEPLOYMENT_PORTION = Check(
    id="deployment-portion",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html",
)
"""The part of a fleet that a deployment moves at a time is one that SageMaker accepts."""


def deployment_portion(
    report: Report,
    value: float | None,
    *,
    by_percent: bool,
    lowest_percent: float,
    highest_percent: float,
    capacity: int | None,
) -> None:
    """Report problems with moving this much of a fleet at a time."""
    if value is None:
        return
    fix = f"give {lowest_percent:g} to {highest_percent:g} %, an integer"
    if not by_percent:
        fix = _instances(lowest_percent, highest_percent, capacity) if capacity else "give 1 instance or more"
    whole = float(value).is_integer()
    if value < 1 or not whole:
        report(
            DEPLOYMENT_PORTION,
            f"the size is {value:g}",
            fix=fix,
            why="a deployment in steps of nothing would never end"
            if whole
            else "SageMaker does not accept fractions of an instance or of a percent",
        )
        return
    if by_percent:
        percent, given = float(value), f"{value:g} %"
    elif capacity:
        percent, given = value * 100 / capacity, f"{value:g} of {capacity} instances"
    else:
        return
    if lowest_percent <= percent <= highest_percent:
        return
    report(
        DEPLOYMENT_PORTION,
        f"the size is {given}",
        fix=fix,
        why="SageMaker refuses the update, and the deployment fails part-way through",
    )


def _instances(lowest_percent: float, highest_percent: float, capacity: int) -> str:
    """Return the fix where a number of instances of this fleet is too small or too large."""
    least = math.ceil(capacity * lowest_percent / 100)
    most = math.floor(capacity * highest_percent / 100)
    if most < 1:
        return (
            f"use AllAtOnce, or more instances: a fleet that may have {capacity} instance cannot be divided"
        )
    amount = f"{least} to {most} instances" if least < most else f"{most} instance{'s' * (most > 1)}"
    return f"give {amount}, or a percentage, which follows the fleet's size"


DEPLOYMENT_TIMES = Check(
    id="deployment-times",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html",
)
"""The time limit of a deployment is longer than its waits."""

SHORTEST_MAXIMUM = 600
"""Seconds; the least that a deployment's maximum time can be."""
LONGEST_MAXIMUM = 28_800
"""Seconds; the most that it can be."""


def deployment_times(report: Report, *, maximum: float | None, total_wait: float | None) -> None:
    """Report problems with giving a deployment up before its last wait; None is known only at deployment."""
    if maximum is None or total_wait is None or total_wait < maximum:
        return
    report(
        DEPLOYMENT_TIMES,
        f"maximum_time is {maximum:g} s, and the waits add up to {total_wait:g} s",
        fix=f"shorten the waits, use larger steps, or raise maximum_time ({LONGEST_MAXIMUM} s at most)",
        why="every deployment would be rolled back before its last step",
    )


ROLLBACK_ALARMS = Check(
    id="rollback-alarms",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html",
)
"""Rollback alarms belong to a deployment, and each is named once."""


def rollback_alarms(report: Report, names: Sequence[str], *, has_deployment: bool) -> None:
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


ROLLING_ONE_VARIANT = Check(
    id="rolling-one-variant",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html",
)
"""Only endpoints with one variant have rolling deployments."""


def rolling_one_variant(report: Report, variants: int) -> None:
    """Report problems with a rolling deployment of an endpoint that has this many variants."""
    if variants <= 1:
        return
    report(
        ROLLING_ONE_VARIANT,
        f"the deployment is rolling, and the endpoint has {variants} variants",
        fix="use Canary, Linear or AllAtOnce, or give each variant its own endpoint",
        why="SageMaker has no rolling deployments for several variants",
    )
