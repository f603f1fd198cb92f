"""`fleet load` against an endpoint: its builds' requests, its price, its GPUs, and its scaling."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.triton_models.publishing_aws import client, endpoint, own_endpoints
from tests.triton_models.scripted_server import World, answer, error, manifest, reply
from triton_models.cli import main as cli

pytestmark = pytest.mark.parametrize("world", ["threads"], indirect=True)

ARTIFACT, URL = "m-1111111111111111.tar.gz", "s3://bucket/models/"
BODY = base64.b64encode(b"wake up").decode()
STORED = json.dumps({"content_type": "text/plain", "body": BODY}).encode()
SCALED = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/v",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
ONE_SECOND = ["--rate=30/s", "--for=0.5s", "--seed=1"]


@pytest.fixture
def served(world: World, aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world with an endpoint of two instances in an account."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    manifests = manifest(requests={"m": STORED}, m=ARTIFACT)
    world.s3.otherwise = lambda asked: reply(200, STORED) if "/requests/" in asked.line else manifests
    world.runtime.otherwise = answer()
    with own_endpoints(aws) as sagemaker:
        endpoint(sagemaker, URL, name="e", image="t", instance_type="ml.g4dn.xlarge", count=2)
        yield world
        sagemaker.delete_endpoint_config(EndpointConfigName="e")
        sagemaker.delete_model(ModelName="e")
    with suppress(ClientError):  # it does not scale
        client(aws, "application-autoscaling").deregister_scalable_target(**SCALED)


def scale(aws: str, *, most: int, suspended: bool = False) -> None:
    client(aws, "application-autoscaling").register_scalable_target(
        **SCALED, MinCapacity=2, MaxCapacity=most, SuspendedState={"DynamicScalingOutSuspended": suspended}
    )


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests take this machine's time: a generator that is late is no error of the code."""
    monkeypatch.setattr("triton_models.load.result.SLIP_S", 10.0)
    monkeypatch.setattr("triton_models.load.result.FULL", 10.0)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every endpoint costs money."""
    monkeypatch.setattr("triton_models.load.command.costs_money", lambda _: True)
    return monkeypatch


def load(*given: str) -> int:
    return cli.main(["load", "--endpoint", "e", "--repository", URL, *given])


def test_the_requests_of_builds_are_signed_and_sent(
    served: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load(*ONE_SECOND, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["requests"] == len(served.runtime.requests) > 5
    assert {each.body for each in served.runtime.requests} == {b"wake up"}
    headers = served.runtime.requests[0].headers
    assert headers["x-amzn-sagemaker-target-model"] == ARTIFACT
    assert "/us-east-1/sagemaker/aws4_request" in headers["authorization"]


def test_no_request_is_sent_again(served: World, capsys: pytest.CaptureFixture[str]) -> None:
    served.runtime.otherwise = error(429, "ModelNotReadyException")
    assert load(*ONE_SECOND, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["errors"] == {"model-not-ready": len(served.runtime.requests)}
    assert found["requests"] == len(served.runtime.requests)


@pytest.mark.parametrize(("said", "sent"), [("y\n", True), ("n\n", False), ("", False)])
def test_in_an_account_the_price_is_shown_and_confirmed(
    served: World, paid: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, sent: bool
) -> None:
    terminal = io.StringIO(said)
    paid.setattr(terminal, "isatty", lambda: bool(said))
    paid.setattr("sys.stdin", terminal)
    assert load(*ONE_SECOND) == (0 if sent else 1)
    assert bool(served.runtime.requests) == sent
    shown = capsys.readouterr().err
    assert "e: 2 x ml.g4dn.xlarge, 1.47 USD an hour" in shown
    assert sent or "[load-ask]" in shown


def test_a_price_that_is_accepted_before_is_not_asked_about(served: World, paid: pytest.MonkeyPatch) -> None:
    assert load(*ONE_SECOND, "--yes") == 0


def test_the_budget_ends_a_run(served: World, capsys: pytest.CaptureFixture[str]) -> None:
    half_a_second = 2 * 0.7364 / 3600 / 2
    assert load("--rate=30/s", "--for=60s", f"--budget={half_a_second}", "--json") == 0
    assert json.loads(capsys.readouterr().out)["requests"] < 60


KNEE = ["--find-knee", "--rate=100/s", "--for=0.2s", "--p99=1ms", "--json"]


@pytest.mark.parametrize(
    ("scaling", "given"),
    [({"most": 4}, ["--scaling"]), ({"most": 4, "suspended": True}, []), ({"most": 2}, []), ({}, [])],
)
def test_a_knee_is_searched_for_while_nothing_scales_or_if_that_is_allowed(
    served: World, aws: str, capsys: pytest.CaptureFixture[str], scaling: dict[str, Any], given: list[str]
) -> None:
    if scaling:
        scale(aws, **scaling)
    load(*KNEE, *given)
    assert json.loads(capsys.readouterr().out)["gpus"] == 2
    assert served.runtime.requests != []


def test_a_knee_is_not_searched_for_while_an_endpoint_scales(
    served: World, aws: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scale(aws, most=4)
    assert load(*KNEE) == 1
    assert json.loads(capsys.readouterr().out)["error"][0]["rule"] == "load-scales"
    assert served.runtime.requests == []


def test_an_endpoint_that_cannot_be_described_is_not_asked_in_an_account(
    served: World, paid: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["load", "--endpoint", "other", "--repository", URL, *ONE_SECOND]) == 1
    assert "other cannot be described" in capsys.readouterr().err
    assert served.runtime.requests == []


def test_a_plan_says_what_it_saves_compared_with_an_endpoint(
    served: World, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["plan", "--models", "3x50MB", "--requests", "2/s", "--for", "10m", "--types", "ml.g4dn.xlarge"]
    assert cli.main([*given, "--compare", "e"]) == 0
    assert "the plan saves 538 of them, 50%" in capsys.readouterr().out
    assert cli.main([*given, "--compare", "e", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["today"]["min_capacity"] == 2
    assert found["today"]["usd_per_month"] == pytest.approx(2 * 0.7364 * 730, abs=0.01)
    assert cli.main([*given, "--compare", "unknown", "--json"]) == 1
