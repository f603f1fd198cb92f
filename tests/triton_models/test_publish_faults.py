"""Publishing while things go wrong, over real sockets, and with publishers that are killed.

Whatever happens, a reader sees a manifest in which every name stands for an object that is there, with the
recorded content; and the next attempt completes what was begun. FLEET_FUZZ=1 tries every fault at every
request, and pairs of them.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.faulty_s3 import FAULTS, Fault, FaultyS3, Request
from tests.triton_models.publisher_nursery import PART_BYTES, Nursery, nursery
from tests.triton_models.publishing_aws import (
    artifact,
    client,
    consistent_manifest,
    new_repository,
    objects,
    small_aws,
    unfinished_uploads,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError
from triton_models.repository.publish import publish

pytestmark = pytest.mark.story

FUZZ = os.environ.get("FLEET_FUZZ") == "1"

# What a publication of `small` and `large` asks for, the second time on with another manifest there.
STEPS = 10


@dataclass(frozen=True)
class Scene:
    proxy: FaultyS3
    faulty: Any
    s3: Any
    publishers: Nursery
    new: list[Artifact]
    old: list[Artifact]

    def repository(self) -> str:
        """One in which the old ones are published."""
        url = new_repository(self.s3)
        publish(self.old, repository=url, s3=self.s3, by="earlier")
        return url

    def publish_through_faults(self, repository: str) -> list[str]:
        try:
            publish(self.new, repository=repository, s3=self.faulty, part_bytes=PART_BYTES)
        except FleetError as error:
            return [problem.rule for problem in error.problems]
        return []

    def is_old_or_new(self, repository: str) -> None:
        """Fail unless a reader sees the state before or the one after, whole."""
        manifest = consistent_manifest(repository, self.s3)
        seen = {name: manifest.target_model(name) for name in manifest.models}
        assert seen in (_targets(self.old), _targets(self.new))

    def completes(self, repository: str) -> None:
        """Fail unless the next attempt, in which nothing goes wrong, does it all."""
        published = publish(self.new, repository=repository, s3=self.s3, part_bytes=PART_BYTES)
        manifest = consistent_manifest(repository, self.s3)
        assert published.targets == _targets(self.new)
        assert {name: manifest.target_model(name) for name in published.targets} == _targets(self.new)


def _targets(artifacts: list[Artifact]) -> dict[str, str]:
    return {each.model: each.name for each in artifacts}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("artifacts")
    noise = random.Random(1).randbytes(9000)  # noqa: S311 -- it does not compress, and is always the same
    new = [artifact(folder, name="small", weights=b"w"), artifact(folder, name="large", weights=noise)]
    old = [artifact(folder, name=name, weights=b"earlier") for name in ("small", "large")]
    assert new[0].size <= PART_BYTES < 2 * PART_BYTES < new[1].size <= 3 * PART_BYTES
    with small_aws() as url, FaultyS3(url) as proxy, nursery(proxy.url) as publishers:
        yield Scene(proxy, client(proxy.url), client(url), publishers, new, old)


@pytest.fixture
def repository(scene: Scene) -> str:
    return scene.repository()


def test_a_publication_asks_for_this_and_no_more(scene: Scene, repository: str) -> None:
    scene.proxy.expect()

    publish(scene.new, repository=repository, s3=scene.faulty, part_bytes=PART_BYTES)

    small, large = (each.name for each in scene.new)
    asked = scene.proxy.requests
    assert sorted(asked) == sorted(
        [
            "GET manifest.json",
            f"HEAD {small}",
            f"HEAD {large}",
            f"PUT {small}",
            f"POST {large} uploads",
            *[f"PUT {large} uploadId"] * 3,
            f"POST {large} uploadId",
            "PUT manifest.json",
        ]
    )
    assert len(asked) == STEPS
    assert (asked[0], asked[-1]) == ("GET manifest.json", "PUT manifest.json")


CASES = list(itertools.product(FAULTS if FUZZ else ("cut", "lost"), range(1, STEPS + 1)))


@pytest.mark.parametrize(("fault", "number"), sorted({*CASES, ("half", 1), ("slow down", STEPS)}))
def test_after_a_fault_a_reader_sees_the_old_or_the_new_state_and_a_retry_completes(
    scene: Scene, repository: str, fault: Fault, number: int
) -> None:
    scene.proxy.expect({number: fault})
    reported = scene.publish_through_faults(repository)
    scene.proxy.wait_until_quiet()

    assert reported in ([], ["repository"])
    scene.is_old_or_new(repository)
    assert len(scene.proxy.requests) >= number
    scene.completes(repository)


@pytest.mark.parametrize("fault", ["cut", "slow down"])
def test_an_upload_in_parts_that_fails_leaves_no_parts_behind(
    scene: Scene, repository: str, fault: Fault
) -> None:
    _, large = scene.new
    scene.proxy.expect({4: fault})  # after the manifest, the HEAD and the beginning of the upload

    with pytest.raises(FleetError):
        publish([large], repository=repository, s3=scene.faulty, part_bytes=PART_BYTES)

    assert scene.proxy.requests[3] == f"PUT {large.name} uploadId"
    assert unfinished_uploads(repository, scene.s3) == []
    assert large.name not in objects(repository, scene.s3)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_sdk_asks_again_and_the_user_hears_nothing_of_it(
    scene: Scene, repository: str, fault: Fault, monkeypatch
) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    small, _ = scene.new
    scene.proxy.expect({1: fault, 4: fault, 6: fault})

    publish([small], repository=repository, s3=client(scene.proxy.url, attempts=3))

    assert consistent_manifest(repository, scene.s3).target_model("small") == small.name


def test_what_has_arrived_before_a_fault_is_not_sent_again(scene: Scene, repository: str) -> None:
    scene.proxy.expect({STEPS: "cut"})
    with pytest.raises(FleetError):
        publish(scene.new, repository=repository, s3=scene.faulty, part_bytes=PART_BYTES)
    assert scene.proxy.requests[-1] == "PUT manifest.json"

    scene.proxy.expect()
    published = publish(scene.new, repository=repository, s3=scene.faulty, part_bytes=PART_BYTES)

    assert published.uploaded == ()
    writes = [asked for asked in scene.proxy.requests if asked.startswith(("PUT", "POST"))]
    assert writes == ["PUT manifest.json"]


def test_a_slow_answer_lets_another_publisher_in_and_undoes_nothing(scene: Scene, repository: str) -> None:
    small, large = scene.new

    def meanwhile(request: Request) -> None:
        if request.number == 1:  # our copy of the manifest is on its way while another one is written
            publish([large], repository=repository, s3=scene.s3, by="other")

    scene.proxy.expect(after=meanwhile)
    publish([small], repository=repository, s3=scene.faulty)

    manifest = consistent_manifest(repository, scene.s3)
    assert manifest.target_model("small") == small.name
    assert manifest.target_model("large") == large.name
    assert scene.proxy.requests.count("PUT manifest.json") == 2


@pytest.mark.parametrize(
    ("when", "number"), list(itertools.product(("before", "after"), range(1, STEPS + 1)))
)
def test_a_publisher_killed_at_any_request_leaves_a_consistent_manifest_and_a_retry_completes(
    scene: Scene, repository: str, when: str, number: int
) -> None:
    publisher: Future[int] = Future()

    def kill(request: Request) -> None:
        if request.number == number:
            os.kill(publisher.result(timeout=30), signal.SIGKILL)

    scene.proxy.expect(**{when: kill})
    publisher.set_result(scene.publishers.start(scene.new, repository=repository))

    assert scene.publishers.wait(publisher.result()) == -signal.SIGKILL
    scene.proxy.wait_until_quiet()
    scene.is_old_or_new(repository)
    scene.completes(repository)


def test_publishers_at_once_lose_nothing_of_each_other(scene: Scene, tmp_path: Path) -> None:
    repository = new_repository(scene.s3)
    shared = artifact(tmp_path, name="shared", weights=b"the same from all")
    own = [artifact(tmp_path, name=f"own{number}", weights=b"own") for number in range(3)]
    # All of them have read the manifest before the first of them writes it.
    together, first = threading.Barrier(3, timeout=30), itertools.count(1)

    def meet(request: Request) -> None:
        if request.what == "PUT manifest.json" and next(first) <= 3:
            together.wait()

    scene.proxy.expect(before=meet)
    pids = [scene.publishers.start([shared, each], repository=repository) for each in own]

    assert [scene.publishers.wait(pid) for pid in pids] == [0, 0, 0]
    manifest = consistent_manifest(repository, scene.s3)
    assert set(manifest.models) == {"shared", "own0", "own1", "own2"}
    assert len(manifest.models["shared"].history) == 1


@pytest.mark.parametrize("seed", range(200 if FUZZ else 4))
def test_any_faults_and_kills_of_two_publishers_leave_a_consistent_manifest(scene: Scene, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- repeatable
    repository = new_repository(scene.s3)
    faults = {number: chance.choice(FAULTS) for number in range(1, 60) if chance.random() < 0.15}
    doomed = chance.randrange(1, 2 * STEPS)
    pids: Future[list[int]] = Future()

    def kill(request: Request) -> None:
        if request.number == doomed:
            os.kill(chance.choice(pids.result(timeout=30)), signal.SIGKILL)

    scene.proxy.expect(faults, **{chance.choice(("before", "after")): kill})
    pids.set_result([scene.publishers.start(each, repository=repository) for each in (scene.new, scene.old)])
    for pid in pids.result():
        assert scene.publishers.wait(pid) in {0, 1, -signal.SIGKILL}
    scene.proxy.wait_until_quiet()

    consistent_manifest(repository, scene.s3)
    scene.completes(repository)
