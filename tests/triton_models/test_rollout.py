"""A candidate gets a share of a model's requests, is compared with the current version, and ends."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from tests.reported import reported
from tests.triton_models.faulty_s3 import FaultyS3
from tests.triton_models.publishing_aws import (
    client,
    consistent_manifest,
    objects,
    own_endpoints,
    record_of,
    repository_of,
)
from tests.triton_models.scripted_server import ROW, World, reply
from triton_models.artifact.pack.pack import Artifact
from triton_models.artifact.targets import ArtifactTarget
from triton_models.cli import main as cli
from triton_models.declare.declaration import Trial
from triton_models.repository.history import published
from triton_models.repository.manifest import Manifest, ModelRecord, Publication, Repository, Share
from triton_models.repository.objects import Store
from triton_models.repository.prune import prune
from triton_models.repository.publish import publish
from triton_models.signals.recorder import Recorder
from triton_models.signals.rollout import WARM_UP_S, compared, watched

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
CURRENT, CANDIDATE = "m-1111111111111111.tar.gz", "m-2222222222222222.tar.gz"


@pytest.fixture
def repository(s3: Any, versions: list[Artifact]) -> str:
    """A repository with one version of `minilm`."""
    return repository_of(versions[:1], s3)


def minilm(repository: str, s3: Any) -> ModelRecord:
    return consistent_manifest(repository, s3).models["minilm"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def with_candidate(*, share: int = 2000, how: Literal["share", "shadow"] = "share", **build: Any) -> Manifest:
    manifest = Manifest()
    wanted = [
        Publication(model="m", artifact=name, record=record_of(name, build=build))
        for name in (CURRENT, CANDIDATE)
    ]
    manifest = manifest.with_published(wanted[:1], at=NOON, by="ann")
    return manifest.with_candidate(wanted[1], share=Share(how=how, parts=share), at=NOON, by="ann")


def trial(share: float, **given: Any) -> dict[str, Trial]:
    return {"minilm": Trial(share=share, **given)}


def test_a_candidate_is_published_next_to_the_current_version(
    repository: str, s3: Any, versions: list[Artifact]
) -> None:
    before = minilm(repository, s3)
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05), by="ann")
    now = minilm(repository, s3)
    assert (now.current, now.history) == (before.current, before.history)
    assert now.candidate is not None
    assert (now.candidate.artifact, now.candidate.share) == (versions[1].name, 500)
    states = {
        each.artifact: (each.state, each.change) for each in published(Manifest(models={"minilm": now}))
    }
    state, change = states[versions[1].name]
    assert (state, change.by if change else "") == ("candidate, 5%", "ann")
    assert states[versions[0].name][0] == "current"


@pytest.mark.parametrize("share", [0.0, 1.0, 1e-6])
def test_a_share_of_nothing_or_of_all_is_refused(
    repository: str, s3: Any, versions: list[Artifact], share: float
) -> None:
    with reported("candidate"):
        publish([versions[1]], repository=repository, s3=s3, trials=trial(share))
    assert minilm(repository, s3).candidate is None


def test_a_second_candidate_is_refused(repository: str, s3: Any, versions: list[Artifact]) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.1))
    with reported("candidate"):
        publish([versions[2]], repository=repository, s3=s3, trials=trial(0.1))
    assert versions[2].name not in objects(repository, s3)
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.2))
    candidate = minilm(repository, s3).candidate
    assert candidate is not None
    assert candidate.share == 2000


def test_a_first_version_becomes_current_and_the_current_one_stays_so(
    s3: Any, versions: list[Artifact]
) -> None:
    repository = repository_of([], s3)
    for _ in range(2):
        published = publish(versions[:1], repository=repository, s3=s3, trials=trial(0.1))
        assert published.candidates == ()
        now = minilm(repository, s3)
        assert (set(now.current.values()), now.rollouts) == ({versions[0].name}, ())
    assert published.unchanged == ("minilm",)


def test_a_candidate_with_other_inputs_is_refused(repository: str, s3: Any, versions: list[Artifact]) -> None:
    signed = [
        replace(each, build={"request": {"X": kind}})
        for each, kind in zip(versions[1:], ("FP32 [1]", "FP16 [1]"), strict=False)
    ]
    publish(signed[:1], repository=repository, s3=s3)
    with reported("candidate") as problems:
        publish(signed[1:], repository=repository, s3=s3, trials=trial(0.1))
    assert "FP16" in problems[0].what


def test_a_shadow_has_the_tolerance_of_its_declaration_or_one_that_is_given(
    repository: str, s3: Any, versions: list[Artifact]
) -> None:
    unknown, known = versions[1], replace(versions[1], build={**versions[1].build, "tolerance": 0.25})
    with reported("candidate"):
        publish([unknown], repository=repository, s3=s3, trials=trial(0.1, shadow=True))
    for artifact, given, tolerance in ((known, {}, 0.25), (known, {"tolerance": 0.5}, 0.5)):
        publish([artifact], repository=repository, s3=s3, trials=trial(1.0, shadow=True, **given))
        step = minilm(repository, s3).candidate
        assert step is not None
        assert (step.how, step.share, step.tolerance) == ("shadow", 10_000, tolerance)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_refused(
    repository: str, s3: Any, versions: list[Artifact], tolerance: float
) -> None:
    with reported("candidate"):
        publish(
            [versions[1]], repository=repository, s3=s3, trials=trial(0.1, shadow=True, tolerance=tolerance)
        )


def asked_of(world: World, *, calls: int, **given: Any) -> Counter[str]:
    one, before = world.client(), len(world.runtime.requests)
    for _ in range(calls):
        one.infer(model="m", inputs=ROW, **given)
    return Counter(artifact for _, artifact in world.asked()[before:])


def test_requests_are_shared_at_random_and_those_of_a_key_stay_together(world: World) -> None:
    body = with_candidate(share=2000).to_json().encode()
    world.s3.otherwise = reply(200, body, ETag='"1"', Content_Type="application/json")
    drawn = asked_of(world, calls=300)
    assert set(drawn) == {CURRENT, CANDIDATE}
    assert 30 <= drawn[CANDIDATE] <= 95
    by_key = [set(asked_of(world, calls=3, key=f"user {number}")) for number in range(40)]
    assert all(len(each) == 1 for each in by_key)
    assert {name for each in by_key for name in each} == {CURRENT, CANDIDATE}


def test_a_larger_share_keeps_the_keys_of_the_candidate() -> None:
    few, more = (with_candidate(share=share).models["m"] for share in (500, 5000))
    for part in range(0, 10_000, 100):
        assert few.chosen(None, part) == CURRENT or more.chosen(None, part) == CANDIDATE


def test_a_candidate_for_another_target_gets_no_requests() -> None:
    model = with_candidate(share=9999, gpu="T4", tensorrt="10.13.3.9").models["m"]
    other = ArtifactTarget.parse("sm90-trt10.13.3")
    assert model.chosen(other, 0) == model.on(other) != CANDIDATE


def test_a_candidate_is_promoted(
    repository: str,
    s3: Any,
    versions: list[Artifact],
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    found = said(capsys, "rollout", "minilm", "--promote", "--repository", repository)
    assert (found["candidate"], found["state"]) == (versions[1].name, "promoted")
    now = minilm(repository, s3)
    assert now.candidate is None
    assert set(now.current.values()) == {versions[1].name}
    assert now.earlier() == (versions[0].name,)
    assert [each.how for each in now.rollouts] == ["share", "promoted"]


def test_a_candidate_is_taken_back_and_its_share_is_changed(
    repository: str,
    s3: Any,
    versions: list[Artifact],
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    where = ("--repository", repository)
    assert said(capsys, "rollout", "minilm", "--share", "20%", *where)["share"] == 0.2
    assert said(capsys, "rollout", "minilm", *where)["state"] == "share"
    assert said(capsys, "rollout", "minilm", "--return", *where)["state"] == "returned"
    now = minilm(repository, s3)
    assert set(now.current.values()) == {versions[0].name}
    assert [(each.how, each.share) for each in now.rollouts] == [
        ("share", 500),
        ("share", 2000),
        ("returned", 0),
    ]
    for arguments in (["--promote"], [], ["--watch", "1m"]):
        given = [*arguments, "--signals", "s3://b/s/", "--endpoint", "e"]
        assert [each["rule"] for each in said(capsys, "rollout", "minilm", *given, *where)["error"]] == [
            "candidate"
        ]


def test_a_watch_without_signals_is_one_error(
    repository: str, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "rollout", "minilm", "--watch", "1h", "--repository", repository)
    assert [each["rule"] for each in found["error"]] == ["rollout"]


def test_a_tolerance_without_a_shadow_is_one_error(
    repository: str,
    s3: Any,
    versions: list[Artifact],
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    found = said(capsys, "rollout", "minilm", "--tolerance", "1", "--repository", repository)
    assert [each["rule"] for each in found["error"]] == ["candidate"]


@pytest.mark.parametrize(("number", "how"), [(1, "promoted"), (2, "returned")])
def test_a_publication_ends_the_roll_out(
    repository: str, s3: Any, versions: list[Artifact], number: int, how: str
) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    publish([versions[number]], repository=repository, s3=s3)
    now = minilm(repository, s3)
    assert now.candidate is None
    assert now.rollouts[-1].how == how
    assert set(now.current.values()) == {versions[number].name}


def test_a_candidate_is_kept_until_it_was_taken_back_for_long(
    repository: str, aws: str, s3: Any, versions: list[Artifact], environment: pytest.MonkeyPatch
) -> None:
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    with own_endpoints(aws) as sagemaker:

        def pruned(**given: Any) -> list[str]:
            found = prune(repository=repository, keep=1, s3=s3, sagemaker=sagemaker, **given)
            return list(found.deleted)

        assert pruned(older_than=timedelta()) == []
        cli.main(["rollout", "minilm", "--return", "--repository", repository])
        assert pruned() == []
        assert pruned(older_than=timedelta()) == [versions[1].name]
    assert minilm(repository, s3).rollouts == ()


def test_a_lost_answer_ends_a_roll_out_once(
    repository: str,
    proxy: FaultyS3,
    versions: list[Artifact],
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    s3 = client(proxy.url)
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.05))
    environment.setenv("AWS_ENDPOINT_URL", proxy.url)
    proxy.expect({3: "lost"})
    found = said(capsys, "rollout", "minilm", "--promote", "--repository", repository)
    assert proxy.requests[2].startswith("PUT")
    assert found["state"] == "promoted"
    assert [each.how for each in minilm(repository, s3).rollouts] == ["share", "promoted"]


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ((5000, 0, None), ("promoted", 0)),
        ((5000, 250, None), ("returned", 1)),
        ((1, 0, None), ("share", 1)),
        ((5000, 0, 0), ("promoted", 0)),
        ((5000, 0, 100), ("returned", 1)),
    ],
    ids=["good", "failing", "too few requests", "a good shadow", "other answers"],
)
def test_a_watch_promotes_a_good_candidate_and_takes_a_bad_one_back(
    repository: str,
    s3: Any,
    versions: list[Artifact],
    asked: tuple[int, int, int | None],
    ends: tuple[str, int],
) -> None:
    requests, errors, differing = asked[0] or 0, asked[1] or 0, asked[2]
    given = {} if differing is None else {"shadow": True, "tolerance": 0.1}
    publish([versions[1]], repository=repository, s3=s3, trials=trial(0.5, **given))
    store, minutes = Store(Repository.parse(repository), s3), [0.0]
    step = minilm(repository, s3).candidate
    assert step is not None
    step = replace(step, at=step.at - timedelta(hours=2))

    def wait(seconds: float) -> None:
        minutes.append(minutes[-1] + seconds)
        recorder = Recorder(store, now=lambda: step.at.timestamp() + WARM_UP_S + minutes[-1])
        for version, failing in ((versions[0], 0), (versions[1], errors)):
            for number in range(requests):
                recorder.record(
                    endpoint="e",
                    artifact=("minilm", version.name),
                    seconds=0.01 + 0.01 * number / requests,
                    error="endpoint-failed" if number < failing else "",
                    waited_s=None,
                )
        for number in range(requests if differing is not None else 0):
            artifact = ("minilm", versions[1].name)
            recorder.compared(endpoint="e", artifact=artifact, same=number >= (differing or 0))
        recorder.close()

    found = watched(
        store,
        lambda: compared(store, store, model="minilm", step=step, endpoint="e"),
        seconds=40 * 60,
        now=lambda: minutes[-1],
        wait=wait,
    )
    assert (found.step.how, found.exit_code) == ends
    assert minilm(repository, s3).rollouts[-1].how == ends[0]
