"""The toolkit that runs builds, `triton_models`, as a wheel made of what is installed here.

A build installs it next to the models, so that a repository of models holds no copy of it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import triton_models
from triton_models.base.source_files import source_files

FOLDER = "toolkit"
"""The folder of the wheel in the source of a build."""

_NAME = "triton_models"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a zip file: the same files give the same bytes


@functools.cache
def toolkit_wheel() -> tuple[str, bytes]:
    """Return the name of the wheel's file, and its bytes, which depend on the toolkit's files alone."""
    info = f"{_NAME}-{importlib.metadata.version('triton-fleet')}.dist-info"
    files = {**dict(_package()), **_metadata(info)}
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return f"{info.removesuffix('.dist-info')}-py3-none-any.whl", packed.getvalue()


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
    """Return the list of files with their digests, as the wheel format asks for."""
    digests = {name: hashlib.sha256(content).digest() for name, content in files.items()}
    encoded = {name: base64.urlsafe_b64encode(each).decode().rstrip("=") for name, each in digests.items()}
    lines = [f"{name},sha256={encoded[name]},{len(content)}" for name, content in files.items()]
    return "\n".join([*lines, f"{own},,", ""]).encode()
