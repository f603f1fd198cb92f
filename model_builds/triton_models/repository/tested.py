"""The artifacts that `fleet smoke` asked, in the file that `fleet promote --only` promotes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_models.artifact.layout import ARCHIVE_SUFFIX, MODEL_NAME
from triton_models.artifact.pack.pack import DIGEST_LENGTH
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.files import write_whole
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.model_record import SHA256, shown

TESTED_CHANGED = Check(id="tested-changed", source=FROM_ARGUMENTS)
TESTED_FILE = Check(id="tested-file", source=FROM_ARGUMENTS)

_VERSION = 1
_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsTested:
    """The artifacts that were tested.

    Attributes:
        repository: The URL of the repository in which they were tested.
        target: The target of the endpoint that served them; None if its alias does not name one.
        artifacts: The SHA-256 of each artifact, by model.
        passed: True if every answer was right.
    """

    repository: str
    target: ArtifactTarget | None
    artifacts: Mapping[str, str]
    passed: bool

    @property
    def names(self) -> list[str]:
        """The names of the artifacts."""
        return [_name(model, sha256) for model, sha256 in self.artifacts.items()]

    def write(self, path: Path) -> None:
        """Write the file."""
        document = {
            "version": _VERSION,
            "passed": self.passed,
            "repository": self.repository,
            "target": None if self.target is None else str(self.target),
            "artifacts": dict(sorted(self.artifacts.items())),
        }
        write_whole(path, (json.dumps(document, indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> ArtifactsTested:
        """Read the file of a test that passed."""
        try:
            document = json.loads(path.read_bytes())
            version, artifacts, target = document["version"], document["artifacts"], document["target"]
            tested = cls(
                repository=Repository.parse(document["repository"]).url,
                target=None if target is None else ArtifactTarget.parse(target),
                artifacts=dict(artifacts.items()),
                passed=document["passed"] is True,
            )
            valid = version == _VERSION and all(
                MODEL_NAME.fullmatch(name) and SHA256.fullmatch(sha256) for name, sha256 in artifacts.items()
            )
        except (OSError, FleetError, *_DAMAGES) as error:
            raise _unusable(f"not a file of tested artifacts: {error}", path) from None
        if not valid:
            raise _unusable("not a file of tested artifacts", path)
        if not tested.passed or not artifacts:
            raise _unusable("the test did not pass" if artifacts else "no artifact was tested", path)
        return tested

    def problems(self, manifest: Manifest, repository: Repository) -> Iterator[Problem]:
        """Yield what has changed in the repository since the test."""
        if self.repository != repository.url:
            yield _changed(f"the test was of {self.repository}", repository.url)
            return
        for name, sha256 in self.artifacts.items():
            tested = _name(name, sha256)
            try:
                now = manifest.target_model(name, self.target)
                found = manifest.model(name).artifacts[now].sha256
            except FleetError as error:
                yield from error.problems
                continue
            if (now, found) != (tested, sha256):
                what = f"{name} is {now} now, SHA-256 {found}; tested was {tested}, SHA-256 {sha256}"
                yield _changed(what, manifest.where)


def _name(model: str, sha256: str) -> str:
    return f"{model}-{sha256[:DIGEST_LENGTH]}{ARCHIVE_SUFFIX}"


def _changed(what: str, where: str) -> Problem:
    return TESTED_CHANGED.problem(
        what=what,
        where=where,
        why="it is not what was tested and approved",
        fix="test what is there now with `fleet smoke --tested FILE`; in deploy.yml, run the workflow again",
    )


def _unusable(what: str, path: Path) -> FleetError:
    return TESTED_FILE.error(
        what=what,
        where=shown(str(path)),
        why="only artifacts that were tested are promoted",
        fix="run `fleet smoke --tested FILE` against the stage to promote from",
    )
