"""Checks of the times and sizes of a variant's instances."""

from __future__ import annotations

from collections.abc import Iterator

from triton_fleet.arguments.checks import whole_quantity
from triton_fleet.arguments.tokens import known
from triton_fleet.hosting.checks import resource_name
from triton_fleet.hosting.variants import Hosting
from triton_models.base.errors import Problem


def hosting_problems(hosting: Hosting, *, where: str) -> Iterator[Problem]:
    """Yield the problems with a variant's name, and with fractions of a second or a GiB."""
    yield from resource_name(known(hosting.name), what="the variant", where=where)
    if hosting.volume_size is not None:
        yield from whole_quantity(hosting.volume_size, name="volume_size", where=where, unit="gibibytes")
    for name in ("container_start_timeout", "model_download_timeout", "provision_timeout"):
        if (time := getattr(hosting, name)) is not None:
            yield from whole_quantity(time, name=name, where=where)
