"""The client finds a model by its name, and the endpoint of an alias."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from tests.reported import reported
from tests.triton_models.scripted_server import (
    ARTIFACT,
    ROW,
    Request,
    Step,
    World,
    answer,
    error,
    manifest,
    parameter,
    reply,
)
from triton_models.base.errors import FleetError
from triton_models.client import BINARY_TYPE, AsyncClient, Client, InvocationError
from triton_models.facts.limits import PAYLOAD_LIMIT

OLD, NEW, OTHER = "m-3333333333333333.tar.gz", "m-4444444444444444.tar.gz", "other-2222222222222222.tar.gz"
BUILD = {"gpu": "A10G", "tensorrt": "10.13.3.9"}
A10G, NEWER, T4 = "sm86-trt10.13.3", "sm86-trt10.16.1", "sm75-trt10.13.3"


@pytest.fixture
def following(world: World) -> Client:
    return world.client(alias="/fleet/endpoint")


def named(endpoint: str, target: str) -> Step:
    return parameter(json.dumps({"endpoint": endpoint, "target": target}))


def gone(endpoint: str) -> Step:
    return error(400, "ValidationError", f"Endpoint {endpoint} of account 123456789012 not found.")


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def test_a_name_becomes_the_artifact_that_the_manifest_names(world: World) -> None:
    found = world.client().infer(model="m", inputs=ROW)
    np.testing.assert_array_equal(found["Y"], np.array([3.0], dtype=np.float32))
    assert world.asked() == [("e", ARTIFACT)]
    assert world.runtime.requests[0].headers["content-type"].startswith(BINARY_TYPE)


def test_parameters_of_a_request_reach_the_server(world: World) -> None:
    given: Any = {"inputs": ROW, "content": "json", "parameters": {"priority": 1}}
    world.client().infer(model="m", **given)
    world.client().invoke_target(target_model=ARTIFACT, **given)
    assert [json.loads(each.body)["parameters"] for each in world.runtime.requests] == [{"priority": 1}] * 2


def test_a_new_name_is_found_at_once_and_a_moved_one_when_the_manifest_is_read_again(world: World) -> None:
    client = world.client()
    assert client.target_model("m") == ARTIFACT
    world.s3.otherwise = manifest(m=NEW, other=OTHER)
    assert client.target_model("m") == ARTIFACT
    assert client.target_model("other") == OTHER
    assert client.target_model("m") == NEW


def test_a_manifest_that_has_not_changed_is_not_sent_again(world: World) -> None:
    def once(request: Request) -> Step:
        return reply(304, b"") if request.headers.get("if-none-match") == '"1"' else manifest(m=ARTIFACT)

    world.s3.otherwise = once
    client = world.client()
    assert client.target_model("m") == ARTIFACT
    with pytest.raises(FleetError, match="unknown-model"):
        client.target_model("other")
    assert client.target_model("m") == ARTIFACT
    assert len(world.s3.requests) == 2


def test_inputs_that_the_model_does_not_have_are_never_sent(world: World) -> None:
    world.s3.otherwise = manifest(build={"request": {"ids": "INT32 [-1, 4]", "mask": "BOOL [4]"}}, m=ARTIFACT)
    with pytest.raises(InvocationError) as raised:
        world.client().infer(model="m", inputs=ROW)
    assert {each.rule for each in raised.value.problems} == {"client-input"}
    assert "ids INT32 [-1, 4], mask BOOL [4]" in raised.value.problems[0].fix
    assert world.runtime.requests == []


@pytest.mark.parametrize("build", [{"request": 5}, {}])
def test_inputs_of_a_model_that_recorded_none_are_sent(build: dict[str, Any], world: World) -> None:
    world.s3.otherwise = manifest(build=build, m=ARTIFACT)
    assert float(world.client().infer(model="m", inputs=ROW)["Y"][0]) == 3.0


def test_credentials_that_have_expired_are_told(world: World) -> None:
    world.runtime.otherwise = error(403, "ExpiredTokenException", "The security token has expired")
    with pytest.raises(InvocationError, match="sign in again") as raised:
        world.client().infer(model="m", inputs=ROW)
    assert [each.rule for each in raised.value.problems] == ["credentials"]
    assert len(world.runtime.requests) == 1


@pytest.mark.parametrize("name", ["", "a\r\nX-Other: b", "ä.tar.gz"])
def test_a_target_model_that_cannot_be_a_header_is_never_sent(world: World, name: str) -> None:
    with pytest.raises(InvocationError, match="client-target-model"):
        world.client().invoke_target(target_model=name, inputs=ROW)
    assert world.runtime.requests == []


def test_a_request_beyond_the_limit_is_refused_before_it_is_sent(world: World) -> None:
    rows = {"X": np.zeros((1, PAYLOAD_LIMIT // 4), dtype=np.float32)}
    with pytest.raises(FleetError, match=f"at most {PAYLOAD_LIMIT} bytes"):
        world.client().invoke_target(target_model=ARTIFACT, inputs=rows)
    assert world.runtime.requests == []


def test_an_endpoint_that_is_gone_without_a_follower_is_reported(following: Client, world: World) -> None:
    world.runtime.otherwise = gone("e")
    with pytest.raises(FleetError, match="Endpoint e of account 123456789012 not found"):
        following.infer(model="m", inputs=ROW)
    assert len(world.runtime.requests) == 1


def test_a_refusal_that_is_not_about_the_endpoint_is_not_sent_to_another(
    following: Client, world: World
) -> None:
    assert following.endpoint_name == "e"
    world.ssm.otherwise = parameter("new")
    world.runtime.otherwise = error(400, "ValidationError", "Failed to download model data")
    with pytest.raises(FleetError, match="Failed to download"):
        following.infer(model="m", inputs=ROW)
    assert world.asked() == [("e", ARTIFACT)]


def test_a_request_that_finds_its_endpoint_gone_goes_to_the_next_with_the_artifact_for_it(
    following: Client, world: World
) -> None:
    world.s3.otherwise = manifest((OLD, A10G), (NEW, NEWER), build=BUILD)
    world.ssm.otherwise = named("old", A10G)
    following.infer(model="m", inputs=ROW)
    world.ssm.otherwise = named("new", NEWER)
    world.runtime.steps = [gone("old"), answer(), answer()]
    following.infer(model="m", inputs=ROW)
    following.infer(model="m", inputs=ROW)
    assert world.asked() == [("old", OLD), ("old", OLD), ("new", NEW), ("new", NEW)]
    assert len({each.body for each in world.runtime.requests}) == 1


def test_an_artifact_for_a_target_that_the_alias_moves_to_is_looked_up_at_once(
    following: Client, world: World
) -> None:
    world.s3.otherwise = manifest((OLD, A10G), build=BUILD)
    world.ssm.otherwise = named("old", A10G)
    following.infer(model="m", inputs=ROW)
    world.s3.otherwise = manifest((OLD, A10G), (NEW, T4), build=BUILD)
    world.ssm.otherwise = named("new", T4)
    world.clock.tick(31.0)
    eventually(lambda: following.endpoint_name == "new")
    following.infer(model="m", inputs=ROW)
    assert world.asked()[-1] == ("new", NEW)


def test_an_endpoint_without_an_alias_has_its_target_given_or_keeps_what_a_name_stood_for(
    world: World,
) -> None:
    world.s3.otherwise = manifest((OLD, A10G), build=BUILD)
    client = world.client()
    assert client.target_model("m") == OLD
    world.s3.otherwise = manifest((OLD, A10G), (NEW, NEWER), build=BUILD)
    with pytest.raises(FleetError, match="unknown-model"):
        client.target_model("other")  # which reads the manifest again
    assert client.target_model("m") == OLD
    assert world.client(target=NEWER).target_model("m") == NEW
    with reported("ambiguous-target"):
        world.client().target_model("m")


def test_an_alias_that_is_not_there_or_half_there_is_the_users_mistake(
    following: Client, world: World
) -> None:
    world.ssm.otherwise = parameter('{"endpoint": "new"}')
    with pytest.raises(FleetError, match="is not the value of an alias"):
        following.target_model("m")
    world.ssm.otherwise = error(400, "ParameterNotFound")
    with pytest.raises(FleetError, match="the parameter /no/such"):
        world.client(alias="/no/such").infer(model="m", inputs=ROW)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "neither"),
        ({"endpoint_name": "e", "alias": "/a"}, "both endpoint_name and alias"),
        ({"alias": "/a", "target": "any"}, "both an alias and a target"),
    ],
)
def test_a_client_has_either_an_endpoint_or_an_alias(given: dict[str, Any], what: str) -> None:
    with pytest.raises(FleetError, match=what):
        Client(repository="s3://bucket/models/", **given)


# Many inputs


BATCHES = {"request": {"X": "FP32 [-1, 1]"}, "answer": {"Y": "FP32 [-1]"}, "max_batch_size": 4}


def doubled(request: Request) -> Step:
    """Answer each row with its double."""
    header, end = json.JSONDecoder().raw_decode(request.body.decode("latin-1"))
    values = np.frombuffer(request.body[end:], np.float32) * 2
    output = {"name": "Y", "datatype": "FP32", "shape": header["inputs"][0]["shape"], "data": values.tolist()}
    return reply(200, json.dumps({"outputs": [output]}).encode(), Content_Type="application/json")


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"X": np.array([[number]], np.float32)} for number in range(count)]


def test_many_inputs_are_joined_and_answered_in_order(world: World) -> None:
    world.s3.otherwise, world.runtime.otherwise = manifest(build=BATCHES, m=ARTIFACT), doubled
    seen: list[int] = []
    answers = world.all_of(model="m", inputs=numbered(10), progress=seen.append)
    assert [float(each["Y"][0, 0]) for each in answers] == [2.0 * number for number in range(10)]
    assert len(world.runtime.requests) == 3
    assert seen == list(range(1, 11))


@pytest.mark.parametrize("world", ["uvloop"], indirect=True)
def test_the_client_for_asyncio_works_in_uvloop(world: World) -> None:
    large = {"X": np.zeros((1, 1_000_000), np.float32)}
    assert [float(each["Y"][0]) for each in world.all_of(model="m", inputs=[large] * 3, rows=0)] == [3.0] * 3


def test_an_input_with_more_rows_than_a_request_is_split(world: World) -> None:
    world.s3.otherwise, world.runtime.otherwise = manifest(build=BATCHES, m=ARTIFACT), doubled
    (answer,) = world.all_of(model="m", inputs=[{"X": np.arange(9, dtype=np.float32)[:, None]}])
    np.testing.assert_array_equal(answer["Y"][:, 0], np.arange(9) * 2)
    assert len(world.runtime.requests) == 3


@pytest.mark.parametrize("limit", [{"at_once": 1}, {"bytes_at_once": 1}])
def test_no_more_is_on_its_way_than_is_allowed(world: World, limit: dict[str, int]) -> None:
    world.s3.otherwise, world.runtime.otherwise = manifest(build=BATCHES, m=ARTIFACT), doubled
    assert len(world.all_of(model="m", inputs=numbered(5), rows=0, **limit)) == 5
    assert world.runtime.most_at_once == 1


def test_many_inputs_end_with_the_first_that_fails(world: World) -> None:
    world.s3.otherwise = manifest(build=BATCHES, m=ARTIFACT)
    world.runtime.otherwise = error(403, "AccessDeniedException")
    with pytest.raises(InvocationError, match="invoke"):
        world.all_of(model="m", inputs=numbered(99), rows=0, at_once=2)
    assert len(world.runtime.requests) <= 4


def test_a_stream_is_answered_while_it_goes_on(world: World) -> None:
    world.runtime.otherwise = doubled
    client = AsyncClient(endpoint_name="e", repository="s3://bucket/models/", session=world.session)
    answered: list[float] = []

    async def inputs() -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            while len(answered) < number:  # each waits for the answer to the one before
                await asyncio.sleep(0)
            yield numbered(number + 1)[-1]

    async def stream() -> None:
        async for each in client.infer_many(model="m", inputs=inputs()):
            answered.append(float(each["Y"][0, 0]))
        await client.close()

    asyncio.run(stream())
    assert answered == [0.0, 2.0, 4.0]


def test_models_are_warmed_up_with_the_requests_of_their_builds(world: World) -> None:
    body = base64.b64encode(b"wake up").decode()
    stored = json.dumps({"content_type": "text/plain", "body": body}).encode()
    manifests = manifest(requests={"m": stored}, m=ARTIFACT, other=OTHER)
    world.s3.otherwise = lambda asked: reply(200, stored) if "/requests/" in asked.line else manifests
    seen: list[int] = []
    failed = world.client().warm_up(["m", "other", "o"], progress=seen.append)
    assert {name: error.problems[0].rule for name, error in failed.items()} == {
        "other": "no-request",
        "o": "unknown-model",
    }
    (request,) = world.runtime.requests
    assert (request.body, request.headers["content-type"]) == (b"wake up", "text/plain")
    assert sorted(seen) == [1, 2, 3]
