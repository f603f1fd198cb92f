"""The embedded AWS of a rehearsal, with this project's prices, images and errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from embedded_aws import EmbeddedAws, PortError
from triton_models.base.errors import FleetError, Problem
from triton_models.facts.prices import PRICES
from triton_rehearsal.assumptions import holds

REGION = "us-east-1"
"""The region of a rehearsal of a project that fixes none."""

SPEED = 60
"""The speed of a rehearsal's clock: a minute of alarms, scaling and deployments passes in a second."""

_GPU_IMAGE = re.compile(r"-py3$")
# The assumption that an image with a matching tag exists; the first match counts.
_PUBLISHED = (
    ("cpu_images_exist", re.compile(r"-cpu$")),
    ("newer_releases_published", re.compile(r"^(25\.1[0-2]|2[6-9]\.)")),
)


def open_aws(port: int = 0, *, region: str = REGION, speed: float = math.inf) -> EmbeddedAws:
    """Open the embedded AWS of a rehearsal.

    Args:
        port: The TCP port; 0 takes a free one.
        region: The region.
        speed: Seconds of the control plane in a second. By default waits are over at once.

    Raises:
        FleetError: The port is taken or not allowed.
    """
    try:
        return EmbeddedAws(port, region=region, speed=speed, prices=_price, images=TritonImages())
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
    if price is None or price.region != region:
        return None
    return price.usd_per_hour if holds("prices") else 2 * price.usd_per_hour


class TritonImages:
    """AWS's images of Triton."""

    def published(self, repository: str, tag: str, region: str) -> bool:
        """Return True if AWS's registry in a region has an image."""
        del repository
        assumption = next((name for name, pattern in _PUBLISHED if pattern.search(tag)), None)
        if assumption is not None and not holds(assumption):
            return False
        return holds("images_in_every_region") or region == REGION

    def needs_gpu(self, image: str) -> bool:
        """Return True if an image needs a GPU to start."""
        return bool(_GPU_IMAGE.search(image)) and not holds("gpu_image_without_gpu")
