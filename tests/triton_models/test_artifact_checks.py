"""The rules of `fleet check`: each accepts what is right, and alone refuses what is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.triton_models.check_case import Case, Correct, Server, case
from tests.triton_models.check_cases import CASES
from tests.triton_models.correct_artifacts import BERT, CHECKPOINT, CHECKPOINT_FILE
from tests.triton_models.model_folders import tar
from tests.triton_models.spoils import built_for, moved, written
from triton_models.check import check
from triton_models.check.subject import Rule

MODULES = dict.fromkeys((*check.OF_ARTIFACTS, *check.OF_MODELS))
RULES = [each.id for module in MODULES for each in vars(module).values() if isinstance(each, Rule)]

# They look into files, and into folders of files.
LOOK_INSIDE = ("environment-python", "fil-checkpoint", "inner-model-name", "onnx-tensor", "plan-version")
FIRST = {each.id: each for each in reversed(CASES) if each.id in LOOK_INSIDE}


@pytest.mark.parametrize("correct", dict.fromkeys(each.correct for each in CASES), ids=str)
def test_what_is_right_has_no_problem(correct: Correct, tmp_path: Path) -> None:
    correct.write(tmp_path / correct.name)

    assert correct.server.problems(tmp_path / correct.name) == []


@pytest.mark.parametrize("wrong", CASES, ids=str)
def test_what_is_wrong_is_refused_by_its_rule_alone(wrong: Case, tmp_path: Path) -> None:
    found = wrong.problems(wrong.spoil(tmp_path / wrong.correct.name))

    assert [problem.rule for problem in found] == [wrong.id] * wrong.times + list(wrong.also)


@pytest.mark.parametrize("wrong", FIRST.values(), ids=str)
def test_an_archive_is_refused_as_its_folder_is(wrong: Case, tmp_path: Path) -> None:
    root = wrong.spoil(tmp_path / wrong.correct.name)

    found = wrong.problems(tar(root, tmp_path / f"{root.name}.tar.gz"))

    assert [problem.rule for problem in found] == [wrong.id] * wrong.times


def test_each_rule_has_an_id_of_its_own() -> None:
    assert [name for name, count in Counter(RULES).items() if count > 1] == []


def test_a_record_of_newer_tools_may_be_checked_for_what_is_known(tmp_path: Path) -> None:
    newer = built_for(release="99.01", gpu="Z9", plans={"bert/1/model.plan": {"gpu": "A10G"}})
    root = case("", BERT, newer).spoil(tmp_path / "bert")

    assert Server(release="25.09", gpu="A10G").problems(root) == []
    assert [found.rule for found in Server(release=None, gpu=None).problems(root)] == ["build-record"] * 2


def test_a_checkpoint_of_treelite_3_9_loads_and_does_not_say_its_classes(tmp_path: Path) -> None:
    old = case("", CHECKPOINT, written(CHECKPOINT_FILE, b"\3\0\0\0\x09\0\0\0\0\0\0\0"))

    assert Server().problems(old.spoil(tmp_path / "checkpoint")) == []


def test_a_version_of_a_forest_that_is_not_served_may_be_broken(tmp_path: Path) -> None:
    newer = moved(CHECKPOINT_FILE, "forest/2/checkpoint.tl")
    both = case("", CHECKPOINT, newer, written(CHECKPOINT_FILE, b"cut off"))

    assert Server().problems(both.spoil(tmp_path / "checkpoint")) == []
