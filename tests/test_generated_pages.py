"""The generated pages in docs/ match the code."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from docs.generate import (
    alarms,
    command_line,
    configuration,
    declarations,
    embedded_aws,
    errors,
    probes,
    reference,
)

ROOT = Path(__file__).resolve().parents[1]


def test_the_reference_is_that_of_today() -> None:
    written = {path.name: path.read_text() for path in reference.REFERENCE.glob("*.md")}
    expected = reference.pages()
    stale = sorted(name for name in {*written, *expected} if written.get(name) != expected.get(name))
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize(
    "generator",
    [alarms, command_line, configuration, declarations, embedded_aws, errors, probes],
    ids=lambda each: each.PAGE.stem,
)
def test_a_page_is_that_of_today(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run `make docs`"


def test_every_reviewed_error_is_on_the_page_about_errors() -> None:
    """The snapshots have errors as users see them, with the id at the end of the first line."""
    reviewed = "".join(path.read_text() for path in (ROOT / "tests" / "snapshots").glob("test_*checks/*.txt"))
    seen = set(re.findall(r" \[([a-z0-9:-]+)\]$", reviewed, re.MULTILINE))

    assert len(seen) > 150
    assert seen - errors.ids() == set()


def test_an_operation_of_the_embedded_aws_is_ours_or_motos_or_counted_as_refused() -> None:
    rows = [
        line.split(" | ") for line in embedded_aws.page().splitlines() if line.startswith("| sagemaker |")
    ]
    [[_, moto, refused, ours]] = rows

    assert "UpdateEndpoint," in ours
    assert "DescribeEndpoint," not in ours
    assert int(moto) > 50
    assert int(refused) > 100


def test_an_error_has_a_text_or_a_source() -> None:
    sections = re.split(r"^### ", errors.page(), flags=re.MULTILINE)[1:]
    bare = [section.partition("\n")[0] for section in sections if "- " not in section and "." not in section]

    assert bare == ["probe-account"]  # whose texts are AWS's


def test_every_argument_of_every_construct_is_described() -> None:
    rows = [
        (name, line)
        for name, page in reference.pages().items()
        for line in page.splitlines()
        if line.startswith("| `") and line.endswith("|  |")
    ]
    assert rows == []
