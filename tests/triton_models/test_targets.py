"""A name stands for one artifact on each target: which one, and what moves, goes back and is deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.reported import reported
from tests.triton_models.model_folders import write, write_plain
from tests.triton_models.publishing_aws import (
    client,
    consistent_manifest,
    endpoint,
    new_repository,
    own_endpoints,
    record_of,
)
from tests.triton_models.real_networks import write_onnx
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.artifact.targets import ANY, ArtifactTarget, built_target, content_targets, plan_gpu
from triton_models.deliver.diff import _compared
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES
from triton_models.repository.endpoints import live_targets
from triton_models.repository.manifest import ArtifactRecord, Manifest, ModelRecord, Publication, Repository
from triton_models.repository.prune import expendable, prune
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback
from triton_models.repository.stored_manifest import read_manifest

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
A10G, T4, L4, A100, B200 = (
    ArtifactTarget.of(release=RELEASES["25.09"], gpu=GPUS[name])
    for name in ("A10G", "T4", "L4", "A100-40GB", "B200")
)
NEWER = ArtifactTarget.of(release=RELEASES["26.05"], gpu=GPUS["A10G"])
ON_CPU = ArtifactTarget.of(release=RELEASES["25.09"], gpu=None)
AMPERE = ArtifactTarget.parse("ampere+-trt10.13.3")
PATCHED = ArtifactTarget(hardware="sm86", tensorrt="10.13.2")

PLAN = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3.9"}
PORTABLE_PLAN = {**PLAN, "plans": {"m/1/model.plan": {"gpu": "A10G", "hardware": "ampere+"}}}
MIXED_PLANS = {**PLAN, "plans": {**PORTABLE_PLAN["plans"], "n/1/model.plan": {"gpu": "A10G"}}}
ONNX = {"gpu": None, "release": "25.09", "tensorrt": None}
WITH_ENVIRONMENT = {**ONNX, "sources": {"environment:m": "numpy==2.0.0"}}


def record(build: dict[str, Any] | None = None, **inputs: str) -> ArtifactRecord:
    return ArtifactRecord(size=3, sha256="00", build=build or {}, inputs=inputs)


def manifest_of(*published: tuple[str, ArtifactTarget | None, dict[str, Any]]) -> Manifest:
    """A manifest of the model `m`: artifact, the target it was published for, and its build record."""
    manifest = Manifest()
    for day, (name, target, build) in enumerate(published):
        wanted = Publication(model="m", artifact=name, record=record_of(name, build=build), target=target)
        manifest = manifest.with_published([wanted], at=NOON + timedelta(days=day), by="ann")
    return manifest


def model_of(*published: tuple[str, ArtifactTarget | None, dict[str, Any]]) -> ModelRecord:
    return manifest_of(*published).models["m"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (A10G, "sm86-trt10.13.3"),
        (ON_CPU, "cpu-trt10.13.3"),
        (AMPERE, "ampere+-trt10.13.3"),
        (ArtifactTarget(tensorrt="11.0"), "any-trt11.0"),
        (ANY, "any"),
        (built_target(release="26.06", gpu="B200", cpu=False), "sm100-trt11.0"),
    ],
)
def test_a_target_is_a_short_text_and_back(target: ArtifactTarget, text: str) -> None:
    assert str(target) == text
    assert ArtifactTarget.parse(text) == target


@pytest.mark.parametrize("text", ["", "sm86", "trt10.13.3", "sm86-trt10.13.3.9", "ANY"])
def test_what_is_no_target_is_the_callers_mistake(text: str) -> None:
    with reported("unknown-target"):
        ArtifactTarget.parse(text)


@pytest.mark.parametrize(
    ("artifact", "covered"),
    [
        (A10G, {A10G}),
        (AMPERE, {A10G, L4, A100, B200, AMPERE}),
        (ArtifactTarget(tensorrt="10.13.3"), {A10G, T4, L4, A100, B200, ON_CPU, AMPERE}),
        (ANY, {A10G, T4, L4, A100, B200, ON_CPU, AMPERE, PATCHED, NEWER, ANY}),
    ],
)
def test_a_target_covers_what_its_artifacts_load_on(artifact: ArtifactTarget, covered: set[Any]) -> None:
    targets = (A10G, T4, L4, A100, B200, ON_CPU, AMPERE, PATCHED, NEWER, ANY)
    assert {each for each in targets if artifact.covers(each)} == covered


@pytest.mark.parametrize("plans", [None, [], {}, {"p": 3}, {"p": {}}])
def test_a_plan_that_nothing_is_recorded_about_is_of_the_only_gpu(plans: Any) -> None:
    assert plan_gpu({"gpu": "L4", "plans": plans}, "p") == "L4"
    assert plan_gpu({"gpu": 7, "plans": plans}, "p") is None
    assert plan_gpu({"gpu": "L4", "plans": {"p": {"gpu": "L40S"}}}, "p") == "L40S"


def test_no_two_releases_with_one_tensorrt_differ_in_python() -> None:
    pythons: dict[str, set[str]] = {}
    for release in RELEASES.values():
        target = ArtifactTarget.of(release=release, gpu=None)
        pythons.setdefault(target.tensorrt, set()).add(release.python)
    assert [found for found in pythons.values() if len(found) > 1] == []


@pytest.mark.parametrize(
    ("build", "plans", "targets"),
    [
        (PLAN, (), "sm86-trt10.13.3"),
        ({**PLAN, "tensorrt": "10.13.4.2"}, ("10.13.4.2",), "sm86-trt10.13.3"),
        ({**PLAN, "release": "26.10"}, (), "sm86-trt26.10"),
        (PORTABLE_PLAN, (), "ampere+-trt10.13.3"),
        (MIXED_PLANS, (), "sm86-trt10.13.3"),
        (WITH_ENVIRONMENT, (), "any-trt10.13.3"),
        ({**ONNX, "sources": {"package:p": "1", "environment:m": "p"}}, (), "any-trt10.13.3"),
        ({}, ("10.13.3.9",), "any"),
        ({"gpu": "of tomorrow", "tensorrt": "12"}, (), "any"),
    ],
)
def test_what_an_artifact_runs_on_is_what_its_content_depends_on(
    build: dict[str, Any], plans: tuple[str, ...], targets: str
) -> None:
    assert " ".join(map(str, content_targets(build, plans))) == targets


RESOLUTIONS = {
    "its own comes first": ([("own", A10G, PLAN), ("later", NEWER, ONNX)], A10G, "own"),
    "then a wider one": ([("all", ANY, ONNX), ("other", T4, ONNX)], A10G, "all"),
    "of wider ones the narrowest": ([("all", ANY, ONNX), ("some", AMPERE, PORTABLE_PLAN)], A10G, "some"),
    "also of those of one TensorRT": (
        [("packages", None, WITH_ENVIRONMENT), ("plan", None, PORTABLE_PLAN)],
        A10G,
        "plan",
    ),
    "a wider one that is newer counts": ([("own", A10G, PLAN), ("all", ANY, ONNX)], A10G, "all"),
    "then another target's that runs here": ([("onnx", A10G, ONNX)], T4, "onnx"),
    "of those the last moved": ([("1", A10G, ONNX), ("2", NEWER, ONNX), ("3", A10G, ONNX)], T4, "3"),
    "but no plan of another target": ([("onnx", A10G, ONNX), ("plan", NEWER, PLAN)], T4, "onnx"),
    "and no environment of another release": ([("packages", A10G, WITH_ENVIRONMENT)], NEWER, None),
    "a plan for newer GPUs as well": ([("plan", A10G, PORTABLE_PLAN)], L4, "plan"),
    "which older ones do not load": ([("plan", A10G, PORTABLE_PLAN)], T4, None),
}


@pytest.mark.parametrize(("published", "target", "expected"), RESOLUTIONS.values(), ids=RESOLUTIONS.keys())
def test_a_name_stands_for_the_newest_publication_that_an_endpoint_can_load(
    published: list[Any], target: ArtifactTarget, expected: str | None
) -> None:
    assert model_of(*published).on(target) == expected


@pytest.mark.parametrize(
    ("published", "target", "rule"),
    [
        ([("plan", A10G, PLAN)], T4, "no-artifact-for-target"),
        ([("old", A10G, PLAN), ("new", NEWER, ONNX)], None, "ambiguous-target"),
    ],
)
def test_a_name_without_one_artifact_for_a_target_is_an_error_that_names_the_targets(
    published: list[Any], target: ArtifactTarget | None, rule: str
) -> None:
    with reported(rule) as problems:
        manifest_of(*published).target_model("m", target)

    (problem,) = problems
    assert "sm86-trt10.13.3" in f"{problem.what} {problem.fix}"


def test_what_was_rolled_back_is_not_built_for_a_new_target_either() -> None:
    manifest = Manifest()
    for number in ("1", "2"):
        inputs = {"declaration": number, "release": "25.09"}
        wanted = Publication(model="m", artifact=number, record=record(PLAN, **inputs), target=A10G)
        manifest = manifest.with_published([wanted], at=NOON, by="ann")
    model = manifest.with_rollback(model="m", to="1", at=NOON, by="bob", target=A10G).models["m"]

    again = _compared("m", {"declaration": "2", "release": "26.05"}, model, NEWER)
    corrected = _compared("m", {"declaration": "3", "release": "26.05"}, model, NEWER)

    assert (again.state, corrected.state) == ("held", "changed")


def pruned(manifest: Manifest, live: frozenset[ArtifactTarget] | None, *, keep: int = 1) -> set[str]:
    return set(
        expendable(manifest, keep=keep, older_than=timedelta(0), now=NOON + timedelta(days=30), live=live)
    )


def test_what_any_live_endpoint_needs_stays() -> None:
    manifest = manifest_of(
        ("1", A10G, PLAN), ("2", A10G, PLAN), ("3", A10G, PLAN), ("4", NEWER, ONNX), ("5", NEWER, ONNX)
    )

    assert pruned(manifest, None) == pruned(manifest, frozenset({A10G, NEWER})) == {"1"}
    assert pruned(manifest, frozenset({NEWER})) == {"1", "2", "3"}
    assert pruned(manifest, frozenset({NEWER}), keep=3) == {"1", "2"}
    shared = manifest_of(("all", ANY, ONNX), ("1", A10G, PLAN), ("2", A10G, PLAN), ("3", A10G, PLAN))
    assert pruned(shared, frozenset({A10G})) == {"1"}
    of_another = manifest_of(("1", A10G, ONNX), ("2", NEWER, PLAN))
    assert pruned(of_another, frozenset({T4, NEWER})) == set()
    assert pruned(of_another, frozenset({NEWER})) == {"1"}


def published_for(aws: str, versions: list[Artifact], *targets: ArtifactTarget) -> tuple[str, Any]:
    s3 = client(aws)
    url = new_repository(s3)
    for each, target in zip(versions, targets, strict=False):
        publish([each], repository=url, s3=s3, target=target, by="ann")
    return url, s3


ROLLBACKS = {
    "wherever there is an earlier artifact": ((A10G, A10G, NEWER), {}, {A10G: 0}, {NEWER: 2}),
    "on a given target only": ((A10G, A10G, NEWER, NEWER), {"target": NEWER}, {NEWER: 2}, {}),
    "to one that is named": ((A10G, A10G, NEWER, NEWER), {"target": NEWER, "to": 2}, {NEWER: 2}, {}),
    "to what is current on another": ((A10G, NEWER), {"to": 0}, {A10G: 0, NEWER: 0}, {}),
}


@pytest.mark.parametrize(("targets", "given", "moved", "kept"), ROLLBACKS.values(), ids=ROLLBACKS)
def test_a_rollback_moves_the_name(  # noqa: PLR0917  fixtures
    aws: str, versions: list[Artifact], targets: Any, given: Any, moved: Any, kept: Any
) -> None:
    url, s3 = published_for(aws, versions, *targets)
    names = [each.name for each in versions]
    before = read_manifest(Repository.parse(url), s3=s3).models["minilm"]
    to = {"to": versions[given["to"]].digest} if "to" in given else {}

    done = rollback("minilm", repository=url, s3=s3, **{**given, **to})

    model = consistent_manifest(url, s3).models["minilm"]
    assert {each.target: each.current for each in done.moved} == {on: names[n] for on, n in moved.items()}
    assert dict(done.kept) == {on: names[n] for on, n in kept.items()}
    for target in targets:
        assert model.on(target) == (names[moved[target]] if target in moved else before.on(target))


@pytest.fixture
def plans(tmp_path: Path) -> list[Artifact]:
    found = []
    for number in range(2):
        root = write_plain(tmp_path / str(number) / "minilm", name="minilm")
        write_onnx(root / "minilm", b"of a T4, %d" % number)
        write(root / "build.json", json.dumps({**PLAN, "gpu": "T4"}).encode())
        found.append(pack(root, output=tmp_path))
    return found


def test_an_artifact_that_is_named_becomes_current_where_it_runs(
    aws: str, versions: list[Artifact], plans: list[Artifact]
) -> None:
    url, s3 = published_for(aws, versions, A10G)
    for each in plans:
        publish([each], repository=url, s3=s3, by="ann")

    done = rollback("minilm", repository=url, s3=s3, to=plans[0].digest)

    model = consistent_manifest(url, s3).models["minilm"]
    assert [each.target for each in done.moved] == [T4]
    assert (model.on(T4), model.on(A10G)) == (plans[0].name, versions[0].name)
    with reported("publication-target"):
        rollback("minilm", repository=url, s3=s3, to=plans[0].digest, target=A10G)
    with reported("publication-target"):
        publish([plans[0]], repository=url, s3=s3, target=A10G)


IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:{}-py3"


@pytest.fixture
def sagemaker(aws: str) -> Iterator[Any]:
    with own_endpoints(aws) as made:
        yield made


def test_the_live_targets_are_those_of_the_endpoints_that_serve_the_repository(sagemaker: Any) -> None:
    mine = "s3://live-bucket/models/"
    on_cpu = ArtifactTarget.of(release=RELEASES["26.05"], gpu=None)
    endpoint(sagemaker, mine, name="a", image=IMAGE.format("25.09"), instance_type="ml.g4dn.xlarge")
    endpoint(sagemaker, mine, name="b", image=IMAGE.format("26.05"), instance_type="ml.c5.xlarge")
    endpoint(sagemaker, "s3://x/y/", name="c", image=IMAGE.format("25.09"), instance_type="ml.inf1.xlarge")
    endpoint(sagemaker, "s3://own/y/", name="d", image="mine:latest", instance_type="ml.c5.xlarge")

    assert live_targets(Repository.parse(mine), sagemaker) == {T4, on_cpu}
    assert live_targets(Repository.parse("s3://own/y/"), sagemaker) is None
    assert live_targets(Repository.parse("s3://served/nowhere/"), sagemaker) is None


def test_pruning_spares_what_the_live_endpoints_need_and_no_other_target(
    aws: str, sagemaker: Any, versions: list[Artifact]
) -> None:
    url, s3 = published_for(aws, versions, A10G, A10G, T4, T4)
    endpoint(sagemaker, url, name="t4", image=IMAGE.format("25.09"), instance_type="ml.g4dn.xlarge")

    done = prune(repository=url, keep=1, older_than=timedelta(0), s3=s3, sagemaker=sagemaker)

    assert set(done.deleted) == {each.name for each in versions[:2]}
