"""Runs a CodeBuild buildspec, version 0.2, on this machine, failing where CodeBuild fails.

Source of the semantics: AWS CodeBuild user guide, "Build specification reference" and
"Build phase transitions" (read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from rehearsal.shell import CommandShell
from triton_models.errors import FleetError

_VERSION = "0.2"
_PHASES = ("install", "pre_build", "build", "post_build")
# A phase that fails ends the build, except that post_build still runs after a failed build phase.
_RUNS_AFTER_FAILURE_OF = {"post_build": "build"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a build: its commands, and those that run whatever happened before them."""

    name: str
    commands: tuple[str, ...]
    finally_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildspec:
    """A parsed buildspec.

    Attributes:
        variables: `env.variables`; the project's and the build's own variables win over them.
        phases: Those given, in the order in which CodeBuild runs them.
    """

    variables: Mapping[str, str]
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCommand:
    """The command that ended a build, and its exit status."""

    phase: str
    command: str
    status: int


def parse(text: str) -> Buildspec:
    """Read a buildspec given inline, as JSON or YAML.

    Raises:
        FleetError: It is not a buildspec of version 0.2, or has a phase that does not exist.
    """
    document = _load(text)
    if str(document.get("version")) != _VERSION:
        raise FleetError.of(
            what=f"the buildspec says version {document.get('version')!r}",
            where="version of the buildspec",
            expected=_VERSION,
            why="version 0.1 runs each command in a shell of its own",
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
    variables = document.get("env", {}).get("variables", {})
    return Buildspec(
        variables={name: str(value) for name, value in variables.items()},
        phases=tuple(_phase(name, phases[name]) for name in _PHASES if name in phases),
    )


def _load(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)  # JSON is YAML
    if not isinstance(document, dict):
        raise FleetError.of(
            what="the buildspec is not a mapping",
            where="source of the build project",
            expected="an inline buildspec in YAML or JSON",
            why="a path to a file in the source is not run here",
            fix="give the project an inline buildspec",
        )
    return document


def _phase(name: str, content: Mapping[str, Any]) -> Phase:
    return Phase(
        name=name,
        commands=tuple(content.get("commands", ())),
        finally_commands=tuple(content.get("finally", ())),
    )


def run(buildspec: Buildspec, shell: CommandShell) -> FailedCommand | None:
    """Run the phases in a shell; None if every command succeeded, else the first that failed."""
    first: FailedCommand | None = None
    for phase in buildspec.phases:
        if first is not None and _RUNS_AFTER_FAILURE_OF.get(phase.name) != first.phase:
            continue
        shell.run(f"export CODEBUILD_BUILD_SUCCEEDING={int(first is None)}")
        for failure in _failures(phase, shell):
            first = first or failure
    return first


def _failures(phase: Phase, shell: CommandShell) -> Iterator[FailedCommand]:
    """The first command of each list that fails; the rest of its list is not run."""
    for commands in (phase.commands, phase.finally_commands):
        for command in commands:
            status = shell.run(command)
            if status:
                yield FailedCommand(phase=phase.name, command=command, status=status)
                break
