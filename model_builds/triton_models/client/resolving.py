"""Resolution of model names to artifacts, from the manifest of their repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from triton_models.artifact.layout import REQUEST
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Clock, Deadline
from triton_models.client.remembered import Remembered
from triton_models.repository.manifest import Manifest, Repository

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from triton_models.repository.stored_manifest import StoredManifest

# The time for which an unknown name is not looked up again, in seconds.
UNKNOWN_AGE_S = 5.0

# The manifest is read again for this many unknown names, which may come from users, then for one per second.
_LOOK_UPS, _LOOK_UPS_PER_S = 16, 1.0

# The maximum number of cached unknown names; beyond that, all of them are dropped.
_MOST_UNKNOWN = 10_000

# No artifact has a longer name, so such a name is neither looked up again nor cached.
_LONGEST_NAME = 200

_Name = tuple[str, ArtifactTarget | None]


class Names:
    """The names of models in a repository; safe to use from many threads."""

    def __init__(self, repository: Repository, s3: S3Client, *, age_s: float, clock: Clock) -> None:
        self._repository = repository
        self._s3 = s3
        self._clock = clock
        self._stored = Remembered(
            self._read, what=f"the manifest {repository.manifest_url}", age_s=age_s, clock=clock
        )
        self._unknown: dict[_Name, tuple[float, tuple[Problem, ...]]] = {}
        self._last: dict[str, str] = {}
        self._look_ups, self._counted_at = float(_LOOK_UPS), clock.now()

    def artifact(self, model: str, target: ArtifactTarget | None, deadline: Deadline) -> str:
        """Return the artifact that a name refers to on a target.

        For an unknown name the manifest is read again at once, and then not for some seconds. If many names
        are unknown, it is read once per second for all of them.

        Raises:
            FleetError: The model is unknown, it has no artifact for the target, or the manifest cannot be
                read.
        """
        first = self._stored.value is None
        manifest = self._stored.get(deadline).manifest
        known = manifest.knows(model, target)
        problems = () if known else self._problems((model, target))
        if not problems:
            if not known and not first and len(model) <= _LONGEST_NAME and self._may_look_up():
                manifest = self._stored.fresh(deadline).manifest
            try:
                return self._found(manifest, model, target)
            except FleetError as error:
                problems = error.problems
                self._remember((model, target), problems)
        if target is None and model in self._last:
            return self._last[model]
        raise FleetError(problems)

    def another_artifact(
        self, model: str, target: ArtifactTarget | None, than: str, deadline: Deadline
    ) -> str | None:
        """Return the artifact that a name now refers to; None if it has not changed.

        Raises:
            FleetError: As `artifact`.
        """
        if self._stored.seconds_old >= UNKNOWN_AGE_S:
            self._stored.fresh(deadline)
        found = self.artifact(model, target, deadline)
        return None if found == than else found

    def inputs(self, model: str, artifact: str) -> str:
        """Return the inputs of an artifact with their types and shapes, as known without a request to S3."""
        stored = self._stored.value
        if stored is None or model not in stored.manifest.models:
            return ""
        record = stored.manifest.models[model].artifacts.get(artifact)
        listed = record.build.get(REQUEST) if record else None
        if not isinstance(listed, Mapping):
            return ""
        return ", ".join(f"{name} {tensor}" for name, tensor in listed.items())

    def _found(self, manifest: Manifest, model: str, target: ArtifactTarget | None) -> str:
        found = manifest.target_model(model, target)
        if target is None:
            self._last[model] = found
        return found

    def _problems(self, name: _Name) -> tuple[Problem, ...]:
        """Return why a name is unknown, which takes long to find out; empty if it must be looked up."""
        since, problems = self._unknown.get(name, (0.0, ()))
        return problems if self._clock.now() - since < UNKNOWN_AGE_S else ()

    def _may_look_up(self) -> bool:
        now = self._clock.now()
        refilled = self._look_ups + (now - self._counted_at) * _LOOK_UPS_PER_S
        self._look_ups, self._counted_at = min(refilled, _LOOK_UPS), now
        if self._look_ups < 1:
            return False
        self._look_ups -= 1
        return True

    def _remember(self, name: _Name, problems: tuple[Problem, ...]) -> None:
        if len(name[0]) > _LONGEST_NAME:
            return
        if len(self._unknown) >= _MOST_UNKNOWN:
            self._unknown.clear()
        self._unknown[name] = self._clock.now(), problems

    def _read(self, known: StoredManifest | None) -> StoredManifest:
        from triton_models.repository.objects import opened
        from triton_models.repository.stored_manifest import read

        with opened(self._repository.url, self._s3) as store:
            return read(store, known=known, parse=Manifest.by_line)
