"""The manifest's record of a model: its artifacts, the current one on each target, and its JSON document.

A manifest is data from outside: every build and publisher may write it. The readers refuse a record with a
field of another type, with a name that `fleet publish` would not write, or with a digest that is not the
name's. So what has been read may become a key, a file name or a line on a terminal.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NoReturn, TypeVar, get_args

from triton_models.artifact.evidence import Evidence, evidence_of
from triton_models.artifact.layout import MODEL_NAME
from triton_models.artifact.profile import Profile, profile_document, read_profile
from triton_models.artifact.targets import ANY, ArtifactTarget, content_targets
from triton_models.base.errors import FleetError
from triton_models.facts.tensorrt import TENSORRT_VERSION
from triton_models.repository.s3 import BUILD_AUTHOR


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """The manifest's record of an artifact.

    Attributes:
        build: The content of its build.json: its sources and its target.
        plans: The TensorRT versions that compiled its plans, from the plans themselves.
        portable: True if one of its TensorRT models has an ONNX file instead of a plan. Such an artifact was
            built without a GPU and runs only with a stand-in for TensorRT, as in a rehearsal.
        inputs: The inputs of its build by topic, such as "packages". Empty if not recorded.
        request: The SHA-256 of the request that warms the model up, stored next to it. Empty without one.
        profile: What it needs, estimated from its files or measured; None if not recorded.
        examples: The examples of its author on which it answered as its source does, before it was published;
            None if no verification is recorded.
    """

    size: int
    sha256: str
    build: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    portable: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    request: str = ""
    profile: Profile | None = None
    examples: int | None = None

    @property
    def evidence(self) -> Evidence:
        """What is recorded about its answers."""
        return evidence_of(self.build, examples=self.examples)

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The recorded targets that it runs on."""
        return content_targets(self.build, self.plans)

    def runs_on(self, target: ArtifactTarget) -> bool:
        """Return whether it runs on a target, according to its record."""
        return any(each.covers(target) for each in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a model's current artifact on a target.

    Attributes:
        target: The target; `ANY` for all targets.
        how: The reason: a publication or a rollback.
        at: The time in UTC, by S3's clock.
        by: The author, as stated by the publisher. CloudTrail has the authenticated one.
    """

    artifact: str
    how: Literal["publish", "rollback"]
    at: datetime
    by: str
    target: ArtifactTarget = ANY

    @property
    def run(self) -> str:
        """The id of the run that made it.

        The changes of one write have the same time and author. A build job publishes in several writes, and
        its author is unique.
        """
        key = self.by if self.by.startswith(BUILD_AUTHOR) else f"{in_json(self.at)} {self.by}"
        return hashlib.sha256(key.encode()).hexdigest()[:_RUN_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An artifact that is to become its model's current one.

    Attributes:
        target: The target on which to make it current; None for all targets it runs on.
    """

    model: str
    artifact: str
    record: ArtifactRecord
    target: ArtifactTarget | None = None

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The targets on which it becomes current."""
        return self.record.targets if self.target is None else (self.target,)


Trial = Literal["share", "shadow"]
_Step = Literal["share", "shadow", "promoted", "returned"]
_TRIALS: tuple[Trial, ...] = ("share", "shadow")
_STEPS: Mapping[str, _Step] = {each: each for each in get_args(_Step)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The requests that a candidate gets.

    Attributes:
        how: "share" if it answers them; "shadow" if it gets copies, and its answers are only compared.
        parts: Of 10,000 requests.
        tolerance: The largest difference between the answers of a shadow and of the current version.
    """

    how: Trial = "share"
    parts: int
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A step in the roll-out of a candidate: it gets a share of the requests, or it ended.

    Attributes:
        how: "share" or "shadow", as in `Share`; "promoted", or "returned".
        share: Of 10,000 requests; 0 at the end.
        why: The reason of the end; "" if it was decided by hand.
        tolerance: That of a shadow.
    """

    artifact: str
    how: _Step
    share: int
    at: datetime
    by: str
    why: str = ""
    tolerance: float = 0.0


PARTS = 10_000
"""All requests, in the parts of `Rollout.share`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The record of a model.

    Attributes:
        history: The changes of the current artifact, newest last.
        rollouts: The steps of candidates, newest last.
    """

    current: Mapping[ArtifactTarget, str]
    history: tuple[Change, ...]
    artifacts: Mapping[str, ArtifactRecord]
    rollouts: tuple[Rollout, ...] = ()

    @property
    def candidate(self) -> Rollout | None:
        """The last step of the candidate that gets a share of the requests; None without one."""
        last = self.rollouts[-1] if self.rollouts else None
        return last if last is not None and last.how in _TRIALS else None

    def chosen(self, target: ArtifactTarget | None, part: int) -> str | None:
        """Return the artifact for a request on an endpoint of a target: the current one, or the candidate.

        Args:
            target: See `on`.
            part: The request's part of `PARTS`, by which it always gets the same artifact.
        """
        current, candidate = self.on(target), self._drawn("share", target, part)
        return current if current is None or candidate is None else candidate.artifact

    def shadow(self, target: ArtifactTarget | None, part: int) -> Rollout | None:
        """Return the candidate that gets a copy of a request; None if none does. Arguments as `chosen`."""
        return self._drawn("shadow", target, part)

    def _drawn(self, how: Trial, target: ArtifactTarget | None, part: int) -> Rollout | None:
        candidate = self.candidate
        if candidate is None or candidate.how != how or part >= candidate.share:
            return None
        runs = target is None or self.artifacts[candidate.artifact].runs_on(target)
        return candidate if runs else None

    def moved_for(self, target: ArtifactTarget) -> ArtifactTarget | None:
        """Return the target whose current artifact applies to an endpoint: its own, or a wider one.

        None if neither has a current artifact.
        """
        covering = [each for each in self.current if each.covers(target)]
        return min(covering, key=lambda each: each.width, default=None)

    def on(self, target: ArtifactTarget | None) -> str | None:
        """Return the current artifact on an endpoint of a target; None if there is none.

        The result of `moved_for` takes precedence. Otherwise it is the newest of the artifacts that are
        current for other targets and run on this one too, such as an ONNX model built only for another
        endpoint. Without a target, it is the artifact that is current everywhere.
        """
        if target is None:
            artifacts = {*self.current.values()}
            return artifacts.pop() if len(artifacts) == 1 else None
        moved = self.moved_for(target)
        if moved is not None:
            return self.current[moved]
        last = {change.target: number for number, change in enumerate(self.history)}
        for each in sorted(self.current, key=lambda each: (-last.get(each, -1), str(each))):
            record = self.artifacts.get(self.current[each])
            if record is not None and record.runs_on(target):
                return self.current[each]
        return None

    def earlier(self, target: ArtifactTarget = ANY) -> tuple[str, ...]:
        """Return the artifacts for `fleet rollback` on a target, the next one last.

        Repeated rollbacks go further back, and never to an artifact that was withdrawn by a rollback.
        """
        stack: list[str] = []
        for change in self.history_of(target):
            if change.how == "rollback" and change.artifact in stack:
                del stack[stack.index(change.artifact) + 1 :]
            else:
                stack = [name for name in stack if name != change.artifact] + [change.artifact]
        return tuple(name for name in stack if name != self.on(target))

    def history_of(self, target: ArtifactTarget) -> tuple[Change, ...]:
        """Return the changes that applied to a target, newest last."""
        return tuple(change for change in self.history if change.target.covers(target))

    def by_publication(self, target: ArtifactTarget | None = None) -> tuple[str, ...]:
        """Return the artifacts in the order of their last publication."""
        changes = self.history if target is None else self.history_of(target)
        order = dict.fromkeys(self.artifacts, -1) if target is None else {}
        for number, change in enumerate(changes):
            if change.how == "publish" and change.artifact in self.artifacts:
                order[change.artifact] = number
        return tuple(sorted(order, key=lambda name: order[name]))

    def left_at(self, artifact: str) -> datetime | None:
        """Return the time until which an artifact was current; None if it still is, or if not recorded."""
        if artifact in self.current.values() or (self.candidate and self.candidate.artifact == artifact):
            return None
        standing: dict[ArtifactTarget, str] = {}
        left = next((each.at for each in reversed(self.rollouts) if each.artifact == artifact), None)
        for change in self.history:
            before, standing = standing, _moved(standing, change)
            if artifact in before.values() and artifact not in standing.values():
                left = change.at
        return left

    def before(self, number: int) -> ModelRecord:
        """Return the record before a change, by its index in the history."""
        current: dict[ArtifactTarget, str] = {}
        for change in self.history[:number]:
            current = _moved(current, change)
        return replace(self, current=current, history=self.history[:number])

    def has(self, wanted: Publication) -> bool:
        """Return whether an artifact is recorded as it is, and current for its targets."""
        current = all(self.current.get(target) == wanted.artifact for target in wanted.targets)
        return current and self.artifacts.get(wanted.artifact) == wanted.record

    def with_published(self, wanted: Publication, *, at: datetime, by: str) -> ModelRecord:
        """Return a record in which an artifact is current for its targets; itself if nothing changes.

        It also replaces the current ones of narrower targets, because the newest publication counts.
        """
        change = Change(artifact=wanted.artifact, how="publish", at=at, by=by)
        changes = [replace(change, target=target) for target in wanted.targets]
        moving = [change for change in changes if _moved(self.current, change) != self.current]
        if not moving and self.artifacts.get(wanted.artifact) == wanted.record:
            return self
        record = replace(self, artifacts={**self.artifacts, wanted.artifact: wanted.record})
        if moving and self.candidate is not None:
            record = record.ended(wanted.artifact, at=at, by=by, why="another artifact was published")
        return record.with_changes(moving)

    def with_candidate(self, wanted: Publication, *, share: Share, at: datetime, by: str) -> ModelRecord:
        """Return a record in which an artifact gets a share of the requests; itself if nothing changes."""
        last = self.candidate
        step = Rollout(
            artifact=wanted.artifact,
            how=share.how,
            share=share.parts,
            tolerance=share.tolerance,
            at=at,
            by=by,
        )
        if last is not None and replace(last, at=at, by=by) == step:
            return self
        artifacts = {**self.artifacts, wanted.artifact: wanted.record}
        return replace(self, artifacts=artifacts, rollouts=(*self.rollouts, step))

    def ended(self, current: str, *, at: datetime, by: str, why: str = "") -> ModelRecord:
        """Return a record without a candidate, which is promoted if it is to be the current artifact."""
        candidate = self.candidate
        if candidate is None:
            return self
        promoted = candidate.artifact == current
        step = replace(
            candidate,
            how="promoted" if promoted else "returned",
            share=0,
            at=at,
            by=by,
            why="" if promoted else why,
            tolerance=0.0,
        )
        return replace(self, rollouts=(*self.rollouts, step))

    def with_changes(self, changes: Iterable[Change]) -> ModelRecord:
        """Return a record with changes applied."""
        current, history = self.current, self.history
        for change in changes:
            current, history = _moved(current, change), (*history, change)
        return replace(self, current=current, history=history)

    def without(self, artifacts: set[str]) -> ModelRecord:
        """Return a record without some artifacts, and without the targets on which they were current."""
        return ModelRecord(
            current={target: name for target, name in self.current.items() if name not in artifacts},
            history=tuple(change for change in self.history if change.artifact not in artifacts),
            artifacts={name: each for name, each in self.artifacts.items() if name not in artifacts},
            rollouts=tuple(step for step in self.rollouts if step.artifact not in artifacts),
        )


NEW = ModelRecord(current={}, history=(), artifacts={})
"""The record of a model before its first publication."""


def _moved(current: Mapping[ArtifactTarget, str], change: Change) -> dict[ArtifactTarget, str]:
    """Return the current artifacts after a change. A rollback does not affect narrower targets."""
    kept = {
        target: name
        for target, name in current.items()
        if change.how == "rollback" or target == change.target or not change.target.covers(target)
    }
    return {**kept, change.target: change.artifact}


MOST_LEVELS = 40
"""The depth to which a record may be nested. `json` parses and writes a document recursively."""

ARTIFACT_NAME = re.compile(r"(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*)-(?P<digest>[0-9a-f]{16})\.tar\.gz")
"""The name of an artifact, whose digits are the first of its SHA-256."""

SHA256 = re.compile(r"[0-9a-f]{64}")
"""A SHA-256, in hexadecimal."""

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_MOST_BYTES = 1 << 50  # more than S3 stores in an object
_SHOWN = 80
_RUN_DIGITS = 12

# The first line and the end of what `Manifest.to_json` writes. Between them, each line is a model.
_HEAD = re.compile(rb'\{"version": 2, "deleting": (\{[^\n]*\}), "models": \{\n')
_MODEL = re.compile(rb'"([^"\\\x80-\xff]*)": \{')
_END = b"\n}}\n"

_KINDS = {
    str: "a string",
    int: "an integer",
    float: "a fraction",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_Kind = TypeVar("_Kind", str, int, bool, float, "list[Any]", "dict[str, Any]")


class ModelLines(Mapping[str, ModelRecord]):
    """The models of a document, each parsed when it is first asked for; safe to use from many threads."""

    def __init__(self, lines: Mapping[str, bytes], invalid: Callable[[str, str], FleetError]) -> None:
        self._lines = lines
        self._invalid = invalid
        self._parsed: dict[str, ModelRecord] = {}

    def __getitem__(self, name: str) -> ModelRecord:
        found = self._parsed.get(name)
        if found is None:
            line = self._lines[name]
            try:
                found = model_record(name, json.loads(line, parse_constant=refuse_constant))
            except (ValueError, RecursionError) as error:
                raise self._invalid(name, str(error)) from None
            self._parsed[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def lines_of(document: bytes) -> tuple[Mapping[str, str], Mapping[str, bytes]] | None:
    """Return what a document of version 2 deletes, and the line of each model; None for another layout.

    A string in JSON has no line breaks, so a line that begins with a name and ends with its brace is a model.
    """
    head = _HEAD.match(document)
    if head is None or not document.endswith(_END):
        return None
    lines: dict[str, bytes] = {}
    begin, end = head.end(), len(document) - len(_END)
    while begin < end:
        stop = document.find(b"\n", begin, end)
        last = stop < 0
        stop = end if last else stop - 1  # without its comma
        model = _MODEL.match(document, begin, stop)
        if model is None or document[stop - 1 : stop + 1] != (b"}\n" if last else b"},"):
            return None
        lines[model[1].decode()] = document[model.end() - 1 : stop]
        begin = stop + 2
    try:
        return dict(json.loads(head[1])), lines
    except (ValueError, RecursionError):
        return None


def in_json(moment: datetime) -> str:
    """Return a time in UTC, such as "2026-11-21T13:20:05Z"."""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def model_document(model: ModelRecord) -> dict[str, Any]:
    """Return the document of a model."""
    return {
        "current": {str(target): artifact for target, artifact in model.current.items()},
        "history": [
            {
                "target": str(change.target),
                "artifact": change.artifact,
                "how": change.how,
                "at": in_json(change.at),
                "by": change.by,
            }
            for change in model.history
        ],
        **({"rollouts": [_rollout_document(each) for each in model.rollouts]} if model.rollouts else {}),
        "artifacts": {
            name: {
                "size": each.size,
                "sha256": each.sha256,
                "build": dict(each.build),
                "plans": list(each.plans),
                "portable": each.portable,
                # For readers that lack the tables of releases and GPUs.
                "targets": [str(target) for target in each.targets],
                **({"inputs": dict(each.inputs)} if each.inputs else {}),
                **({"request": each.request} if each.request else {}),
                **({"profile": profile_document(each.profile)} if each.profile else {}),
                **({} if each.examples is None else {"examples": each.examples}),
            }
            for name, each in model.artifacts.items()
        },
    }


def _rollout_document(step: Rollout) -> dict[str, Any]:
    document = {"artifact": step.artifact, "how": step.how, "share": step.share, "at": in_json(step.at)}
    rest = {"by": step.by, "why": step.why, "tolerance": step.tolerance}
    return {**document, **{name: each for name, each in rest.items() if each or name == "by"}}


def model_record(name: str, document: Any) -> ModelRecord:
    """Read a model from its document.

    Raises:
        ValueError: It is not the record of that model.
    """
    if not MODEL_NAME.fullmatch(name):
        raise ValueError(f"{shown(name)} is not the name of a model")
    artifacts = {each: _artifact(name, each, of) for each, of in _get(document, "artifacts", dict).items()}
    current = {
        _target(target): _known(_is(artifact, "current", str), artifacts)
        for target, artifact in _get(document, "current", dict).items()
    }
    history = tuple(
        _change(change, _target(_get(change, "target", str)), artifacts)
        for change in _get(document, "history", list)
    )
    rollouts = tuple(_rollout(step, artifacts) for step in _get(document, "rollouts", list, default=[]))
    return ModelRecord(current=current, history=history, artifacts=artifacts, rollouts=rollouts)


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


def levels(value: Any, *, at_most: int = MOST_LEVELS) -> int:
    """Return the depth to which a document is nested; `at_most` + 1 if it is deeper."""
    depth, level = 0, [value]
    while level and depth <= at_most:
        depth += 1
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [
            inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def shown(value: Any) -> str:
    """Return a value of a document for an error: short, and without control characters."""
    simple = isinstance(value, str | int | float | bool | None)
    text = ascii(value) if simple else _KINDS.get(type(value), type(value).__name__)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _artifact(model: str, name: str, document: Any) -> ArtifactRecord:
    match = ARTIFACT_NAME.fullmatch(name)
    if match is None or match["model"] != model:
        raise ValueError(f"{shown(name)} is not the name of an artifact of {model}")
    sha256, size = _get(document, "sha256", str), _get(document, "size", int)
    request = _get(document, "request", str, default="")
    if not SHA256.fullmatch(sha256) or not sha256.startswith(match["digest"]):
        raise ValueError(f"the sha256 of {name} is {shown(sha256)}")
    if request and not SHA256.fullmatch(request):
        raise ValueError(f"the request of {name} is {shown(request)}")
    if not 0 <= size <= _MOST_BYTES:
        raise ValueError(f"the size of {name} is {shown(size)}")
    inputs = _get(document, "inputs", dict, default={})
    examples = _get(document, "examples", int) if "examples" in document else None
    if examples is not None and examples < 0:
        raise ValueError(f"the examples of {name} are {shown(examples)}")
    record = ArtifactRecord(
        size=size,
        sha256=sha256,
        build=_build(_get(document, "build", dict)),
        plans=tuple(_tensorrt(each, "plans") for each in _get(document, "plans", list)),
        portable=_get(document, "portable", bool),
        inputs={topic: _is(each, "inputs", str) for topic, each in inputs.items()},
        request=request,
        profile=read_profile(model, document["profile"]) if "profile" in document else None,
        examples=examples,
    )
    for target in record.targets:
        _target(str(target))
    return record


def _build(build: dict[str, Any]) -> dict[str, Any]:
    """Refuse a build.json with other types in the fields that targets are computed from."""
    if levels(build) > MOST_LEVELS:
        raise ValueError(f"build is nested deeper than {MOST_LEVELS} levels")
    gpu = build.get("gpu")
    for each in gpu if isinstance(gpu, list) else [gpu]:
        if each is not None:
            _is(each, "build.gpu", str)
    if build.get("release") is not None:
        _get(build, "release", str)
    if build.get("tensorrt") is not None:
        _tensorrt(build["tensorrt"], "build.tensorrt")
    for plan in (_get(build, "plans", dict) if build.get("plans") is not None else {}).values():
        if _is(plan, "build.plans", dict).get("hardware") is not None:
            _get(plan, "hardware", str)
    return build


def _tensorrt(value: Any, field: str) -> str:
    version = _is(value, field, str)
    if not TENSORRT_VERSION.fullmatch(version):
        raise ValueError(f"{field} is {shown(version)}, not a version of TensorRT")
    return version


def _target(text: str) -> ArtifactTarget:
    try:
        return ArtifactTarget.parse(text)
    except FleetError:
        raise ValueError(f"{shown(text)} is not a target") from None


def _known(artifact: str, artifacts: Mapping[str, ArtifactRecord]) -> str:
    if artifact not in artifacts:
        raise ValueError(f"there is no record of the artifact {shown(artifact)}")
    return artifact


def _change(document: Any, target: ArtifactTarget, artifacts: Mapping[str, ArtifactRecord]) -> Change:
    said = _get(document, "how", str)
    how: Literal["publish", "rollback"] = "rollback" if said == "rollback" else "publish"
    if how != said:
        raise ValueError(f"how is {shown(said)}, not publish or rollback")
    return Change(
        target=target,
        artifact=_known(_get(document, "artifact", str), artifacts),
        how=how,
        at=_parsed(_get(document, "at", str)),
        by=_get(document, "by", str),
    )


def _rollout(document: Any, artifacts: Mapping[str, ArtifactRecord]) -> Rollout:
    said, share = _get(document, "how", str), _get(document, "share", int)
    how, tolerance = _STEPS.get(said), _get(document, "tolerance", float, default=0.0)
    if how is None:
        raise ValueError(f"how is {shown(said)}, not one of {', '.join(_STEPS)}")
    most = {"share": PARTS - 1, "shadow": PARTS}.get(how, 0)
    if not min(most, 1) <= share <= most:
        raise ValueError(f"share is {shown(share)}, not a number of 1 to {PARTS - 1}, or 0 at the end")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance is {shown(tolerance)}, not a number from 0")
    return Rollout(
        artifact=_known(_get(document, "artifact", str), artifacts),
        how=how,
        share=share,
        at=_parsed(_get(document, "at", str)),
        by=_get(document, "by", str),
        why=_get(document, "why", str, default=""),
        tolerance=tolerance,
    )


def _parsed(moment: str) -> datetime:
    if not _TIME.fullmatch(moment):
        raise ValueError(f"at is {shown(moment)}, not a time such as 2026-11-21T13:20:05Z")
    # fromisoformat takes a tenth of strptime's time, and supports "Z" only from Python 3.11 on.
    return datetime.fromisoformat(moment.removesuffix("Z") + "+00:00")


def _get(document: Any, field: str, kind: type[_Kind], *, default: _Kind | None = None) -> _Kind:
    """Return a field of an object, which has that type and, if it is a string, no control characters."""
    found = _is(document, "the record", dict).get(field, default)
    return _is(found, field, kind)


def _is(value: Any, field: str, kind: type[_Kind]) -> _Kind:
    printable = not isinstance(value, str) or value.isprintable()
    if type(value) is kind and printable:  # isinstance would accept True as an integer
        return value
    raise ValueError(f"{field} is {shown(value)}, not {_KINDS[kind] if printable else 'printable'}")
