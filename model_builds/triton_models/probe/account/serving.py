"""Probes of how SageMaker serves models: slow loads, eviction, and objects that change."""

from __future__ import annotations

from triton_models.probe.account import artifacts
from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.endpoint import (
    NOT_READY,
    START,
    invoke,
    invoke_once,
    markers,
    serving,
    upload,
)
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import UndecidedError, decide, undecided

_OK = 200
_INVOKES = ("sagemaker:InvokeEndpoint", "sagemaker:DescribeEndpoint", "s3:PutObject")


def _slow_load(work: Work) -> Steps:
    """Invoke a model that loads for longer than a request waits, until it answers."""
    serving(work)
    belief, seconds = "not-ready-answer", work.clock.slow_load_s
    target = upload(work, "slow-1.tar.gz", artifacts.slow(seconds))
    first = yield from invoke_once(work, target)
    said = {"status": first.status, "code": first.code, "text": first.text}
    work.observe("not-ready", {"load_seconds": seconds}, said)
    seen = f"{first.status} {first.code} after {first.seconds:.0f} s: {first.text or first.answer}"
    if (first.status, first.code) != (429, NOT_READY):
        return [decide(belief, seen, holds=False)]
    last = yield from invoke(work, target)
    seen += f"; then {last.status} {last.code}"
    return [decide(belief, seen, holds=last.status == _OK)]


def _eviction(work: Work) -> Steps:
    """Load a third model although only two fit, after using the first again: the second must be evicted."""
    serving(work)
    belief, folder = "eviction-order", markers(work)
    targets = {name: upload(work, f"{name}-1.tar.gz", artifacts.ballast(name, folder)) for name in "abc"}
    for name in ("a", "b", "a", "c"):
        reply = yield from invoke(work, targets[name])
        if reply.status != _OK:
            said = f"{name} of a, b, a, c: {reply.status} {reply.code}: {reply.text}"
            return [decide(belief, said, holds=False) if name == "c" else undecided(belief, said)]
    host = yield from invoke(work, "inspector-1.tar.gz", {"see": "host"})
    loaded = list(host.answer.get("markers", ()))
    work.observe("eviction-order", {"used": ["a", "b", "a", "c"], "fit": 2}, {"loaded": loaded})
    seen = f"after a, b, a, c, of which two fit, these are loaded: {', '.join(loaded) or 'none'}"
    return [decide(belief, seen, holds=loaded == ["a", "c"])]


def _overwritten(work: Work) -> Steps:
    """Overwrite a loaded model's object, and invoke it again."""
    serving(work)
    target = upload(work, "overwritten-1.tar.gz", artifacts.inspector(markers(work), version=1))
    first = yield from invoke(work, target)
    upload(work, target, artifacts.inspector(markers(work), version=2))
    second = yield from invoke(work, target)
    versions = [reply.answer.get("version") for reply in (first, second)]
    if versions[0] != 1:
        msg = f"the model could not be invoked: {first.code}: {first.text}"
        raise UndecidedError(msg)
    work.observe("object-overwritten", {"versions": [1, 2]}, {"versions": versions})
    seen = f"versions that answered, before and after: {versions}"
    return [decide("object-overwritten", seen, holds=versions == [1, 1])]


def _pays(minutes: float) -> tuple[tuple[str, float], ...]:
    return ((ENDPOINT, minutes / 60),)


PROBES = (
    AccountProbe(
        id="overwritten",
        what="overwrites a loaded model's object",
        decides=("object-overwritten",),
        run=_overwritten,
        allowed=_INVOKES,
        minutes=1,
        pays=_pays(1),
        needs=(START,),
    ),
    AccountProbe(
        id="eviction",
        what="loads more models than fit",
        decides=("eviction-order",),
        run=_eviction,
        allowed=_INVOKES,
        minutes=2,
        pays=_pays(2),
        needs=(START,),
        after=("container",),
    ),
    AccountProbe(
        id="slow-load",
        what="invokes a model that loads for longer than a request waits",
        decides=("not-ready-answer",),
        run=_slow_load,
        allowed=_INVOKES,
        minutes=3,
        pays=_pays(3),
        needs=(START,),
        after=("eviction",),
    ),
)
