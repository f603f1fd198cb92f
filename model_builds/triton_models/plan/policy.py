"""What SageMaker decides about the instances of a multi-model endpoint, for rehearsals and for plans.

The functions are plain enough for numba, which compiles them for a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from triton_models.base.encoding import Array

Integers: TypeAlias = "Sequence[int] | Array"

MANY = 8
"""Requests in progress for a model on each instance that has it, from which on another one gets a copy.

SageMaker documents that requests for a model go to an instance that has it, and that some go to another
instance if there are many. Its measure of many is not documented. Read on 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html
"""


def choose(among: Integers, requests: Integers, models: Integers, many: int) -> int:
    """Return the instance for a request to a model: the least busy one of those that have it.

    If they all have many requests for it, or none has it, it is another one, with the fewest models.

    Args:
        among: The instances that take requests.
        requests: The number of requests in progress for the model on each instance, or -1 without it.
        models: The number of models of each instance.
        many: The number of requests from which on another instance is preferred.
    """
    if len(among) == 1:
        return among[0]
    having, other = -1, -1
    for place in range(len(among)):  # quicker, once compiled, than an iterator
        each = among[place]
        if requests[each] < 0:
            if other < 0 or models[each] < models[other]:
                other = each
        elif having < 0 or requests[each] < requests[having]:
            having = each
    if other >= 0 and (having < 0 or requests[having] >= many):
        return other
    return having


HIGH_PERIODS, LOW_PERIODS = 3, 15
LOW_SHARE = 0.9
"""Minutes above the target of a tracking policy until it adds instances, and below a share of it until it
removes some. AWS documents neither; alarms that it created for policies are public."""


def breach(values: Sequence[float]) -> int:
    """Return 1 if a policy adds instances, -1 if it may remove some, or 0.

    Args:
        values: Those of the last minutes as shares of the target, the last one last, or NaN without any.
    """
    count = len(values)
    high, low = count >= HIGH_PERIODS, count >= LOW_PERIODS
    for each in range(1, min(count, LOW_PERIODS) + 1):
        value = values[count - each]
        high = high and (each > HIGH_PERIODS or value > 1)
        low = low and value < LOW_SHARE
    return 1 if high else -1 if low else 0


def within(share: float, capacity: int) -> int:
    """Return the capacity, rounded up, with which a metric at a share of its target would be at it."""
    # The margin keeps 3 * 70 / 70 at three, whatever the last bit says.
    exact = capacity * share - 1e-9
    return max(0, int(exact) + (1 if exact > int(exact) else 0))
