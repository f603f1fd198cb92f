"""A warm-up in the embedded AWS: a deployment that bakes starts it, and it invokes the endpoint's models."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from aws_cdk.assertions import Template
from served_models import FLOATS, python_model, tarball
from synthesised_stacks import deploy_fleet, deploy_stack, small_stack, template_of

from aws_for_tests.deployed_functions import logged, physical_ids, settle, until
from embedded_aws import EmbeddedAws
from tests.rehearsal.traffic import runtime_of
from tests.stacks.fleet_app import fleet_app
from tests.triton_models.publishing_aws import file_name, record_of
from triton_fleet import AllAtOnce, Canary, EndpointWarmUp, ModelRepository, MultiModelEndpoint, WarmUpRequest
from triton_models.artifact.targets import ANY
from triton_models.cli.main import main
from triton_models.deliver.deliver import DeliverOptions, deliver
from triton_models.repository.manifest import Manifest, ModelRecord, request_name
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

REQUESTS = [WarmUpRequest(model="minilm", body='{"inputs": []}')]


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


def run_schedule(aws: EmbeddedAws) -> None:
    """Run what the rule for hot models starts every five minutes."""
    rules = aws.client("events").list_rules()["Rules"]
    [rule] = [each for each in rules if each.get("ScheduleExpression") == "rate(5 minutes)"]
    [target] = aws.client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
    aws.client("lambda").invoke(FunctionName=target["Arn"], Payload=target["Input"])


def deploy(aws: EmbeddedAws, greeting: str, *, verb: str) -> str:
    template = json.loads(synthesised(greeting))
    return settle(aws, template.pop("Resources"), verb=verb, **template)


def test_a_deployment_that_bakes_starts_the_warm_up_and_does_not_wait_for_models(aws: EmbeddedAws) -> None:
    deploy(aws, "hello", verb="create")

    assert deploy(aws, "good morning", verb="update") == "UPDATE_COMPLETE"
    until(lambda: logged(aws, "no model that can be loaded has that name") > 0)


@pytest.mark.parametrize("settings", [{}, {"hot": "risk", "min_capacity": "2"}])
def test_a_minimal_model_is_loaded_on_a_new_endpoint_before_the_alias_moves(
    settings: dict[str, str], aws: EmbeddedAws, tmp_path: Path
) -> None:
    models, repository = tmp_path / "models", "TritonFleetModels"
    models.mkdir()
    assert main(["new", "risk", "--minimal", "--models", str(models), "--json"]) == 0
    old, new = (
        fleet_app(release=release, build_on_deployment="false", **settings) for release in ("25.09", "26.04")
    )
    with Hosting(aws) as hosting:
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        deploy_fleet(aws, old)
        [bucket] = physical_ids(aws, "AWS::S3::Bucket", stack=repository)
        options = DeliverOptions(
            names=["risk"],
            repository=f"s3://{bucket}/models/",
            models=models,
            portable=True,
            verify=False,
            logs=tmp_path / "logs",
        )
        [made] = deliver(options, s3=aws.client("s3")).results
        assert deploy_stack(aws, new.inference, "update").startswith("UPDATE_COMPLETE")

        def loaded() -> list[list[str]]:
            return [each.loaded for each in hosting.instances("TritonFleet-g5-2xlarge-26-04")]

        def everywhere() -> bool:
            found = loaded() == [[made.artifact]] * 2
            if not found:  # a busy machine may send a quick model too few requests at a moment
                run_schedule(aws)
            return found

        assert [made.artifact] in loaded()
        assert len(loaded()) == int(settings.get("min_capacity", 1))
        if settings:
            until(everywhere)


HOT = ("first", "second")
LOAD_S = 3.0
WAITED_S = LOAD_S / 2
SLOW_TO_LOAD = f"""
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        time.sleep({LOAD_S})

    def execute(self, requests):
        time.sleep(0.02)
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""


class HotFleet:
    """A deployed endpoint with hot models, and applications that ask for them."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting, *, instances: int) -> None:
        self.aws, self.hosting = aws, hosting
        stack = small_stack()
        endpoint = MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=ModelRepository(stack, "Repository"),
            endpoint_name="hot",
            initial_instance_count=instances,
            deployment=AllAtOnce(),
        )
        EndpointWarmUp(stack, "WarmUp", endpoint=endpoint, published=True, hot=HOT)
        template = Template.from_stack(stack).to_json()
        assert settle(aws, template.pop("Resources"), **template) == "CREATE_COMPLETE"
        self.targets = self._publish()
        self.runtime, self.answered = runtime_of(aws, hosting), list[tuple[float, float]]()
        self.failures: list[Exception] = []
        hosting.start("hot")

    def _publish(self) -> list[str]:
        [bucket] = physical_ids(self.aws, "AWS::S3::Bucket")
        request = {"body": base64.b64encode(FLOATS).decode(), "content_type": "application/json"}
        digest = hashlib.sha256(json.dumps(request).encode()).hexdigest()
        names = {name: file_name(name, "0") for name in HOT}
        models = {
            name: ModelRecord(
                current={ANY: artifact}, history=(), artifacts={artifact: record_of(artifact, request=digest)}
            )
            for name, artifact in names.items()
        }
        files = {
            request_name(digest): json.dumps(request).encode(),
            "manifest.json": Manifest(models=models).to_json().encode(),
            **dict.fromkeys(names.values(), tarball(python_model(SLOW_TO_LOAD))),
        }
        for name, body in files.items():
            self.aws.client("s3").put_object(Bucket=bucket, Key=f"models/{name}", Body=body)
        return list(names.values())

    def ask(self, target: str) -> None:
        began = time.monotonic()
        try:
            self.runtime.invoke_endpoint(EndpointName="hot", TargetModel=target, Body=FLOATS)["Body"].read()
        except Exception as error:  # noqa: BLE001 -- every failure counts
            self.failures.append(error)
        self.answered.append((began, time.monotonic() - began))

    def waited(self, *, since: float) -> list[float]:
        """Return the times of requests that took as long as a load."""
        return [took for began, took in self.answered if began >= since and took > WAITED_S]

    @contextmanager
    def load(self, *, rate: float) -> Iterator[None]:
        """Send requests at random moments, whatever is answered."""
        ended, chance = threading.Event(), random.Random(1)  # noqa: S311 -- no secret

        def send() -> None:
            with ThreadPoolExecutor(64) as pool:
                while not ended.wait(chance.expovariate(rate)):
                    pool.submit(self.ask, chance.choice(self.targets))

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def crowd(self) -> None:
        """Ask for each model by more callers than one instance is sent requests of."""
        with ThreadPoolExecutor(24) as pool:
            list(pool.map(self.ask, self.targets * 24))

    def resize(self, count: int) -> None:
        wanted = {"VariantName": "AllTraffic", "DesiredInstanceCount": count}
        self.aws.client("sagemaker").update_endpoint_weights_and_capacities(
            EndpointName="hot", DesiredWeightsAndCapacities=[wanted]
        )

    def everywhere(self, count: int) -> bool:
        """Return whether so many instances serve and have all hot models."""
        instances = self.hosting.instances("hot")
        return len(instances) == count and all(
            sorted(each.loaded) == sorted(self.targets) for each in instances
        )


@contextmanager
def hot_fleet(aws: EmbeddedAws, *, instances: int) -> Iterator[HotFleet]:
    with Hosting(aws) as hosting:
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        yield HotFleet(aws, hosting, instances=instances)


def test_hot_models_are_on_a_new_instance_before_a_crowd_is_sent_there(aws: EmbeddedAws) -> None:
    with hot_fleet(aws, instances=1) as fleet:
        for target in fleet.targets:
            fleet.ask(target)
        began = time.monotonic()
        with fleet.load(rate=20):
            fleet.resize(2)
            until(lambda: fleet.everywhere(2))
            everywhere = time.monotonic()
            fleet.crowd()
        assert not fleet.failures
        assert fleet.waited(since=everywhere) == []
        # A caller may come between the requests that bring a model there, which take a millisecond.
        assert len(fleet.waited(since=began)) <= 1


def test_a_replaced_instance_gets_the_hot_models_and_no_request_waits_for_them(aws: EmbeddedAws) -> None:
    with hot_fleet(aws, instances=2) as fleet:
        run_schedule(aws)
        assert fleet.everywhere(2)
        first, second = fleet.hosting.instances("hot")
        began = time.monotonic()
        os.kill(second.server.pid, signal.SIGKILL)
        until(lambda: second not in fleet.hosting.instances("hot"))
        until(lambda: len(fleet.hosting.instances("hot")) == 2)
        fleet.ask(fleet.targets[0])
        assert fleet.hosting.instances("hot")[1].loaded == []
        run_schedule(aws)
        assert fleet.everywhere(2)
        fleet.crowd()
        assert first in fleet.hosting.instances("hot")
        assert fleet.waited(since=began) == []
