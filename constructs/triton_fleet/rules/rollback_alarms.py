"""A deployment names alarms that it can be rolled back on: at most ten, each once, none without a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "rollback-alarms"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html"

MOST = 10
"""Alarms in one deployment."""


def rollback_alarms(names: Sequence[str], *, has_deployment: bool, where: str) -> Iterator[Problem]:
    """The problems with rolling back on these alarms.

    Args:
        names: The alarms' names.
        has_deployment: Whether the endpoint says how it is deployed.
        where: What the problems are reported for.
    """
    if len(names) > MOST:
        yield Problem(
            what=f"{len(names)} rollback alarms",
            where=where,
            expected=f"at most {MOST}",
            why="SageMaker refuses the endpoint",
            fix="watch several metrics in the expression of one alarm",
            rule=RULE,
        )
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield Problem(
            what=f"the alarm '{name}' is named {names.count(name)} times",
            where=where,
            expected="each alarm once",
            why=f"an alarm is watched or it is not: a second mention only takes one of {MOST} places",
            fix="name it once",
            rule=RULE,
        )
    if names and not has_deployment:
        yield Problem(
            what=f"{len(names)} rollback alarm{'s' * (len(names) > 1)}, and no deployment",
            where=where,
            expected="a deployment, such as Rolling() or AllAtOnce()",
            why="the alarms would be watched by nothing: only a deployment rolls back",
            fix="say how the endpoint is deployed, or leave the alarms out",
            rule=RULE,
        )
