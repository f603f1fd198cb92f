"""The site of the pages: it is complete, its links lead somewhere, and it needs nothing from another host."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml

NEEDED = "the site needs requirements-docs.txt"
pytest.importorskip("zensical", reason=NEEDED)
stage = pytest.importorskip("docs.generate.site", reason=NEEDED, exc_type=ImportError).stage
ROOT = Path(__file__).resolve().parents[1]

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
"""What a browser loads with a page, and does not merely link to."""


class Page(HTMLParser):
    """The links, the anchors and the loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if LOADED.get(tag) in given and given.get("rel") != "canonical":
            self.loaded.add(given[LOADED[tag]])


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    stage(folder)
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def broken(pages: dict[Path, Page], site: Path) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            file, anchor = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if "://" in link or link.startswith(("mailto:", "javascript:")):
                continue
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield f"{path.relative_to(site)}: {link}"


@pytest.mark.story
def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(pages: dict[Path, Page], site: Path) -> None:
    assert len(pages) > 30
    assert sorted(broken(pages, site)) == []


@pytest.mark.story
def test_a_page_loads_nothing_from_another_host(pages: dict[Path, Page]) -> None:
    loaded = {each for page in pages.values() for each in page.loaded}

    assert any(each.endswith(".css") for each in loaded)
    assert {each for each in loaded if "//" in each} == set()


@pytest.mark.story
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    stage(tmp_path)
    (tmp_path / "pages" / "concepts.md").write_text("# Concepts\n\n[nowhere](clients.md#nowhere)\n")

    assert build(tmp_path).returncode != 0


def listed(entry: object) -> Iterator[str]:
    """The pages of an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        values = entry.values() if isinstance(entry, dict) else entry
        yield from (page for each in values for page in listed(each))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("staged")
    stage(folder)
    return folder


def test_every_page_is_in_the_navigation(staged: Path) -> None:
    written = {each.relative_to(staged / "pages").as_posix() for each in staged.glob("pages/**/*.md")}
    navigation = yaml.safe_load((staged / "mkdocs.yml").read_text())["nav"]

    assert written == set(listed(navigation))


def test_a_link_to_code_leads_to_its_reference_or_names_the_file(staged: Path) -> None:
    deploy = (staged / "pages" / "deploy.md").read_text()
    traps = (staged / "pages" / "traps.md").read_text()

    assert "](reference/settings.md)" in deploy
    assert "](reference/delivery.md)" in deploy
    assert "the host has the driver that the release needs: `tests/constructs/test_endpoint.py`" in traps


def test_errors_of_every_kind_are_in_the_table(staged: Path) -> None:
    text = (staged / "pages" / "reference" / "errors.md").read_text()
    rows = set(re.findall(r"^\| `([a-z0-9:-]+)` \| \S", text, re.MULTILINE))

    assert {"multi-model-one-gpu", "bad-declaration", "archive-link", "plan-gpu", "build-failed"} <= rows
    assert {"triton-fleet:github-ids", "triton-fleet:unload-stall"} <= rows
    assert len(rows) > 300


@pytest.mark.story
def test_the_reference_has_values_as_defaults_and_the_members_of_enumerations(site: Path) -> None:
    hosting = (site / "reference" / "hosting.html").read_text()
    text = html.unescape(re.sub(r"<[^>]+>", "", hosting))

    assert "wait=Duration.minutes(10)" in text
    assert re.findall(r"=_[A-Z]\w+", text) == []
    assert 'id="triton_fleet.hosting.server.PingMode.READY"' in hosting


@pytest.mark.story
def test_the_search_finds_the_guides_and_the_reference(site: Path) -> None:
    found = {
        each["location"].partition("#")[0] for each in json.loads((site / "search.json").read_text())["items"]
    }

    assert {"index.html", "day_two.html", "reference/settings.html", "reference/scaling.html"} <= found
