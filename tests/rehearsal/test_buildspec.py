"""A buildspec runs as it does in CodeBuild, its commands in one shell."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from aws_for_tests.deployed_functions import running
from triton_models.base.errors import FleetError
from triton_rehearsal.builds import buildspec
from triton_rehearsal.builds.shell import CommandShell

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
Run = Callable[..., tuple[buildspec.FailedCommand | None, list[str]]]


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def shell(tmp_path: Path, lines: list[str]) -> Iterator[CommandShell]:
    environment = {**PATH, "GIVEN": "here"}
    with CommandShell(environment=environment, directory=tmp_path, on_line=lines.append) as opened:
        yield opened


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run_phases(**commands: list[str]) -> tuple[buildspec.FailedCommand | None, list[str]]:
        lines: list[str] = []
        phases = {name: {"commands": each} for name, each in commands.items()}
        spec = buildspec.parse(json.dumps({"version": "0.2", "phases": phases}))
        with CommandShell(environment=PATH, directory=tmp_path, on_line=lines.append) as shell:
            failure = buildspec.run(spec, shell, Mock())
        return failure, lines

    return run_phases


def test_phases_run_in_their_order_whatever_order_they_are_written_in(run: Run) -> None:
    assert run(
        post_build=["echo four"], build=["echo three"], pre_build=["echo two"], install=["echo one"]
    ) == (None, ["one", "two", "three", "four"])


def test_after_a_failed_install_nothing_else_runs(run: Run) -> None:
    failure, lines = run(install=["echo before", "(exit 9)", "echo after"], post_build=["echo post"])
    assert failure == buildspec.FailedCommand(phase="install", command="(exit 9)", status=9)
    assert lines == ["before"]


def test_after_a_failed_build_only_post_build_runs_and_can_tell(run: Run) -> None:
    failure, lines = run(build=["false"], post_build=['echo "succeeding=$CODEBUILD_BUILD_SUCCEEDING"'])
    assert failure is not None
    assert failure.phase == "build"
    assert lines == ["succeeding=0"]


def test_a_buildspec_in_yaml_is_read_too() -> None:
    spec = buildspec.parse(
        "version: 0.2\nenv:\n  variables:\n    SIZE: 3\nphases:\n  build:\n    commands: [ls]\n"
    )
    assert spec == buildspec.Buildspec(variables={"SIZE": "3"}, phases={"build": ("ls",)})


@pytest.mark.parametrize(("given", "said"), [(None, "sh"), ("/bin/sh", "sh"), ("bash", "bash")])
def test_the_shell_is_sh_unless_the_buildspec_says_otherwise(given: str | None, said: str) -> None:
    env = {"shell": given} if given else {}

    assert buildspec.parse(json.dumps({"version": "0.2", "env": env})).shell == said


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"version": "0.1"}, "version '0.1'"),
        ({"phases": {"bulid": {"commands": []}}}, "phase 'bulid'"),
        ({"env": {"shell": "zsh"}}, "shell 'zsh'"),
        ({"env": {"secrets-manager": {"TOKEN": "any:token"}}}, "key of env 'secrets-manager'"),
        ({"phases": {"build": {"commands": [], "on-failure": "ABORT"}}}, "key of build 'on-failure'"),
    ],
)
def test_what_is_not_run_here_is_refused(document: dict[str, Any], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        buildspec.parse(json.dumps({"version": "0.2", **document}))


def test_a_buildspec_in_a_file_is_refused() -> None:
    with pytest.raises(FleetError, match=r"'buildspec\.yml'"):
        buildspec.parse("buildspec.yml")


# The shell


def test_a_command_answers_its_exit_status(shell: CommandShell) -> None:
    several_lines = "for status in 0 3\ndo\n  (exit $status)\ndone"
    assert [shell.run(each) for each in ("true", "false", "(exit 7)", several_lines)] == [0, 1, 7, 3]


def test_the_environment_is_only_what_was_given(shell: CommandShell, tmp_path: Path) -> None:
    shell.run(f"env > {tmp_path}/seen")
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names == {"PATH", "GIVEN", "PWD", "SHLVL", "_"}


def test_standard_error_is_heard_too(tmp_path: Path, lines: list[str]) -> None:
    with CommandShell(environment=PATH, directory=tmp_path, on_line=lines.append) as shell:
        shell.run("echo out; echo err >&2")
    assert lines == ["out", "err"]


@pytest.mark.parametrize(("status", "after"), [(4, 4), (0, 1)])
def test_a_command_that_ends_the_shell_fails_every_later_one(
    shell: CommandShell, status: int, after: int
) -> None:
    shell.run(f"exit {status}")
    assert shell.run("true") == after


def test_a_command_cannot_wait_for_input(shell: CommandShell) -> None:
    assert shell.run("read -r answer") == 1


@pytest.mark.parametrize("program", ["sh", "bash"])
def test_commands_share_their_shell_also_after_one_that_is_none(
    tmp_path: Path, program: str, lines: list[str]
) -> None:
    with CommandShell(environment=PATH, directory=tmp_path, on_line=lines.append, program=program) as shell:
        shell.run("export COLOUR=green; cd /usr")
        assert shell.run("if then") != 0
        shell.run('echo "$COLOUR in $0 in $PWD"')
    assert lines[-1] == f"green in {program} in /usr"


def test_an_interrupted_shell_fails_the_command_that_runs_and_all_after_it(
    shell: CommandShell, tmp_path: Path
) -> None:
    began = tmp_path / "began"

    def interrupt() -> None:
        while not began.exists():
            pass
        shell.interrupt()

    threading.Thread(target=interrupt, daemon=True).start()
    assert [shell.run(f"touch {began}; sleep 600"), shell.run("true")] == [143, 143]


def test_what_a_command_started_in_a_session_of_its_own_ends_with_the_shell(tmp_path: Path) -> None:
    with CommandShell(environment=PATH, directory=tmp_path, on_line=print) as shell:
        # The output is redirected, so that the shell does not wait for it.
        shell.run(f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' >/dev/null 2>&1 &)")
        shell.run(f"while [ ! -s {tmp_path}/pid ]; do sleep 0.02; done")
    assert not running(int((tmp_path / "pid").read_text()))
