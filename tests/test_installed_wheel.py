"""The built wheel, in an environment with only its declared dependencies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.story

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "constructs", "model_builds", "rehearsal")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: building leaves folders next to the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        source = ROOT / name
        copied = copy / name
        shutil.copytree(source, copied, ignore=_unbuilt) if source.is_dir() else shutil.copy(source, copied)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", copy, copy], check=True, timeout=120)
    [built] = copy.glob("*.whl")
    return built


def _unbuilt(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(("__pycache__", ".egg-info"))]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel, and what its extra "constructs" asks for."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    interpreter = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", wheel], check=True, timeout=120)
    [packages] = home.glob("lib/python3*/site-packages")
    for name in sorted(set(_declared("triton-fleet", extra="constructs"))):
        _link(name, packages)
    return interpreter


def _declared(name: str, *, extra: str = "") -> Iterator[str]:
    """The distributions that a distribution asks for, and those that they ask for in turn."""
    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement.name
            yield from _declared(requirement.name)


def _link(name: str, packages: Path) -> None:
    installed = distribution(name)
    for top in {Path(file).parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(str(installed.locate_file(top)))


def run(
    python: Path, *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it outside of the repository, without what the tests' own environment would lend it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [python, "-I", *arguments],
        cwd=folder or python.parent,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_readmes_fleet_synthesises(python: Path, tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    # Model builds are the user's own: the wheel has the tools for them, and no models.
    (tmp_path / "model_builds").symlink_to(ROOT / "model_builds")

    ended = run(python, "-c", program, folder=tmp_path, CDK_OUTDIR=str(tmp_path / "cdk.out"))

    assert ended.returncode == 0, ended.stderr
    template = json.loads((tmp_path / "cdk.out" / "Fleet.template.json").read_text())
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    assert {"AWS::SageMaker::Endpoint", "AWS::CloudWatch::Dashboard"} <= kinds


def test_every_module_of_the_constructs_is_in_the_wheel(python: Path) -> None:
    package = ROOT / "constructs" / "triton_fleet"
    modules = sorted(
        ".".join(["triton_fleet", *path.relative_to(package).with_suffix("").parts])
        for path in package.rglob("*.py")
        if path.name != "__init__.py"
    )
    # A function's code runs in Lambda, where boto3 is; here it is only read.
    program = f"""
import importlib, importlib.util
for each in {modules}:
    if ".functions.code." in each:
        assert importlib.util.find_spec(each), each
    else:
        importlib.import_module(each)
"""
    ended = run(python, "-c", program)

    assert ended.returncode == 0, ended.stderr


def test_the_command_line_is_there(python: Path) -> None:
    ended = run(python, str(python.with_name("fleet")), "--help")

    assert ended.returncode == 0, ended.stderr
    assert "check" in ended.stdout
