"""Promoting copies what was tested, byte by byte, and moves names in the other repository."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.triton_models.faulty_s3 import FAULTS, Fault, FaultyS3
from tests.triton_models.hostile_manifests import HOSTILE_VALUES, changed, places
from tests.triton_models.publisher_nursery import PART_BYTES
from tests.triton_models.publishing_aws import (
    ENVIRONMENT,
    artifact,
    client,
    consistent_manifest,
    delete,
    new_repository,
    objects,
    put,
    stored,
    write_manifest,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.cli.main import main
from triton_models.repository import history
from triton_models.repository.manifest import request_name
from triton_models.repository.promote import Promoted, promote
from triton_models.repository.prune import prune
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback
from triton_models.repository.s3 import aws_errors
from triton_models.repository.tested import ArtifactsTested

A10G = ArtifactTarget.parse("sm86-trt10.13.3")
T4 = ArtifactTarget.parse("sm75-trt10.13.3")
REQUESTS = {"large": b'{"content_type": "text/plain", "body": ""}'}


@dataclass(frozen=True)
class Stages:
    """Two repositories, and artifacts of a small and a large model of which the first has two versions."""

    s3: Any
    staging: str
    production: str
    small: list[Artifact]
    large: Artifact

    def promote(self, *models: str, s3: Any = None, source_s3: Any = None, **more: Any) -> Promoted:
        return promote(
            list(models) or None,
            source=self.staging,
            repository=self.production,
            source_s3=source_s3 or self.s3,
            s3=s3 or self.s3,
            part_bytes=PART_BYTES,
            by="ann",
            **more,
        )

    def current(self) -> dict[str, str]:
        manifest = consistent_manifest(self.production, self.s3)
        return {name: manifest.target_model(name) for name in manifest.models}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Artifact], Artifact]:
    folder = tmp_path_factory.mktemp("artifacts")
    noise = random.Random(1).randbytes(9000)  # noqa: S311 -- it does not compress, and is always the same
    small = [artifact(folder, name="small", weights=weights) for weights in (b"first", b"second")]
    large = artifact(folder, name="large", weights=noise)
    return small, replace(large, build={"release": "25.09"})


@pytest.fixture
def stages(aws: str, made: tuple[list[Artifact], Artifact]) -> Stages:
    return new_stages(aws, made)


def new_stages(aws: str, made: tuple[list[Artifact], Artifact]) -> Stages:
    """Staging with the newer artifacts, and production with the older one of the small model."""
    s3, (small, large) = client(aws), made
    stages = Stages(
        s3=s3, staging=new_repository(s3), production=new_repository(s3), small=small, large=large
    )
    publish([small[0]], repository=stages.production, s3=s3, by="earlier")
    for each in ([small[0]], [small[1], large]):
        publish(each, repository=stages.staging, s3=s3, requests=REQUESTS)
    return stages


def rules(stages: Stages, *models: str, **more: Any) -> list[str]:
    with pytest.raises(FleetError) as caught:
        stages.promote(*models, **more)
    return [problem.rule for problem in caught.value.problems]


def test_bytes_record_and_request_are_those_of_the_source(stages: Stages) -> None:
    stages.promote("small", "large")

    for each in (stages.small[1], stages.large):
        name = each.name
        assert stored(name, stages.production, stages.s3) == stored(name, stages.staging, stages.s3)
    assert stages.current() == {"small": stages.small[1].name, "large": stages.large.name}
    before, after = (
        consistent_manifest(url, stages.s3).models["large"] for url in (stages.staging, stages.production)
    )
    assert after.artifacts == before.artifacts
    record = after.artifacts[stages.large.name]
    assert record.build == {"release": "25.09"}
    assert {request_name(record.request)} < objects(stages.production, stages.s3)


def test_only_the_named_models_move_and_history_says_from_where_and_by_whom(stages: Stages) -> None:
    done = stages.promote("small")

    assert [(each.model, each.before) for each in done.promotions] == [("small", stages.small[0].name)]
    models = consistent_manifest(stages.production, stages.s3).models
    assert set(models) == {"small"}
    assert [(change.how, change.by) for change in models["small"].history] == [
        ("publish", "earlier"),
        ("publish", f"ann, from {stages.staging}"),
    ]
    undone = rollback("small", repository=stages.production, s3=stages.s3)
    assert undone.moved[0].current == stages.small[0].name


def test_each_target_gets_what_it_has_in_the_source(stages: Stages) -> None:
    publish([stages.small[0]], repository=stages.staging, s3=stages.s3, target=A10G)

    for _ in range(2):
        stages.promote("small")
        model = consistent_manifest(stages.production, stages.s3).models["small"]
        assert model.current == {ANY: stages.small[1].name, A10G: stages.small[0].name}
    assert len(model.history) == 3

    stages.promote("small", target=T4)  # alone
    model = consistent_manifest(stages.production, stages.s3).models["small"]
    assert model.current[T4] == stages.small[1].name


def test_a_dry_run_lists_and_changes_nothing_as_a_second_promotion_does(stages: Stages) -> None:
    def state() -> tuple[set[str], bytes]:
        return objects(stages.production, stages.s3), stored("manifest.json", stages.production, stages.s3)

    before = state()
    assert set(stages.promote(dry_run=True).copied) == {stages.small[1].name, stages.large.name}
    assert state() == before

    stages.promote()
    before = state()
    done = stages.promote()
    assert done.copied == ()
    assert state() == before
    assert all("already there, unchanged" in line for line in done.lines())


def test_more_than_fits_on_the_disk_at_a_time_goes_in_batches(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_models.repository.promote._BATCH_BYTES", 1)

    assert len(stages.promote().copied) == 2
    assert len(stages.current()) == 2


def test_all_unknown_models_are_reported_together(stages: Stages) -> None:
    assert rules(stages, "little", "large", "huge") == ["unknown-model", "unknown-model"]


def test_a_repository_is_not_promoted_to_itself(stages: Stages) -> None:
    with pytest.raises(FleetError) as caught:
        promote(
            None, source="s3://one/models", repository="s3://one/models/", source_s3=stages.s3, s3=stages.s3
        )
    assert [problem.rule for problem in caught.value.problems] == ["same-repository"]


def test_an_empty_source_has_nothing_to_promote(stages: Stages) -> None:
    assert rules(replace(stages, staging=new_repository(stages.s3))) == ["nothing-to-promote"]


@pytest.mark.parametrize("side", ["staging", "production"])
def test_a_bucket_that_does_not_exist_is_named_before_anything_is_written(stages: Stages, side: str) -> None:
    other = replace(stages, **{side: "s3://no-such-bucket/models/"})
    before = objects(stages.production, stages.s3)

    with pytest.raises(FleetError) as caught:
        other.promote("small")

    assert [each.where for each in caught.value.problems] == ["s3://no-such-bucket/models/"]
    assert objects(stages.production, stages.s3) == before


def test_an_object_that_is_gone_or_changed_in_the_source_is_not_promoted(stages: Stages) -> None:
    put(stages.large.name, b"other", stages.staging, stages.s3)
    delete(stages.small[1].name, stages.staging, stages.s3)

    assert sorted(rules(stages)) == ["artifact-changed", "artifact-gone"]
    assert stages.current() == {"small": stages.small[0].name}


def rewrite(stages: Stages, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of staging, as whoever may write it can."""
    document = json.loads(stored("manifest.json", stages.staging, stages.s3))
    change(document["models"])
    write_manifest(stages.staging, document, stages.s3)


def test_a_portable_artifact_is_refused_where_gpus_serve(stages: Stages) -> None:
    name = stages.large.name
    rewrite(stages, lambda models: models["large"]["artifacts"][name].update(portable=True))

    assert rules(stages, "large") == ["portable-artifact"]
    assert stages.promote("large", portable=True).copied == (name,)


def test_a_request_that_is_not_the_one_of_its_digest_is_left_out(stages: Stages) -> None:
    said = "0" * 64
    put(request_name(said), b"attack", stages.staging, stages.s3)
    rewrite(stages, lambda models: models["large"]["artifacts"][stages.large.name].update(request=said))

    stages.promote("large")

    assert request_name(said) not in objects(stages.production, stages.s3)


@pytest.mark.story
@settings(max_examples=300 if os.environ.get("FLEET_FUZZ") == "1" else 10, deadline=None)
@given(st.data())
def test_whatever_a_manifest_says_each_verb_ends_with_a_result_or_an_error_and_touches_nothing_else(
    aws: str, made: tuple[list[Artifact], Artifact], data: st.DataObject
) -> None:
    stages, sagemaker = new_stages(aws, made), client(aws, "sagemaker")
    staging: dict[str, Any] = {"repository": stages.staging, "s3": stages.s3}
    document = json.loads(stored("manifest.json", stages.staging, stages.s3))
    path = data.draw(st.sampled_from([each for each in places(document) if each[0] != "version"]))
    shown = history.HistoryOptions(repository=stages.staging, verify=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        outside = Path(folder, "outside")
        temporary = Path(folder, "temporary")
        temporary.mkdir()
        patch.setattr("tempfile.tempdir", str(temporary))
        value = data.draw(st.sampled_from([*HOSTILE_VALUES, "outside", "../../outside"]))
        value = str(outside) if value == "outside" else value
        write_manifest(stages.staging, changed(document, path, value), stages.s3)
        for use in (
            stages.promote,
            partial(stages.promote, "small"),
            partial(rollback, "small", **staging),
            partial(publish, [stages.small[0]], **staging),
            partial(prune, keep=1, older_than=timedelta(0), resume=True, sagemaker=sagemaker, **staging),
            lambda: [*history.run(shown, s3=stages.s3).lines()],
        ):
            with contextlib.suppress(FleetError):
                use()
        assert [each.name for each in Path(folder).rglob("*")] == ["temporary"]
    assert "manifest.json" in objects(stages.staging, stages.s3)
    promoted = {each for each in objects(stages.production, stages.s3) if "/" not in each}
    assert promoted <= {each.name for each in (*stages.small, stages.large)} | {"manifest.json"}


def _tested(stages: Stages, *artifacts: Artifact, **more: Any) -> ArtifactsTested:
    digests = {each.model: each.sha256 for each in artifacts}
    said = {"repository": stages.staging, "target": A10G, "artifacts": digests, "passed": True}
    return ArtifactsTested(**{**said, **more})


def test_only_the_tested_artifacts_are_promoted(stages: Stages, tmp_path: Path) -> None:
    publish([stages.small[0]], repository=stages.staging, s3=stages.s3, target=T4)
    _tested(stages, stages.small[1]).write(tmp_path / "tested.json")

    done = stages.promote(only=ArtifactsTested.read(tmp_path / "tested.json"))

    assert [(each.target, each.artifact) for each in done.promotions] == [(ANY, stages.small[1].name)]
    assert stages.current() == {"small": stages.small[1].name}


@pytest.mark.parametrize("change", ["published", "for this target", "swapped", "unpublished", "elsewhere"])
def test_what_has_changed_since_the_test_is_not_promoted(stages: Stages, change: str) -> None:
    only = _tested(stages, stages.small[1], stages.large)
    expected = "tested-changed"
    if change in ("published", "for this target"):
        target = A10G if change == "for this target" else None
        publish([stages.small[0]], repository=stages.staging, s3=stages.s3, target=target)
    elif change == "swapped":  # under a name with the first digits of its digest
        other = stages.large.digest.ljust(64, "0")
        rewrite(stages, lambda models: models["large"]["artifacts"][stages.large.name].update(sha256=other))
    elif change == "unpublished":
        rewrite(stages, lambda models: models.pop("large"))
        expected = "unknown-model"
    else:
        only = _tested(stages, stages.large, repository="s3://elsewhere/")
    before = objects(stages.production, stages.s3)

    assert rules(stages, only=only) == [expected]
    assert objects(stages.production, stages.s3) == before


@pytest.mark.parametrize(
    "change",
    [
        {"passed": False},
        {"artifacts": {}},
        {"artifacts": {"../m": "0" * 64}},
        {"artifacts": {"m": "0" * 16}},
        {"target": "moon"},
        {"repository": "here"},
        {"version": 2},
        None,
    ],
    ids=str,
)
def test_a_file_that_is_not_of_a_test_that_passed_promotes_nothing(
    change: dict[str, Any] | None, stages: Stages, tmp_path: Path
) -> None:
    path = tmp_path / "tested.json"
    if change is not None:
        _tested(stages, stages.large).write(path)
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    with pytest.raises(FleetError) as caught:
        ArtifactsTested.read(path)
    assert [problem.rule for problem in caught.value.problems] == ["tested-file"]


@pytest.mark.parametrize(
    ("operation", "message", "expected"),
    [
        ("AssumeRole", "is not authorized to perform: sts:AssumeRole", "the role cannot be assumed"),
        (
            "GetObject",
            "User is not authorized to perform: kms:Decrypt on this resource",
            "the role cannot use the repository's KMS key",
        ),
    ],
)
def test_a_denial_says_what_was_denied(operation: str, message: str, expected: str) -> None:
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, operation)

    with pytest.raises(FleetError) as caught, aws_errors("s3://one/"):
        raise error
    assert [problem.what for problem in caught.value.problems] == [expected]


def test_the_source_has_a_profile_of_its_own(
    stages: Stages,
    aws: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = "aws_access_key_id = test\naws_secret_access_key = test\nregion = us-east-1\n"
    elsewhere = "http://127.0.0.1:9"  # nothing listens there
    (tmp_path / "config").write_text(
        f"[profile staging]\n{keys}endpoint_url = {aws}\n[profile closed]\n{keys}endpoint_url = {elsewhere}\n"
    )
    for name, value in (ENVIRONMENT | {"AWS_CONFIG_FILE": str(tmp_path / "config")}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_PROFILE", "")  # the command sets it for this process
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    command = f"promote small --from {stages.staging} --to {stages.production} --profile staging".split()

    assert main([*command, "--from-profile", "closed"]) == 1
    error = capsys.readouterr().err
    assert "S3 does not answer" in error
    assert stages.staging in error
    assert main([*command, "--from-profile", "staging", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copied"] == [stages.small[1].name]


# The requests of a promotion of both models: at the source, and at the destination.
AT_SOURCE, AT_DESTINATION = 4, 11
CHOSEN = FAULTS if os.environ.get("FLEET_FUZZ") == "1" else ("lost",)
FAULTY = [
    (side, fault, number)
    for side, requests in (("source", AT_SOURCE), ("production", AT_DESTINATION))
    for fault, number in itertools.product(CHOSEN, range(1, requests + 1))
]


@pytest.mark.story
@pytest.mark.parametrize(("side", "fault", "number"), FAULTY)
def test_after_a_fault_a_reader_sees_the_old_or_the_new_state_and_a_retry_completes(
    aws: str, stages: Stages, side: str, fault: Fault, number: int
) -> None:
    old = stages.current()
    new = {"small": stages.small[1].name, "large": stages.large.name}
    with FaultyS3(aws) as proxy:
        proxy.expect({number: fault})
        faulty = {"source_s3" if side == "source" else "s3": client(proxy.url)}
        with contextlib.suppress(FleetError):
            stages.promote(**faulty)
        proxy.wait_until_quiet()
        assert len(proxy.requests) >= number

    assert stages.current() in (old, new)
    stages.promote()
    assert stages.current() == new


@pytest.mark.story
def test_a_publisher_that_is_faster_is_not_undone(aws: str, stages: Stages, tmp_path: Path) -> None:
    other = artifact(tmp_path, name="other", weights=b"other")

    def meanwhile(request: Any) -> None:
        if request.number == 1:
            publish([other], repository=stages.production, s3=stages.s3)

    with FaultyS3(aws) as proxy:
        proxy.expect(after=meanwhile)
        stages.promote("large", s3=client(proxy.url))

    assert set(stages.current()) == {"small", "large", "other"}
