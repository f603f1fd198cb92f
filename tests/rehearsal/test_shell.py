"""The shell that runs a build's commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_rehearsal.builds.shell import CommandShell

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def shell(tmp_path: Path, lines: list[str]) -> Iterator[CommandShell]:
    with CommandShell(
        environment={"PATH": PATH, "GIVEN": "here"}, directory=tmp_path, on_line=lines.append
    ) as opened:
        yield opened


def test_a_command_answers_its_exit_status(shell: CommandShell) -> None:
    assert [shell.run("true"), shell.run("false"), shell.run("(exit 7)")] == [0, 1, 7]


def test_the_environment_is_only_what_was_given(shell: CommandShell, tmp_path: Path) -> None:
    shell.run(f"env > {tmp_path}/seen")
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names == {"PATH", "GIVEN", "PWD", "SHLVL", "_"}


def test_standard_error_is_heard_too(tmp_path: Path, lines: list[str]) -> None:
    with CommandShell(environment={"PATH": PATH}, directory=tmp_path, on_line=lines.append) as shell:
        shell.run("echo out; echo err >&2")
    assert lines == ["out", "err"]


def test_a_command_may_span_lines(shell: CommandShell) -> None:
    assert shell.run("for status in 0 3\ndo\n  (exit $status)\ndone") == 3


def test_a_command_that_ends_the_shell_fails_every_later_one(shell: CommandShell) -> None:
    assert [shell.run("exit 4"), shell.run("true")] == [4, 4]


def test_ending_the_shell_early_with_success_is_still_a_failure_of_what_follows(shell: CommandShell) -> None:
    shell.run("exit 0")
    assert shell.run("true") != 0


def test_a_command_cannot_wait_for_input(shell: CommandShell) -> None:
    assert shell.run("read -r answer") == 1
