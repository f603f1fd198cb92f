"""The versions of DALI in Triton's releases."""

from __future__ import annotations

from collections.abc import Mapping

from triton_models.facts.releases import Release

# DALI by the first Triton release that has it: DALI_VERSION on the branches of dali_backend, read 2026-11-25.
# NVIDIA omits it in its release notes. Inside an image, the DALI of the image is used.
VERSIONS: Mapping[str, str] = {
    "23.12": "1.31",
    "24.05": "1.36",
    "24.09": "1.39.0",
    "24.10": "1.42.0",
    "24.12": "1.44.0",
    "25.04": "1.47.0",
    "25.06": "1.49.0",
    "25.08": "1.51.2",
    "26.03": "2.0.0",
    "26.05": "2.1.0",
    "26.06": "2.1.1",
}


def dali_version(release: Release) -> str:
    """Return the version of DALI in a release."""
    return VERSIONS[max(since for since in VERSIONS if since <= release.name)]


def loads_pipelines_of(built: Release, *, served: Release) -> bool:
    """Return whether the DALI of the serving release is at least as new as that of the build's release."""
    return version_numbers(dali_version(built)) <= version_numbers(dali_version(served))


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the major and minor number of a version."""
    return tuple(int(part) for part in version.split(".")[:2])
