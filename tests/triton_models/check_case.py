"""A case of a check: an artifact that is right, and what only this check refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triton_models.base.errors import FleetError, Problem
from triton_models.check.check import check_path
from triton_models.check.target import target

Spoil = Callable[[Path], Path | None]
"""Makes an artifact wrong; returns where the wrong one is, unless it is where the correct one was."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The target of a check; without an endpoint, a server of one's own.

    Without a release or a GPU it is checked for the one that it was built for.
    """

    release: str | None = "25.09"
    gpu: str | None = "A10G"
    instance_type: str | None = None
    endpoint: str | None = "multi-model"

    def problems(self, path: Path) -> list[Problem]:
        """Return the problems of `fleet check` with an artifact."""
        try:
            wanted = target(
                release=self.release, gpu=self.gpu, instance_type=self.instance_type, endpoint=self.endpoint
            )
        except FleetError as error:
            return list(error.problems)
        return check_path(path, target=wanted)


@dataclass(frozen=True)
class Correct:
    """An artifact that is right on a server."""

    name: str
    write: Callable[[Path], None]
    server: Server = field(default_factory=Server)

    def on(self, server: Server) -> Correct:
        """The same for another server, on which it is correct as well."""
        return replace(self, server=server)

    def __str__(self) -> str:
        return f"{self.name}, {self.server.release}, {self.server.endpoint or 'a server of its own'}"


@dataclass(frozen=True)
class Case:
    """A check, and what it refuses.

    Attributes:
        id: The id of the check.
        wrong: The mistake, in a few words.
        correct: A correct repository.
        spoil: The change that makes it wrong.
        elsewhere: The difference of the server on which it is wrong.
    """

    id: str
    wrong: str
    correct: Correct
    spoil: Spoil = lambda root: None
    elsewhere: Mapping[str, str | None] = field(default_factory=dict)

    def problems(self, root: Path) -> list[Problem]:
        """Return the problems of `fleet check` with the broken artifact."""
        return self.on(self.spoil(root) or root)

    def on(self, path: Path) -> list[Problem]:
        """Return the problems of `fleet check` with an artifact on the server that refuses it."""
        return replace(self.correct.server, **self.elsewhere).problems(path)

    def __str__(self) -> str:
        return f"{self.id}: {self.wrong}"
