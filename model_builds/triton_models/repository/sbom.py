"""The bill of materials of a build's environment: CycloneDX 1.6, stored next to the artifacts.

It lists every Python package that the build could import, with the digest of its installed files. It contains
no time and no serial number, so equal environments give equal documents. Builds in equal environments share
an object, whose key is its SHA-256.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any
from urllib.parse import quote

FILES = "triton-fleet:files-sha256"
"""The property with the SHA-256 of the lines of RECORD, which list the package's files with their digests."""

# Files that an installer writes; they differ between installations of the same wheel.
_INSTALLER_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"})


def sbom(*, release: str) -> bytes:
    """Return the document of this process's environment.

    Args:
        release: The Triton release of the build.
    """
    components = {each["bom-ref"]: each for each in _installed(metadata.distributions())}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "build", "name": "model build"},
            "properties": [
                {"name": "triton-fleet:machine", "value": f"{platform.system()} {platform.machine()}"},
                {"name": "triton-fleet:release", "value": release},
            ],
        },
        "components": [_python(), *(components[ref] for ref in sorted(components))],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _python() -> dict[str, Any]:
    return {
        "type": "platform",
        "bom-ref": "python",
        "name": platform.python_implementation(),
        "version": platform.python_version(),
    }


def _installed(found: Iterable[metadata.Distribution]) -> Iterator[dict[str, Any]]:
    """Yield what Python imports: the first of several installations of a package."""
    names: set[str] = set()
    for each in found:
        about = each.metadata  # read anew each time
        name = _normal(about["Name"] or "")  # a folder that an installation left behind has no name
        if name and name not in names:
            names.add(name)
            yield _component(name, about["Version"], _files(each.read_text("RECORD") or ""))


def _component(name: str, version: str, files: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{quote(version, safe='')}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        **({"properties": [{"name": FILES, "value": files}]} if files else {}),
    }


def _files(record: str) -> str:
    """Return the digest of a package's files, as its RECORD has them; "" without a RECORD."""
    lines = [
        f"{path},{digest}"
        for path, digest, *_ in csv.reader(record.splitlines())
        if digest and ".." not in path.split("/") and path.rpartition("/")[2] not in _INSTALLER_FILES
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
