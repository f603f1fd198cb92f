"""The variants of one endpoint: distinguished by their names, and at least one of them gets requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "variant-set"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html"

MOST = 10
"""Production variants of one endpoint."""


def variant_set(
    names: Sequence[str], weights: Sequence[float | None], *, has_shadow: bool, where: str
) -> Iterator[Problem]:
    """The problems with serving these production variants together.

    Args:
        names: The variants' names, the shadow's last if there is one.
        weights: The weights of the production variants; None is a number not known yet.
        has_shadow: Whether the last name is the shadow's.
        where: What the problems are reported for.
    """
    if not 1 <= len(weights) <= MOST:
        yield Problem(
            what=f"the endpoint has {len(weights)} variants",
            where=where,
            expected=f"1 to {MOST}",
            why="SageMaker refuses the endpoint configuration",
            fix="give each its own endpoint" if weights else "give a Variant with an artifact",
            rule=RULE,
        )
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield Problem(
            what=f"{names.count(name)} variants are called {name!r}",
            where=where,
            expected="a name for each",
            why="metrics, scaling and invocations know a variant by its name",
            fix="name them, such as name='Current' and name='Candidate'",
            rule=RULE,
        )
    if weights and all(weight == 0 for weight in weights):
        yield Problem(
            what="every variant has weight 0",
            where=where,
            expected="at least one weight above 0",
            why="no variant would get a request that names none",
            fix="give the variant that is to serve the weight 1",
            rule=RULE,
        )
    if has_shadow and len(weights) > 1:
        yield Problem(
            what=f"a shadow variant next to {len(weights)} production variants",
            where=where,
            expected="one production variant",
            why="SageMaker copies the requests of one variant only, to one other",
            fix="leave the shadow out, or all variants but one",
            rule=RULE,
        )
