"""The ledger: its rows name existing code, and its page has what transcripts say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import ledger as pages
from triton_models.base.errors import FleetError
from triton_models.ledger import BELIEFS, SUBJECTS, Belief, DecidedBy, Grade, belief
from triton_models.probe.catalogue import catalogue
from triton_models.probe.transcript import Transcript
from triton_models.probe.verdict import Verdict, false, true, undecided

ROOT = Path(__file__).parents[1]
SOURCES = ("constructs/triton_fleet", "model_builds/triton_models", "rehearsal", "stacks")
ROWS = [row for rows in SUBJECTS.values() for row in rows]


def code() -> str:
    paths = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    return "\n".join(path.read_text() for path in paths if path.parent.name != "ledger")


def exists(name: str, everything: str) -> bool:
    """Return True if a rule, a class or a dotted name exists."""
    if "." not in name:
        return (f"class {name}" if name[0].isupper() else f'"{name}"') in everything
    for folder in (ROOT, *(ROOT / root for root in ("constructs", "model_builds", "rehearsal", "reporting"))):
        path = folder / name.replace(".", "/")
        if path.is_dir() or path.with_suffix(".py").is_file():
            return True
        module = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
        if module.is_file():
            return (
                re.search(rf"^(class |def |    )?\"?{path.name}\b", module.read_text(), re.MULTILINE)
                is not None
            )
    return False


def test_every_belief_names_what_depends_on_it_and_all_of_it_is_there() -> None:
    everything = code()
    missing = {row.id: [name for name in row.depends if not exists(name, everything)] for row in ROWS}
    assert {row: names for row, names in missing.items() if names} == {}
    assert [row.id for row in ROWS if not row.depends] == []


def test_ids_are_unique_and_in_kebab_case() -> None:
    assert len(BELIEFS) == len(ROWS)
    assert [row.id for row in ROWS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)] == []


@pytest.mark.parametrize("field", ["belief", "source", "if_false"])
def test_every_belief_says_all_of_it_in_a_sentence_without_a_full_stop(field: str) -> None:
    optional = {row.id for row in ROWS if field == "source" and row.records}
    wrong = [row.id for row in ROWS if getattr(row, field).endswith(".")]
    wrong += [row.id for row in ROWS if not getattr(row, field) and row.id not in optional]
    assert wrong == []


def test_a_public_record_names_repository_place_and_figure() -> None:
    assert [row.id for row in ROWS if row.grade is Grade.PUBLIC_RECORD and not row.records] == []
    records = [(row.id, record) for row in ROWS for record in row.records]
    place = re.compile(r"#\d+|[0-9a-f]{10}( [\w./-]+)?( (\[\d+\],?)+)?")
    assert [row for row, record in records if not re.fullmatch(r"[\w.-]+/[\w.-]+", record.repository)] == []
    assert [row for row, record in records if not place.fullmatch(record.at)] == []
    assert [row for row, record in records if not record.seen or record.seen.endswith(".")] == []


def test_every_probe_decides_beliefs_of_its_kind_each_by_one_probe() -> None:
    decided = [(kind, each) for kind, probes in catalogue().items() for one in probes for each in one.decides]
    assert len({each for _, each in decided}) == len(decided)
    assert [each for kind, each in decided if BELIEFS[each].decided_by != DecidedBy(kind)] == []
    ids = [probe.id for probes in catalogue().values() for probe in probes]
    assert len(set(ids)) == len(ids)


def test_an_unknown_belief_is_one_error_with_a_suggestion() -> None:
    with pytest.raises(FleetError) as caught:
        belief("model-on-empty-prefx")
    (problem,) = caught.value.problems
    assert problem.rule == "unknown-belief"
    assert "model-on-empty-prefix" in problem.fix


# The page


def transcript(*verdicts: Verdict, date: str = "2027-01-02") -> Transcript:
    return Transcript(
        kind="account", date=date, release="25.09", place="eu-west-1", tool="0.1.0", verdicts=verdicts
    )


def test_a_transcript_raises_the_grade_of_what_it_found_true_and_marks_what_it_found_false() -> None:
    rows: list[Belief] = ROWS[:3]
    first, second, third = (row.id for row in rows)

    seen = pages.observed([transcript(true(first, "seen"), false(second, "not"), undecided(third, "?"))])

    assert pages.grade(rows[0], seen) == "observed on 2027-01-02 with release 25.09, eu-west-1"
    assert pages.grade(rows[1], seen) == "**refuted** on 2027-01-02 with release 25.09, eu-west-1"
    assert pages.grade(rows[2], seen) == rows[2].grade.value


def test_the_newest_transcript_is_named_first() -> None:
    row = ROWS[0]
    older, newer = (
        transcript(false(row.id, ""), date="2027-01-02"),
        transcript(true(row.id, ""), date="2027-03-04"),
    )
    assert pages.grade(row, pages.observed([older, newer])).startswith("observed on 2027-03-04")
