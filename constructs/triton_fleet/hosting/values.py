"""Checks of the numbers and times of a variant's instances."""

from __future__ import annotations

from collections.abc import Iterator

from triton_fleet.arguments.checks import number_range, quantity_range, reservation_arn
from triton_fleet.arguments.tokens import known
from triton_fleet.hosting.checks import resource_name
from triton_fleet.hosting.variants import Hosting
from triton_models.base.errors import Problem


def hosting_problems(hosting: Hosting, *, where: str) -> Iterator[Problem]:
    """The values of a variant that SageMaker would refuse, whatever its instance type.

    Args:
        hosting: The variant.
        where: The place that the problems name.
    """
    yield from resource_name(known(hosting.name), what="the variant", where=where)
    reserved = hosting.capacity_reservation
    if reserved is not None:
        yield from reservation_arn(known(reserved.arn), where=f"capacity_reservation, {where}")
    for name, number, least, most in (
        ("initial_instance_count", hosting.initial_instance_count, 1, 2**31 - 1),
        ("weight", hosting.weight, 0, 1e9),
    ):
        yield from number_range(known(number), least=least, most=most, name=name, where=where)
    yield from quantity_range(
        hosting.volume_size, least=1, most=512, name="volume_size", where=where, unit="gibibytes"
    )
    for name, time, shortest in (
        ("container_start_timeout", hosting.container_start_timeout, 60),
        ("model_download_timeout", hosting.model_download_timeout, 60),
        ("provision_timeout", hosting.provision_timeout, 300),
    ):
        yield from quantity_range(time, least=shortest, most=3600, name=name, where=where)
