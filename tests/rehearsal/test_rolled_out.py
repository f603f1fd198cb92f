"""Candidates of twenty models under load on the deployed stack: shared, promoted, returned and published."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from synthesised_stacks import deploy_fleet

from aws_for_tests.deployed_functions import physical_ids, until
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.served_models import onnx_model, write
from tests.stacks.fleet_app import fleet_app
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.artifact.targets import ArtifactTarget
from triton_models.cli.main import main
from triton_models.client import Client
from triton_models.client.call import part_of
from triton_models.declare.declaration import Trial
from triton_models.repository.alias import alias_name
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.publish import publish
from triton_models.repository.stored_manifest import read_manifest
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

MODELS = [f"m{number:02}" for number in range(20)]
KEYS = [f"user {number}" for number in range(5)]
AGE_S = 0.5
"""After this age the client reads the manifest again, besides its requests."""

LATE_S = 2.0 if int(os.environ.get("FLEET_SCALE", "0")) else 20.0
"""The longest time from a decision to its first answer, and to the last one of before it: two seconds need a
machine without other work."""

aws = aws_fixture(scope="module")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    model: str
    key: str
    began: float
    ended: float
    artifact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A manifest, and when its writing began and had ended."""

    began: float
    ended: float
    manifest: Manifest

    def gives(self, answer: Answered, target: ArtifactTarget | None) -> bool:
        """Return whether it gives a request this artifact."""
        part = part_of(answer.model, answer.key)
        return self.manifest.models[answer.model].chosen(target, part) == answer.artifact


@dataclass
class Rollouts:
    """A repository with a deployed endpoint, its decisions with their moments, and what clients saw."""

    aws: EmbeddedAws
    folder: Path
    url: str
    decided: list[Decided] = field(default_factory=list)
    artifacts: dict[float, str] = field(default_factory=dict)
    answered: list[Answered] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def version(self, number: int) -> list[Artifact]:
        """Return a version of each model, whose answers are a number of their own."""
        packed = []
        for place, name in enumerate(MODELS):
            factor = float(100 * number + place)
            root = self.folder / str(number) / name
            record = json.dumps({"model": name, "release": "25.09", "gpu": None, "tensorrt": None})
            write({**onnx_model(factor, name=name), "build.json": record.encode()}, root)
            packed.append(pack(root, output=self.folder / "artifacts"))
            self.artifacts[factor] = packed[-1].name
        return packed

    def publish(self, artifacts: Sequence[Artifact], trial: Trial | None = None) -> None:
        trials = {each.model: trial for each in artifacts} if trial else None
        with self.noted():
            publish(artifacts, repository=self.url, s3=self.aws.client("s3"), trials=trials)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the manifest that is written within."""
        began = time.monotonic()
        yield
        ended = time.monotonic()
        manifest = read_manifest(Repository.parse(self.url), s3=self.aws.client("s3"))
        self.decided.append(Decided(began=began, ended=ended, manifest=manifest))

    def giving(self, answer: Answered, target: ArtifactTarget | None) -> list[int]:
        """Return the numbers of the decisions in force which give a request this artifact."""
        replaced = [*(each.ended for each in self.decided[1:]), math.inf]
        return [
            number
            for number, (each, over) in enumerate(zip(self.decided, replaced, strict=True))
            if each.began <= answer.ended and answer.began <= over + LATE_S and each.gives(answer, target)
        ]

    def wrong(self, target: ArtifactTarget | None) -> list[Answered]:
        """Return the answers that no decision gives, or one alone that an earlier answer had left behind.

        The threads share a client, so a request begins with no older manifest than any that had ended.
        """
        found, newest, ended = [], 0, deque(sorted(self.answered, key=lambda each: each.ended))
        for answer in sorted(self.answered, key=lambda each: each.began):
            while ended[0].ended < answer.began:
                newest = max(newest, min(self.giving(ended.popleft(), target), default=0))
            if max(self.giving(answer, target), default=-1) < newest:
                found.append(answer)
        return found

    def settled(self, target: ArtifactTarget | None) -> bool:
        """Return whether the last answers to each key of each model are those of the last decision."""
        last, newest = {(each.model, each.key): each for each in self.answered}, self.decided[-1]
        return len(last) == len(MODELS) * len(KEYS) and all(
            newest.gives(each, target) and each.began > newest.ended for each in last.values()
        )

    def ask(self, client: Client, ended: threading.Event, turn: int) -> None:
        chance = np.random.default_rng(turn)
        while not ended.is_set():
            model, key = str(chance.choice(MODELS)), str(chance.choice(KEYS))
            began = time.monotonic()
            try:
                answer = client.infer(model=model, inputs={"X": np.ones((1, 1), np.float32)}, key=key)
            except Exception as error:  # noqa: BLE001  every failure counts
                self.failures.append(error)
                continue
            artifact = self.artifacts[float(answer["Y"][0, 0])]
            self.answered.append(
                Answered(model=model, key=key, began=began, ended=time.monotonic(), artifact=artifact)
            )

    def seen(self, artifacts: Sequence[Artifact]) -> bool:
        """Return whether each of these has answered."""
        return {each.name for each in artifacts} <= {each.artifact for each in self.answered}


@pytest.fixture
def rollouts(aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rollouts]:
    with Hosting(aws) as hosting:
        deploy_fleet(aws, fleet_app(models="", build_on_deployment="false"))
        [bucket] = physical_ids(aws, "AWS::S3::Bucket", stack="TritonFleetModels")
        for name, value in {**aws.exports(), "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": hosting.url}.items():
            monkeypatch.setenv(name, value)
        yield Rollouts(aws, tmp_path, f"s3://{bucket}/models/")


def test_no_request_fails_and_each_gets_the_version_that_was_decided(
    rollouts: Rollouts, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (rollouts.version(number) for number in (1, 2, 3))
    rollouts.publish(first)
    client = Client(alias=alias_name("TritonFleet"), repository=rollouts.url, manifest_age_s=AGE_S)
    assert client.warm_up([]) == {}
    over = threading.Event()
    threads = [threading.Thread(target=rollouts.ask, args=(client, over, turn)) for turn in range(3)]
    for each in threads:
        each.start()
    try:
        until(lambda: rollouts.seen(first))
        rollouts.publish(second, Trial(share=0.5))
        until(lambda: rollouts.seen(second))
        for number, model in enumerate(MODELS):
            end = "--promote" if number % 2 else "--return"
            with rollouts.noted():
                main(["rollout", model, end, "--repository", rollouts.url])
        until(lambda: rollouts.settled(client.target))
        rollouts.publish(third)
        until(lambda: rollouts.seen(third))
    finally:
        over.set()
        for each in threads:
            each.join()

    assert rollouts.failures == []
    assert rollouts.wrong(client.target) == []
    names, published = {each.name for each in third}, rollouts.decided[-1].ended
    assert min(each.ended for each in rollouts.answered if each.artifact in names) - published < LATE_S
    assert {each.artifact for each in rollouts.answered if each.model == MODELS[0]} > {first[0].name}
