from __future__ import annotations

import subprocess
import sys
import zipfile
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
        with zipfile.ZipFile(output / builds.source.asset_path) as archive:
            archive.extractall(output / "unpacked")
        return output / "unpacked"

    return find


def test_the_models_are_uploaded_with_no_wheel_but_the_toolkits(
    source: Path, upload: Callable[[], Path]
) -> None:
    (source / FOLDER).mkdir()
    (source / FOLDER / "other-1.0-py3-none-any.whl").touch()
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


def test_the_same_files_give_the_same_bytes_and_programs_stay_executable(
    source: Path, upload: Callable[[], Path]
) -> None:
    program = source / "models" / "minilm" / "labels.sh"
    program.write_text("echo cat\n")
    program.chmod(0o755)
    first, second = (next(upload().parent.glob("asset.*.zip")) for _ in range(2))

    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.getinfo("models/minilm/labels.sh").external_attr >> 16 == 0o755


def test_pip_installs_the_wheel_with_its_locks_and_the_command_runs(tmp_path: Path) -> None:
    name, wheel = toolkit_wheel()
    (tmp_path / name).write_bytes(wheel)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "installed", tmp_path / name], check=True)
