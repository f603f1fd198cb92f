"""The probe of InvokeEndpoint's answers: errors, the payload limit, and what SageMaker passes on."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

from triton_models.probe.account import artifacts
from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.endpoint import START, Reply, invoke, serving, upload
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Verdict, decide

_OK = 200
_PAYLOAD = 6 * 1024 * 1024
_NEW_SESSION = "NEW_SESSION"
# Triton's message when a loaded Python model raises. SageMaker may pass it on as JSON.
REFUSED = re.compile(r'\s*(\{\s*"error"\s*:\s*")?Failed to process the request\(s\) for model')

# The rehearsal's answers, from AWS's documents and public records: status, code and a pattern of the message.
_WORDINGS: Mapping[str, tuple[int, str, str]] = {
    "a missing model": (400, "ValidationError", r"Failed to download model data"),
    "a model that is not an archive": (400, "ValidationError", r"Failed to extract model data archive"),
    "no target model": (400, "ValidationError", r"target model header"),
    "no endpoint": (400, "ValidationError", r"Endpoint .* of account .* not found"),
    "a model that raises": (
        424,
        "ModelError",
        r"Received (client|server) error \(\d+\) from (primary|model)",
    ),
}


def _answers(work: Work) -> Steps:
    """Send invalid requests, and compare the answers with the rehearsal's."""
    serving(work)
    broken = upload(work, "broken-1.tar.gz", b"this is not an archive")
    unloadable = upload(work, "unloadable-1.tar.gz", artifacts.broken())
    asked: dict[str, tuple[str | None, Mapping[str, Any], str]] = {
        "a missing model": ("missing-1.tar.gz", {}, ""),
        "a model that is not an archive": (broken, {}, ""),
        "no target model": (None, {}, ""),
        "no endpoint": ("inspector-1.tar.gz", {}, work.name("nowhere")),
        "a model that raises": ("inspector-1.tar.gz", {"fail": "the probe asked for it"}, ""),
    }
    other: list[str] = []
    replies: dict[str, Reply] = {}
    for what, (target, ask, name) in asked.items():
        reply = replies[what] = yield from invoke(work, target, ask, name=name)
        said = {"status": reply.status, "code": reply.code, "text": reply.text, **reply.fields}
        work.observe("error-wording", {"mistake": what}, said)
        status, code, words = _WORDINGS[what]
        if (reply.status, reply.code) != (status, code) or not re.search(words, reply.text):
            other.append(f"{what}: {reply.status} {reply.code}: {reply.text}")
    seen = "; ".join(other) or f"all {len(asked)} answers match the rehearsal's"
    worded = decide("error-wording", seen, holds=not other)
    not_loaded = yield from invoke(work, unloadable, {})
    refused = _refused(work, replies["a model that raises"], not_loaded)
    return [worded, (yield from _payload(work)), refused, (yield from _session(work))]


def _refused(work: Work, raised: Reply, not_loaded: Reply) -> Verdict:
    """Compare the start of a loaded model's error with that of a model that fails to load."""
    said = [str(each.fields.get("OriginalMessage", "")) for each in (raised, not_loaded)]
    work.observe("refused-input-text", {"loaded": [True, False]}, {"original_message": said})
    seen = f"loaded: {raised.code}: {said[0]!r}; not loaded: {not_loaded.code}: {said[1]!r}"
    as_expected = [REFUSED.match(each) is not None for each in said] == [True, False]
    return decide("refused-input-text", seen, holds=as_expected)


def _session(work: Work) -> Generator[None, None, Verdict]:
    """Request a session. Requests are pinned to an instance only if the container starts a session."""
    reply = yield from invoke(work, "inspector-1.tar.gz", {}, SessionId=_NEW_SESSION)
    work.observe("session", {"session": _NEW_SESSION}, {"status": reply.status, "begun": bool(reply.session)})
    seen = f"{reply.status} {reply.code}, session {reply.session or 'none'}"
    return decide("session-not-pinned", seen, holds=not reply.session)


def _payload(work: Work) -> Generator[None, None, Verdict]:
    """Send a request of the maximum size, and one that is a byte longer."""
    least = artifacts.body({"pad": ""})
    longest = artifacts.body({"pad": "x" * (_PAYLOAD - len(least))})
    fits = yield from invoke(work, "inspector-1.tar.gz", raw=longest)
    over = yield from invoke(work, "inspector-1.tar.gz", raw=longest + b" ")
    work.observe("payload-limit", {"bytes": [_PAYLOAD, _PAYLOAD + 1]}, {"status": [fits.status, over.status]})
    seen = f"{_PAYLOAD} bytes: {fits.status} {fits.code}; one more: {over.status} {over.code}"
    return decide("payload-limit", seen, holds=fits.status == _OK and over.status != _OK)


PROBES = (
    AccountProbe(
        id="answers",
        what="sends invalid requests, and reads the errors",
        decides=("error-wording", "payload-limit", "refused-input-text", "session-not-pinned"),
        run=_answers,
        allowed=("sagemaker:InvokeEndpoint", "sagemaker:DescribeEndpoint", "s3:PutObject"),
        minutes=1.5,
        pays=((ENDPOINT, 1.5 / 60),),
        needs=(START,),
    ),
)
