"""The sources of the site: the written pages, and the reference.

Links in the repository lead from docs/ to the code, and from the README to docs/. A site has one folder, so
each link is written again. One to code leads to its page of the reference, or becomes the file's name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.generate import alarms, beliefs, command_line, embedded_aws, errors, reference, settings
from docs.generate.places import PICTURES, ROOT, is_page, place

STAGED = ROOT / "build" / "site"
CONFIGURATION = ROOT / "mkdocs.yml"

_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_ROOMS = "      - Constructs: reference/rooms\n"


def stage(folder: Path = STAGED) -> None:
    """Write the sources of the site into a folder: mkdocs.yml and pages/."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    (pages / "reference").mkdir(parents=True)
    readmes = [ROOT / each / "README.md" for each in ("embedded-aws", "conformance")]
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *readmes]
    for path in written:
        target = pages / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_rewritten(path), encoding="utf-8")
    for picture in PICTURES:
        shutil.copy(picture, pages)
    shutil.copy(ROOT / "docs" / "site.css", pages)
    rooms = reference.rooms()
    for name, text in {**rooms, **_made()}.items():
        (pages / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(_configuration(rooms), encoding="utf-8")


def _made() -> Mapping[str, str]:
    """Return the pages of the reference by name."""
    return {
        "alarms": alarms.page(),
        "beliefs": beliefs.page(),
        "client": reference.client(),
        "command_line": command_line.page(),
        "declarations": reference.declarations(),
        "embedded_aws": embedded_aws.page(),
        "errors": errors.page(),
        "settings": settings.page(),
    }


def _configuration(rooms: Mapping[str, str]) -> str:
    """Return mkdocs.yml with the rooms of the constructs in its navigation."""
    listed = "".join(f"          - {name.capitalize()}: reference/{name}.md\n" for name in rooms)
    text = CONFIGURATION.read_text(encoding="utf-8").replace("{root}", str(ROOT))
    return text.replace(_ROOMS, f"      - Constructs:\n{listed}")


def _target(path: Path, link: str) -> Path:
    target = Path(os.path.normpath(path.parent / link))
    return target / "README.md" if target.is_dir() else target


def _rewritten(path: Path) -> str:
    """Return a page whose links lead to places on the site."""
    here = place(path).parent

    def link(found: re.Match[str]) -> str:
        text, given, anchor = found.groups()
        if "://" in given:
            return found[0]
        target = _target(path, given)
        if not is_page(target):
            return f"{text[1:-1]}: `{target.relative_to(ROOT)}`"
        return f"{text}({os.path.relpath(place(target), here)}{anchor or ''})"

    def prose(text: str) -> str:
        # On GitHub a vertical bar ends a cell even in code; on the site its backslash would show.
        return _CODE.sub(lambda found: found[0].replace("\\|", "|"), _LINK.sub(link, text))

    parts = _FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else prose(part) for part in parts)
