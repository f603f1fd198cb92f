"""A buildspec runs as it does in CodeBuild, its commands in one shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

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


def test_after_a_failed_install_nothing_runs_and_after_a_failed_build_only_post_build(run: Run) -> None:
    failure, lines = run(install=["echo before", "(exit 9)", "echo after"], post_build=["echo post"])
    assert failure == buildspec.FailedCommand(phase="install", command="(exit 9)", status=9)
    assert lines == ["before"]
    failure, lines = run(build=["false"], post_build=['echo "succeeding=$CODEBUILD_BUILD_SUCCEEDING"'])
    assert failure == buildspec.FailedCommand(phase="build", command="false", status=1)
    assert lines == ["succeeding=0"]


def test_a_buildspec_in_yaml_is_read_too_and_its_shell_is_sh_unless_it_says_otherwise() -> None:
    spec = buildspec.parse(
        "version: 0.2\nenv:\n  variables:\n    SIZE: 3\nphases:\n  build:\n    commands: [ls]\n"
    )
    assert spec == buildspec.Buildspec(variables={"SIZE": "3"}, phases={"build": ("ls",)})
    assert spec.shell == "sh"
    assert buildspec.parse("version: 0.2\nenv:\n  shell: bash\n").shell == "bash"


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
    with pytest.raises(FleetError, match=r"'buildspec\.yml'"):
        buildspec.parse("buildspec.yml")


# The shell


def test_a_command_gets_what_was_given_and_no_input_and_answers_its_exit_status(
    tmp_path: Path, lines: list[str]
) -> None:
    several_lines = "for status in 0 3\ndo\n  (exit $status)\ndone"
    commands = ("true", "false", "(exit 7)", several_lines, "read -r answer", "echo err >&2", "env")
    with CommandShell(
        environment={**PATH, "GIVEN": "here"}, directory=tmp_path, on_line=lines.append
    ) as shell:
        assert [shell.run(each) for each in commands] == [0, 1, 7, 3, 1, 0, 0]
    assert lines[0] == "err"
    names = {line.partition("=")[0] for line in lines[1:]}
    assert names == {"PATH", "GIVEN", "PWD", "SHLVL", "_"}


@pytest.mark.parametrize(("status", "after"), [(4, 4), (0, 1)])
def test_a_command_that_ends_the_shell_fails_every_later_one(
    shell: CommandShell, status: int, after: int
) -> None:
    shell.run(f"exit {status}")
    assert shell.run("true") == after


@pytest.mark.parametrize("program", ["sh", "bash"])
def test_commands_share_their_shell_also_after_one_that_is_none(
    tmp_path: Path, program: str, lines: list[str]
) -> None:
    with CommandShell(environment=PATH, directory=tmp_path, on_line=lines.append, program=program) as shell:
        shell.run("export COLOUR=green; cd /usr")
        assert shell.run("if then") != 0
        shell.run('echo "$COLOUR in $0 in $PWD"')
    assert lines[-1] == f"green in {program} in /usr"
