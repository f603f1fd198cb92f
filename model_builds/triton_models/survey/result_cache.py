"""A cache of the declarations that passed all checks, like the caches of linters.

An entry is valid until one of its inputs changes. A declaration with a problem is never cached, so it never
outlives its cause. A declaration that reads more than its folder and environment variables is checked again
only when its folder changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_models.base.json_text import parsed
from triton_models.base.source_files import contents
from triton_models.base.whole_files import write_whole
from triton_models.survey.servable import CheckedDeclaration

FOLDER = ".fleet_cache"
"""The cache's file in the source folder, which is not a source itself."""

_FILE = "declarations.json"
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResult:
    """The cached result of a model without problems.

    Attributes:
        digest: The digest of all files in its folder.
        checked: The result: names, and no problems.
        forms: The names of the forms in its folder; no folder may have the same name.
        variables: The environment variables that its folder reads, each with a digest of its value.
    """

    digest: str
    checked: CheckedDeclaration
    forms: tuple[str, ...]
    variables: Mapping[str, str]

    def is_still(self, digests: Mapping[str, str], folder: str, *, given: Mapping[str, str]) -> bool:
        """Return whether the entry is still valid.

        Args:
            digests: The digests of all folders.
            folder: The model's folder.
            given: The variables that a build sets.
        """
        return (
            self.digest == digests.get(folder)
            and not digests.keys() & self.forms
            and self.variables == values_of(self.variables, given=given)
        )


def folder_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each folder of models/.

    Args:
        files: The digest of each file of the source folder: see `triton_models.base.source_files.contents`.
    """
    by_folder: dict[str, list[str]] = {}
    for path, digest in files.items():
        top, _, rest = path.partition("/")
        folder, inside, name = rest.partition("/")
        if top == "models" and inside:
            by_folder.setdefault(folder, []).append(f"{digest} {name}")
    return {folder: _digest(lines) for folder, lines in by_folder.items()}


def circumstances(files: Mapping[str, str], *, release: str, gpu: bool) -> str:
    """Return a digest of everything outside their folders that the checks of declarations depend on."""
    tools = [f"{digest} {path}" for path, digest in contents(_PACKAGE).items() if path.endswith(".py")]
    shared = [f"{digest} {path}" for path, digest in files.items() if "/" not in path]
    return _digest([*tools, *shared, release, str(gpu), f"{sys.version_info[:2]}"])


def values_of(variables: Iterable[str], *, given: Mapping[str, str]) -> dict[str, str]:
    """Return a digest of the value of each environment variable that is set, here or by a build."""
    values = {**os.environ, **given}
    return {name: _digest([values[name]]) if name in values else "" for name in variables}


def read_cache(source: Path, circumstances: str) -> dict[str, CachedResult]:
    """Return the entries with the same circumstances, by requested name."""
    try:
        document = parsed((source / FOLDER / _FILE).read_bytes())
        if document["circumstances"] != circumstances:
            return {}
        return {asked: _cached(row) for asked, row in document["checked"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # missing, or in another format


def write_cache(source: Path, circumstances: str, cached: Mapping[str, CachedResult]) -> None:
    """Write the entries, if the source folder is writable."""
    rows = {
        asked: {
            "digest": each.digest,
            "checked": asdict(each.checked),
            "forms": each.forms,
            "variables": each.variables,
        }
        for asked, each in cached.items()
    }
    folder = source / FOLDER
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
        document = {"circumstances": circumstances, "checked": rows}
        write_whole(folder / _FILE, json.dumps(document).encode())


def _cached(row: Mapping[str, Any]) -> CachedResult:
    return CachedResult(
        digest=row["digest"],
        checked=CheckedDeclaration.of(row["checked"]),
        forms=tuple(row["forms"]),
        variables=dict(row["variables"]),
    )


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
