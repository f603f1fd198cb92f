"""The locks: complete, with the versions in constraints.txt, and closed to files from other indexes."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import cloud_assembly_schema
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
BUILDS = ROOT / "model_builds" / "triton_models" / "builds" / "packages"
STARTER = ROOT / "model_builds" / "triton_models" / "cli" / "starter" / "files"
LOCKS = sorted([*ROOT.glob("locks/*.txt"), *BUILDS.glob("locks/*.txt")])
# The first is for the Python of release 26.06 and newer; the requirements of the others state all versions.
WITHOUT_CONSTRAINTS = {"autocast.txt", "requirements-sdk.txt", "requirements-triton.txt"}
PYTHONS = ("3.10.13", "3.11.7", "3.12.1", "3.13.0")


def requirements(path: Path) -> list[Requirement]:
    """Return the requirements in a file, without options, comments, hashes and included files."""
    text = re.sub(r"\\\n", " ", path.read_text())
    named = (re.sub(r"#.*|--hash=\S+", "", line).strip() for line in text.splitlines())
    return [Requirement(line) for line in named if line and not line.startswith("-")]


def names(path: Path) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements(path)}


def pins(path: Path, python: str) -> dict[str, str]:
    """Return the version of each package on Linux with a Python version."""
    machine = {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    wanted = [each for each in requirements(path) if each.marker is None or each.marker.evaluate(machine)]
    found = {canonicalize_name(each.name): str(each.specifier).removeprefix("==") for each in wanted}
    assert len(found) == len(wanted)
    return found


def test_the_cdks_modules_are_its_own() -> None:
    """Two packages install aws_cdk.cloud_assembly_schema: the one installed last wins."""
    entry: Any = cloud_assembly_schema.MetadataEntry
    assert entry.__jsii_type__.startswith("aws-cdk-lib.")


def test_everything_in_a_lock_has_one_version_and_hashes() -> None:
    assert LOCKS
    for lock in LOCKS:
        blocks = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE).strip())
        assert blocks
        for block in blocks:
            assert re.fullmatch(r"[\w.-]+==[^\\\n]+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), lock


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_have_the_versions_that_the_constraints_name(python: str) -> None:
    held = pins(BUILDS / "constraints.txt", python)

    for lock in LOCKS:
        if lock.name in WITHOUT_CONSTRAINTS:
            continue
        locked = {name: version.partition("+")[0] for name, version in pins(lock, python).items()}
        other = {name: version for name, version in locked.items() if held.get(name, version) != version}
        assert (lock.name, other) == (lock.name, {})


def test_a_lock_has_all_that_its_requirements_name() -> None:
    for lock in LOCKS:
        path = lock.parents[1] / lock.name
        if path.is_file():
            named = {canonicalize_name(each.name) for each in requirements(path)}
            assert named - names(lock) <= {"torch"}, lock


@pytest.mark.parametrize(
    "lock", [ROOT / "locks/requirements-rehearsal.txt", BUILDS / "locks/requirements.txt"]
)
def test_without_cuda_pytorch_brings_nothing_that_a_lock_lacks(lock: Path) -> None:
    needed = {
        name
        for name in pins(BUILDS / "locks" / "torch-cuda.txt", PYTHONS[2])
        if not name.startswith(("nvidia-", "cuda-")) and name not in {"torch", "triton"}
    }

    assert needed - names(lock) == set()


@pytest.mark.parametrize("place", [ROOT, STARTER], ids=["here", "fleet init"])
def test_set_up_installs_from_locks_alone(place: Path) -> None:
    makefile = (place / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line]

    assert installs
    assert [line for line in installs if "$(HASHED)" not in line and "--no-index" not in line] == []
    assert "--require-hashes" in re.findall(r"^HASHED := (.*)$", makefile, re.MULTILINE)[0]


def test_the_embedded_aws_has_the_librarys_version_and_its_dependencies_are_locked() -> None:
    version = importlib.metadata.version("triton-fleet")
    needed = map(Requirement, importlib.metadata.requires("embedded-aws") or [])

    assert importlib.metadata.version("embedded-aws") == version
    assert f'embedded-aws=={version}; extra == "rehearse"' in (
        importlib.metadata.requires("triton-fleet") or []
    )
    assert {canonicalize_name(each.name) for each in needed} <= names(
        ROOT / "locks" / "requirements-rehearsal.txt"
    )
