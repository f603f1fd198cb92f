"""Every rule of `fleet check` has a case that keeps it and a case that breaks it, and no rule but it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.triton_models.rule_case import Case, Correct
from tests.triton_models.rule_cases import CASES
from triton_models.artifact import archive, layout
from triton_models.check import target
from triton_models.check.check import CHECKS
from triton_models.facts import instances, releases

# What stops a check before a rule looks at anything: an artifact that cannot be read, and an unknown target.
BEFORE = (
    layout.BUILD_RECORD,
    layout.UNREADABLE,
    layout.UNPACKABLE,
    target.UNKNOWN_ENDPOINT,
    releases.UNKNOWN_RELEASE,
    instances.UNKNOWN_GPU,
)


@pytest.mark.parametrize("correct", dict.fromkeys(case.correct for case in CASES), ids=str)
def test_a_correct_artifact_breaks_no_rule(correct: Correct, tmp_path: Path) -> None:
    correct.write(tmp_path / correct.name)

    assert correct.server.problems(tmp_path / correct.name) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_breaks_a_rule_breaks_no_other(case: Case, tmp_path: Path) -> None:
    case.correct.write(tmp_path / case.correct.name)

    found = case.problems(tmp_path / case.correct.name)

    assert {problem.rule for problem in found} == {case.rule}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_problem_is_reported_in_full(case: Case, tmp_path: Path) -> None:
    case.correct.write(tmp_path / case.correct.name)

    for problem in case.problems(tmp_path / case.correct.name):
        untold = {part for part, text in problem.as_dict().items() if not text.strip()}
        assert untold == set()


def test_every_rule_has_a_case() -> None:
    assert _ids() - {case.rule for case in CASES} == set()


def test_every_case_is_of_a_rule_that_there_is() -> None:
    assert {case.rule for case in CASES} - _ids() == set()


def test_no_two_cases_of_a_rule_are_called_the_same() -> None:
    assert [name for name, count in Counter(map(str, CASES)).items() if count > 1] == []


def _ids() -> set[str]:
    return {check.id for check in CHECKS} | set(archive.CHECKS) | {check.id for check in BEFORE}
