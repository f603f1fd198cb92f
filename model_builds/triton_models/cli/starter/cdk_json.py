"""The settings of the repository's fleet in cdk.json: the release that it serves with, and its models."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base.files import write_whole
from triton_models.base.json_text import read_cdk_json

_LISTS = re.compile(r'"models"\s*:\s*\[(?P<names>[^\]]*)\]')
_EVERY_MODEL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class CdkJson:
    """The cdk.json of a repository."""

    path: Path
    text: str
    settings: dict[str, Any]

    def release(self, otherwise: str) -> str:
        """Return the release that the fleet serves with."""
        return str(self.settings.get("release", otherwise))

    def builds(self, name: str) -> bool:
        """Return True if the fleet builds a model, by its name or because it builds every model."""
        models = self.settings.get("models")
        return isinstance(models, list) and (name in models or _EVERY_MODEL in models)

    def add(self, name: str) -> bool:
        """Name a model among those that the fleet builds, and change nothing else in the file.

        Returns:
            False if the settings have no list of models, as in a repository whose stages have one each.
        """
        wanted = json.loads(self.text)
        models = wanted["context"]["tritonFleet"].get("models")
        if not isinstance(models, list):
            return False
        models.append(name)
        for match in _LISTS.finditer(self.text):  # a stage may have a list as well
            edited = self.text[: match.start("names")] + _with(match["names"], name)
            edited += self.text[match.end("names") :]
            with suppress(ValueError):  # of a list in the list, or a bracket in a name
                if json.loads(edited) == wanted:
                    write_whole(self.path, edited.encode())
                    return True
        return False


def cdk_json(models: Path) -> CdkJson | None:
    """Return the cdk.json of the repository that a folder of model builds belongs to; None without one.

    One that has no settings of a fleet belongs to something else.
    """
    folder = models.resolve()
    for place in (folder.parent, folder.parent.parent):
        path = place / "cdk.json"
        if path.is_file():
            settings = read_cdk_json(path)["context"].get("tritonFleet")
            if isinstance(settings, dict):
                return CdkJson(path=path, text=path.read_text(encoding="utf-8-sig"), settings=settings)
    return None


def _with(names: str, name: str) -> str:
    """Return the inside of a JSON list of strings with one more, in the list's own style."""
    entry, kept = json.dumps(name), names.rstrip()
    if not kept:
        return entry
    before = re.search(r'(?P<space>\s*)"[^"]*"$', kept)
    space = before["space"] if before and "\n" in names else " "
    return f"{kept},{space}{entry}{names[len(kept) :]}"
