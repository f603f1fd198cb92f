"""The table of images against the data of AWS's own SDK.

The SDK is heavy and of no other use here; its data alone is enough: pip install --no-deps sagemaker-core.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, RELEASES, Release

_TABLE = "image_uri_config/sagemaker-tritonserver.json"
# Distribution and the folder of its package: the SDK's data moved when the SDK was divided.
_HOLDERS = (("sagemaker-core", "sagemaker/core"), ("sagemaker", "sagemaker"))
# Listed by AWS's container repository (docs/src/data/sagemaker-tritonserver, read on 2026-11-22), not by the
# SDK. An SDK that lists one of them fails a test here: then its regions are known, and it leaves this set.
NOT_IN_THE_SDK = {"25.12", "26.03", "26.04"}
PUBLISHED = [release for release in RELEASES.values() if release.on_sagemaker]


def _sdk_table() -> dict[str, Any] | None:
    for distribution, folder in _HOLDERS:
        try:
            path = Path(str(metadata.distribution(distribution).locate_file(f"{folder}/{_TABLE}")))
        except metadata.PackageNotFoundError:
            continue
        if path.is_file():
            return dict(json.loads(path.read_text()))
    return None


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    found = _sdk_table()
    if found is None:
        pytest.skip("the data of AWS's SDK is not installed: pip install --no-deps sagemaker-core")
    return found


IN_THE_SDK = [release for release in PUBLISHED if release.name not in NOT_IN_THE_SDK]


def test_exactly_the_releases_that_aws_publishes_are_offered(table: dict[str, Any]) -> None:
    assert set(table["versions"]) == {release.name for release in PUBLISHED} - NOT_IN_THE_SDK
    assert {release.name for release in PUBLISHED} >= NOT_IN_THE_SDK


@pytest.mark.parametrize("release", IN_THE_SDK, ids=lambda release: release.name)
def test_a_release_has_the_name_accounts_and_regions_that_aws_says(
    release: Release, table: dict[str, Any]
) -> None:
    published = table["versions"][release.name]

    assert {region: IMAGE_ACCOUNTS[region] for region in release.regions} == published["registries"]
    assert (IMAGE_REPOSITORY, release.image_tag) == (published["repository"], published["tag_prefix"])


def test_images_come_for_cpus_too(table: dict[str, Any]) -> None:
    assert table["processors"] == ["cpu", "gpu"]
