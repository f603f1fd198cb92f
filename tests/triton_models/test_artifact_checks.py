"""The checks of `fleet check`: each accepts what is right, and alone refuses what is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.triton_models.check_case import Case, Correct, Server, Spoil
from tests.triton_models.check_cases import CASES
from tests.triton_models.correct_artifacts import BERT, DIALOGUE, RESNET50
from tests.triton_models.model_folders import tar
from tests.triton_models.spoils import both, built_for, moved, said, written
from triton_models.check import check
from triton_models.check.report import Rule
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES

RULES = [
    each.id
    for module in dict.fromkeys((*check.OF_ARTIFACTS, *check.OF_MODELS))
    for each in vars(module).values()
    if isinstance(each, Rule)
]

# The first case of each check that looks into a folder; a TorchScript file in an archive is not read.
IN_FOLDERS = {
    case.id: case
    for case in reversed(CASES)
    if case.id in RULES and not case.correct.name.endswith(".gz") and case.id != "torchscript-tensor"
}

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def spoilt(folder: Path, correct: Correct, spoil: Spoil) -> Path:
    """A wrong artifact."""
    root = folder / correct.name
    correct.write(root)
    return spoil(root) or root


@pytest.mark.parametrize("correct", dict.fromkeys(case.correct for case in CASES), ids=str)
def test_what_is_right_has_no_problem(correct: Correct, tmp_path: Path) -> None:
    correct.write(tmp_path / correct.name)

    assert correct.server.problems(tmp_path / correct.name) == []


@every_case
def test_what_is_wrong_is_refused_by_its_check_alone(case: Case, tmp_path: Path) -> None:
    case.correct.write(tmp_path / case.correct.name)

    found = case.problems(tmp_path / case.correct.name)

    assert {problem.rule for problem in found} == {case.id}


@pytest.mark.parametrize("case", IN_FOLDERS.values(), ids=str)
def test_an_archive_is_refused_as_its_folder_is(case: Case, tmp_path: Path) -> None:
    root = spoilt(tmp_path, case.correct, case.spoil)

    found = case.on(tar(root, tmp_path / f"{root.name}.tar.gz"))

    assert {problem.rule for problem in found} == {case.id}


def test_ids_and_the_names_of_cases_are_unique() -> None:
    names = [*RULES, *map(str, CASES)]

    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize(
    ("correct", "spoil", "fixed"),
    [
        (RESNET50, said("resnet50", "backend:", "platform:"), said("resnet50", "platform:", "backend:")),
        (DIALOGUE, moved("dialogue/1", "dialogue/007"), moved("dialogue/007", "dialogue/7")),
    ],
)
def test_the_fix_of_a_problem_removes_it(
    correct: Correct, spoil: Spoil, fixed: Spoil, tmp_path: Path
) -> None:
    assert correct.server.problems(spoilt(tmp_path / "wrong", correct, spoil)) != []
    assert correct.server.problems(spoilt(tmp_path / "fixed", correct, both(spoil, fixed))) == []


def test_the_largest_version_is_the_largest_that_a_server_can_count_to(tmp_path: Path) -> None:
    largest = written(f"resnet50/{2**63 - 1}/model.onnx", b"weights")

    assert RESNET50.server.problems(spoilt(tmp_path, RESNET50, largest)) == []


def test_an_older_release_takes_labels_outside_that_are_there(tmp_path: Path) -> None:
    outside = both(said("resnet50", '"labels.txt"', '"../labels.txt"'), written("labels.txt", b"cat\n"))
    root = spoilt(tmp_path, RESNET50, outside)

    assert Server(release="25.09").problems(root) == []
    assert [found.rule for found in Server(release="26.05").problems(root)] == ["label-outside"]


def test_a_record_of_newer_tools_may_be_checked_for_what_is_known(tmp_path: Path) -> None:
    newer = built_for(release="99.01", gpu="Z9", plans={"bert/1/model.plan": {"gpu": "A10G"}})
    root = spoilt(tmp_path, BERT, newer)

    assert Server(release="25.09", gpu="A10G").problems(root) == []
    assert [found.rule for found in Server(release=None, gpu=None).problems(root)] == ["build-record"] * 2


def test_a_record_without_a_release_or_a_gpu_names_none_that_is_unknown(tmp_path: Path) -> None:
    root = spoilt(tmp_path, RESNET50, written("build.json", b'{"model": "resnet50", "gpu": null}'))

    assert Server(release=None, gpu=None).problems(root) == []


def test_every_gpu_has_a_release_that_supports_it() -> None:
    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    oldest = min(number(release.min_compute_capability) for release in RELEASES.values())

    assert [gpu.name for gpu in GPUS.values() if number(gpu.compute_capability) < oldest] == []
