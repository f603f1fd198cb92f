"""A warm-up in the embedded AWS: a deployment that bakes starts it, and it invokes the endpoint's models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from synthesised_stacks import deploy_fleet, deploy_stack, small_stack, template_of

from aws_for_tests.deployed_functions import logged, physical_ids, settle, until
from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import fleet_app
from triton_fleet import Canary, EndpointWarmUp, ModelRepository, MultiModelEndpoint, WarmUpRequest
from triton_models.cli.main import main
from triton_models.deliver.deliver import Delivery, deliver
from triton_rehearsal.hosting.service import Hosting

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
    until(lambda: logged(aws, "no model that can be loaded has that name") > 0)
    assert runtime.invoked == []


def test_a_minimal_model_is_loaded_on_a_new_endpoint_before_the_alias_moves(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    models, repository = tmp_path / "models", "TritonFleetModels"
    models.mkdir()
    assert main(["new", "risk", "--minimal", "--models", str(models), "--json"]) == 0
    old, new = (fleet_app(release=release, build_on_deployment="false") for release in ("25.09", "26.04"))
    with Hosting(aws) as hosting:
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        deploy_fleet(aws, old)
        [bucket] = physical_ids(aws, "AWS::S3::Bucket", stack=repository)
        delivery = Delivery(
            repository=f"s3://{bucket}/models/",
            models=models,
            portable=True,
            verify=False,
            logs=tmp_path / "logs",
        )
        [made] = deliver(["risk"], delivery, s3=aws.client("s3")).results
        assert deploy_stack(aws, new.inference, "update").startswith("UPDATE_COMPLETE")

        [instance] = hosting.instances("TritonFleet-g5-2xlarge-26-04")
        assert instance.loaded == [made.artifact]
