"""Runs a CodeBuild buildspec, version 0.2, on this machine, and fails where CodeBuild fails.

Source of the semantics: AWS CodeBuild user guide, "Build specification reference" and
"Build phase transitions" (read 2026-11-21):
https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html
https://docs.aws.amazon.com/codebuild/latest/userguide/view-build-details-phases.html

What a fleet's buildspecs do not have is refused by name: `finally`, `on-failure`, and variables from
parameters or secrets in `env`. Only what a build's commands publish themselves is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import yaml

from triton_models.base.errors import FleetError
from triton_rehearsal.builds.shell import CommandShell

_PHASES = ("install", "pre_build", "build", "post_build")
_SHELLS = {"bash": "bash", "/bin/sh": "sh", "sh": "sh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildspec:
    """A parsed buildspec."""

    variables: Mapping[str, str]  # those of the project and of the build override them
    phases: Mapping[str, tuple[str, ...]]  # each phase runs its own commands in order until one fails
    exported: tuple[str, ...] = ()  # variables that the build shows when it has ended
    shell: str = "sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCommand:
    """The command that ended a build, and its exit status."""

    phase: str
    command: str
    status: int


def parse(text: str) -> Buildspec:
    """Read a buildspec given inline, as JSON or YAML."""
    document = yaml.safe_load(text)  # JSON is YAML
    if not isinstance(document, dict):
        raise _refused(f"the buildspec is {text[:100]!r}", "an inline buildspec in YAML or JSON")
    env, phases = document.get("env") or {}, document.get("phases") or {}
    shell = str(env.get("shell", "sh"))
    _check("version", [str(document.get("version"))], ("0.2",))
    _check("phase", phases, _PHASES)
    _check("key of env", env, ("shell", "variables", "exported-variables"))
    _check("shell", [shell], tuple(_SHELLS))
    for name, phase in phases.items():
        _check(f"key of {name}", phase, ("commands",))
    return Buildspec(
        variables={name: str(value) for name, value in (env.get("variables") or {}).items()},
        exported=tuple(env.get("exported-variables") or ()),
        shell=_SHELLS[shell],
        phases={name: tuple(phase.get("commands") or ()) for name, phase in phases.items()},
    )


def _check(part: str, given: Mapping[str, Any] | list[str], known: tuple[str, ...]) -> None:
    for each in given:
        if each not in known:
            raise _refused(f"the buildspec has the {part} {each!r}", f"one of {', '.join(known)}")


def _refused(what: str, expected: str) -> FleetError:
    return FleetError.of(
        what=what,
        where="source of the build project",
        why="the rehearsal runs nothing else",
        fix=f"use {expected}, or remove it to rehearse the build",
    )


class _Watcher(Protocol):
    """Receives the progress of a build."""

    def begins(self, phase: str) -> None: ...
    def runs(self, command: str) -> None: ...
    def ends(self, phase: str, failure: FailedCommand | None) -> None: ...


def run(buildspec: Buildspec, shell: CommandShell, watcher: _Watcher) -> FailedCommand | None:
    """Run the phases in a shell. Returns the first failed command; None if every command succeeded.

    A failed phase ends the build, except that post_build still runs after a failed build phase.
    """
    first: FailedCommand | None = None
    for name in _PHASES:
        if first is not None and (first.phase, name) != ("build", "post_build"):
            continue
        watcher.begins(name)
        shell.run(f"export CODEBUILD_BUILD_SUCCEEDING={int(first is None)}")
        failure = None
        for command in buildspec.phases.get(name, ()):
            watcher.runs(command)
            if status := shell.run(command):
                failure = FailedCommand(phase=name, command=command, status=status)
                break
        watcher.ends(name, failure)
        first = first or failure
    return first
