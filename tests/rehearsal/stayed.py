"""`fleet rehearse` as a user runs it, and the rehearsal that keeps running with `--stay`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal import generated_models

ROOT = Path(__file__).resolve().parents[2]
FLEET = [sys.executable, "-m", "triton_models", "rehearse"]


def run_fleet(*arguments: str, temporary: Path, cwd: Path = ROOT) -> subprocess.Popen[str]:
    """Start `fleet rehearse` with its own folder for temporary files."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'model_builds'}{os.pathsep}{ROOT}",
        "TMPDIR": str(temporary),
    }
    return subprocess.Popen(
        [*FLEET, *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(temporary: Path) -> list[str]:
    """Return the command lines of the processes in a temporary folder: the rehearsal's children."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # the process has ended meanwhile
            continue
        if str(temporary) in command:
            found.append(command)
    return found


def clone_with(folder: Path, factors: Mapping[str, int], **more: Any) -> Path:
    """Create a clone of this repository with settings, whose models multiply by a number."""
    folder.mkdir()
    shutil.copy(ROOT / "app.py", folder)
    for name in ("stacks", "node_modules"):
        (folder / name).symlink_to(ROOT / name)
    for name, factor in factors.items():
        generated_models.declare(folder / "model_builds" / "models", name, factor)
    settings = json.loads((ROOT / "cdk.json").read_text())
    settings["context"]["tritonFleet"] = {"models": list(factors), **more}
    (folder / "cdk.json").write_text(json.dumps(settings))
    return folder


@dataclass
class Stayed:
    """A running rehearsal."""

    project: Path
    document: dict[str, Any]

    def ask(self, code: str) -> Any:
        """Run Python code in a process with only the exported variables. Returns its last line as JSON."""
        environment = {**self.document["exports"], "PATH": os.environ["PATH"]}
        answer = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout.splitlines()[-1])

    def target(self, model: str) -> str:
        return next(str(made["artifact"]) for made in self.document["predictions"] if made["model"] == model)


@contextmanager
def staying(project: Path, temporary: Path, *arguments: str) -> Iterator[Stayed]:
    """Run the rehearsal of a project until it stays. At the end, an interrupt must leave nothing behind."""
    process = run_fleet(*arguments, "--stay", "--json", temporary=temporary, cwd=project)
    try:
        yield Stayed(project, _read_document(process))
        running = processes_of(temporary)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        left = [*processes_of(temporary), *_shared_memory_of(running), *map(str, temporary.iterdir())]
        assert any("tritonserver" in command for command in running)
        assert (process.returncode, left) == (0, [])
    finally:
        process.kill()
        process.communicate()


def _shared_memory_of(processes: list[str]) -> list[str]:
    """Return the shared memory regions of the Triton servers among some processes."""
    marks = {mark for command in processes for mark in re.findall(r"shm-region-prefix-name=(\S+)", command)}
    return [str(path) for mark in marks for path in Path("/dev/shm").glob(f"{mark}*")]  # noqa: S108


def _read_document(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    if not lines:
        assert process.stderr is not None
        pytest.fail(process.stderr.read())
    document: dict[str, Any] = json.loads("".join(lines))
    return document
