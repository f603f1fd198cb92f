"""The names of a repository's models: the artifact of each, and its inputs and outputs."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Sequence

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.clock import Clock
from triton_models.base.encoding import Buffer
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Deadline
from triton_models.client.remembered import Remembered
from triton_models.client.signature import Signature, signature_of
from triton_models.repository.manifest import PARTS, ArtifactRecord, Manifest, Rollout
from triton_models.repository.objects import Store
from triton_models.repository.s3 import aws_errors
from triton_models.repository.stored_manifest import StoredManifest, read

NO_REQUEST = Check(id="no-request", source=FROM_ARGUMENTS)

# The time for which an unknown name is not looked up again, in seconds.
UNKNOWN_AGE_S = 5.0

# The manifest is read again for this many unknown names, which may come from users, then for one per second.
_LOOK_UPS, _LOOK_UPS_PER_S = 16, 1.0

# The maximum number of cached unknown names; beyond that, all of them are dropped. The same for signatures.
_MOST_UNKNOWN = _MOST_SIGNATURES = 10_000

# No artifact has a longer name, so such a name is neither looked up again nor cached.
_LONGEST_NAME = 200

_Name = tuple[str, ArtifactTarget | None]


class Names:
    """The names of models in a repository; safe to use from many threads."""

    def __init__(self, store: Store, *, age_s: float, clock: Clock) -> None:
        self._store, self._clock = store, clock
        what = f"the manifest {store.repository.manifest_url}"
        self._stored = Remembered(self._read, what=what, age_s=age_s, clock=clock)
        self._unknown: dict[_Name, tuple[float, tuple[Problem, ...]]] = {}
        self._last: dict[str, str] = {}
        self._signatures: dict[str, Signature] = {}
        self._look_ups, self._counted_at = float(_LOOK_UPS), clock.now()

    def at_hand(self, model: str, target: ArtifactTarget | None) -> bool:
        """Return whether `artifact` answers without waiting for a read."""
        stored = self._stored.value
        return stored is not None and stored.manifest.knows(model, target)

    def artifact(
        self, model: str, target: ArtifactTarget | None, deadline: Deadline, part: int = PARTS
    ) -> str:
        """Return the artifact that a name refers to on a target, for a part of the requests.

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
                found = manifest.chosen(model, target, part)
            except FleetError as error:
                problems = error.problems
                self._remember((model, target), problems)
            else:
                if target is None:
                    self._last[model] = found
                return found
        if target is None and model in self._last:
            return self._last[model]
        raise FleetError(problems)

    def shadow(self, model: str, target: ArtifactTarget | None, part: int) -> Rollout | None:
        """Return the candidate that gets a copy of a request, by the manifest as far as it was read."""
        stored = self._stored.value
        with contextlib.suppress(FleetError):  # of an invalid record, whose name still has its last meaning
            return stored.manifest.shadow(model, target, part) if stored else None
        return None

    def another_artifact(
        self, model: str, target: ArtifactTarget | None, than: str, deadline: Deadline, part: int
    ) -> str | None:
        """Return the artifact that a name now refers to; None if it has not changed."""
        if self._stored.seconds_old >= UNKNOWN_AGE_S:
            self._stored.fresh(deadline)
        found = self.artifact(model, target, deadline, part)
        return None if found == than else found

    def signature(self, model: str, artifact: str) -> Signature | None:
        """Return an artifact's inputs and outputs, without waiting for a read; None if they are unknown."""
        if artifact in self._signatures:
            return self._signatures[artifact]
        record = self._record(model, artifact)
        found = signature_of(record.build) if record else None
        if found is not None:
            if len(self._signatures) >= _MOST_SIGNATURES:
                self._signatures.clear()
            self._signatures[artifact] = found
        return found

    def has_request(self, model: str, artifact: str) -> bool:
        """Return whether an artifact was published with a request that warms it up, without waiting."""
        record = self._record(model, artifact)
        return record is not None and bool(record.request)

    def request(self, model: str, artifact: str) -> tuple[Sequence[Buffer], str]:
        """Return the body and the content type of the request that warms an artifact up, read from S3.

        Raises:
            FleetError: The artifact was published without one, or it cannot be read.
        """
        record = self._record(model, artifact)
        if record is None or not record.request:
            raise NO_REQUEST.error(
                what=f"{model!r} was published without a request that warms it up",
                where=self._store.url,
                why="the smallest example of its declaration is that request",
                fix="declare examples and publish it again, or send it a request of your own",
            )
        with aws_errors(self._store.url):
            document = json.loads(self._store.get_request(record.request))
        return [base64.b64decode(document["body"])], str(document["content_type"])

    def _record(self, model: str, artifact: str) -> ArtifactRecord | None:
        """Return an artifact's record in the manifest, as far as that was read."""
        stored = self._stored.value
        return stored.manifest.record(model=model, artifact=artifact) if stored else None

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
        if len(self._unknown) >= _MOST_UNKNOWN:
            self._unknown.clear()
        if len(name[0]) <= _LONGEST_NAME:
            self._unknown[name] = self._clock.now(), problems

    def _read(self, known: StoredManifest | None) -> StoredManifest:
        with aws_errors(self._store.url):
            return read(self._store, known=known, parse=Manifest.by_line)
