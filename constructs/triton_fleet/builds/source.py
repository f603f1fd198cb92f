"""The source of builds: the folder with the declarations, and the installed toolkit as a wheel.

A build installs the wheel next to the models, so that a repository of models holds no copy of it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import io
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, cast

from aws_cdk import AssetHashType, Stage
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

import triton_models
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.files import contents, digest_of, source_files
from triton_models.base.suggest import did_you_mean
from triton_models.declare.reading import FORM_MARK

BUILD_SOURCE = Check(id="build-source", source=FROM_ARGUMENTS)
MODEL_BUILD_EXISTS = Check(id="model-build-exists", source=FROM_ARGUMENTS)

FOLDER = "toolkit"
"""The folder of the wheel in the source of a build."""

_NAME = "triton_models"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a zip file: the same files give the same bytes
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
    """The folder as an asset, with the toolkit: one zip file, because copying thousands takes long."""
    name, wheel = toolkit_wheel()
    digest = digest_of({**files, f"{FOLDER}/{name}": hashlib.sha256(wheel).hexdigest()})
    # Where the CDK keeps an asset with this hash, so that a file that is there is neither written nor copied.
    kept = f"asset.{hashlib.sha256(digest.encode()).hexdigest()}.zip"
    archive = Path(cast("Stage", Stage.of(scope)).asset_outdir) / kept
    if not archive.exists():
        entries: dict[str, bytes | Path] = {path: source / path for path in files}
        part = archive.with_suffix(".part")
        with part.open("wb") as file:
            _write_zip(file, {**entries, f"{FOLDER}/{name}": wheel})
        part.replace(archive)
    return assets.Asset(
        scope,
        "Source",
        path=str(archive),
        asset_hash=digest,
        asset_hash_type=AssetHashType.CUSTOM,
        display_name="Model builds",
    )


def _not_uploaded(source: Path) -> tuple[str, ...]:
    """The names in the folder that are not uploaded: the output of builds, and the toolkit and its place."""
    toolkit = Path(triton_models.__file__).parent
    own = (toolkit.name,) if (source / toolkit.name).resolve() == toolkit.resolve() else ()
    return (*_OUTPUT, FOLDER, *own)


@functools.cache
def toolkit_wheel() -> tuple[str, bytes]:
    """Return the name of the wheel's file, and its bytes, which depend on the toolkit's files alone."""
    info = f"{_NAME}-{importlib.metadata.version('triton-fleet')}.dist-info"
    files = {**dict(_package()), **_metadata(info)}
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    packed = io.BytesIO()
    _write_zip(packed, files)
    return f"{info.removesuffix('.dist-info')}-py3-none-any.whl", packed.getvalue()


def _write_zip(into: IO[bytes], files: Mapping[str, bytes | Path]) -> None:
    """Write a zip file that depends on the files' names, content and executable bits alone."""
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            if isinstance(content, bytes):
                archive.writestr(entry, content)
                continue
            found = content.stat()
            entry.file_size = found.st_size
            if found.st_mode & stat.S_IXUSR:
                entry.external_attr = 0o755 << 16
            with content.open("rb") as file, archive.open(entry, "w") as packed:
                shutil.copyfileobj(file, packed)


def _package() -> Iterator[tuple[str, bytes]]:
    folder = Path(triton_models.__file__).parent
    for path in source_files(folder, without=("cli/starter",)):
        yield f"{_NAME}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _metadata(info: str) -> dict[str, bytes]:
    _, _, version = info.removesuffix(".dist-info").partition("-")
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: triton-models\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }


def _record(files: dict[str, bytes], own: str) -> bytes:
    digests = {name: hashlib.sha256(content).digest() for name, content in files.items()}
    encoded = {name: base64.urlsafe_b64encode(each).decode().rstrip("=") for name, each in digests.items()}
    lines = [f"{name},sha256={encoded[name]},{len(content)}" for name, content in files.items()]
    return "\n".join([*lines, f"{own},,", ""]).encode()
