"""`fleet why`: why a model does not load, or is slow, by everything that knows of it, in one page.

Each source is read on its own: one that cannot be read is named, and the others still say what they know.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeAlias, TypeVar

import boto3.session
from botocore.exceptions import BotoCoreError, ClientError

from triton_models.artifact.profile import LIKELY, MIB
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base.alarm_condition import RUNBOOK
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.base.tables import Column, table
from triton_models.check.fits import LIMITS, no_room, room_of, share_of
from triton_models.repository.alias import Aliased, endpoint_of
from triton_models.repository.endpoints import Endpoint, deployed
from triton_models.repository.manifest import PARTS, ArtifactRecord, in_json, some_of
from triton_models.repository.objects import Store, opened
from triton_models.repository.s3 import absent_is_none, error_code, error_message
from triton_models.repository.stored_manifest import read as read_manifest
from triton_models.signals.counts import Counts
from triton_models.signals.endpoint_log import Event, events
from triton_models.signals.options import WhyOptions
from triton_models.signals.stored import read as read_signals
from triton_models.signals.top import CELLS, Row

WHY = Check(id="why", source=FROM_ARGUMENTS)

_REFUSED = frozenset({WHY.id, "unknown-model", "ambiguous-target", "manifest-record"})
"""The rules of errors that end the command: the others are of a source that cannot be read."""

_OFTEN = 2
"""A cache evicts each model now and then: one that is evicted more than once is loaded again and again."""
_LOAD_WAIT_S = 60.0
"""SageMaker answers 429 if a model has not been loaded by then: see `LOAD_WAIT_S` of the rehearsal."""
_FAILED, _WAITED, _MISSED, _BUSY = 0.01, 0.01, 0.2, 0.9
_HOUR_S, _DAY_S = 3600, 86_400
_UNREAD = "not read"

_TRAPS, _DAY_TWO = "docs/traps.md", "docs/day_two.md"
_READ_LOG = "read the endpoint's log after that time"
_REBUILD = "publish it from a build job of the endpoint's GPU and release"
_MORE_MEMORY = (
    "use an instance type with more GPU memory, make models smaller (FP16, fewer instances in config.pbtxt), "
    "or move some to a second endpoint: `fleet plan --from-logs` compares the costs"
)
_ENDS = {"failed": "does not load", "full": "gets no memory", "began": "began to load and has not ended"}
"""How a load ends that does not succeed, by the kind of its event."""
_REMEDIES = {
    "unable to find backend": "name a backend that the image has, and publish it again",
    "No module named": "add the package to the environment of the model, and publish it again",
    "incompatible device": _REBUILD,
    "version tag": _REBUILD,
    "config.pbtxt": "correct its config.pbtxt (`fleet check` finds the line), and publish it again",
    "": "correct what Triton names, check it with `fleet verify`, and publish it again",
}
"""What to do about a reason of Triton with these words; the first counts."""

_METRICS = {
    "AWS/SageMaker": ("ModelCacheHit", "ModelLoadingWaitTime", "ModelUnloadingTime"),
    "/aws/sagemaker/Endpoints": ("LoadedModelCount", "GPUUtilization", "GPUMemoryUtilization"),
}
"""Metrics of the endpoint, by namespace: `triton_fleet.parts.metrics.facts` has the units."""


class Cause(NamedTuple):
    """What is wrong, what to do, and a page about it."""

    what: str
    fix: str
    see: str = ""


class Fact(NamedTuple):
    """What a source says, or why it was `_UNREAD`."""

    source: str
    what: str
    found: str


T = TypeVar("T")
Finding: TypeAlias = Cause | Fact
Findings: TypeAlias = Generator[Finding, None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The result of `fleet why`: the causes, the most likely first."""

    model: str
    endpoint: str
    causes: Sequence[Cause]
    facts: Sequence[Fact]

    @property
    def exit_code(self) -> int:
        """1 if a cause was found."""
        return 1 if self.causes else 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "model": self.model,
            "endpoint": self.endpoint,
            "causes": [each._asdict() for each in self.causes],
            "facts": [each._asdict() for each in self.facts],
        }

    def lines(self) -> Iterator[str]:
        """Yield the causes with what to do, and a table of what was read."""
        count = len(self.causes)
        yield f"{self.model} on {self.endpoint}: {count or 'no'} cause{'s' * (count != 1)} found."
        if not count:
            yield f"If it is slow nevertheless, measure it: `fleet load {self.model}`."
        for number, cause in enumerate(self.causes, start=1):
            yield ""
            yield f"{number}. {cause.what}"
            yield f"   What to do: {cause.fix}.{f' See {cause.see}.' if cause.see else ''}"
        yield ""
        titles = enumerate(("from", "what", "found"))
        columns = [Column(title=title, cells=[each[at] for each in self.facts]) for at, title in titles]
        yield from table(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The question: a model on an endpoint, from a time until now, in seconds since 1970."""

    model: str
    place: Aliased
    since: float
    now: float

    @property
    def hours(self) -> str:
        return f"{(self.now - self.since) / _HOUR_S:.3g} h"

    def ago(self, at: float) -> str:
        return f"{(self.now - at) / 60:,.0f} min ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What a model's name means on the endpoint.

    Attributes:
        artifacts: The current one, and the candidate.
        undo: What else to do if a new version is at fault.
    """

    artifacts: Sequence[str]
    record: ArtifactRecord
    undo: str


def run(options: WhyOptions) -> Why:
    """Run `fleet why NAME (--alias NAME | --endpoint NAME) [--signals URL]`."""
    now = time.time()
    since = max(0.0, now - options.duration)
    with opened(options.repository) as store:
        place = endpoint_of(alias=options.alias, endpoint=options.endpoint, target=options.target)
        asked = _Asked(model=options.model, place=place, since=since, now=now)
        found = list(_findings(asked, store, options.signals))
    causes = [each for each in found if isinstance(each, Cause)]
    facts = [each for each in found if isinstance(each, Fact)]
    if not causes and all(each.what == _UNREAD for each in facts):
        fix = "check the credentials, the region and the network"
        where, why = asked.place.endpoint, facts[0].found
        raise WHY.error(what="nothing could be read", where=where, why=why, fix=fix)
    return Why(model=asked.model, endpoint=asked.place.endpoint, causes=causes, facts=facts)


def _findings(asked: _Asked, store: Store, signals: str | None) -> Findings[None]:
    session = boto3.session.Session()
    sagemaker, cloudwatch = session.client("sagemaker"), session.client("cloudwatch")
    variant = yield from _tried("endpoint", _endpoint(asked, sagemaker))
    about = yield from _tried("instances and image", _instances(asked, store, sagemaker))
    target = asked.place.target or (about.targets[0] if about and len(about.targets) == 1 else None)
    named = yield from _tried("manifest", _name(asked, store, target))
    yield from _tried("log", _log(asked, named))
    if named is not None:
        yield from _tried("object", _object(named, store))
        if about is not None:
            yield from _tried("memory", _memory(named, about))
    gpus = max((each.gpu_count for each in about.instance_types), default=0) if about else 0
    yield from _tried("metrics", _metrics(asked, variant or "AllTraffic", gpus, cloudwatch))
    yield from _tried("alarms", _alarms(asked.place.endpoint, cloudwatch))
    if signals is None:
        yield Fact("signals", _UNREAD, "give --signals URL, for the errors and times of the model alone")
    else:
        yield from _tried("signals", _signals(asked, signals))


def _tried(source: str, findings: Findings[T]) -> Findings[T | None]:
    """Yield what a source says; if it cannot be read, why."""
    try:
        return (yield from findings)
    except FleetError as error:
        [first, *_] = error.problems
        if first.rule in _REFUSED:
            raise
        yield Fact(source, _UNREAD, f"{first.what} ({first.fix})")
    except (ClientError, BotoCoreError) as error:
        yield Fact(source, _UNREAD, str(error))
    return None


def _endpoint(asked: _Asked, sagemaker: Any) -> Findings[str]:
    """Return the name of the variant: a multi-model endpoint has one."""
    name = asked.place.endpoint
    try:
        described = sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        why, fix = error_message(error), "name one of this account and region, or the alias with --alias"
        raise WHY.error(what=f"the endpoint {name!r} does not exist", where=name, why=why, fix=fix) from None
    status, variants = str(described["EndpointStatus"]), described.get("ProductionVariants", [{}])
    count = sum(each.get("CurrentInstanceCount", 0) for each in variants)
    yield Fact("SageMaker", "endpoint", f"{status}, instances: {count}")
    if status != "InService":
        reason = described.get("FailureReason", "a new instance loads each model at its first request")
        fix = "wait until it is InService, or deploy the inference stack again if it has failed"
        yield Cause(f"The endpoint is {status}: {reason}.", fix, f"{_DAY_TWO}#change-the-fleet")
    return str(variants[0].get("VariantName", ""))


def _instances(asked: _Asked, store: Store, sagemaker: Any) -> Findings[Endpoint]:
    about = deployed(asked.place.endpoint, sagemaker)
    targets = [asked.place.target] if asked.place.target else about.targets
    yield Fact("SageMaker", "target", f"{', '.join(map(str, targets)) or 'unknown'}: {about.where}")
    if about.repositories and store.url not in about.repositories:
        what = f"The endpoint loads models from {some_of(about.repositories)}, not from {store.url}."
        yield Cause(what, "give that one with --repository, or the endpoint of this one")
    return about


def _name(asked: _Asked, store: Store, target: ArtifactTarget | None) -> Findings[_Named | None]:
    """Return what the name means; None if it means nothing on the target."""
    manifest = read_manifest(store).manifest
    model = manifest.model(asked.model)
    artifact, candidate = model.on(target), model.candidate
    if artifact is None:
        if target is None and model.current:
            manifest.target_model(asked.model)  # which raises the error about several artifacts
        targets = some_of([*map(str, model.current)])
        what = f"Nothing is published as {asked.model} for {target or 'any target'}, but for {targets}."
        yield Cause(what, _REBUILD, "docs/upgrade.md")
        return None
    change = next((each for each in reversed(model.history) if each.artifact == artifact), None)
    when = f", {change.how} by {change.by} at {in_json(change.at)}" if change else ""
    yield Fact("manifest", "artifact", artifact + when)
    if candidate is not None:
        copies = "copies of " if candidate.how == "shadow" else ""
        share = f"{copies}{candidate.share / PARTS:.2%} of the requests"
        yield Fact("manifest", "candidate", f"{candidate.artifact} gets {share}")
    earlier = model.earlier(target or ANY)
    withdrawn = [each for each in model.by_publication() if each not in {artifact, *earlier}]
    if change is not None and change.how == "rollback":
        yield Fact("manifest", "withdrawn", ", ".join(withdrawn))
    new = change is not None and change.how == "publish" and asked.now - change.at.timestamp() < _DAY_S
    return _Named(
        artifacts=(artifact,) if candidate is None else (artifact, candidate.artifact),
        record=model.artifacts[artifact],
        undo=f"; or `fleet rollback {asked.model}`, to {earlier[-1]}" if new and earlier else "",
    )


def _log(asked: _Asked, named: _Named | None) -> Findings[None]:
    found: dict[str, list[Event]] = {} if named is None else {each: [] for each in named.artifacts}
    for each in events(asked.place.endpoint, asked.model, since=asked.since):
        if named is None or each.artifact in found:
            found.setdefault(each.artifact, []).append(each)
    for artifact, of_it in found.items():
        yield from _last_loads(asked, artifact, of_it, "" if named is None else named.undo)
        yield from _evictions(asked, artifact, of_it)


def _last_loads(asked: _Asked, artifact: str, found: Sequence[Event], undo: str) -> Iterator[Cause]:
    """Yield why the last load of an artifact on an instance did not succeed."""
    ended = [each for each in found if each.kind != "began" or asked.now - each.at > _LOAD_WAIT_S]
    last = {each.instance: each for each in ended if each.kind != "unloaded"}.values()
    for kind, says in _ENDS.items():
        ends = [each for each in last if each.kind == kind]
        if ends:
            reason, where = ends[-1].reason, f"{len(ends)} of {len(last)} instances"
            remedy = next(fix for words, fix in _REMEDIES.items() if words in reason)
            fix = remedy + undo if kind == "failed" else _MORE_MEMORY if kind == "full" else _READ_LOG
            yield Cause(f"{artifact} {says} on {where}, {asked.ago(ends[-1].at)}: {reason}", fix, _TRAPS)


def _evictions(asked: _Asked, artifact: str, found: Sequence[Event]) -> Iterator[Finding]:
    """Yield how often an artifact was loaded and evicted."""
    count, loads = Counter(each.kind for each in found), [each for each in found if each.kind == "loaded"]
    times = f"{count['loaded']} loads, {count['failed']} failed, {count['full']} without memory"
    yield Fact("log", artifact, f"{times}, {count['unloaded']} evictions in {asked.hours}")
    if loads:
        seconds = "" if loads[-1].seconds is None else f" in {loads[-1].seconds:.1f} s"
        yield Fact("log", "last load", f"{asked.ago(loads[-1].at)}{seconds} on {loads[-1].instance}")
    if count["unloaded"] >= _OFTEN:
        what = f"{artifact} was evicted {count['unloaded']} times and loaded {count['loaded']} times"
        why = "the models in use do not fit into memory, and requests wait for each load"
        yield Cause(f"{what} in {asked.hours}: {why}.", _MORE_MEMORY, _TRAPS)


def _object(named: _Named, store: Store) -> Findings[None]:
    [artifact, *_], recorded, size = named.artifacts, named.record.size, None
    with absent_is_none():
        size = store.s3.head_object(**store.at(artifact))["ContentLength"]
    found = "missing" if size is None else f"{size:,} bytes"
    yield Fact("S3", "object", found)
    if size != recorded:
        what = f"The object {store.url}{artifact} is {found}, and not {recorded:,} bytes as published."
        fix = f"restore its earlier version, because the bucket is versioned{named.undo}"
        yield Cause(what, fix, f"{_DAY_TWO}#undo")


def _memory(named: _Named, about: Endpoint) -> Findings[None]:
    profile = named.record.profile
    if profile is None:
        yield Fact("manifest", "memory", "not recorded: `fleet census` measures it")
        return
    if profile.memory.is_unknown:
        yield Fact("manifest", "memory", profile.memory.source)
        return
    for each in about.instance_types:
        if each.gpu is not None:
            room = room_of(each, backends=profile.backends, where=each.name)
            for problem in no_room(profile, room, each):
                yield Cause(f"{profile.name} does not fit: {problem.what}; {problem.why}.", problem.fix)
            share, mib = share_of(profile, room), profile.memory.values[LIKELY] / MIB
            part = f"{share.fraction:.1%} of {LIMITS[share.limit]} of an {each.name}"
            yield Fact("manifest", "memory", f"{mib:,.0f} MiB of a GPU ({profile.memory.source}), {part}")


def _metrics(asked: _Asked, variant: str, gpus: int, cloudwatch: Any) -> Findings[None]:
    """Yield the averages of all models of the endpoint."""
    average, count = dict[str, float](), dict[str, float]()
    of = {"EndpointName": asked.place.endpoint, "VariantName": variant}
    for namespace, name in ((space, name) for space, names in _METRICS.items() for name in names):
        points = cloudwatch.get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in of.items()],
            StartTime=datetime.fromtimestamp(asked.since, timezone.utc),
            EndTime=datetime.fromtimestamp(asked.now + 60, timezone.utc),  # with this minute
            Period=_HOUR_S,
            Statistics=["Sum", "SampleCount"],
        )["Datapoints"]
        count[name] = sum(each["SampleCount"] for each in points)
        average[name] = sum(each["Sum"] for each in points) / (count[name] or 1)
    missed, waited = 1 - average["ModelCacheHit"], average["ModelLoadingWaitTime"] / 1e6
    busy, full = (average[name] / 100 / (gpus or 1) for name in ("GPUUtilization", "GPUMemoryUtilization"))
    evictions = f"{count['ModelUnloadingTime']:,.0f} evictions in {asked.hours}"
    if count["ModelCacheHit"]:
        waits = f"{missed:.1%} of the requests to all models waited {waited:.1f} s for a load"
        yield Fact("CloudWatch", "cache", f"{waits}; {evictions}")
        if missed > _MISSED and count["ModelUnloadingTime"]:
            yield Cause(f"Models evict each other: {waits}, with {evictions}.", _MORE_MEMORY, _TRAPS)
    if count["LoadedModelCount"]:
        yield Fact("CloudWatch", "loaded", f"{average['LoadedModelCount']:,.0f} models an instance")
    if count["GPUUtilization"]:
        yield Fact("CloudWatch", "GPU", f"{busy:.0%} busy, memory {full:.0%} full")
        if busy > _BUSY:
            fix = "raise the maximum capacity, or lower the scaling target: `fleet load --find-knee` finds it"
            yield Cause(f"The GPUs are {busy:.0%} busy: requests to all models wait for them.", fix)


def _alarms(endpoint: str, cloudwatch: Any) -> Findings[None]:
    """Yield the alarms of an endpoint that fire, with what their descriptions say."""
    pages = cloudwatch.get_paginator("describe_alarms").paginate(StateValue="ALARM")
    firing = [each for page in pages for each in page.get("MetricAlarms", ()) if _is_about(each, endpoint)]
    for each in firing:
        said, _, runbook = each.get("AlarmDescription", "").partition(RUNBOOK)
        what = f"The alarm {each['AlarmName']} fires: {said or each.get('StateReason', '')}"
        yield Cause(what, runbook.rstrip(".") or "read why it was made", f"{_DAY_TWO}#open-the-dashboard")
    yield Fact("CloudWatch", "alarms", f"{len(firing)} of the endpoint in ALARM")


def _is_about(alarm: Mapping[str, Any], endpoint: str) -> bool:
    """Return whether an alarm is about an endpoint or its log. Those of auto scaling fire when it is idle."""
    queries = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", ()) if "MetricStat" in each]
    return not any(":autoscaling:" in each for each in alarm.get("AlarmActions", ())) and any(
        each.get("Namespace") == f"TritonFleet/{endpoint}"
        or {"Name": "EndpointName", "Value": endpoint} in each.get("Dimensions", ())
        for each in (alarm, *queries)
    )


def _signals(asked: _Asked, url: str) -> Findings[None]:
    with opened(url) as store:
        signals = read_signals(store, asked.place.endpoint, since=asked.since)
    counts = Counts.sum(part for (name, _), part in signals.counts.items() if name == asked.model)
    row, answered = Row(name=asked.model, counts=counts), counts.requests - counts.failed
    yield Fact("signals", "requests", ", ".join(f"{title} {cell(row)}" for title, cell in CELLS.items()))
    if counts.failed > counts.requests * _FAILED:
        kinds = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.errors.items()))
        what = f"{counts.failed:,} of {counts.requests:,} requests of this project's clients failed: {kinds}."
        yield Cause(what, _READ_LOG, f"{_DAY_TWO}#read-the-endpoints-log")
    if counts.waited > answered * _WAITED:
        waits = f"{counts.waited:,} of {answered:,} answered requests waited for a load"
        what = f"{waits}, {counts.waited_s / counts.waited:.1f} s on average."
        yield Cause(what, _MORE_MEMORY, "docs/signals.md")
    yield from (Fact("signals", "doubt", each) for each in signals.doubts())
