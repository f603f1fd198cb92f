"""The client against services that cut, hang, refuse or answer nonsense: right attempts, right error."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest

from tests.triton_models.scripted_server import (
    CUT,
    HANG,
    NOT_HTTP,
    ROW,
    SHORT_S,
    TRICKLE,
    Request,
    ScriptedServer,
    Step,
    World,
    answer,
    cut_short,
    error,
    manifest,
    reply,
)
from triton_models.base.errors import FleetError
from triton_models.client import AsyncClient, Client, InvocationError

ALIAS = "/fleet/endpoint"
THREADS = 64

SOON_S = 9.0  # two attempts of a look-up that hangs take ten

UNKNOWN_MODEL = error(
    424,
    "ModelError",
    OriginalStatusCode=400,
    OriginalMessage='{"error":"Request for unknown model: \'m\' is not found"}',
)
PASSING = {
    "throttled": (error(400, "ThrottlingException", "Rate exceeded"), "throttled"),
    "too many": (error(429, "TooManyRequestsException"), "throttled"),
    "unavailable": (error(503, "ServiceUnavailable"), "endpoint-failed"),
    "dependency": (error(530, "InternalDependencyException"), "endpoint-failed"),
    "a page of a proxy": (
        reply(502, b"<html>Bad Gateway</html>", Content_Type="text/html"),
        "endpoint-failed",
    ),
    "container ended": (
        error(424, "ModelError", OriginalStatusCode=0, OriginalMessage="SageMaker could not get a response"),
        "model-failed",
    ),
    "model unavailable": (
        error(424, "ModelError", OriginalStatusCode=503, OriginalMessage="busy"),
        "model-failed",
    ),
    "throttled without a word": (
        reply(400, b'{"message": null}', x_amzn_errortype="ThrottlingException"),
        "throttled",
    ),
    "unknown model": (UNKNOWN_MODEL, "model-unloaded"),
    "cut": (CUT, "no-answer"),
    "half a body": (cut_short(answer(), by=10), "no-answer"),
    "half the headers": (Step(sends=b"HTTP/1.1 200 OK\r\nContent-Le", closes=True), "no-answer"),
    "not HTTP": (NOT_HTTP, "no-answer"),
}
LASTING = {
    "refused inputs": (error(424, "ModelError", OriginalStatusCode=400, OriginalMessage="bad"), "invoke"),
    "a slow model": (
        error(424, "ModelError", OriginalStatusCode=0, OriginalMessage="timed out"),
        "model-failed",
    ),
    "a broken model": (error(424, "ModelError", OriginalStatusCode=500, OriginalMessage="x"), "model-failed"),
    "no access": (error(403, "AccessDeniedException"), "invoke"),
    "no such endpoint": (error(400, "ValidationError", "Endpoint e of account 1 not found."), "invoke"),
    "a page": (reply(200, b"<html>", Content_Type="text/html"), "answer"),
    "an error": (reply(200, b'{"error": "it broke"}', Content_Type="application/json"), "answer-error"),
}


def ask(client: Client, **given: Any) -> float:
    return float(client.infer(model="m", inputs=ROW, **given)["Y"][0])


def failed(call: Callable[[], object]) -> InvocationError:
    with pytest.raises(InvocationError) as caught:
        call()
    return caught.value


def rule_of(error: InvocationError) -> str:
    (problem,) = error.problems
    return problem.rule


# What passes, and what does not


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_sent_again_and_given_up_after_three_attempts(
    world: World, fault: str
) -> None:
    step, rule = PASSING[fault]
    world.runtime.steps = [step]
    assert ask(world.client()) == 3.0
    assert len(world.runtime.requests) == 2
    assert len({request.body for request in world.runtime.requests}) == 1

    world.runtime.otherwise = step
    error = failed(lambda: ask(world.client()))
    assert (rule_of(error), error.attempts, error.retryable) == (rule, 3, True)
    assert len(world.runtime.requests) == 2 + 3


@pytest.mark.parametrize("service", ["s3", "ssm"])
@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"message": null}', b"<Error><Code>AccessDenied</Code></Error>"]
)
def test_a_look_up_may_be_refused_without_a_word(world: World, service: str, body: bytes) -> None:
    refusing: ScriptedServer = getattr(world, service)
    refusing.otherwise = reply(403, body, x_amzn_errortype="AccessDeniedException")
    error = failed(lambda: ask(world.client(alias=ALIAS)))
    assert rule_of(error) == {"s3": "repository", "ssm": "alias"}[service]
    assert "None" not in str(error)


@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_that_would_come_again_is_an_error_at_once(world: World, fault: str) -> None:
    step, rule = LASTING[fault]
    world.runtime.otherwise = step
    error = failed(lambda: ask(world.client()))
    assert rule_of(error) == rule
    assert (error.attempts, error.retryable) == (1, False)
    assert (error.model, error.artifact, error.endpoint) == ("m", "m-1111111111111111.tar.gz", "e")
    assert len(world.runtime.requests) == 1


@pytest.mark.parametrize("faults", list(itertools.permutations(("cut", "unknown model", "a page"))))
def test_a_lasting_fault_ends_the_call_wherever_it_comes(world: World, faults: tuple[str, ...]) -> None:
    world.runtime.steps = [(LASTING | PASSING)[fault][0] for fault in faults]
    error = failed(lambda: ask(world.client(attempts=5)))
    assert rule_of(error) == "answer"
    assert error.attempts == len(world.runtime.requests) == faults.index("a page") + 1


def test_an_error_has_all_that_is_known(world: World) -> None:
    world.runtime.otherwise = error(
        424,
        "ModelError",
        "Received server error (503)",
        OriginalStatusCode=503,
        OriginalMessage="no memory",
        LogStreamArn="arn:log",
    )
    raised = failed(lambda: ask(world.client()))
    assert raised.attempts == 3
    assert raised.elapsed_s == pytest.approx(sum(world.clock.waited))
    assert (raised.code, raised.status, raised.message) == ("ModelError", 503, "no memory")
    assert raised.log_stream == "arn:log"
    for fact in ("m-1111111111111111.tar.gz", "endpoint e", "3 attempts", "503", "no memory", "arn:log"):
        assert fact in str(raised)


def test_an_error_passes_between_processes_as_it_is(world: World) -> None:
    world.runtime.otherwise = error(403, "AccessDeniedException")
    raised = failed(lambda: ask(world.client()))
    copy = pickle.loads(pickle.dumps(raised))  # noqa: S301 (made here)
    assert type(copy) is InvocationError
    assert str(copy) == str(raised)
    assert vars(copy) == vars(raised)


def test_the_sdk_refuses_a_request_without_credentials(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    client = world.client(session=boto3.Session())
    error = failed(lambda: client.invoke_target(target_model="m-1111111111111111.tar.gz", inputs=ROW))
    assert (rule_of(error), error.code) == ("invoke", "NoCredentialsError")
    assert world.runtime.requests == []


# The deadline


@pytest.mark.parametrize("step", [HANG, TRICKLE, Step(sends=answer().sends[:-9], hangs=True)])
def test_an_endpoint_that_does_not_finish_its_answer_costs_no_more_than_the_deadline(
    world: World, step: Step
) -> None:
    world.runtime.otherwise = step
    client, began = world.hurried(), time.monotonic()
    error = failed(lambda: ask(client))
    assert SHORT_S <= time.monotonic() - began < SOON_S
    assert (rule_of(error), error.attempts, error.retryable) == ("deadline", 1, True)
    world.runtime.wait_until_asked(1)
    assert len(world.runtime.requests) == 1


def test_a_call_may_have_a_deadline_of_its_own(world: World) -> None:
    world.runtime.otherwise = error(429, "ModelNotReadyException")
    client = world.client(deadline_s=360.0)
    raised = failed(lambda: ask(client, deadline_s=10.0))
    assert rule_of(raised) == "model-not-ready"
    assert raised.elapsed_s <= 10.0


def test_nothing_is_sent_after_the_deadline(world: World) -> None:
    world.runtime.otherwise = CUT
    raised = failed(lambda: ask(world.client(attempts=100, deadline_s=1.0)))
    assert raised.elapsed_s <= 1.0
    assert raised.attempts == len(world.runtime.requests) < 10


def test_nothing_is_sent_if_resolving_took_all_the_time(world: World) -> None:
    def slowly(request: Request) -> Step:
        world.clock.tick(400.0)
        return manifest(m="m-1111111111111111.tar.gz")

    world.s3.otherwise = slowly
    raised = failed(lambda: ask(world.client()))
    assert (rule_of(raised), raised.attempts) == ("deadline", 0)
    assert world.runtime.requests == []


def test_a_model_that_loads_does_not_use_up_the_attempts(world: World) -> None:
    not_ready = error(429, "ModelNotReadyException")
    world.runtime.steps = [not_ready, CUT, not_ready, not_ready, CUT, not_ready]
    assert ask(world.client()) == 3.0
    assert len(world.runtime.requests) == 7


def test_waiting_for_a_load_ends_with_its_limit(world: World) -> None:
    world.runtime.otherwise = error(429, "ModelNotReadyException")
    raised = failed(lambda: ask(world.client(ready_limit_s=5.0)))
    assert rule_of(raised) == "model-not-ready"
    assert raised.elapsed_s == pytest.approx(5.0, abs=0.2)


@pytest.mark.parametrize("given", [{"deadline_s": 0}, {"deadline_s": float("nan")}, {"attempts": 0}])
def test_a_limit_must_be_positive(world: World, given: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match="client-limit"):
        world.client(**given)
    with pytest.raises(FleetError, match="client-limit"):
        ask(world.client(), deadline_s=-1.0)


# Look-ups that hang


def everyone(client: Client) -> list[float]:
    with ThreadPoolExecutor(THREADS) as threads:
        return [each.result() for each in [threads.submit(ask, client) for _ in range(THREADS)]]


@pytest.mark.parametrize("service", ["s3", "ssm"])
def test_a_look_up_that_hangs_stops_no_caller_that_knows_an_answer(world: World, service: str) -> None:
    client = world.client(alias=ALIAS)
    ask(client)
    hanging: ScriptedServer = getattr(world, service)
    hanging.otherwise = HANG
    before = len(hanging.requests)
    world.clock.tick(31.0)
    assert everyone(client) == [3.0] * THREADS
    hanging.wait_until_asked(before + 1)
    assert everyone(client) == [3.0] * THREADS
    # The SDK repeats a request that hung for long, under the same id.
    assert len({each.headers["amz-sdk-invocation-id"] for each in hanging.requests}) == before + 1


@pytest.mark.parametrize("service", ["s3", "ssm"])
def test_a_first_look_up_that_hangs_is_an_error_at_the_deadline(world: World, service: str) -> None:
    getattr(world, service).otherwise = HANG
    client, began = world.hurried(alias=ALIAS), time.monotonic()
    error = failed(lambda: ask(client))
    assert time.monotonic() - began < SOON_S
    assert (rule_of(error), error.attempts, error.retryable) == ("deadline", 0, True)
    assert world.runtime.requests == []


# Names


def test_a_misspelt_name_in_a_loop_is_looked_for_once_in_seconds(world: World) -> None:
    client = world.client()
    ask(client)
    for _ in range(100):
        error = failed(lambda: client.infer(model="n", inputs=ROW))
        assert (rule_of(error), error.model, error.attempts) == ("unknown-model", "n", 0)
    assert len(world.s3.requests) == 2
    world.clock.tick(5.0)
    failed(lambda: client.infer(model="n", inputs=ROW))
    assert len(world.s3.requests) == 3


def test_many_misspelt_names_do_not_read_the_manifest_for_each(world: World) -> None:
    client = world.client()
    ask(client)
    for number in range(100):
        failed(lambda name=f"n{number}": client.infer(model=name, inputs=ROW))
    assert len(world.s3.requests) == 1 + 16
    world.clock.tick(1.0)
    for number in range(100, 200):
        failed(lambda name=f"n{number}": client.infer(model=name, inputs=ROW))
    assert len(world.s3.requests) == 1 + 16 + 1
    failed(lambda: client.infer(model="a" * 201, inputs=ROW))  # longer than any artifact's
    assert len(world.s3.requests) == 1 + 16 + 1


def test_a_misspelt_name_that_hangs_at_s3_stops_nobody_else(world: World) -> None:
    client = world.client()
    ask(client)
    world.s3.otherwise = HANG
    misspelled = threading.Thread(target=lambda: failed(lambda: client.infer(model="n", inputs=ROW)))
    misspelled.start()
    world.s3.wait_until_asked(2)
    assert everyone(client) == [3.0] * THREADS
    assert misspelled.is_alive()
    world.s3.otherwise = manifest(m="m-1111111111111111.tar.gz")
    world.s3.let_go()
    misspelled.join()


def test_a_name_whose_artifact_is_gone_is_resolved_again(world: World) -> None:
    client = world.client()
    ask(client)
    world.clock.tick(10.0)
    world.s3.otherwise = manifest(m="m-2222222222222222.tar.gz")
    world.runtime.steps = [error(400, "ValidationError", "Failed to download model data")]
    assert ask(client) == 3.0
    assert world.runtime.requests[-1].headers["x-amzn-sagemaker-target-model"] == "m-2222222222222222.tar.gz"


def test_an_alias_that_cannot_be_read_when_its_endpoint_is_gone_is_said_after_that(world: World) -> None:
    client = world.client(alias=ALIAS)
    ask(client)
    world.ssm.otherwise = error(400, "AccessDeniedException")
    world.runtime.otherwise = error(400, "ValidationError", "Endpoint e of account 1 not found.")
    raised = failed(lambda: ask(client))
    assert [problem.rule for problem in raised.problems] == ["invoke", "alias"]
    assert (raised.endpoint, raised.attempts) == ("e", 1)


# Many callers at once


@pytest.mark.parametrize("step", [HANG, TRICKLE])
def test_requests_that_hang_leave_no_connection_and_hold_nobody_up(world: World, step: Step) -> None:
    def by_target(request: Request) -> Step:
        return step if request.headers["x-amzn-sagemaker-target-model"] == "slow.tar.gz" else answer()

    world.runtime.otherwise = by_target
    client = world.hurried()
    with ThreadPoolExecutor(THREADS) as threads:
        slow = [
            threads.submit(client.invoke_target, target_model="slow.tar.gz", inputs=ROW, deadline_s=SHORT_S)
            for _ in range(THREADS // 2)
        ]
        assert [ask(client, deadline_s=360.0) for _ in range(5)] == [3.0] * 5
        assert [rule_of(failed(each.result)) for each in slow] == ["deadline"] * len(slow)
    # On a busy machine, the time of a few can be up before they are sent.
    sent = [each.headers["x-amzn-sagemaker-target-model"] for each in world.runtime.requests]
    assert sent.count("slow.tar.gz") > len(slow) // 2
    world.runtime.wait_until_left(sent.count("slow.tar.gz"))


def test_a_cancelled_call_leaves_no_connection(world: World) -> None:
    world.runtime.otherwise = HANG
    client = AsyncClient(endpoint_name="e", repository="s3://bucket/models/", session=world.session)

    async def cancel() -> None:
        call = asyncio.ensure_future(client.infer(model="m", inputs=ROW))
        await asyncio.to_thread(world.runtime.wait_until_asked, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancel())
    world.runtime.wait_until_left(1)


@pytest.mark.parametrize("world", ["threads"], indirect=True)
def test_a_fork_has_connections_of_its_own(world: World) -> None:
    client = world.client()
    assert ask(client) == 3.0
    child = os.fork()
    if child == 0:  # pragma: no cover (another process)
        status = 1
        try:
            status = 0 if ask(client) == 3.0 else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask(client) == 3.0
    assert world.runtime.connections == 2


def test_each_of_many_threads_gets_its_own_answer_through_faults(world: World) -> None:
    faults = itertools.cycle(
        [None, CUT, None, PASSING["throttled"][0], None, cut_short(answer(), by=5), None]
    )

    def echo(request: Request) -> Step:
        document, _ = json.JSONDecoder().raw_decode(request.body.decode())
        return next(faults) or answer(document["inputs"][0]["data"][0])

    world.runtime.otherwise = echo
    client = world.client(attempts=50)

    def one(number: int) -> float:
        row = {"X": ROW["X"][0] * number}
        return float(client.infer(model="m", inputs=row, content="json")["Y"][0])

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(one, range(400))) == list(range(400))


def test_what_went_wrong_before_the_deadline_is_said(world: World) -> None:
    world.runtime.steps = [error(503, "ServiceUnavailable", "come back")]
    world.runtime.otherwise = HANG
    raised = failed(lambda: ask(world.hurried(), deadline_s=3 * SHORT_S))
    assert (rule_of(raised), raised.attempts) == ("deadline", 2)
    assert (raised.status, raised.code, raised.message) == (503, "ServiceUnavailable", "come back")
