"""The source of a build: the models as they are declared, and the toolkit as a wheel that pip installs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import App, Stack

from triton_fleet import ModelBuildProject, ModelRepository
from triton_fleet.builds.source import FOLDER, toolkit_wheel


@pytest.fixture
def upload(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Returns the folder that is uploaded as the source."""

    def find() -> Path:
        output = tmp_path_factory.mktemp("cdk.out")
        stack = Stack(App(outdir=str(output)), "Fleet")
        repository = ModelRepository(stack, "Repository")
        builds = ModelBuildProject(stack, "Builds", repository=repository, source=source, models=["minilm"])
        return output / builds.source.asset_path

    return find


def test_the_models_are_uploaded_with_a_wheel_of_the_toolkit(upload: Callable[[], Path]) -> None:
    uploaded = upload()

    assert (uploaded / "models" / "minilm" / "build.py").is_file()
    assert [path.name for path in (uploaded / FOLDER).iterdir()] == [toolkit_wheel()[0]]


def test_a_file_behind_a_link_is_uploaded(
    upload: Callable[[], Path], source: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "labels.txt"
    elsewhere.write_text("cat\n")
    (source / "models" / "minilm" / "labels.txt").symlink_to(elsewhere)

    labels = upload() / "models" / "minilm" / "labels.txt"
    assert not labels.is_symlink()
    assert labels.read_text() == "cat\n"


def test_pip_installs_the_wheel_with_its_locks_and_the_command_runs(tmp_path: Path) -> None:
    name, wheel = toolkit_wheel()
    (tmp_path / name).write_bytes(wheel)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "installed", tmp_path / name], check=True)
