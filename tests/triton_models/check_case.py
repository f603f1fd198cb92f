"""A case of a check: an artifact that is right, and a change that only this check refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.check import check
from triton_models.check.check import Checked, check_path
from triton_models.check.target import target

Spoil = Callable[[Path], Path | None]
"""Makes an artifact wrong; returns where the wrong one is, unless it is where the correct one was."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The target of a check. A release or GPU that is None is that of the artifact's record."""

    release: str | None = "25.09"
    gpu: str | None = "A10G"
    instance_type: str | None = None
    endpoint: str | None = "multi-model"

    def problems(self, path: Path) -> list[Problem]:
        try:
            wanted = target(
                release=self.release, gpu=self.gpu, instance_type=self.instance_type, endpoint=self.endpoint
            )
        except FleetError as error:
            return list(error.problems)
        return check_path(path, target=wanted)


@dataclass(frozen=True)
class Correct:
    name: str
    write: Callable[[Path], None]
    server: Server = field(default_factory=Server)

    def on(self, **server: str | None) -> Correct:
        """The same for another server, on which it is correct as well."""
        return replace(self, server=replace(self.server, **server))

    def __str__(self) -> str:
        return f"{self.name}, {self.server.release}, {self.server.endpoint}"


@dataclass(frozen=True)
class Case:
    """What a check refuses, so many times: a correct artifact after these changes, or on another server.

    The rules of `also` refuse it as well, for a reason of their own.
    """

    id: str
    correct: Correct
    spoils: tuple[Spoil, ...]
    elsewhere: Mapping[str, str | None]
    times: int = 1
    also: tuple[str, ...] = ()

    def spoil(self, root: Path) -> Path:
        self.correct.write(root)
        for spoil in self.spoils:
            root = spoil(root) or root
        return root

    def problems(self, path: Path) -> list[Problem]:
        return replace(self.correct.server, **self.elsewhere).problems(path)

    def __str__(self) -> str:
        return f"{self.id}, {self.correct.name}"


def run(*paths: Path, **options: Any) -> Checked:
    return check.run(check.CheckOptions(paths=paths, **options))


def case(
    rule: str,
    correct: Correct,
    *spoils: Spoil,
    times: int = 1,
    also: tuple[str, ...] = (),
    **elsewhere: str | None,
) -> Case:
    return Case(rule, correct, spoils, elsewhere, times, also)
