"""The folder that builds are made from: what it declares, what is wrong with it, and its upload.

The toolkit is uploaded with it, as a wheel.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aws_cdk import AssetHashType, IgnoreMode, SymlinkFollowMode
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

import triton_models
from triton_fleet.builds.toolkit import FOLDER, toolkit_wheel
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.digests import digest_of
from triton_models.base.source_files import LEFTOVERS, contents
from triton_models.base.suggest import did_you_mean
from triton_models.declare.reading import FORM_MARK

BUILD_SOURCE = Check(id="build-source", source=FROM_ARGUMENTS)
MODEL_BUILD_EXISTS = Check(id="model-build-exists", source=FROM_ARGUMENTS)

_OUTPUT: Final = ("build", "artifacts")
"""Where builds on this machine put what they make, in the source folder."""


def declared_models(source: Path) -> tuple[str, ...]:
    """The names of the folders that declare a model."""
    return tuple(sorted(path.parent.name for path in source.glob("models/*/build.py")))


def check_source(report: Report, source: Path, models: Sequence[str] | None) -> None:
    """Report problems with a source folder, and with the names of the models to build from it."""
    if not (source / "models").is_dir():
        report.at("source")(
            BUILD_SOURCE,
            f"{source} is not a folder with models/",
            fix="give the path of the folder model_builds/, which holds models/",
            why="it is what the build job downloads and builds",
        )
        return
    folders = declared_models(source)
    if not (folders if models is None else models):
        report.at("models")(
            MODEL_BUILD_EXISTS,
            "no model to build",
            fix="name a model, or leave ModelBuildProject out",
            why="a build would do nothing and succeed",
        )
    for model in models or ():
        folder = model.partition(FORM_MARK)[0]
        if folder not in folders:
            report.at("models")(
                MODEL_BUILD_EXISTS,
                f"no model build {model!r}",
                fix=did_you_mean(
                    folder,
                    folders,
                    otherwise=f"add models/{folder}/build.py; there are {', '.join(folders) or 'none'}",
                ),
                why="the build job would fail on it, minutes after it was started",
            )


def source_contents(source: Path) -> dict[str, str]:
    """The digest of each file of the folder, without what builds and tools leave behind."""
    return contents(source, without=_not_uploaded(source))


def source_asset(scope: Construct, source: Path, files: Mapping[str, str]) -> assets.Asset:
    """The folder as an asset, with the toolkit."""
    name, wheel = toolkit_wheel()
    left_out = (*_not_uploaded(source), FOLDER)
    with tempfile.TemporaryDirectory(prefix="fleet-source-") as staging:
        for entry in source.iterdir():
            if entry.name not in left_out:
                (Path(staging) / entry.name).symlink_to(entry.resolve())
        toolkit = Path(staging) / FOLDER
        toolkit.mkdir()
        (toolkit / name).write_bytes(wheel)
        return assets.Asset(
            scope,
            "Source",
            path=staging,
            exclude=list(LEFTOVERS),
            ignore_mode=IgnoreMode.GIT,
            follow_symlinks=SymlinkFollowMode.ALWAYS,
            asset_hash=digest_of({**files, f"{FOLDER}/{name}": hashlib.sha256(wheel).hexdigest()}),
            asset_hash_type=AssetHashType.CUSTOM,
            display_name="Model builds",
        )


def _not_uploaded(source: Path) -> tuple[str, ...]:
    """The names in the folder that are not uploaded: the output of builds, and the toolkit's own source."""
    toolkit = Path(triton_models.__file__).parent
    return (*_OUTPUT, toolkit.name) if (source / toolkit.name).resolve() == toolkit.resolve() else _OUTPUT
