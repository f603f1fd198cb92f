"""The sources of the site: every page of the repository, the files that they link to, and mkdocs.yml.

Links in the repository lead from docs/ to the code, and from the README to docs/. A site has one folder, so
each link is written again, and a linked file that is no page becomes one. The navigation gets the constructs.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
STAGED = ROOT / "build" / "site"
CONFIGURATION = ROOT / "mkdocs.yml"
STYLE = ROOT / "docs" / "site.css"

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_CONSTRUCTS = "      - Constructs: reference/index.md\n"
_ROOM = re.compile(r"^Source: .*/constructs/triton_fleet/(\w+)/", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_COPIED = (".svg", ".png")
_LANGUAGES = {".py": "python", ".json": "json", ".yml": "yaml", ".txt": "text"}
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def stage(folder: Path = STAGED) -> None:
    """Write the sources of the site into a folder: mkdocs.yml and pages/."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    waiting = list(_pages())
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        linked = [each for each in _links(path) if each not in seen]
        waiting += linked
        seen.update(linked)
        _write(path, pages)
    shutil.copy(STYLE, pages)
    (folder / "mkdocs.yml").write_text(_configuration(), encoding="utf-8")


def place(path: Path) -> PurePosixPath:
    """Return the place of a file of the repository in the site."""
    within = path.relative_to(ROOT)
    if within == Path("README.md"):
        return PurePosixPath("index.md")
    if within.suffix in _COPIED:
        return PurePosixPath(within.name)
    if within.parts[0] == "docs":
        within = within.relative_to("docs")
    if within.suffix == ".md":
        return PurePosixPath(within).with_name(within.name.replace("README", "index"))
    return PurePosixPath("source") / within.with_name(f"{within.name}.md")


def _configuration() -> str:
    """Return mkdocs.yml with the page of each construct in its navigation, by the folder of its source."""
    rooms: dict[str, list[str]] = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        if page.name == "README.md":
            continue
        found = _ROOM.search(page.read_text(encoding="utf-8"))
        rooms.setdefault(found[1].capitalize() if found else "Errors", []).append(page.stem)
    lines = ["      - Constructs:", "          - Overview: reference/index.md"]
    for room, names in sorted(rooms.items()):
        lines += [f"          - {room}:", *(f"              - {name}: reference/{name}.md" for name in names)]
    return CONFIGURATION.read_text(encoding="utf-8").replace(_CONSTRUCTS, "\n".join(lines) + "\n")


def _pages() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")


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
    if path.suffix in _COPIED:
        shutil.copy(path, target)
    elif path.suffix == ".md":
        target.write_text(_rewritten(path), encoding="utf-8")
    else:
        name, fence = path.relative_to(ROOT).as_posix(), "`" * 6
        code = f"{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n{fence}"
        target.write_text(f"{_UNSEARCHED}# {name}\n\n{code}\n", encoding="utf-8")


def _rewritten(path: Path) -> str:
    """Return a page whose links lead to places in the site."""
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


if __name__ == "__main__":
    stage()
