"""The generated pages in docs/ match the code."""

from __future__ import annotations

from docs.generate import alarms, probes, reference


def test_the_reference_is_that_of_today() -> None:
    written = {path.name: path.read_text() for path in reference.REFERENCE.glob("*.md")}
    expected = reference.pages()
    stale = sorted(name for name in {*written, *expected} if written.get(name) != expected.get(name))
    assert stale == [], "run `make docs`"


def test_the_page_about_alarms_is_that_of_today() -> None:
    assert alarms.PAGE.read_text() == alarms.page(), "run `make docs`"


def test_the_page_about_probes_is_that_of_today() -> None:
    assert probes.PAGE.read_text() == probes.page(), "run `make docs`"


def test_every_argument_of_every_construct_is_described() -> None:
    rows = [
        (name, line)
        for name, page in reference.pages().items()
        for line in page.splitlines()
        if line.startswith("| `") and line.endswith("|  |")
    ]
    assert rows == []
