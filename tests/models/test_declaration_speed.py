"""Thousands of declarations are read in the time that one framework takes to import."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from triton_models.spec import load_build, load_builds, model_names, models_folder


@pytest.fixture
def many(models: Path) -> Path:
    """A folder of 200 model builds, copies of the two declared ones under names of their own."""
    for number in range(200):
        source = ("minilm", "resnet50")[number % 2]
        folder = models / f"{source}-{number}"
        shutil.copytree(models_folder() / source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / "build.py"
        path.write_text(path.read_text().replace(f'name="{source}"', f'name="{folder.name}"'))
    return models


def test_many_declarations_are_read_and_keep_their_own_files(many: Path) -> None:
    names = model_names(many)
    builds = load_builds(names, many)
    assert [build.name for build in builds] == names
    assert len({build.models[-1].name for build in builds}) == 200


def test_the_work_for_one_declaration_does_not_grow_with_their_number(many: Path, monkeypatch) -> None:
    listed: list[Path] = []
    real = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, pattern: listed.append(self) or real(self, pattern))
    load_build(next(path.name for path in many.iterdir()), many)
    assert listed == []  # the folder is only listed to answer an unknown name


def test_a_declaration_with_nothing_wrong_is_not_parsed_a_second_time(many: Path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    load_builds(model_names(many), many)  # the bytecode is now there
    monkeypatch.setattr("triton_models.declare.mistakes.ast.parse", refuse)
    load_builds(model_names(many), many)
