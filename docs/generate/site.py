"""The sources of the site: the pages of the repository, the files that they link to, and the reference.

Links in the repository lead from docs/ to the code, and from the README to docs/. A site has one folder, so
each link is written again. A link to code leads to its page of the reference, or to one that shows the file.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.generate import alarms, command_line, embedded_aws, errors, ledger, probe, reference, settings
from docs.generate.places import ROOT, is_copied, is_reference, place

STAGED = ROOT / "build" / "site"
CONFIGURATION = ROOT / "mkdocs.yml"

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".json": "json", ".yml": "yaml", ".txt": "text"}
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_ROOMS = "      - Constructs: reference/rooms\n"


def stage(folder: Path = STAGED) -> None:
    """Write the sources of the site into a folder: mkdocs.yml and pages/."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    waiting = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        linked = [each for each in _links(path) if each not in seen and not is_reference(each)]
        waiting += linked
        seen.update(linked)
        _write(path, pages)
    shutil.copy(ROOT / "docs" / "site.css", pages)
    rooms = reference.rooms()
    (pages / "reference").mkdir()
    for name, text in {**rooms, **_made()}.items():
        (pages / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(_configuration(rooms), encoding="utf-8")


def _made() -> Mapping[str, str]:
    """Return the pages of the reference by name."""
    return {
        "alarms": alarms.page(),
        "client": reference.client(),
        "command_line": command_line.page(),
        "declarations": reference.declarations(),
        "embedded_aws": embedded_aws.page(),
        "errors": errors.page(),
        "ledger": ledger.page(),
        "probe": probe.page(),
        "settings": settings.page(),
    }


def _configuration(rooms: Mapping[str, str]) -> str:
    """Return mkdocs.yml with the rooms of the constructs in its navigation."""
    listed = "".join(f"          - {name.capitalize()}: reference/{name}.md\n" for name in rooms)
    text = CONFIGURATION.read_text(encoding="utf-8").replace("{root}", str(ROOT))
    return text.replace(_ROOMS, f"      - Constructs:\n{listed}")


def _links(path: Path) -> Iterator[Path]:
    """Yield the files that a page links to."""
    if path.suffix == ".md":
        for _, link, _ in _LINK.findall(_FENCED.sub("", path.read_text(encoding="utf-8"))):
            if "://" not in link:
                yield _target(path, link)


def _target(path: Path, link: str) -> Path:
    target = Path(os.path.normpath(path.parent / link))
    return target / "README.md" if target.is_dir() else target


def _write(path: Path, folder: Path) -> None:
    target = folder / place(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_copied(path):
        shutil.copy(path, target)
    elif path.suffix == ".md":
        target.write_text(_rewritten(path), encoding="utf-8")
    else:
        name, fence = path.relative_to(ROOT).as_posix(), "`" * 6
        code = f"{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n{fence}"
        target.write_text(f"{_UNSEARCHED}# {name}\n\n{code}\n", encoding="utf-8")


def _rewritten(path: Path) -> str:
    """Return a page whose links lead to places on the site."""
    here = place(path).parent

    def link(found: re.Match[str]) -> str:
        before, given, after = found.groups()
        if "://" in given:
            return found[0]
        return f"{before}{os.path.relpath(place(_target(path, given)), here)}{after}"

    def prose(text: str) -> str:
        # On GitHub a vertical bar ends a cell even in code; on the site its backslash would show.
        return _CODE.sub(lambda found: found[0].replace("\\|", "|"), _LINK.sub(link, text))

    parts = _FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else prose(part) for part in parts)
