"""A capacity reservation is named by its ARN."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "reservation-arn"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantCapacityReservationConfig.html"

_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:[a-z0-9-]{1,14}/.+")
_LONGEST = 258


def reservation_arn(arn: str | None, *, where: str) -> Problem | None:
    """The problem with a reservation's ARN; None is one not known yet, or none at all."""
    if arn is None:
        return None
    too_long = len(arn) > _LONGEST
    if _ARN.fullmatch(arn) and not too_long:
        return None
    return Problem(
        what=f"the capacity reservation is {arn[:80]!a}"
        + f" and goes on to {len(arn)} characters" * too_long,
        where=where,
        expected="an ARN such as arn:aws:sagemaker:us-east-1:123456789012:training-plan/name, of at most "
        f"{_LONGEST} characters",
        why="SageMaker refuses the endpoint's configuration",
        fix="give the ARN that SageMaker shows for the reservation, not its name",
        rule=RULE,
    )
