"""The site of the pages: it is complete, its links lead somewhere, and it needs nothing from another host."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

NEEDED = "the site needs requirements-docs.txt"
pytest.importorskip("zensical", reason=NEEDED)
stage = pytest.importorskip("docs.generate.site", reason=NEEDED, exc_type=ImportError).stage

LOADED = re.compile(
    r"<(?:(?:script|img|iframe)\b[^>]*\bsrc|link\b(?![^>]*canonical)[^>]*\bhref)=[\"']?([^\"'\s>]+)"
)
"""What a browser loads with a page, and does not merely link to."""


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


@pytest.mark.story
def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    loaded = {each for path in site.rglob("*.html") for each in LOADED.findall(path.read_text())}

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


@pytest.mark.story
def test_the_reference_has_values_as_defaults_and_the_members_of_enumerations(site: Path) -> None:
    hosting = (site / "reference" / "endpoint.html").read_text()
    text = html.unescape(re.sub(r"<[^>]+>", "", hosting))

    assert "wait=Duration.minutes(10)" in text
    assert re.findall(r"=_[A-Z]\w+", text) == []
    assert 'id="triton_fleet.endpoint.hosting.server.PingMode.READY"' in hosting
