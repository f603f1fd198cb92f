"""An artifact is asked for of a model that the build makes.

No source: what a build makes follows from its own arguments.
"""

from __future__ import annotations

from collections.abc import Collection

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

RULE = "deployed-model"


def deployed_model(
    model: str, models: Collection[str] | None, *, declared: Collection[str], where: str
) -> Problem | None:
    """The problem with asking for a model's artifact.

    Args:
        model: The model's name.
        models: What the build makes; None is everything that is declared.
        declared: The folders of all declared models.
        where: What the problem is reported for.
    """
    made = sorted(declared if models is None else models)
    if model in made or (models is None and model.partition(":")[0] in made):
        return None
    return Problem(
        what=f"the build makes no model {model!r}",
        where=where,
        expected=f"one of {', '.join(made)}",
        why="the deployment would wait for it until its time is up, and fail",
        fix=did_you_mean(model, made, otherwise=f"give ModelBuilds {model!r} among its models"),
        rule=RULE,
    )
