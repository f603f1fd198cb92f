"""A buildspec runs as it does in CodeBuild."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_models.base.errors import FleetError
from triton_rehearsal.builds import buildspec
from triton_rehearsal.builds.shell import CommandShell

Run = Callable[..., tuple[buildspec.FailedCommand | None, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run_phases(**phases: Any) -> tuple[buildspec.FailedCommand | None, list[str]]:
        lines: list[str] = []
        spec = buildspec.parse(json.dumps({"version": "0.2", "phases": phases}))
        with CommandShell(
            environment={"PATH": "/usr/bin:/bin"}, directory=tmp_path, on_line=lines.append
        ) as shell:
            failure = buildspec.run(spec, shell)
        return failure, lines

    return run_phases


def test_phases_run_in_their_order_whatever_order_they_are_written_in(run: Run) -> None:
    failure, lines = run(
        post_build={"commands": ["echo four"]},
        build={"commands": ["echo three"]},
        pre_build={"commands": ["echo two"]},
        install={"commands": ["echo one"]},
    )
    assert failure is None
    assert lines == ["one", "two", "three", "four"]


def test_a_failed_command_ends_its_phase_and_is_named(run: Run) -> None:
    failure, lines = run(install={"commands": ["echo before", "(exit 9)", "echo after"]})
    assert failure == buildspec.FailedCommand(phase="install", command="(exit 9)", status=9)
    assert lines == ["before"]


def test_after_a_failed_install_nothing_else_runs(run: Run) -> None:
    _, lines = run(
        install={"commands": ["false"]},
        build={"commands": ["echo build"]},
        post_build={"commands": ["echo post"]},
    )
    assert lines == []


def test_after_a_failed_build_only_post_build_runs_and_can_tell(run: Run) -> None:
    failure, lines = run(
        build={"commands": ["false"]},
        post_build={"commands": ['echo "succeeding=$CODEBUILD_BUILD_SUCCEEDING"']},
    )
    assert failure is not None
    assert failure.phase == "build"
    assert lines == ["succeeding=0"]


def test_finally_runs_after_a_failure(run: Run) -> None:
    _, lines = run(build={"commands": ["false", "echo skipped"], "finally": ["echo cleaned"]})
    assert lines == ["cleaned"]


def test_a_buildspec_in_yaml_is_read_too() -> None:
    spec = buildspec.parse(
        "version: 0.2\nenv:\n  variables:\n    SIZE: 3\nphases:\n  build:\n    commands: [ls]\n"
    )
    assert spec.variables == {"SIZE": "3"}
    assert spec.phases == (buildspec.Phase(name="build", commands=("ls",)),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": "0.1"}', "version '0.1'"),
        ('{"version": "0.2", "phases": {"bulid": {"commands": []}}}', "the phase 'bulid'"),
        ("buildspec.yml", "not a mapping"),
    ],
)
def test_what_codebuild_would_refuse_is_refused(text: str, said: str) -> None:
    with pytest.raises(FleetError, match=said):
        buildspec.parse(text)
