"""Many models, five of them broken, built by the deployed state machine: all others are published.

With FLEET_SCALE=200, as in `make fuzz`, two hundred models take three minutes.

All parts are real: the constructs' template in the embedded AWS, the state machine's definition, the
projects' buildspecs, run command by command, and a Triton server that verifies each model.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from generated_models import BROKEN, repair, source_folder
from synthesised_stacks import small_stack

from aws_for_tests.deployed_functions import physical_ids, settle
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from triton_fleet import BuildRuns, ModelBuildProject, ModelRepository, Serving
from triton_rehearsal.builds.runner import WITHOUT_GPU, BuildRunner

ACCOUNT, REGION = "123456789012", "us-east-1"
SCALE = int(os.environ.get("FLEET_SCALE", "40"))
pytestmark = pytest.mark.skipif("FLEET_SCALE" not in os.environ, reason="minutes: FLEET_SCALE=200, make fuzz")
GOOD = SCALE - len(BROKEN)
MODELS_PER_BUILD = SCALE // 8
AT_A_TIME = 3
# Enough for a busy machine.
_LONGEST_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An execution that has ended.

    Attributes:
        status: The execution's status.
        cause: The reason for its failure.
        folder: The files that it left in its folder, by name.
        most: The maximum number of model builds that ran at the same time.
        seconds: The duration in seconds.
    """

    status: str
    cause: str
    folder: Mapping[str, Any]
    most: int
    seconds: float

    @property
    def results(self) -> dict[str, str]:
        """The result of each model in the summary."""
        return {each["model"]: each["status"] for each in self.folder["summary.json"]["models"]}

    @property
    def failed(self) -> dict[str, Any]:
        """The summary's entry of each model that failed unexpectedly."""
        models = self.folder["summary.json"]["models"]
        return {
            each["model"]: each
            for each in models
            if each["status"] == "failed" and each["model"] not in BROKEN
        }

    @property
    def built(self) -> list[str]:
        """The models that had to be built."""
        return sorted(name for item in self.folder["items.json"] for name in item["models"].split())


class Deployed:
    """The deployed constructs, with their source folder."""

    def __init__(self, aws: EmbeddedAws, source: Path) -> None:
        self.aws = aws
        self.source = source
        aws.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}")
        self.status = self.deploy("create")

    def deploy(self, verb: str) -> str:
        """Synthesize, upload the source as the CDK does, and deploy. Returns the stack's status."""
        app = App(outdir=str(self.source.parent / f"cdk.out.{verb}"))
        stack = small_stack(app)
        builds = ModelBuildProject(
            stack,
            "Builds",
            repository=ModelRepository(stack, "Repository"),
            source=self.source,
            serving=Serving(instance_type="ml.c7i.2xlarge"),
        )
        BuildRuns(stack, "Runs", builds=builds, models_per_build=MODELS_PER_BUILD, max_concurrency=AT_A_TIME)
        template = Template.from_stack(stack).to_json()
        self._upload(Path(app.outdir))
        return settle(self.aws, template.pop("Resources"), verb=verb, **template)

    def _upload(self, assembly: Path) -> None:
        for manifest in assembly.glob("*.assets.json"):
            for name, asset in json.loads(manifest.read_text())["files"].items():
                if asset["source"]["packaging"] == "zip":
                    archive = shutil.make_archive(
                        str(assembly / name), "zip", assembly / asset["source"]["path"]
                    )
                    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
                    self.aws.client("s3").upload_file(archive, bucket, f"{name}.zip")

    def run(self, name: str) -> Run:
        """Run the state machine to its end."""
        states, began = self.aws.client("stepfunctions"), time.monotonic()
        [machine] = states.list_state_machines()["stateMachines"]
        execution = states.start_execution(stateMachineArn=machine["stateMachineArn"], name=name)[
            "executionArn"
        ]
        most, moment = 0, threading.Event()
        while (found := states.describe_execution(executionArn=execution))["status"] == "RUNNING":
            assert time.monotonic() - began < _LONGEST_S, found
            most = max(most, self._running())
            moment.wait(0.5)
        return Run(
            status=found["status"],
            cause=found.get("cause", ""),
            folder=dict(self._folder(name)),
            most=most,
            seconds=time.monotonic() - began,
        )

    def _running(self) -> int:
        """Return the number of model builds that have not ended."""
        codebuild = self.aws.client("codebuild")
        ids = codebuild.list_builds()["ids"]
        builds = codebuild.batch_get_builds(ids=ids)["builds"] if ids else []
        return sum(not each["buildComplete"] and each["projectName"].startswith("Builds") for each in builds)

    def _folder(self, run: str) -> Iterator[tuple[str, Any]]:
        for name in ("items.json", "summary.json"):
            yield name, json.loads(self._object(f"models-builds/runs/{run}/{name}"))

    def _object(self, key: str) -> bytes:
        body: bytes = self.aws.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    @property
    def bucket(self) -> str:
        """The repository's bucket."""
        [bucket] = physical_ids(self.aws, "AWS::S3::Bucket")
        return bucket

    @property
    def published(self) -> set[str]:
        """Return the models in the repository's manifest."""
        return set(self._models())

    def _models(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._object("models/manifest.json"))["models"]
        return found


aws = aws_fixture(scope="module")


@pytest.fixture(scope="module")
def deployed(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    source = source_folder(tmp_path_factory.mktemp("scale") / "source", good=GOOD)
    # All dependencies are installed already. With a check of them, pip takes four times as long.
    with BuildRunner(aws, at_most=AT_A_TIME, lacking={**WITHOUT_GPU, "PIP_NO_DEPS": "1"}):
        yield Deployed(aws, source)


@pytest.fixture(scope="module")
def first(deployed: Deployed) -> Run:
    return deployed.run("first")


def test_every_resource_of_the_constructs_is_deployed(aws: EmbeddedAws, deployed: Deployed) -> None:
    assert deployed.status == "CREATE_COMPLETE"
    assert aws.missing_resources("s") == []


def test_the_good_models_are_published_whatever_the_others_do(deployed: Deployed, first: Run) -> None:
    published = [name for name, result in first.results.items() if result == "published"]
    assert len(published) == GOOD, first.failed
    assert deployed.published == set(published)


def test_each_broken_model_is_named_with_its_step_and_reason(first: Run) -> None:
    failed = {
        each["model"]: (each["step"], each["problems"][0]["what"])
        for each in first.folder["summary.json"]["models"]
        if each["status"] == "failed"
    }
    assert set(failed) == set(BROKEN), first.failed
    for name, (step, words) in {
        "mistyped": ("verify", "does not load it"),
        "raises": ("build", "no such layer"),
        "refused": ("check", "model.py"),
        "wrong": ("verify", "outside the tolerance"),
        "killed": ("build", "SIGKILL"),
    }.items():
        assert failed[name][0] == step, failed[name]
        assert words in failed[name][1]


def test_the_execution_says_that_not_all_is_well_and_where_to_read_it(first: Run) -> None:
    assert first.status == "FAILED"
    assert "models-builds/runs/first/summary.json" in first.cause


def test_no_more_builds_run_at_a_time_than_were_asked_for(first: Run) -> None:
    assert 1 < first.most <= AT_A_TIME


def test_a_second_run_builds_only_what_is_not_published(deployed: Deployed, first: Run) -> None:
    again = deployed.run("second")

    assert set(again.built) <= set(BROKEN)
    assert {name for name, result in again.results.items() if result == "failed"} == set(BROKEN)
    assert again.status == "FAILED"


def test_a_run_after_they_are_mended_builds_them_alone_and_succeeds(deployed: Deployed, first: Run) -> None:
    repair(deployed.source)
    assert deployed.deploy("update") == "UPDATE_COMPLETE"

    last = deployed.run("third")

    assert last.built == sorted(BROKEN)
    assert set(last.results.values()) == {"published"}
    assert last.status == "SUCCEEDED"
    assert len(deployed.published) == GOOD + len(BROKEN)
