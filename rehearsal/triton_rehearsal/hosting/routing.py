"""The choice of an instance for a request.

SageMaker documents that requests for a model go to an instance that has it, and that some go to another
instance if there are many. Its measure of many is not documented. Read on 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

MANY = 8
"""Requests in progress for a model on each instance that has it, from which on another one gets a copy."""


class Routed(Protocol):
    """An instance, as far as routing goes."""

    @property
    def model_count(self) -> int:
        """The number of models that it has or loads."""

    def requests_of(self, target: str) -> int | None:
        """Return the number of requests in progress for a model; None if the instance does not have it."""


AnInstance = TypeVar("AnInstance", bound=Routed)


def choose(instances: Sequence[AnInstance], target: str, *, at_random: bool = False) -> AnInstance:
    """Return the instance for a request.

    It is the least busy one of those that have the model. If they all have many requests for it, or none has
    it, it is another one, with the fewest models.

    Args:
        instances: The instances that take requests, at least one.
        target: The target model; empty for the only one.
        at_random: True for any instance, as RoutingStrategy "RANDOM" wants it for endpoints with one model.
    """
    if len(instances) == 1:
        return instances[0]
    if at_random:
        return random.choice(instances)  # noqa: S311  no secret
    busy = [(requests, each) for each in instances if (requests := each.requests_of(target)) is not None]
    others = [each for each in instances if all(each is not having for _, having in busy)]
    least = min((requests for requests, _ in busy), default=MANY)
    if others and least >= MANY:
        return min(others, key=lambda each: each.model_count)
    return next(each for requests, each in busy if requests == least)
