"""The probe of an endpoint's deletion: the requests in progress, and the log that is left."""

from __future__ import annotations

from triton_models.probe.account import trouble
from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.endpoint import START, Reply, invoke, serving
from triton_models.probe.account.models import LOG_GROUPS
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Verdict, decide, undecided

_OK = 200
_LONG_ENOUGH = "metrics"  # a probe of ten minutes on the same endpoint


def _deletion(work: Work) -> Steps:
    """Delete the endpoint while a model computes an answer."""
    name = serving(work)
    seconds = work.clock.slow_answer_s
    agent = _log_agent(work, name)
    yield from invoke(work, "inspector-1.tar.gz", {})
    answer = invoke(work, "inspector-1.tar.gz", {"sleep": seconds})
    next(answer)
    begun = work.clock.now()
    yield from work.until(
        lambda: True if work.clock.now() - begun > seconds / 3 else None, minutes=5, what="the request"
    )
    work.clients("sagemaker").delete_endpoint(EndpointName=name)
    late = yield from invoke(work, "inspector-1.tar.gz", {})
    reply: Reply = yield from answer
    said = f"a request of {seconds:g} s during the deletion: {reply.status} {reply.code} {reply.text}; "
    said += f"a later request: {late.status} {late.code}"
    work.observe("old-endpoint-deletion", {"seconds": seconds}, {"status": reply.status, "code": reply.code})
    answered = decide("old-endpoint-deletion", said, holds=reply.status == _OK)
    yield from work.until(lambda: _gone(work, name), minutes=10, what="the deletion of the endpoint")
    kept = _log_streams(work, name) is not None
    outlived = decide(
        "endpoint-logs-after-rollback", f"the log group is {'there' if kept else 'gone'}", holds=kept
    )
    return [answered, agent, outlived]


def _gone(work: Work, name: str) -> bool | None:
    """Return True once the endpoint does not exist; otherwise None."""
    from botocore.exceptions import ClientError

    try:
        work.clients("sagemaker").describe_endpoint(EndpointName=name)
    except ClientError as error:
        if not trouble.absent(error):
            raise
        return True
    return None


def _log_agent(work: Work, name: str) -> Verdict:
    """Decide if the host's agent logs with a role that may write to the group but not create one."""
    belief, streams = "log-agent-creates-group", _log_streams(work, name) or []
    if not streams and _LONG_ENOUGH not in work.journal.verdicts:
        return undecided(belief, "no log stream yet; the endpoint has not run for long")
    return decide(belief, f"log streams: {', '.join(streams) or 'none'}", holds=not streams)


def _log_streams(work: Work, name: str) -> list[str] | None:
    """Return the log streams of an endpoint; None if it has no log group."""
    from botocore.exceptions import ClientError

    try:
        found = work.clients("logs").describe_log_streams(logGroupName=f"{LOG_GROUPS}{name}")
    except ClientError as error:
        if not trouble.absent(error):
            raise
        return None
    return [each["logStreamName"] for each in found["logStreams"]]


PROBES = (
    AccountProbe(
        id="deletion",
        what="deletes the endpoint while a model answers, and looks for its log",
        decides=("old-endpoint-deletion", "log-agent-creates-group", "endpoint-logs-after-rollback"),
        run=_deletion,
        allowed=("sagemaker:InvokeEndpoint", "sagemaker:DeleteEndpoint", "logs:DescribeLogStreams"),
        minutes=2,
        pays=((ENDPOINT, 2 / 60),),
        needs=(START,),
        after=("container", "answers", "overwritten", "eviction", "slow-load", "scaling", "metrics", "bakes"),
    ),
)
