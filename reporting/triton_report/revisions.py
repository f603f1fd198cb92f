"""Two revisions of a repository, each synthesised from its own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.base.json_text import read_cdk_json
from triton_report.assembly import Assembly, read_assembly
from triton_report.declared import REQUIREMENTS, Declared

_HERE = Path(sys.executable)
# Where the packages of a checkout lie: they come before those that are installed.
_SOURCE_ROOTS = ("constructs", "model_builds", ".")
# The value of `-c stage=` for all of them; it selects nothing in a project without stages.
_EVERY_STAGE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The deployment of a revision, with the interpreter that synthesized it."""

    name: str
    assembly: Assembly
    declared: Declared
    python: Path = _HERE


def working_tree(project: Path) -> Revision:
    """The project as it is there."""
    return _synthesised(project, name="the working tree")


def committed(project: Path, ref: str, *, install: bool = False) -> Revision:
    """A commit of the project, checked out elsewhere for as long as it takes.

    With `install`, one that requires another version of this library is synthesized in an environment of its
    own, with its requirements.
    """
    commit = _git(project, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if commit is None:
        if _git(project, "rev-parse", "--git-dir") is None:
            raise FleetError.of(
                what="the project is not in a git repository",
                where=str(project),
                why="the base of a report is a commit",
                fix="change to a clone of the repository; `git status` there says why if it is one",
                rule="revision",
            )
        raise FleetError.of(
            what=f"there is no commit {ref!r}",
            where=f"the git repository of {project}",
            fix="fetch the branch, tag or commit: a checkout often has one commit only (fetch-depth: 0)",
            rule="revision",
        )
    with _checkout(project, commit) as folder:
        install = install and Declared.read(folder).library != Declared.read(project).library
        with _environment(folder / REQUIREMENTS) if install else nullcontext(_HERE) as python:
            return _synthesised(folder, name=f"{ref} ({commit[:9]})", python=python)


@contextmanager
def _checkout(project: Path, commit: str) -> Iterator[Path]:
    root = Path(_git(project, "rev-parse", "--show-toplevel") or project)
    with tempfile.TemporaryDirectory(prefix="fleet-report-") as temporary:
        folder = Path(temporary) / "checkout"
        if _git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit) is None:
            msg = f"git cannot check {commit} out into {folder}"
            raise OSError(msg)
        try:
            yield folder / project.resolve().relative_to(root.resolve())
        finally:
            _git(root, "worktree", "remove", "--force", str(folder))


@contextmanager
def _environment(requirements: Path) -> Iterator[Path]:
    """Yield the interpreter of a temporary environment with these requirements."""
    with tempfile.TemporaryDirectory(prefix="fleet-report-") as temporary:
        venv.create(temporary, symlinks=True, with_pip=True)
        python = Path(temporary) / "bin" / "python3"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "-r", requirements]
        wheels = requirements.with_name("wheels")  # which the Makefile of `fleet init` adds as well
        if wheels.is_dir():
            pip += ["--find-links", wheels]
        run = subprocess.run(pip, capture_output=True, text=True, check=False)
        if run.returncode:
            raise FleetError.of(
                what=f"the requirements of the base cannot be installed:\n{run.stderr.strip()[-2000:]}",
                where=f"pip install -r {requirements.name}",
                why="the base is synthesized with the library that it requires",
                fix="make them available, or omit `--install-base`",
                rule="revision-requirements",
            )
        yield python


def _synthesised(folder: Path, *, name: str, python: Path = _HERE) -> Revision:
    settings = read_cdk_json(folder / "cdk.json")
    command = settings.get("app")
    if not isinstance(command, str):
        raise FleetError.of(
            what=f"{name} cannot be synthesised: cdk.json has no command as `app`",
            where=str(folder / "cdk.json"),
            fix='add the command that runs the app: {"app": "python3 app.py", ...}',
            rule="cdk-json",
        )
    with tempfile.TemporaryDirectory(prefix="fleet-report-") as output:
        run = subprocess.run(
            ["sh", "-c", command],  # as the CDK's command line runs it
            cwd=folder,
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
                "PYTHONPATH": os.pathsep.join(str(folder / root) for root in _SOURCE_ROOTS),
                "CDK_CONTEXT_JSON": json.dumps(settings["context"] | {"stage": _EVERY_STAGE}),
                "CDK_OUTDIR": output,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise FleetError.of(
                what=f"{name} cannot be synthesised:\n{(run.stderr or run.stdout).strip()[-4000:]}",
                where=f"`{command}`, as cdk.json says",
                fix="fix what it reports; for an older commit, install its requirements first",
                rule="revision-synthesis",
            )
        return Revision(
            name=name, assembly=read_assembly(Path(output)), declared=Declared.read(folder), python=python
        )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    run = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return None if run.returncode else run.stdout.strip()
