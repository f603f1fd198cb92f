"""`fleet why` and `fleet top --log` on a rehearsed endpoint, by the log and the metrics of a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import until
from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from tests.rehearsal.served_models import ensemble, onnx_model, python_model, tarball
from tests.rehearsal.test_hosting import Endpoint
from tests.triton_models.publishing_aws import EARLIER, file_name, record_of
from triton_models.base.errors import FleetError
from triton_models.cli.main import main
from triton_models.plan.logs import read_logs
from triton_models.repository.manifest import Manifest, Publication, Repository
from triton_models.repository.objects import Store
from triton_models.signals import top
from triton_models.signals.recorder import Recorder
from triton_rehearsal.hosting.service import Hosting

MIB = 1 << 20
TARGET, OTHER = "sm75-trt10.13.3", "sm86-trt10.13.3"
MEMORY = 'parameters {key: "gpu_memory_mb" value {string_value: "60"}}'
PLAN = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3"}
BROKEN = "raise RuntimeError('the weights are missing')"
MODELS: dict[str, dict[str, bytes]] = {
    "healthy": python_model(name="healthy"),
    "broken": python_model(BROKEN, name="broken"),
    "both": {**ensemble(2.0), "length/1/model.py": BROKEN.encode()},
    "first": onnx_model(1.0, name="first", extra=MEMORY),
    "second": onnx_model(1.0, name="second", extra=MEMORY),
}
"""The GPU has room for one of the last two."""


class Served(Endpoint):  # type: ignore[misc]
    """An endpoint with models."""

    def __init__(self, aws: MotoAws, hosting: Hosting) -> None:
        super().__init__(aws, hosting)
        self.repository = f"s3://{self.bucket}/models/"
        manifest = self.published(Manifest(), "elsewhere", build=PLAN, plans=("10.13.3",))
        for name, files in MODELS.items():
            body = tarball(files)
            self.upload(file_name(name, "1"), body)
            manifest = self.published(manifest, name, size=len(body))
        self.upload("manifest.json", manifest.to_json().encode())

    def published(self, manifest: Manifest, name: str, **fields: Any) -> Manifest:
        record = record_of(file_name(name, "1"), **fields)
        wanted = Publication(model=name, artifact=file_name(name, "1"), record=record)
        return manifest.with_published([wanted], at=EARLIER, by="ann")

    def request(self, *names: str) -> None:
        """Ask the models, by another SDK than this project's."""
        for name in names:
            with suppress(ClientError):
                self.invoke(file_name(name, "1"))

    def lines(self, phrase: str) -> int:
        """Return the number of lines in the log with a phrase."""
        pages = self.aws.client("logs").get_paginator("filter_log_events")
        group = f"/aws/sagemaker/Endpoints/{self.name}"
        found = pages.paginate(logGroupName=group, filterPattern=f'"{phrase}"')
        return sum(len(each["events"]) for each in found)


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    directory = tmp_path_factory.mktemp("why") / "hosting"
    with moto_aws() as aws, Hosting(aws, directory=directory, lookup_s=0.0, gpu_memory=100 * MIB) as hosting:
        hosting.aws = aws
        yield hosting


@pytest.fixture(scope="module")
def served(hosting: Hosting) -> Served:
    """An endpoint that was asked for models with and without faults."""
    one = Served(hosting.aws, hosting)
    one.request("healthy", "broken", "both", *("first", "second") * 3, "healthy")
    until(lambda: one.lines("Invoking") == 8)
    hosting.flush_metrics()
    return one


Ask = Callable[..., Any]


@pytest.fixture
def ask(hosting: Hosting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a verb about an endpoint; return its exit status and its answer."""
    for name, value in hosting.aws.exports(runtime=hosting.url).items():
        monkeypatch.setenv(name, value)

    def ask(one: Served, *arguments: str) -> tuple[int, Any]:
        status = main([*arguments, "--endpoint", one.name, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return ask


def why(ask: Ask, one: Served, model: str) -> tuple[list[str], dict[str, str]]:
    """Return the causes and the facts about a model."""
    status, found = ask(one, "why", model, "--repository", one.repository, "--target", TARGET)
    causes = [each["what"] for each in found["causes"]]
    assert status == bool(causes)
    assert [each["source"] for each in found["facts"] if each["what"] == "not read"] == ["signals"], found
    return causes, {each["what"]: each["found"] for each in found["facts"]}


def test_a_model_that_answers_has_no_cause(hosting: Hosting, ask: Ask) -> None:
    calm = Served(hosting.aws, hosting)
    calm.request(*["healthy"] * 5)
    until(lambda: calm.lines("Invoking") == 5)
    hosting.flush_metrics()
    causes, facts = why(ask, calm, "healthy")
    assert causes == []
    assert facts[file_name("healthy", "1")].startswith("1 loads, 0 failed, 0 without memory, 0 evictions")
    assert facts["last load"].startswith("0 min ago in ")
    assert facts["loaded"] == "1 models an instance"


def test_a_model_that_does_not_load_shows_what_triton_says(ask: Ask, served: Served) -> None:
    [first, *_], facts = why(ask, served, "broken")
    assert "does not load on 1 of 1 instances" in first
    assert first.endswith("RuntimeError: the weights are missing")
    assert "last load" not in facts


def test_an_ensemble_that_does_not_load_shows_the_reason_of_its_part(ask: Ask, served: Served) -> None:
    [first, *_], _ = why(ask, served, "both")
    assert ": depends on 'length' which has no loaded version" in first
    assert first.endswith("RuntimeError: the weights are missing")


def test_a_model_that_is_evicted_again_and_again_shows_how_often(ask: Ask, served: Served) -> None:
    [first, second, *_], _ = why(ask, served, "first")
    assert first.startswith(f"{file_name('first', '1')} was evicted 3 times and loaded 3 times in 3 h")
    assert second.startswith("Models evict each other: ")


def test_a_model_that_was_evicted_once_shows_that_others_evict_each_other(ask: Ask, served: Served) -> None:
    causes, facts = why(ask, served, "healthy")
    assert "2 loads, 0 failed, 0 without memory, 1 evictions" in facts[file_name("healthy", "1")]
    assert [each.partition(":")[0] for each in causes] == ["Models evict each other"]


def test_a_model_that_is_not_published_for_the_target_shows_for_which_it_is(ask: Ask, served: Served) -> None:
    [first, *_], facts = why(ask, served, "elsewhere")
    assert first == f"Nothing is published as elsewhere for {TARGET}, but for {OTHER}."
    assert "artifact" not in facts


def test_the_top_counts_the_requests_of_other_sdks_by_the_log(
    ask: Ask, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = f"s3://{served.bucket}/signals/"
    recorder = Recorder(Store(Repository.parse(signals), served.aws.client("s3")))
    for model, artifact in (("first", file_name("first", "1")), ("unknown", "")):
        recorder.record(
            endpoint=served.name, artifact=(model, artifact), seconds=0.1, error="", waited_s=None
        )
    recorder.close()
    later = time.time() + 60  # because it reads minutes that are over
    monkeypatch.setattr(top, "time", SimpleNamespace(time=lambda: later))
    status, found = ask(served, "top", "--signals", signals, "--sort", "log")
    assert status == 0
    counts = {each["name"]: (each["requests"], each["logged"]) for each in found["models"]}
    assert counts == {"first": (1, 3), "second": (0, 3), "healthy": (0, 2), "unknown": (1, 0)}


def test_models_in_folders_are_as_many_models_as_keys(
    hosting: Hosting, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What training jobs write: JOB/output/model.tar.gz. The server's log has the whole key.
    jobs = Served(hosting.aws, hosting)
    names = [f"job-{tenant}/output/model" for tenant in "abc"]
    for name in names:
        jobs.upload(f"{name}.tar.gz", tarball(python_model(name="model")))
        jobs.invoke(f"{name}.tar.gz")
    until(lambda: jobs.lines("Invoking") == 3)
    asked = read_logs(jobs.name, ["1", "2", "3"], days=1, named=False)
    assert asked.model.tolist() == [0, 1, 2]
    with pytest.raises(FleetError, match="lacks 1 of the 3 models that were asked: job-c/output/model"):
        read_logs(jobs.name, ["1", "2"], days=1, named=False)
    later = time.time() + 60  # because it reads minutes that are over
    monkeypatch.setattr(top, "time", SimpleNamespace(time=lambda: later))
    status, found = ask(jobs, "top", "--log", "--signals", f"s3://{jobs.bucket}/signals/")
    assert (status, {each["name"]: each["logged"] for each in found["models"]}) == (
        0,
        dict.fromkeys(names, 1),
    )
