"""How many builds a run has at a time, and how many models each of them makes."""

from __future__ import annotations

from collections.abc import Iterator

from triton_fleet.rules.number_range import number_range
from triton_models.base.errors import Problem

RULE = "build-runs"
# Read on 2026-11-21: what an execution may be, and the arguments of a Processing job.
SOURCES = (
    "https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html",
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AppSpecification.html",
)

MOST_BUILDS = 10_000
"""Child executions of a Distributed Map at a time."""

MOST_MODELS = 1000
"""Models of one build. A Processing job takes 100 arguments of 256 characters, which are their names."""

LONGEST_RUN_S = 31_536_000
"""Seconds of an execution: a year."""


def build_runs(
    *, models_per_build: float | None, max_concurrency: float | None, reserved: float | None, where: str
) -> Iterator[Problem | None]:
    """What is wrong with how a run is divided; None is a number not known yet, or none at all.

    Args:
        models_per_build: Models of one build.
        max_concurrency: Builds at a time.
        reserved: How many machines are reserved for them.
        where: What the problems are reported for.
    """
    yield number_range(models_per_build, least=1, most=MOST_MODELS, name="models_per_build", where=where)
    yield number_range(max_concurrency, least=1, most=MOST_BUILDS, name="max_concurrency", where=where)
    if reserved is not None and max_concurrency is not None and max_concurrency > reserved:
        yield Problem(
            what=f"{max_concurrency:g} builds at a time have {reserved:g} reserved machines",
            where=where,
            expected=f"at most {reserved:g}",
            why="the others would wait in CodeBuild's queue, and fail there after eight hours",
            fix="leave max_concurrency out, or give ReservedMachines a larger base_capacity",
            rule=RULE,
        )
