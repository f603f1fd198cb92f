"""Unloading a model does not hold up the requests for all the others."""

from __future__ import annotations

from triton_models.facts.releases import Release

RULE = "triton-fleet:unload-stall"
# Read on 2026-11-21, at the tags v2.51 to v2.71: commits d697e8d71 and f3bdcc7db, first in 2.64.
SOURCE = "https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc"
FIRST_WITH_STALL = "25.12"


def unload_stall(release: Release) -> str | None:
    """What to know about evictions with this release on an endpoint of many models, if anything."""
    if release.name < FIRST_WITH_STALL:
        return None
    return (
        f"From release {FIRST_WITH_STALL} on Triton holds a lock while it unloads a model, for half a second "
        f"or more, and every request to the instance waits for it. With {release.name}, size the fleet so "
        "that models are seldom evicted, watch ModelUnloadingTime, or stay with 25.09."
    )
