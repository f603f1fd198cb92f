"""A change of release or GPU under uninterrupted traffic, with the real CDK command line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import numpy as np
import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.cdk_apps import cdk_of, write_app
from tests.rehearsal.deployed_endpoints import aliased, endpoints
from tests.rehearsal.served_models import onnx_model, python_model, scaling_onnx, write
from tests.rehearsal.traffic import Traffic
from tests.triton_models.declared_models import declare
from triton_models.artifact.networks import plan_beginning
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.stand_in import MARK
from triton_models.client import Client
from triton_models.facts.instances import GPUS, instance_type
from triton_models.facts.releases import RELEASES
from triton_models.repository.alias import Aliased, alias_name
from triton_models.repository.manifest import Repository
from triton_models.repository.publish import publish
from triton_models.repository.stored_manifest import read_manifest
from triton_rehearsal.cdk import Cdk
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

ALIAS = alias_name("Fleet")

# A user's app, with functions that poll more often. Deployments change the context.
APP = """
from aws_cdk import App, CfnOutput, Duration, Stack
from aws_cdk import aws_ssm as ssm
from triton_fleet import Serving
from triton_fleet import (
    DeploymentBuild, EndpointAlias, EndpointScaling, ModelBuildProject, ModelRepository, MultiModelEndpoint,
    EndpointWarmUp, WarmUpRequest, endpoint_name_for,
)
from triton_fleet.endpoint.functions import inline_function

written = inline_function.function_code
inline_function.function_code = lambda source: written(source).replace("POLL_S = 15", "POLL_S = 0.2")

app = App()
release, instance_type = (app.node.get_context(key) for key in ("release", "instance_type"))
serving = Serving(release=release, instance_type=instance_type)
models = Stack(app, "Models")
repository = ModelRepository(models, "Repository")
builds = ModelBuildProject(
    models, "Builds", repository=repository, source="model_builds", serving=serving,
)
DeploymentBuild(models, "Build", builds=builds)
CfnOutput(models, "Url", value=repository.url)

stack = Stack(app, "Inference")
endpoint = MultiModelEndpoint(
    stack,
    "Endpoint",
    repository=repository,
    endpoint_name=endpoint_name_for("Fleet", instance_type, release=release),
    serving=serving,
)
scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint)
alias = EndpointAlias(stack, "Alias", endpoint=endpoint, fleet="Fleet", scaling=[scaling])
body = '{"inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}'
EndpointWarmUp(
    stack, "WarmUp", endpoint=endpoint, alias=alias, every=Duration.seconds(1),
    requests=[WarmUpRequest(model="plan", body=body)],
)
last = ssm.CfnParameter(stack, "Last", name="last", type="String", value=endpoint.literal_name)
last.node.add_dependency(alias)
app.synth()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """The target of a fleet."""

    release: str
    type: str

    @property
    def target(self) -> ArtifactTarget:
        return ArtifactTarget.of(release=RELEASES[self.release], gpu=instance_type(self.type).gpu)

    @property
    def endpoint(self) -> str:
        return f"Fleet-{self.type.removeprefix('ml.').replace('.', '-')}-{self.release.replace('.', '-')}"

    def answer(self, version: int) -> float:
        """Return the answer of the model `plan` here: another number for each version, release and GPU."""
        return version * 100.0 + list(RELEASES).index(self.release) + 0.5 * ("g4dn" in self.type)


OLD = On(release="25.09", type="ml.g5.2xlarge")
NEWER = On(release="26.05", type="ml.g5.2xlarge")
OTHER_GPU = On(release="25.09", type="ml.g4dn.xlarge")
BOTH = On(release="26.05", type="ml.g4dn.xlarge")
ALL = (OLD, NEWER, OTHER_GPU, BOTH)


@dataclass
class Builder:
    """Runs the builds that deployments start. The models are tiny."""

    aws: EmbeddedAws
    folder: Path
    version: int = 1
    compiles_for: str = ""
    problems: list[Exception] = field(default_factory=list)

    def run(self, ended: threading.Event) -> None:
        codebuild = self.aws.client("codebuild")
        done: set[str] = set()
        while not ended.wait(0.1):
            for build_id in set(codebuild.list_builds()["ids"]) - done:
                done.add(build_id)
                [build] = codebuild.batch_get_builds(ids=[build_id])["builds"]
                if build["buildStatus"] != "IN_PROGRESS":
                    continue
                try:
                    self._build(build)
                except Exception as error:  # noqa: BLE001  the test reports it
                    self.problems.append(error)

    def _build(self, build: Mapping[str, Any]) -> None:
        variables = {each["name"]: each["value"] for each in build["environment"]["environmentVariables"]}
        gpu, release = variables["FLEET_GPU"], variables["FLEET_RELEASE"]
        on = next(
            each for each in ALL if each.target == ArtifactTarget.of(release=RELEASES[release], gpu=GPUS[gpu])
        )
        self.publish(on, repository=variables["FLEET_REPOSITORY"])
        results = [
            {"model": model, "status": "published", "step": "publish", "problems": [], "artifact": "a"}
            for model in ("plan", "echo")
        ]
        bucket, _, key = variables["FLEET_RESULTS"].removeprefix("s3://").partition("/")
        document = json.dumps({"finished": True, "models": results}).encode()
        self.aws.client("s3").put_object(Bucket=bucket, Key=key, Body=document)
        self.aws.finish_build(build["id"], status="SUCCEEDED")

    def publish(self, on: On, *, repository: str) -> None:
        """Publish the models for a target, like `fleet deliver`."""
        publish(
            [self._plan(on), self._echo(on)],
            repository=repository,
            s3=self.aws.client("s3"),
            portable=True,
            by="builder",
            target=on.target,
            inputs={name: {"declaration": str(self.version)} for name in ("plan", "echo")},
        )

    def _plan(self, on: On) -> Artifact:
        gpu, tensorrt = instance_type(on.type).gpu, RELEASES[on.release].tensorrt
        assert gpu is not None
        compiled = GPUS[self.compiles_for] if self.compiles_for else gpu
        about = {"gpu": compiled.name, "compute_capability": compiled.compute_capability}
        files = onnx_model(1, name="plan", backend="tensorrt", file="model.plan")
        files["plan/1/model.plan"] = b"".join(
            [
                plan_beginning(tensorrt),
                MARK,
                json.dumps(about).encode(),
                b"\n",
                scaling_onnx(on.answer(self.version)),
            ]
        )
        record = {"gpu": gpu.name, "tensorrt": tensorrt}
        return self._packed("plan", on, files, {**record, "plans": {"plan/1/model.plan": record}})

    def _echo(self, on: On) -> Artifact:
        return self._packed("echo", on, python_model(name="echo"), {"gpu": None, "tensorrt": None})

    def _packed(self, name: str, on: On, files: dict[str, bytes], about: dict[str, Any]) -> Artifact:
        record = {"model": name, "release": on.release, **about, "version": self.version}
        root = self.folder / f"{name}-{on.endpoint}-{self.version}-{self.compiles_for}" / name
        write({**files, "build.json": json.dumps(record).encode()}, root)
        return pack(root, output=self.folder / "artifacts")


class Application(Traffic):
    """An application that follows the alias and invokes both models. Its answers are those of `plan`.

    Attributes:
        wrong: The answers of `echo` that differ from the requests.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.wrong: list[float] = []

    def ask(self) -> float:
        one = {"X": np.array([[1.0]], dtype=np.float32)}
        answer = float(self._client.infer(model="plan", inputs=one)["Y"][0, 0])
        echoed = float(self._client.infer(model="echo", inputs=one)["Y"][0, 0])
        if echoed != 1.0:
            self.wrong.append(echoed)
        return answer


class Fleet:
    """A deployed app and its endpoints."""

    def __init__(self, aws: EmbeddedAws, cdk: Cdk, builder: Builder) -> None:
        self.aws, self._cdk, self.builder = aws, cdk, builder
        self.url = ""

    def deploy(self, on: On) -> None:
        context = ["-c", f"release={on.release}", "-c", f"instance_type={on.type}"]
        outputs = self._cdk.deploy("--all", *context)
        self.url = outputs.get("Models", {}).get("Url", self.url)

    def loads(self, on: On) -> bool:
        """Return True if both models have an artifact for a target, or for any target."""
        models = read_manifest(Repository.parse(self.url), s3=self.aws.client("s3")).models
        return all(model.on(on.target) is not None for model in models.values())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("release")
    app = folder / "app"
    for model in ("plan", "echo"):
        declare(app / "model_builds" / "models", model)
    write_app(app, APP)
    with EmbeddedAws() as aws, Hosting(aws) as hosting:
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        cdk = cdk_of(aws, app)
        ended, builder = threading.Event(), Builder(aws=aws, folder=folder)
        thread = threading.Thread(target=builder.run, args=(ended,))
        thread.start()
        try:
            cdk.bootstrap()
            found = Fleet(aws, cdk, builder)
            found.deploy(OLD)
            until(lambda: aliased(aws).endpoint == OLD.endpoint)
            yield found
        finally:
            ended.set()
            thread.join()
        assert builder.problems == []


@pytest.fixture(scope="module")
def traffic(fleet: Fleet) -> Iterator[Application]:
    hosting = fleet.aws.environment()
    given = {**hosting, "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": runtime(fleet)}
    with patch.dict(os.environ, given):
        client = Client(
            alias=ALIAS, repository=fleet.url, session=boto3.Session(), manifest_age_s=0.2, alias_age_s=0.2
        )
    until(lambda: fleet.loads(OLD))
    with Application(client) as traffic:
        until(lambda: traffic.asked > 0 or bool(traffic.failures))
        yield traffic


def runtime(fleet: Fleet) -> str:
    return fleet.aws._elsewhere["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"]


def check(fleet: Fleet, traffic: Application, on: On, *answers: float) -> None:
    """Check that nothing failed, every answer was one of these, and only the target's endpoint serves."""
    asked = traffic.asked
    until(lambda: traffic.asked > asked + 2 or bool(traffic.failures))
    assert traffic.failures == []
    assert traffic.wrong == []
    assert traffic.taken() <= set(answers)
    assert aliased(fleet.aws) == Aliased(endpoint=on.endpoint, target=on.target)
    assert list(endpoints(fleet.aws)) == [on.endpoint]
    assert fleet.loads(on)


def test_a_release_and_a_gpu_change_there_and_back_and_both_at_once(
    fleet: Fleet, traffic: Application
) -> None:
    before = OLD
    for after in (NEWER, OTHER_GPU, BOTH, OLD):
        fleet.deploy(after)
        check(fleet, traffic, after, before.answer(1), after.answer(1))
        before = after


def test_a_new_endpoint_that_does_not_load_is_undone_and_never_served(
    fleet: Fleet, traffic: Application
) -> None:
    fleet.builder.version, fleet.builder.compiles_for = 3, "L4"
    try:
        with pytest.raises(FleetError, match="does not answer, so the alias does not move"):
            fleet.deploy(NEWER)
    finally:
        fleet.builder.compiles_for = ""

    check(fleet, traffic, OLD, OLD.answer(1), OLD.answer(3))


def test_a_deployment_that_fails_after_the_alias_moved_is_undone(fleet: Fleet, traffic: Application) -> None:
    fleet.builder.version = 4
    # The models stack was not rolled back with the endpoint: for the same target it builds nothing again.
    fleet.builder.publish(NEWER, repository=fleet.url)
    events = fleet.aws.client("ssm").meta.events

    def refuse(model: Any, params: Mapping[str, Any], **_: Any) -> None:
        body = str(params.get("body"))
        if model.name == "PutParameter" and '"last"' in body and NEWER.endpoint in body:
            assert aliased(fleet.aws).endpoint == NEWER.endpoint
            raise ClientError({"Error": {"Code": "TooMuch", "Message": "no"}}, "PutParameter")

    events.register("before-call.ssm", refuse)
    try:
        with pytest.raises(FleetError, match="TooMuch"):
            fleet.deploy(NEWER)
    finally:
        events.unregister("before-call.ssm", refuse)

    check(fleet, traffic, OLD, OLD.answer(1), OLD.answer(3), OLD.answer(4), NEWER.answer(4))
