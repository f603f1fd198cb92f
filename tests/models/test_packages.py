import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.reported import reported
from triton_models.artifact.environments.packages import install, loads_in
from triton_models.facts.releases import RELEASES, release


def test_a_copied_package_is_imported_from_its_folder_alone_and_says_its_version(tmp_path):
    copied = tmp_path / "1"
    install(["tokenizers"], folder=copied, release=release("25.09"))
    names = {each.name for each in copied.rglob("*")}
    assert not names & {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "__pycache__"}
    code = "import tokenizers; print(tokenizers.__version__, tokenizers.__file__)"
    # -S and no PYTHONPATH: nothing but the standard library and that folder, as next to a model.py.
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(copied)!r}); {code}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    version, path = run.stdout.split()
    assert version == metadata.version("tokenizers")
    assert [found.version for found in metadata.distributions(path=[str(copied)])] == [version]
    assert Path(path).is_relative_to(copied)


def test_scripts_of_a_package_stay_behind(tmp_path):
    assert any(".." in file.parts for file in metadata.distribution("pytest").files or ())  # bin/pytest
    versions = install(["pytest"], folder=tmp_path / "a" / "b" / "c" / "d", release=release("25.09"))
    assert versions == {"pytest": metadata.version("pytest")}
    assert [path.name for path in tmp_path.rglob("*") if path.parent.name in "abc"] == ["b", "c", "d"]


def test_what_cannot_travel_is_reported_all_at_once_and_nothing_is_copied(tmp_path):
    other = next(each for each in RELEASES.values() if each.python != f"3.{sys.version_info.minor}")
    with reported("package-python", "package-absent") as problems:
        install(["pluggy", "numpy", "no-such-package"], folder=tmp_path, release=other)
    assert f"cp3{sys.version_info.minor}" in problems[0].what
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tag", "loads"),
    [
        ("py3-none-any", True),
        ("py310-none-manylinux_2_17_x86_64", True),
        ("cp312-cp312-manylinux_2_28_x86_64", True),
        ("cp310-abi3-manylinux_2_17_x86_64", True),
        ("cp313-abi3-manylinux_2_17_x86_64", False),
        ("cp312-cp312-manylinux_2_17_aarch64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("py2-none-any", False),
    ],
)
def test_a_wheel_loads_if_its_tag_fits_python_312_on_the_image(tag, loads):
    assert loads_in(tag, "3.12") is loads
