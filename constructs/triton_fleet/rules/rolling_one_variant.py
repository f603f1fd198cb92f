"""Only an endpoint with one variant is deployed batch by batch."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "rolling-one-variant"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html"


def rolling_one_variant(variants: int, *, where: str) -> Problem | None:
    """The problem with a rolling deployment of an endpoint that has this many variants."""
    if variants <= 1:
        return None
    return Problem(
        what=f"a rolling deployment of {variants} variants",
        where=where,
        expected="one variant",
        why="SageMaker excludes endpoints with several variants from rolling deployments",
        fix="use Canary, Linear or AllAtOnce, or give each variant its own endpoint",
        rule=RULE,
    )
