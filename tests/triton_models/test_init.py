"""`fleet init`: a repository written at once or not at all, and compared with newer versions."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reported import reported
from triton_models.cli.main import main
from triton_models.cli.starter import init
from triton_models.cli.starter.init import RECORD, begin, starter_models, upgrade

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements", "requirements-rehearsal", "requirements-triton")
SHARED = (
    *("app.py", "package.json", "package-lock.json", "stacks/models.py"),
    *(f"locks/{name}.txt" for name in LOCKS),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    begin(tmp_path / "search", name="Search", models=["minilm", "resnet50"])
    return tmp_path / "search"


@pytest.fixture
def newer(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this version be a newer one, which writes another Makefile and another file."""
    rendered = init._rendered

    def other(name: str, models: list[str]) -> dict[str, bytes]:
        return {**rendered(name, models), "Makefile": b"all:\n", "more.txt": b"more\n"}

    monkeypatch.setattr(init, "_rendered", other)
    monkeypatch.setattr(init, "_version", lambda: "9.9")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", SHARED)
def test_a_repository_is_laid_out_as_this_one(name: str, repository: Path) -> None:
    assert (repository / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_settings_are_those_of_this_repository_but_for_name_and_models(repository: Path) -> None:
    document = json.loads((ROOT / "cdk.json").read_text())
    document["context"]["tritonFleet"].update(name="Search", models=["minilm", "resnet50"])

    assert json.loads((repository / "cdk.json").read_text()) == document


def test_no_placeholder_is_left_and_the_toolkit_is_not_copied(repository: Path) -> None:
    words = (b"@NAME@", b"@VERSION@", b"@MODEL@")

    assert [n for n, content in contents(repository).items() if any(each in content for each in words)] == []
    assert not (repository / "model_builds" / "triton_models").exists()
    models = repository / "model_builds" / "models"
    assert sorted(path.name for path in models.iterdir()) == ["minilm", "resnet50"]
    assert not list(models.rglob("__pycache__"))


def test_every_model_of_this_repository_can_be_a_beginning(tmp_path: Path) -> None:
    begin(tmp_path / "all", name="All", models=starter_models())

    found = sorted(path.parent.name for path in (tmp_path / "all").glob("model_builds/models/*/build.py"))
    assert found == sorted(path.parent.name for path in ROOT.glob("model_builds/models/*/build.py"))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs make in a repository whose path has spaces, with no index."""
    repository = tmp_path / "of mine" / "a b"
    begin(repository, name="Search", models=["minilm"])
    programs = repository / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").touch()
    (programs / "pip").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pip "$@"\n')
    (programs / "pip").chmod(0o755)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "CI"):  # in CI nothing is pinned: see the repository's Makefile
        monkeypatch.delenv(name, raising=False)

    def run(target: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", target],
            cwd=repository,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_the_wheels_in_a_repository_are_pinned_on_a_persons_machine_and_never_in_a_workflow(
    tmp_path: Path, make: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    repository, version = tmp_path / "of mine" / "a b", importlib.metadata.version("triton-fleet")
    (repository / "wheels").mkdir()
    wheels = [
        repository / "wheels" / f"{name}-{version}-py3-none-any.whl"
        for name in ("triton_fleet", "embedded_aws")
    ]
    for wheel in wheels:
        name = wheel.name.partition("-")[0]
        info, about = f"{name}-{version}.dist-info", f"Name: {name}\nVersion: {version}\n"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\n{about}")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )

    lock = repository / "locks" / "triton-fleet.txt"

    refused = make("locks/triton-fleet.txt", CI="true")
    assert (refused.returncode != 0, "make pin" in refused.stderr, lock.exists()) == (True, True, False)

    ended = make("pin")
    assert ended.returncode == 0, ended.stderr
    assert lock.read_text().splitlines() == [
        f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        for name, wheel in zip(("triton-fleet", "embedded-aws"), wheels, strict=True)
    ]


@pytest.mark.parametrize("name", ["日本", "..-_"])
def test_a_folder_whose_name_makes_no_name_of_a_fleet_needs_one(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / name)

    assert main(["init", folder]) == 1
    assert "[fleet-name]" in capsys.readouterr().err
    assert main(["init", folder, "--name", ""]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["init", folder, "--name", "Search"]) == 0


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with reported("init-folder", "fleet-name", "unknown-model"):
        begin(tmp_path, name="1x", models=["minlm"])
    with reported("init-folder"):
        begin(tmp_path / "q\nz", name="Search", models=["minilm"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(init.shutil, "copytree", full)
    with pytest.raises(OSError, match="No space"):
        begin(tmp_path / "search", name="Search", models=["minilm"])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("newer")
def test_an_upgrade_is_shown_and_then_writes_what_was_neither_edited_nor_deleted(repository: Path) -> None:
    (repository / "cdk.json").write_text("{}")
    (repository / "README.md").unlink()
    before = contents(repository)
    found = upgrade(repository)
    assert set(found.replaced) == {"Makefile", "more.txt", "requirements.txt"}
    assert "+all:" in found.replaced["Makefile"]
    assert contents(repository) == before

    upgrade(repository, write=True)
    assert not (repository / "README.md").exists()

    assert (repository / "Makefile").read_text() == "all:\n"
    assert (repository / "more.txt").read_text() == "more\n"
    assert (repository / "cdk.json").read_text() == "{}"
    assert upgrade(repository).replaced == {}


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("name", ["Makefile", "more.txt"], ids=["edited", "of one's own, under a new name"])
def test_a_file_that_init_did_not_write_is_never_written_and_is_shown_again(
    name: str, repository: Path
) -> None:
    (repository / name).write_text("mine:\n")

    for _ in range(2):
        assert set(upgrade(repository, write=True).edited) == {name}
        assert (repository / name).read_text() == "mine:\n"


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("written", range(4))
def test_an_upgrade_that_was_interrupted_is_finished_by_the_next(
    written: int, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "README.md").write_text("mine\n")
    write_whole, left = init.write_whole, iter(range(written))

    def full(path: Path, content: bytes) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        write_whole(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(init, "write_whole", full)
        with contextlib.suppress(OSError):
            upgrade(repository, write=True)
    upgrade(repository, write=True)

    found = upgrade(repository)
    assert (found.before, found.replaced) == ("9.9", {})
    assert (repository / "Makefile").read_text() == "all:\n"
    assert (repository / "README.md").read_text() == "mine\n"


@pytest.mark.parametrize(
    "record",
    [None, "[]", '{"version": "1", "name": "Search"\nimport os", "models": ["minilm"], "files": {}}'],
)
def test_a_folder_that_init_did_not_write_is_refused(record: str | None, tmp_path: Path) -> None:
    if record is not None:
        (tmp_path / RECORD).write_text(record)

    with reported("init-record"):
        upgrade(tmp_path)
