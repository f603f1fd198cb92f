"""The sources of the site: the written pages, and the reference.

Links in the repository lead from docs/ to the code, and from the README to docs/. A site has one folder, so
each link is written again. One to code leads to its page of the reference, or becomes the file's name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from docs.generate import ROOT, alarms, errors, pages, reference

PICTURES = [*(ROOT / "docs").glob("*.svg")]
_REFERENCE = {
    "constructs/triton_fleet/__init__.py": "fleet",
    "constructs/triton_fleet/app/config.py": "settings",
    "constructs/triton_fleet/operations/alarm_declarations.py": "alarms",
    "model_builds/triton_models/spec.py": "declarations",
    "model_builds/triton_models/client/__init__.py": "client",
    "model_builds/triton_models/cli/main.py": "command_line",
    "conformance/beliefs.toml": "beliefs",
    "model_builds/triton_models/base/errors.py": "errors",
    "embedded-aws/embedded_aws/coverage.py": "embedded_aws",
    "model_builds/triton_models/builds/floor.py": "floors",
}
"""The code whose docstrings are a page of the reference: on GitHub a link leads to the code."""
STAGED = ROOT / "build" / "site"

_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_ROOMS = "      - Constructs: reference/rooms\n"


def stage(folder: Path = STAGED) -> None:
    """Write the sources of the site into a folder: mkdocs.yml and pages/."""
    shutil.rmtree(folder, ignore_errors=True)
    site = folder / "pages"
    (site / "reference").mkdir(parents=True)
    readmes = [ROOT / each / "README.md" for each in ("embedded-aws", "conformance")]
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *readmes]
    for path in written:
        target = site / _place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_rewritten(path), encoding="utf-8")
    for picture in PICTURES:
        shutil.copy(picture, site)
    shutil.copy(ROOT / "docs" / "site.css", site)
    rooms = reference.rooms()
    made = {
        "alarms": alarms.page(),
        "beliefs": pages.beliefs(),
        "client": reference.client(),
        "command_line": pages.command_line(),
        "declarations": reference.declarations(),
        "embedded_aws": pages.embedded_aws(),
        "errors": errors.page(),
        "floors": pages.floors(),
        "settings": pages.settings(),
    }
    for name, text in {**rooms, **made}.items():
        (site / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(_configuration(rooms), encoding="utf-8")


def _configuration(rooms: Mapping[str, str]) -> str:
    listed = "".join(f"          - {name.capitalize()}: reference/{name}.md\n" for name in rooms)
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("{root}", str(ROOT))
    return text.replace(_ROOMS, f"      - Constructs:\n{listed}")


def _place(path: Path) -> PurePosixPath:
    within = path.relative_to(ROOT)
    if page := _REFERENCE.get(within.as_posix()):
        return PurePosixPath("reference", f"{page}.md")
    if within.parts[:2] == ("constructs", "triton_fleet"):
        return PurePosixPath("reference", f"{within.parts[2]}.md")
    if within == Path("README.md"):
        return PurePosixPath("index.md")
    if within.parts[0] == "docs":
        within = within.relative_to("docs")
    return PurePosixPath(within).with_name(within.name.replace("README", "index"))


def _is_page(path: Path) -> bool:
    """Return True for what is on the site: pages, pictures, and code with a page of the reference."""
    return path.suffix == ".md" or path in PICTURES or _place(path).parts[0] == "reference"


def _rewritten(path: Path) -> str:
    """Return a page whose links lead to places on the site."""
    here = _place(path).parent

    def link(found: re.Match[str]) -> str:
        text, given, anchor = found.groups()
        if "://" in given:
            return found[0]
        target = Path(os.path.normpath(path.parent / given))
        target = target / "README.md" if target.is_dir() else target
        if not _is_page(target):
            return f"{text[1:-1]}: `{target.relative_to(ROOT)}`"
        return f"{text}({os.path.relpath(_place(target), here)}{anchor or ''})"

    def prose(text: str) -> str:
        # On GitHub a vertical bar ends a cell even in code; on the site its backslash would show.
        return _CODE.sub(lambda found: found[0].replace("\\|", "|"), _LINK.sub(link, text))

    parts = _FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else prose(part) for part in parts)
