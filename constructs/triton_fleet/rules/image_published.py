"""AWS publishes the release's image, and does so in the region of the stack."""

from __future__ import annotations

from dataclasses import replace

from triton_models.base.errors import FleetError, Problem
from triton_models.facts.releases import Release, image_account

RULES = ("release-not-on-sagemaker", "release-not-in-region")
SOURCE = "the tables of triton_models.facts.releases"


def image_published(release: Release, *, where: str) -> Problem | None:
    """The problem with serving a release of which SageMaker has no image at all."""
    return None if release.on_sagemaker else _refusal(release, region="", where=where)


def image_region(release: Release, region: str | None, *, where: str) -> Problem | None:
    """The problem with pulling a published image in a region; none where the region is not known yet."""
    if region is None or not release.on_sagemaker:
        return None
    return _refusal(release, region=region, where=where)


def _refusal(release: Release, *, region: str, where: str) -> Problem | None:
    try:
        image_account(region=region, release=release)
    except FleetError as error:
        return replace(error.problems[0], where=where)
    return None
