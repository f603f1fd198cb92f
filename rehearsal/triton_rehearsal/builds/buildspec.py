"""Runs a CodeBuild buildspec, version 0.2, on this machine, and fails where CodeBuild fails.

Source of the semantics: AWS CodeBuild user guide, "Build specification reference" and
"Build phase transitions" (read 2026-11-21):
https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html
https://docs.aws.amazon.com/codebuild/latest/userguide/view-build-details-phases.html

Only what a build's commands publish themselves is kept. Artifacts, reports and caches of a buildspec are
ignored here; the fleet's buildspec has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from triton_models.base.errors import FleetError
from triton_rehearsal.builds.shell import CommandShell

_VERSION = "0.2"
_PHASES = ("install", "pre_build", "build", "post_build")
# A failed phase ends the build, except that post_build still runs after a failed build phase.
_RUNS_AFTER_FAILURE_OF = {"post_build": "build"}
_ABORT, _CONTINUE = "ABORT", "CONTINUE"
_SHELLS = {"bash": "bash", "/bin/sh": "sh", "sh": "sh"}
_DEFAULT_SHELL = "sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a build, with its commands and its `finally` commands.

    Attributes:
        name: The phase's name, such as pre_build.
        commands: The commands, run in order until one fails.
        finally_commands: The commands that run after them, even if one failed.
        on_failure: ABORT ends the build, CONTINUE continues with the next phase. Empty for the default: only
            post_build runs after a failed build phase, and nothing after any other failed phase.
    """

    name: str
    commands: tuple[str, ...] = ()
    finally_commands: tuple[str, ...] = ()
    on_failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildspec:
    """A parsed buildspec.

    Attributes:
        variables: `env.variables`; the project's and the build's own variables override them.
        parameters: `env.parameter-store`: the Systems Manager parameters with the values of variables.
        secrets: `env.secrets-manager`: `id:json-key:stage:version` of the secrets with the values of
            variables.
        exported: `env.exported-variables`: the variables that the build shows when it has ended.
        shell: The program that runs the commands: the machine's sh unless `env.shell` is bash.
        phases: The declared phases, in the order in which CodeBuild runs them.
    """

    variables: Mapping[str, str]
    phases: tuple[Phase, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    exported: tuple[str, ...] = ()
    shell: str = _DEFAULT_SHELL


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCommand:
    """The command that ended a build, and its exit status."""

    phase: str
    command: str
    status: int


def parse(text: str) -> Buildspec:
    """Read a buildspec given inline, as JSON or YAML.

    Raises:
        FleetError: The string is not a buildspec of version 0.2, or has an unknown phase.
    """
    document = _load(text)
    if str(document.get("version")) != _VERSION:
        raise FleetError.of(
            what=f"the buildspec has version {document.get('version')!r}",
            where="version of the buildspec",
            expected=_VERSION,
            why="version 0.1 runs each command in a separate shell",
            fix=f"write version: {_VERSION}",
        )
    phases = document.get("phases", {})
    unknown = sorted(set(phases) - set(_PHASES))
    if unknown:
        raise FleetError.of(
            what=f"the buildspec has the phase {unknown[0]!r}",
            where="phases of the buildspec",
            expected=f"one of {', '.join(_PHASES)}",
            why="CodeBuild refuses the build before its first command",
            fix="rename or remove the phase",
        )
    given = document.get("env") or {}
    return Buildspec(
        variables=_texts(given, "variables"),
        parameters=_texts(given, "parameter-store"),
        secrets=_texts(given, "secrets-manager"),
        exported=tuple(given.get("exported-variables") or ()),
        shell=_shell(str(given.get("shell", _DEFAULT_SHELL))),
        phases=tuple(_phase(name, phases[name]) for name in _PHASES if name in phases),
    )


def _texts(given: Mapping[str, Any], key: str) -> dict[str, str]:
    return {name: str(value) for name, value in (given.get(key) or {}).items()}


def _shell(name: str) -> str:
    if name not in _SHELLS:
        raise FleetError.of(
            what=f"env.shell is {name!r}",
            where="env.shell of the buildspec",
            expected=f"one of {', '.join(_SHELLS)}",
            why="CodeBuild has no other shell on Linux",
            fix="use one of them, or remove env.shell",
        )
    return _SHELLS[name]


def _load(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)  # JSON is YAML
    if not isinstance(document, dict):
        raise FleetError.of(
            what="the buildspec is not a mapping",
            where="source of the build project",
            expected="an inline buildspec in YAML or JSON",
            why="the rehearsal does not run buildspec files in the source",
            fix="give the project an inline buildspec",
        )
    return document


def _phase(name: str, content: Mapping[str, Any]) -> Phase:
    on_failure = str(content.get("on-failure", ""))
    if on_failure not in ("", _ABORT, _CONTINUE):
        raise FleetError.of(
            what=f"on-failure is {on_failure!r}",
            where=f"phase {name} of the buildspec",
            expected=f"{_ABORT} or {_CONTINUE}",
            why="the rehearsal does not repeat builds",
            fix="remove on-failure to rehearse the build",
        )
    return Phase(
        name=name,
        commands=tuple(content.get("commands") or ()),
        finally_commands=tuple(content.get("finally") or ()),
        on_failure=on_failure,
    )


class Watcher:
    """Receives the progress of a build; this one ignores it."""

    def begins(self, phase: str) -> None:
        """Note the start of a phase, with or without commands."""

    def runs(self, command: str) -> None:
        """Note the start of a command."""

    def ends(self, phase: str, failure: FailedCommand | None) -> None:
        """Note the end of a phase, with its first failed command if there is one."""


_NOBODY = Watcher()


def run(buildspec: Buildspec, shell: CommandShell, watcher: Watcher = _NOBODY) -> FailedCommand | None:
    """Run the phases in a shell. Returns the first failed command; None if every command succeeded."""
    given = {phase.name: phase for phase in buildspec.phases}
    first: FailedCommand | None = None
    ended_in: Phase | None = None
    for name in _PHASES:
        phase = given.get(name, Phase(name=name))
        if ended_in is not None and not _runs_after(ended_in, name):
            continue
        watcher.begins(name)
        shell.run(f"export CODEBUILD_BUILD_SUCCEEDING={int(first is None)}")
        failure = next(iter(list(_failures(phase, shell, watcher))), None)
        watcher.ends(name, failure)
        first = first or failure
        if failure is not None and phase.on_failure != _CONTINUE:
            ended_in = ended_in or phase
    return first


def _runs_after(failed: Phase, name: str) -> bool:
    return _RUNS_AFTER_FAILURE_OF.get(name) == failed.name and failed.on_failure != _ABORT


def _failures(phase: Phase, shell: CommandShell, watcher: Watcher) -> Iterator[FailedCommand]:
    """Yield the first failed command of each list; the rest of the list is not run."""
    for commands in (phase.commands, phase.finally_commands):
        for command in commands:
            watcher.runs(command)
            status = shell.run(command)
            if status:
                yield FailedCommand(phase=phase.name, command=command, status=status)
                break
