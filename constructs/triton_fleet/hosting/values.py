"""Checks of the times and sizes of a variant's instances."""

from __future__ import annotations

from triton_fleet.arguments.checks import whole_quantity
from triton_fleet.arguments.tokens import known
from triton_fleet.hosting.checks import resource_name
from triton_fleet.hosting.variants import Hosting
from triton_models.base.checks import Report


def hosting_problems(report: Report, hosting: Hosting) -> None:
    """Report problems with a variant's name, and with fractions of a second or a GiB."""
    resource_name(report, known(hosting.name), what="the variant")
    if hosting.volume_size is not None:
        whole_quantity(report, hosting.volume_size, name="volume_size", unit="gibibytes")
    for name in ("container_start_timeout", "model_download_timeout"):
        if (time := getattr(hosting, name)) is not None:
            whole_quantity(report, time, name=name)
