"""The ledger: unique ids, one error for an unknown one, and grades that transcripts raise."""

from __future__ import annotations

from docs.generate import ledger as pages
from tests.reported import reported
from triton_models.ledger import BELIEFS, SUBJECTS, belief
from triton_models.probe.transcript import Transcript
from triton_models.probe.verdict import Verdict, false, true, undecided

ROWS = [row for rows in SUBJECTS.values() for row in rows]


def test_ids_are_unique() -> None:
    assert len(BELIEFS) == len(ROWS)


def test_an_unknown_belief_is_one_error_with_a_suggestion() -> None:
    with reported("unknown-belief") as problems:
        belief("model-on-empty-prefx")

    assert "model-on-empty-prefix" in problems[0].fix


def transcript(*verdicts: Verdict, date: str = "2027-01-02") -> Transcript:
    return Transcript(
        kind="account", date=date, release="25.09", place="eu-west-1", tool="0.1.0", verdicts=verdicts
    )


def test_a_transcript_raises_the_grade_of_what_it_found_true_and_marks_what_it_found_false() -> None:
    first, second, third = ROWS[:3]

    seen = pages.observed(
        [transcript(true(first.id, "seen"), false(second.id, "not"), undecided(third.id, "?"))]
    )

    assert pages.grade(first, seen) == "observed on 2027-01-02 with release 25.09, eu-west-1"
    assert pages.grade(second, seen) == "**refuted** on 2027-01-02 with release 25.09, eu-west-1"
    assert pages.grade(third, seen) == third.grade.value


def test_the_newest_transcript_is_named_first() -> None:
    row = ROWS[0]
    older, newer = transcript(false(row.id, "")), transcript(true(row.id, ""), date="2027-03-04")

    assert pages.grade(row, pages.observed([older, newer])).startswith("observed on 2027-03-04")
