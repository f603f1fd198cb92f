"""The phases after a failed phase of a build, with their shell and record."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from aws_for_tests.deployed_functions import running
from triton_models.base.errors import FleetError
from triton_rehearsal.builds import buildspec
from triton_rehearsal.builds.buildspec import FailedCommand
from triton_rehearsal.builds.shell import CommandShell

PATH = {"PATH": "/usr/bin:/bin"}


class Recorded(buildspec.Watcher):
    """Records the phases and commands."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, bool]] = []
        self.commands: list[str] = []

    def runs(self, command: str) -> None:
        self.commands.append(command)

    def ends(self, phase: str, failure: FailedCommand | None) -> None:
        self.phases.append((phase, failure is None))


def run(folder: Path, **phases: Any) -> Recorded:
    recorded = Recorded()
    spec = buildspec.parse(json.dumps({"version": "0.2", "phases": phases}))
    with CommandShell(environment=PATH, directory=folder, on_line=lambda _: None) as shell:
        buildspec.run(spec, shell, recorded)
    return recorded


def test_every_phase_is_reported_also_one_without_a_command(tmp_path: Path) -> None:
    recorded = run(tmp_path, build={"commands": ["true"]})

    assert recorded.phases == [("install", True), ("pre_build", True), ("build", True), ("post_build", True)]


def test_abort_keeps_post_build_from_running_after_a_failed_build(tmp_path: Path) -> None:
    recorded = run(tmp_path, build={"commands": ["false"], "on-failure": "ABORT"})

    assert recorded.phases[-1] == ("build", False)


def test_continue_goes_on_with_the_next_phase(tmp_path: Path) -> None:
    recorded = run(tmp_path, install={"commands": ["false"], "on-failure": "CONTINUE"})

    assert recorded.phases == [("install", False), ("pre_build", True), ("build", True), ("post_build", True)]


def test_a_failed_finally_fails_its_phase(tmp_path: Path) -> None:
    recorded = run(tmp_path, install={"commands": ["true"], "finally": ["false"]})

    assert recorded.phases == [("install", False)]
    assert recorded.commands == ["true", "false"]


@pytest.mark.parametrize(("given", "said"), [(None, "sh"), ("/bin/sh", "sh"), ("bash", "bash")])
def test_the_shell_is_sh_unless_the_buildspec_says_otherwise(given: str | None, said: str) -> None:
    env = {"shell": given} if given else {}

    assert buildspec.parse(json.dumps({"version": "0.2", "env": env})).shell == said


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"env": {"shell": "zsh"}}, "env.shell is 'zsh'"),
        ({"phases": {"build": {"commands": [], "on-failure": "RETRY"}}}, "on-failure is 'RETRY'"),
    ],
)
def test_what_is_not_run_here_is_refused(document: dict[str, Any], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        buildspec.parse(json.dumps({"version": "0.2", **document}))


def shell_of(folder: Path, program: str, lines: list[str]) -> CommandShell:
    return CommandShell(environment=PATH, directory=folder, on_line=lines.append, program=program)


@pytest.mark.parametrize("program", ["sh", "bash"])
def test_a_command_that_is_no_command_fails_and_the_next_one_runs(tmp_path: Path, program: str) -> None:
    with shell_of(tmp_path, program, []) as shell:
        assert [shell.run("if then") != 0, shell.run("true")] == [True, 0]


@pytest.mark.parametrize("program", ["sh", "bash"])
def test_commands_share_their_shell(tmp_path: Path, program: str) -> None:
    lines: list[str] = []
    with shell_of(tmp_path, program, lines) as shell:
        shell.run("export COLOUR=green; cd /usr")
        shell.run('echo "$COLOUR in $0 in $PWD"')
    assert lines == [f"green in {program} in /usr"]


def test_an_interrupted_shell_fails_the_command_that_runs_and_all_after_it(tmp_path: Path) -> None:
    began = tmp_path / "began"
    with shell_of(tmp_path, "bash", []) as shell:

        def interrupt() -> None:
            while not began.exists():
                pass
            shell.interrupt()

        threading.Thread(target=interrupt, daemon=True).start()
        assert [shell.run(f"touch {began}; sleep 600"), shell.run("true")] == [143, 143]


def test_what_a_command_started_in_a_session_of_its_own_ends_with_the_shell(tmp_path: Path) -> None:
    with shell_of(tmp_path, "bash", []) as shell:
        # The output is redirected, so that the shell does not wait for it.
        shell.run(f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' >/dev/null 2>&1 &)")
        shell.run(f"while [ ! -s {tmp_path}/pid ]; do sleep 0.02; done")
    assert not running(int((tmp_path / "pid").read_text()))
