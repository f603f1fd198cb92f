"""The source folder of builds as what a deployment uploads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import AssetHashType, IgnoreMode
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from triton_models.base.digests import digest_of
from triton_models.base.source_files import LEFTOVERS, contents

_OUTPUT: Final = ("build", "artifacts")
"""Where builds on this machine put what they make, in the source folder."""


def source_contents(source: Path) -> dict[str, str]:
    """The digest of each file of the folder, without what builds and tools leave behind.

    Raises:
        FleetError: A file cannot be read.
    """
    return contents(source, without=_OUTPUT)


def source_asset(scope: Construct, source: Path, files: Mapping[str, str]) -> assets.Asset:
    """The folder as an asset.

    Args:
        scope: The parent construct.
        source: The folder.
        files: Its `source_contents`. The CDK would find them out by itself in several times the time, which
            of thousands of models is seconds.
    """
    return assets.Asset(
        scope,
        "Source",
        path=str(source),
        exclude=[*LEFTOVERS, *(f"/{name}" for name in _OUTPUT)],
        ignore_mode=IgnoreMode.GIT,
        asset_hash=digest_of(files),
        asset_hash_type=AssetHashType.CUSTOM,
        display_name="Model builds",
    )
