"""The embedded AWS of a rehearsal, with this project's prices and errors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from embedded_aws import EmbeddedAws, PortError
from triton_models.base.errors import FleetError, Problem
from triton_models.facts.cost import PRICES

REGION = "us-east-1"
"""The region of a rehearsal of a project that fixes none."""

SPEED = 60
"""The speed of a rehearsal's clock: a minute of alarms, scaling and deployments passes in a second."""


def open_aws(port: int = 0, *, region: str = REGION, speed: float = math.inf) -> EmbeddedAws:
    """Open the embedded AWS of a rehearsal, on a free port if it is 0. By default waits are over at once."""
    try:
        return EmbeddedAws(port, region=region, speed=speed, prices=_price)
    except PortError as error:
        raise FleetError.of(
            what=str(error),
            where="the embedded AWS",
            fix="stop what listens there (see ss -ltnp), or give another port from 1024 to 65535, or 0",
        ) from error


def resource_problems(aws: EmbeddedAws, stack: str) -> Iterator[Problem]:
    """Yield a problem per resource of a deployed template that does not exist."""
    for missing in aws.missing_resources(stack):
        kind, name = missing.type_name, missing.logical_id
        yield Problem(
            what=f"{kind} {name} does not exist: {missing.reason}",
            where=f"stack {missing.stack}, resource {name}",
            why="the stack is reported as complete, but the rehearsal proves nothing about this resource",
            fix=f"deploy the stack again, and leave {kind} {name} to CloudFormation",
        )


def _price(instance_type: str, region: str) -> float | None:
    price = PRICES.get(instance_type)
    return price.usd_per_hour if price is not None and price.region == region else None
