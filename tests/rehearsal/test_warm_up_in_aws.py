"""A warm-up in the embedded AWS: a deployment that bakes starts it, and it invokes the endpoint's models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from synthesised_stacks import deploy_stack, small_stack, template_of

from tests.stacks.fleet_app import fleet_app
from tests.triton_aws.deployed_functions import logged, physical_ids, settle, until
from triton_aws import EmbeddedAws
from triton_fleet import Canary, EndpointWarmUp, ModelRepository, MultiModelEndpoint, WarmUpRequest

pytestmark = pytest.mark.story

MINILM, RESNET = "minilm-0123456789ab.tar.gz", "resnet50-ba9876543210.tar.gz"
MANIFEST = {"version": 1, "models": {"minilm": {"current": MINILM}, "resnet50": {"current": RESNET}}}
REQUESTS = [WarmUpRequest(model="minilm", body='{"inputs": []}'), WarmUpRequest(model="resnet50", body="[]")]


class Runtime:
    """Replaces the endpoint and records the path, target model and body of every request."""

    def __init__(self) -> None:
        self.invoked: list[tuple[str, str, str]] = []
        invoked = self.invoked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                invoked.append((self.path, self.headers["X-Amzn-SageMaker-Target-Model"], body))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                """Do nothing: requests are not logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    opened = Runtime()
    yield opened
    opened.close()


@pytest.fixture
def aws(runtime: Runtime) -> Iterator[EmbeddedAws]:
    with EmbeddedAws() as opened:
        opened.serve_elsewhere("sagemaker-runtime", runtime.url)
        yield opened


@cache
def synthesised(greeting: str) -> str:
    """Return the template of a fleet that warms up. Another greeting means another configuration."""
    stack = small_stack()
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name="search",
        environment={"GREETING": greeting},
        initial_instance_count=10,
        deployment=Canary(),
        rollback_alarms=["errors"],
    )
    EndpointWarmUp(stack, "WarmUp", endpoint=endpoint, requests=REQUESTS)
    return template_of(stack)


def deploy(aws: EmbeddedAws, greeting: str, *, verb: str) -> str:
    template = json.loads(synthesised(greeting))
    return settle(aws, template.pop("Resources"), verb=verb, **template)


def publish_manifest(aws: EmbeddedAws, *, stack: str = "s") -> None:
    [bucket] = physical_ids(aws, "AWS::S3::Bucket", stack=stack)
    body = json.dumps(MANIFEST).encode()
    aws.client("s3").put_object(Bucket=bucket, Key="models/manifest.json", Body=body)


def test_a_deployment_that_bakes_is_warmed_up(aws: EmbeddedAws, runtime: Runtime) -> None:
    assert deploy(aws, "hello", verb="create") == "CREATE_COMPLETE"
    publish_manifest(aws)
    assert runtime.invoked == []

    assert deploy(aws, "good morning", verb="update") == "UPDATE_COMPLETE"

    until(lambda: len(runtime.invoked) >= len(REQUESTS))
    assert set(runtime.invoked) == {
        ("/endpoints/search/invocations", MINILM, '{"inputs": []}'),
        ("/endpoints/search/invocations", RESNET, "[]"),
    }


def test_a_warm_up_of_a_fleet_without_models_does_not_stop_the_deployment(
    aws: EmbeddedAws, runtime: Runtime
) -> None:
    deploy(aws, "hello", verb="create")

    assert deploy(aws, "good morning", verb="update") == "UPDATE_COMPLETE"
    until(lambda: logged(aws, "none of the 0 models that can be loaded has that name") > 0)
    assert runtime.invoked == []


def test_a_new_release_of_the_default_fleet_has_its_models_loaded_before_the_alias_moves(
    aws: EmbeddedAws, runtime: Runtime
) -> None:
    fleets = {
        release: fleet_app(release=release, build_on_deployment="false") for release in ("25.09", "26.04")
    }
    stacks = [("create", fleets["25.09"].models), ("create", fleets["25.09"].inference)]
    for verb, stack in [*stacks, ("update", fleets["26.04"].inference)]:
        assert deploy_stack(aws, stack, verb).startswith(f"{verb.upper()}_COMPLETE")
        if stack is fleets["25.09"].inference:
            assert runtime.invoked == []  # nothing has been published yet
            publish_manifest(aws, stack=fleets["25.09"].models.stack_name)

    assert {(path, model) for path, model, _ in runtime.invoked} == {
        ("/endpoints/TritonFleet-g5-2xlarge-26-04/invocations", MINILM),
        ("/endpoints/TritonFleet-g5-2xlarge-26-04/invocations", RESNET),
    }
    [minilm] = {body for _, model, body in runtime.invoked if model == MINILM}
    assert json.loads(minilm)["inputs"][0]["data"] == ["text"]
