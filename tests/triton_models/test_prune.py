"""Pruning deletes only what no one can request."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from tests.reported import reported
from tests.triton_models.faulty_s3 import Fault, FaultyS3
from tests.triton_models.publishing_aws import (
    client,
    consistent_manifest,
    objects,
    put,
    repository_of,
    stored,
    write_manifest,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication, Repository
from triton_models.repository.prune import Pruned, expendable, prune
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
AT_ONCE = timedelta(0)


@pytest.fixture(scope="module")
def sagemaker(aws: str) -> Any:
    return client(aws, "sagemaker")


@pytest.fixture
def repository(s3: Any, versions: list[Artifact]) -> str:
    return repository_of(versions, s3)


def _names(versions: list[Artifact], *numbers: int) -> set[str]:
    return {versions[number].path.name for number in numbers}


def _published_daily(*artifacts: str) -> Manifest:
    manifest = Manifest()
    for day, name in enumerate(artifacts):
        record = ArtifactRecord(size=10, sha256="00", build={})
        wanted = [Publication(model="m", artifact=name, record=record)]
        manifest = manifest.with_published(wanted, at=NOON + timedelta(days=day), by="ann")
    return manifest


def test_the_newest_stay_and_the_rest_goes(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    pruned = prune(repository=repository, keep=2, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    assert set(pruned.deleted) == _names(versions, 0, 1, 2)
    assert pruned.freed == sum(versions[number].size for number in (0, 1, 2))
    assert objects(repository, s3) == {"manifest.json", *_names(versions, 3, 4)}
    manifest = consistent_manifest(repository, s3)
    assert set(manifest.models["minilm"].artifacts) == _names(versions, 3, 4)
    assert manifest.deleting == {}


def test_a_dry_run_says_the_same_and_changes_nothing(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    before = objects(repository, s3), consistent_manifest(repository, s3)

    pruned = prune(
        repository=repository, keep=2, older_than=AT_ONCE, dry_run=True, s3=s3, sagemaker=sagemaker
    )

    assert set(pruned.deleted) == _names(versions, 0, 1, 2)
    assert (objects(repository, s3), consistent_manifest(repository, s3)) == before


def test_what_rolling_back_needs_stays(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    rollback("minilm", repository=repository, to=versions[1].path.name, s3=s3)

    prune(repository=repository, keep=1, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    # The current one, the one before it, and the one published last.
    assert objects(repository, s3) == {"manifest.json", *_names(versions, 0, 1, 4)}
    assert rollback("minilm", repository=repository, s3=s3).current == versions[0].path.name


def test_what_was_current_lately_stays() -> None:
    manifest = _published_daily("m-1", "m-2", "m-3", "m-4", "m-5")
    now = NOON + timedelta(days=10)

    # m-1 left on the first day, m-2 on the second, m-3 on the third.
    assert set(expendable(manifest, keep=1, older_than=timedelta(days=9), now=now)) == {"m-1"}
    assert set(expendable(manifest, keep=1, older_than=timedelta(days=7), now=now)) == {"m-1", "m-2", "m-3"}
    assert expendable(manifest, keep=1, older_than=timedelta(days=9.5), now=now) == {}


def test_the_default_keeps_what_was_current_within_a_week(repository: str, s3: Any, sagemaker: Any) -> None:
    assert prune(repository=repository, keep=1, s3=s3, sagemaker=sagemaker).deleted == {}


def test_an_object_that_the_manifest_does_not_know_stays(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    put("other-0123456789abcdef.tar.gz", b"mine", repository, s3)

    prune(repository=repository, keep=1, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    assert "other-0123456789abcdef.tar.gz" in objects(repository, s3)


@pytest.mark.parametrize("how", ["ModelDataUrl", "ModelDataSource", "Containers"])
def test_an_artifact_that_a_sagemaker_model_names_stays(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact], how: str
) -> None:
    url = f"{repository}{versions[0].path.name}"
    source = {"S3DataSource": {"S3Uri": url, "S3DataType": "S3Object", "CompressionType": "Gzip"}}
    container = {
        "Image": "triton",
        **({"ModelDataSource": source} if how == "ModelDataSource" else {"ModelDataUrl": url}),
    }
    name = f"single-{Repository.parse(repository).bucket}"
    sagemaker.create_model(
        ModelName=name,
        ExecutionRoleArn="arn:aws:iam::123456789012:role/serving",
        **({"Containers": [container]} if how == "Containers" else {"PrimaryContainer": container}),
    )

    pruned = prune(repository=repository, keep=1, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    assert pruned.held == {versions[0].path.name: (name,)}
    assert versions[0].path.name not in pruned.deleted
    assert versions[0].path.name in consistent_manifest(repository, s3).models["minilm"].artifacts


def test_the_model_of_a_multi_model_endpoint_holds_nothing(
    repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    sagemaker.create_model(
        ModelName=f"multi-{Repository.parse(repository).bucket}",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/serving",
        PrimaryContainer={"Image": "triton", "Mode": "MultiModel", "ModelDataUrl": repository},
    )

    pruned = prune(repository=repository, keep=2, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    assert set(pruned.deleted) == _names(versions, 0, 1, 2)


@pytest.mark.parametrize(("keep", "days"), [(0, 7), (-1, 7), (1, -1), (1, 40_000)])
def test_numbers_out_of_range_are_refused(repository: str, keep: int, days: int) -> None:
    with pytest.raises(FleetError):
        prune(repository=repository, keep=keep, older_than=timedelta(days=days))


# Manifest, manifest without them, objects, manifest read, manifest without the list.
STEPS = 5


@pytest.mark.story
@pytest.mark.parametrize("fault", ["cut", "lost"])
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_interrupted_anywhere_no_name_stands_for_a_missing_object_and_a_resumed_run_completes(
    proxy: FaultyS3, aws: str, repository: str, number: int, fault: Fault
) -> None:
    s3, sagemaker = client(aws), client(aws, "sagemaker")
    proxy.expect({number: fault})

    with pytest.raises(FleetError):
        prune(repository=repository, keep=2, older_than=AT_ONCE, s3=client(proxy.url), sagemaker=sagemaker)
    assert len(proxy.requests) == number
    consistent_manifest(repository, s3)

    prune(repository=repository, keep=2, older_than=AT_ONCE, resume=True, s3=s3, sagemaker=sagemaker)
    manifest = consistent_manifest(repository, s3)
    assert manifest.deleting == {}
    assert objects(repository, s3) == {"manifest.json", *manifest.models["minilm"].artifacts}
    assert len(manifest.models["minilm"].artifacts) == 2


@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_a_lost_answer_that_the_sdk_asks_for_again_loses_nothing(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any, number: int
) -> None:
    proxy.expect({number: "lost"})

    prune(
        repository=repository,
        keep=2,
        older_than=AT_ONCE,
        s3=client(proxy.url, attempts=2),
        sagemaker=sagemaker,
    )

    manifest = consistent_manifest(repository, s3)
    assert manifest.deleting == {}
    assert objects(repository, s3) == {"manifest.json", *manifest.models["minilm"].artifacts}
    assert len(manifest.models["minilm"].artifacts) == 2


def _interrupted(proxy: FaultyS3, repository: str, sagemaker: Any) -> None:
    """A run that has written what it is about to delete, and deleted nothing."""
    proxy.expect({3: "cut"})
    with pytest.raises(FleetError):
        prune(repository=repository, keep=2, older_than=AT_ONCE, s3=client(proxy.url), sagemaker=sagemaker)


def test_an_artifact_that_is_being_deleted_is_not_published(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    _interrupted(proxy, repository, sagemaker)

    with reported("being-deleted"):
        publish([versions[0]], repository=repository, s3=s3)

    prune(repository=repository, keep=2, older_than=AT_ONCE, resume=True, s3=s3, sagemaker=sagemaker)
    published = publish([versions[0]], repository=repository, s3=s3)
    assert published.uploaded == (versions[0].path.name,)
    assert consistent_manifest(repository, s3).target_model("minilm") == versions[0].path.name


def test_a_second_run_does_not_take_over_unasked(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any
) -> None:
    _interrupted(proxy, repository, sagemaker)

    with pytest.raises(FleetError) as caught:
        prune(repository=repository, keep=2, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    assert "--resume" in caught.value.problems[0].fix


def test_what_an_interrupted_run_left_stays_if_a_model_names_it_by_now(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    _interrupted(proxy, repository, sagemaker)
    sagemaker.create_model(
        ModelName=f"later-{Repository.parse(repository).bucket}",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/serving",
        PrimaryContainer={"Image": "triton", "ModelDataUrl": f"{repository}{versions[0].path.name}"},
    )

    pruned = prune(repository=repository, keep=2, older_than=AT_ONCE, resume=True, s3=s3, sagemaker=sagemaker)

    assert set(pruned.deleted) == _names(versions, 1, 2)
    assert versions[0].path.name in objects(repository, s3)
    assert consistent_manifest(repository, s3).deleting == {}


def test_a_publication_between_looking_and_deleting_keeps_its_artifact(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    def meanwhile(request: Any) -> None:
        if request.number == 1:  # what prune reads is out of date before it gets there
            publish([versions[0]], repository=repository, s3=s3)

    proxy.expect(after=meanwhile)
    pruned = prune(
        repository=repository, keep=2, older_than=AT_ONCE, s3=client(proxy.url), sagemaker=sagemaker
    )

    assert versions[0].path.name not in pruned.deleted
    assert consistent_manifest(repository, s3).target_model("minilm") == versions[0].path.name


def test_a_publisher_that_found_an_artifact_that_is_deleted_meanwhile_sends_it_again(
    proxy: FaultyS3, repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    def meanwhile(request: Any) -> None:
        if request.what == "PUT manifest.json" and proxy.requests.count("PUT manifest.json") == 1:
            prune(repository=repository, keep=2, older_than=AT_ONCE, s3=s3, sagemaker=sagemaker)

    proxy.expect(before=meanwhile)
    published = publish([versions[0]], repository=repository, s3=client(proxy.url))

    assert published.uploaded == (versions[0].path.name,)
    assert consistent_manifest(repository, s3).target_model("minilm") == versions[0].path.name


def test_the_outcome_names_what_went_what_stayed_and_what_it_frees() -> None:
    pruned = Pruned(
        repository="s3://b/models/",
        deleted={"m-1.tar.gz": 1_500_000, "m-2.tar.gz": 500_000},
        held={"m-3.tar.gz": ("Single",)},
        dry_run=True,
    )

    *rows, total, restorable = pruned.lines()
    assert rows == [
        "m-1.tar.gz: would be deleted (1.5 MB)",
        "m-2.tar.gz: would be deleted (0.5 MB)",
        "m-3.tar.gz: kept for the SageMaker Model Single",
    ]
    assert total == "2 artifacts, 2.0 MB would be deleted"
    assert "can be restored" in restorable
    assert pruned.as_dict()["freed"] == 2_000_000


@pytest.mark.parametrize("name", ["manifest.json", "../outside", "current"])
def test_what_no_run_can_have_listed_is_not_deleted(
    name: str, repository: str, s3: Any, sagemaker: Any, versions: list[Artifact]
) -> None:
    before = objects(repository, s3)
    document = json.loads(stored("manifest.json", repository, s3))
    document["deleting"] = {versions[-1].name if name == "current" else name: "run"}
    write_manifest(repository, document, s3)

    with pytest.raises(FleetError) as caught:
        prune(repository=repository, keep=9, resume=True, s3=s3, sagemaker=sagemaker)

    assert [problem.rule for problem in caught.value.problems] == ["deleting-name"]
    assert objects(repository, s3) == before


@pytest.mark.parametrize("operation", ["ListModels", "DescribeModel", "ListEndpoints"])
def test_an_answer_that_is_cut_off_deletes_nothing(
    operation: str, aws: str, repository: str, s3: Any, sagemaker: Any
) -> None:
    before = objects(repository, s3)
    sagemaker.create_model(
        ModelName=f"cut-{operation}", ExecutionRoleArn="arn:aws:iam::123456789012:role/any"
    )
    cut = client(aws, "sagemaker")

    def half(request: Any, **_: Any) -> AWSResponse:
        return AWSResponse(request.url, 200, {}, _Raw(b'{"Mod'))

    cut.meta.events.register(f"before-send.sagemaker.{operation}", half)
    with pytest.raises(FleetError) as caught:
        prune(repository=repository, keep=1, older_than=AT_ONCE, s3=s3, sagemaker=cut)
    sagemaker.delete_model(ModelName=f"cut-{operation}")

    assert [problem.rule for problem in caught.value.problems] == ["repository"]
    assert objects(repository, s3) == before


class _Raw(io.BytesIO):
    """The body of a response, as botocore reads it."""

    def stream(self) -> list[bytes]:
        return [self.read()]
