"""`fleet rollout`: a candidate next to the current version, as clients see both, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.outcome import live
from triton_models.base.tables import Column, numbers, table
from triton_models.declare.declaration import Trial
from triton_models.repository.alias import endpoint_of
from triton_models.repository.manifest import PARTS, Manifest, Publication, Rollout
from triton_models.repository.objects import Store, opened
from triton_models.repository.publish import CANDIDATE, share_of, trial_of
from triton_models.repository.rollback import CHANGED_MEANWHILE
from triton_models.repository.s3 import publisher
from triton_models.repository.stored_manifest import StoredManifest, read, update
from triton_models.signals.compare import Verdict, compare
from triton_models.signals.counts import Counts
from triton_models.signals.stored import read as read_signals
from triton_models.signals.top import CELLS, Row

ROLLOUT = Check(id="rollout", source=FROM_ARGUMENTS)

_LOOK_S = 60.0  # signals are written once a minute

WARM_UP_S = 300.0
"""The time that is not compared: the first requests to a candidate wait until each instance has loaded it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The result of `fleet rollout`.

    Attributes:
        step: The last step of the candidate.
        rows: The counts of the current artifacts and of the candidate; none without signals.
        verdict: What they say; None without signals.
    """

    model: str
    step: Rollout
    rows: tuple[Row, ...] = ()
    verdict: Verdict | None = None
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        verdict = self.verdict
        return {
            "model": self.model,
            "candidate": self.step.artifact,
            "state": self.step.how,
            "share": self.step.share / PARTS,
            "why": self.step.why,
            "requests": {each.name: each.counts.requests for each in self.rows},
            "decision": None if verdict is None else verdict.decision,
            "reasons": [] if verdict is None else list(verdict.reasons),
        }

    def lines(self) -> Iterator[str]:
        """Yield the state, the figures side by side, and what they say."""
        step = self.step
        state = {
            "share": f"gets {step.share / PARTS:.2%} of the requests",
            "shadow": f"gets copies of {step.share / PARTS:.2%} of the requests",
            "promoted": "is current now",
            "returned": f"gets no more requests{f': {step.why}' if step.why else ''}",
        }
        yield f"{self.model}: {step.artifact} {state[step.how]}."
        if self.rows:
            yield ""
            names = Column(title="artifact", cells=[each.name for each in self.rows])
            yield from table([names, *numbers(self.rows, CELLS)])
        if self.verdict is not None:
            yield ""
            reasons = "; ".join(self.verdict.reasons)
            yield f"The candidate is {self.verdict.decision}{f': {reasons}' if reasons else ''}."


_PLACE = opt.OneOf()


@dataclass(frozen=True, kw_only=True)
class RolloutOptions(opt.RepositoryOptions):
    """Options of `fleet rollout`."""

    model: opt.Name = opt.argument("the model")
    promote: bool = opt.flag("make the candidate current", within=opt.EITHER)
    back: bool = opt.flag("send it no more requests", "--return", within=opt.EITHER)
    share: opt.Share | None = opt.option("give it another share, such as 20%%", within=opt.EITHER)
    shadow: opt.Share | None = opt.option(opt.SHADOW, within=opt.EITHER)
    tolerance: float | None = opt.option(opt.TOLERANCE, type=float, metavar="NUMBER")
    watch: opt.Duration | None = opt.option(
        "compare both for so long, and promote it or take it back as soon as they differ or do not",
        within=opt.EITHER,
    )
    signals: opt.Url | None = opt.option(opt.SIGNALS)
    alias: opt.Name | None = opt.option(opt.ALIAS, within=_PLACE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=_PLACE)


def run(options: RolloutOptions) -> Shown:
    """Run `fleet rollout NAME [--promote | --return | --share SHARE | --watch TIME]`."""
    watch, model = options.watch, options.model
    if (watch or options.signals) and not (options.signals and (options.alias or options.endpoint)):
        fix = "give --signals URL, and --alias NAME or --endpoint NAME"
        raise ROLLOUT.error(what="the signals of both versions are needed", where="--watch", fix=fix)
    with opened(options.repository) as store:
        step = _candidate(read(store).manifest, model, store)
        trial = trial_of(share=options.share, shadow=options.shadow, tolerance=options.tolerance)
        if trial is not None:
            return Shown(model=model, step=_shared(store, model, step, trial))
        if options.promote or options.back:
            return Shown(model=model, step=_ended(store, model, step, promoted=options.promote))
        if not options.signals:
            return Shown(model=model, step=step)
        endpoint = endpoint_of(alias=options.alias, endpoint=options.endpoint).endpoint
        with opened(options.signals) as signals:

            def look() -> Shown:
                return compared(store, signals, model=model, step=step, endpoint=endpoint)

            return watched(store, look, seconds=watch) if watch else look()


def compared(store: Store, signals: Store, *, model: str, step: Rollout, endpoint: str) -> Shown:
    """Return both versions side by side, from some minutes after the candidate got its share."""
    found = read_signals(signals, endpoint, since=step.at.timestamp() + WARM_UP_S)
    of_model = {artifact: counts for (name, artifact), counts in found.counts.items() if name == model}
    candidate = of_model.pop(step.artifact, Counts())
    current = set(read(store).manifest.model(model).current.values())
    before = Counts.sum(counts for artifact, counts in of_model.items() if artifact in current)
    rows = (
        Row(name=f"{' '.join(sorted(current))} (current)", counts=before),
        Row(name=step.artifact, counts=candidate),
    )
    verdict = compare(current=before, candidate=candidate, answers=step.how == "shadow")
    return Shown(model=model, step=step, rows=rows, verdict=verdict)


def watched(
    store: Store,
    look: Callable[[], Shown],
    *,
    seconds: float,
    now: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Shown:
    """Look once a minute until the figures decide, and promote the candidate or take it back."""
    end = now() + seconds
    while True:
        shown = look()
        verdict = shown.verdict
        if verdict is not None and verdict.decision != "open":
            promoted = verdict.decision == "as good"
            why = "; ".join(verdict.reasons)
            step = _ended(store, shown.model, shown.step, promoted=promoted, why=why)
            return replace(shown, step=step, exit_code=0 if promoted else 1)
        if now() >= end:
            return replace(shown, exit_code=1)
        live(f"{shown.model}: {shown.rows[-1].counts.requests:,} requests to the candidate")
        wait(min(_LOOK_S, max(0.0, end - now())))


def _candidate(manifest: Manifest, model: str, store: Store) -> Rollout:
    step = manifest.model(model).candidate
    if step is not None:
        return step
    raise CANDIDATE.error(
        what=f"{model!r} has no candidate",
        where=store.repository.manifest_url,
        fix="publish one with `fleet publish ARTIFACT --share 5%`",
    )


def _shared(store: Store, model: str, step: Rollout, trial: Trial) -> Rollout:
    """Give the candidate another share."""

    def change(stored: StoredManifest) -> Manifest:
        record = stored.manifest.model(model).artifacts[_same(stored, model, step, store)]
        wanted = Publication(model=model, artifact=step.artifact, record=record)
        share = share_of(trial, wanted)
        return stored.manifest.with_candidate(wanted, share=share, at=stored.at, by=publisher())

    update(change, store)
    return _candidate(read(store).manifest, model, store)


def _ended(store: Store, model: str, step: Rollout, *, promoted: bool, why: str = "") -> Rollout:
    """Make the candidate current, or take it back."""
    tried: list[Manifest] = []

    def change(stored: StoredManifest) -> Manifest:
        if tried and stored.manifest.model(model) == tried[-1].model(model):
            return stored.manifest  # the answer to an earlier attempt was lost
        _same(stored, model, step, store)
        tried.append(
            stored.manifest.with_rollout_ended(
                model, promoted=promoted, at=stored.at, by=publisher(), why=why
            )
        )
        return tried[-1]

    update(change, store)
    return tried[-1].model(model).rollouts[-1]


def _same(stored: StoredManifest, model: str, step: Rollout, store: Store) -> str:
    """Return the candidate's artifact, which is still the one that was looked at."""
    candidate = stored.manifest.model(model).candidate
    if candidate is not None and candidate.artifact == step.artifact:
        return candidate.artifact
    now = "none" if candidate is None else candidate.artifact
    raise CHANGED_MEANWHILE.error(
        what=f"the candidate of {model!r} was {step.artifact}, and is {now}",
        where=store.repository.manifest_url,
        fix=f"look at it again with `fleet rollout {model}`",
    )
