"""Builds install locked packages, PyTorch from an index that can be reached, and a model's own last."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from triton_models.base.errors import FleetError
from triton_models.builds import locked

HASH = f"--hash=sha256:{'0' * 64}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of packages, and three models, of which two need packages of their own."""
    for model in ("dali_inception", "minilm", "resnet50"):
        (tmp_path / "models" / model).mkdir(parents=True)
    for model in ("dali_inception", "resnet50"):
        (tmp_path / "models" / model / "requirements.txt").write_text("some-package\n")
    (tmp_path / "requirements.txt").write_text("-c constraints.txt\nboto3\ntorch\n")
    (tmp_path / "constraints.txt").write_text("boto3==1.0\ntorch==2.13.0\ntorchless==9\n")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "requirements.txt").write_text(f"boto3==1.0 {HASH}\n")
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    def install(version: str | None) -> None:
        def known(name: str) -> str:
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(importlib.metadata, "version", known)

    return install


def required(command: Sequence[str]) -> list[str]:
    return [command[place + 1] for place, each in enumerate(command) if each == "--requirement"]


def test_a_model_without_needs_of_its_own_gets_what_is_locked(source: Path) -> None:
    (command,) = locked.build_commands(["minilm"], packages=source)

    assert required(command) == [str(source / "locks" / "requirements.txt")]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= {*command}


def test_a_models_own_packages_come_after_what_is_locked_and_are_held_to_the_constraints(
    source: Path,
) -> None:
    _, own = locked.build_commands(
        ["minilm", "dali_inception", "resnet50:torchscript"], models=source / "models", packages=source
    )

    assert required(own) == [
        str(source / "models" / each / "requirements.txt") for each in ("dali_inception", "resnet50")
    ]
    assert own[own.index("--constraint") + 1] == str(source / "constraints.txt")


@pytest.mark.parametrize("name", locked.SETS)
def test_every_small_set_has_a_lock(name: str) -> None:
    (lock,) = required(locked.set_command(name))
    assert Path(lock).is_file()


def test_a_requirement_that_the_lock_lacks_is_an_error(source: Path) -> None:
    (source / "requirements.txt").write_text("boto3\ntorch\nnew_package\n")

    with pytest.raises(FleetError) as caught:
        locked.build_commands([], packages=source)

    (problem,) = caught.value.problems
    assert (problem.rule, problem.where) == ("lock-stale", str(source / "locks" / "requirements.txt"))
    assert "new-package" in problem.what


@pytest.mark.parametrize(
    ("requirements", "version", "asked"),
    [
        ("numpy\ntorch\n", "2.12.0+cpu", True),
        ("numpy\ntorch\n", "2.13.0+cpu", False),
        ("numpy\ntorchless\n", None, False),
    ],
)
def test_pytorch_alone_is_asked_of_its_own_index(
    source: Path, installed: Callable[[str | None], None], requirements: str, version: str | None, asked: bool
) -> None:
    (source / "requirements.txt").write_text(requirements)
    installed(version)

    commands = locked.torch_commands(source)

    assert [f"--index-url={locked.INDEX}" in each for each in commands] == ([True, False] if asked else [])
    assert [required(each) for each in commands] == (
        [[str(source / "locks" / f"torch-{build}.txt")] for build in ("cpu", "cuda")] if asked else []
    )
    assert all("--require-hashes" in each for each in commands)


@pytest.mark.parametrize(
    ("fails", "status", "runs"),
    [((), 0, "cpu build"), (("cpu",), 0, "cpu cuda build"), (("cpu", "cuda"), 1, "cpu cuda")],
)
def test_a_build_goes_on_where_pytorchs_own_index_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...], status: int, runs: str
) -> None:
    ran: list[str] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.extend(command)
        return subprocess.CompletedProcess([], int(command[0] in fails), stderr="")

    monkeypatch.setattr(locked, "torch_commands", lambda: (("cpu",), ("cuda",)))
    monkeypatch.setattr(locked, "build_commands", lambda models: (("build",),))
    monkeypatch.setattr(subprocess, "run", run)

    assert locked.main(["build", "minilm"]) == status
    assert " ".join(ran) == runs


@pytest.mark.parametrize(
    ("said", "shown"),
    [("ERROR: ResolutionImpossible", False), ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", True)],
)
def test_pips_error_about_pytorchs_own_index_is_shown_only_if_a_hash_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], said: str, shown: bool
) -> None:
    failing = (sys.executable, "-c", f"raise SystemExit({said!r})")
    monkeypatch.setattr(locked, "torch_commands", lambda: (failing, (sys.executable, "-c", "")))

    assert locked.main(["torch"]) == 0
    printed = capfd.readouterr().err
    assert (said in printed) is shown
    assert f"{locked.INDEX} does not offer PyTorch" in printed
