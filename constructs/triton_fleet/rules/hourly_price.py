"""A price is one.

No source: that a price is a number above zero is no fact of AWS's, and its amount is not checked here.
"""

from __future__ import annotations

import math

from triton_models.base.errors import Problem

RULE = "hourly-price"


def hourly_price(usd: float | None, *, where: str) -> Problem | None:
    """The problem with what an instance is said to cost for an hour; None is no price, or none known yet."""
    if usd is None or (usd > 0 and math.isfinite(usd)):
        return None
    return Problem(
        what=f"the price is {usd:g}",
        where=where,
        expected="a finite number above 0, in USD an hour",
        why="every cost that is calculated from it would be wrong",
        fix="give what AWS bills for the instance type in your region, or leave it out",
        rule=RULE,
    )
