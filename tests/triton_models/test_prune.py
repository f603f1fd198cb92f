"""Pruning deletes only what no one can request."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import timedelta
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
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.prune import OLDER_THAN, Pruned, prune
from triton_models.repository.publish import Published, publish
from triton_models.repository.rollback import rollback

ROLE = "arn:aws:iam::123456789012:role/serving"


@dataclass(frozen=True)
class Scene:
    """A repository in which five versions of `minilm` were published, one after the other."""

    url: str
    s3: Any
    sagemaker: Any
    versions: list[Artifact]

    def names(self, *numbers: int) -> set[str]:
        return {self.versions[number].name for number in numbers}

    def prune(self, *, keep: int = 2, **given: Any) -> Pruned:
        """Prune, by default without regard to the time since an artifact was current."""
        usual = {"older_than": timedelta(0), "s3": self.s3, "sagemaker": self.sagemaker}
        return prune(repository=self.url, keep=keep, **{**usual, **given})

    def publish_first(self, s3: Any = None) -> Published:
        return publish([self.versions[0]], repository=self.url, s3=s3 or self.s3)

    def objects(self) -> set[str]:
        return objects(self.url, self.s3)

    def manifest(self) -> Manifest:
        return consistent_manifest(self.url, self.s3)

    def is_pruned(self) -> None:
        manifest = self.manifest()
        assert manifest.deleting == {}
        assert self.objects() == {"manifest.json", *manifest.models["minilm"].artifacts}
        assert len(manifest.models["minilm"].artifacts) == 2

    def create_model(self, **containers: Any) -> str:
        name = f"model-of-{Repository.parse(self.url).bucket}"
        self.sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, **containers)
        return name


@pytest.fixture
def scene(aws: str, s3: Any, versions: list[Artifact]) -> Scene:
    return Scene(repository_of(versions, s3), s3, client(aws, "sagemaker"), versions)


def test_the_newest_stay_and_the_rest_goes_unless_it_was_current_lately_or_the_run_is_dry(
    scene: Scene,
) -> None:
    put("other-0123456789abcdef.tar.gz", b"not in the manifest", scene.url, scene.s3)

    before = scene.objects(), scene.manifest()
    assert timedelta(days=7) == OLDER_THAN
    assert scene.prune(keep=1, older_than=OLDER_THAN).deleted == {}
    assert set(scene.prune(dry_run=True).deleted) == scene.names(0, 1, 2)
    assert (scene.objects(), scene.manifest()) == before

    pruned = scene.prune()

    assert set(pruned.deleted) == scene.names(0, 1, 2)
    assert pruned.freed == sum(scene.versions[number].size for number in (0, 1, 2))
    assert scene.objects() == {"manifest.json", "other-0123456789abcdef.tar.gz", *scene.names(3, 4)}
    assert set(scene.manifest().models["minilm"].artifacts) == scene.names(3, 4)
    assert scene.manifest().deleting == {}


def test_what_rolling_back_needs_stays(scene: Scene) -> None:
    rollback("minilm", repository=scene.url, to=scene.versions[1].name, s3=scene.s3)

    scene.prune(keep=1)

    # The current one, the one before it, and the one published last.
    assert scene.objects() == {"manifest.json", *scene.names(0, 1, 4)}
    assert rollback("minilm", repository=scene.url, s3=scene.s3).moved[0].current == scene.versions[0].name


@pytest.mark.parametrize("how", ["ModelDataUrl", "ModelDataSource", "Containers"])
def test_an_artifact_that_a_sagemaker_model_names_stays(scene: Scene, how: str) -> None:
    oldest = scene.versions[0].name
    source = {"S3Uri": f"{scene.url}{oldest}", "S3DataType": "S3Object", "CompressionType": "Gzip"}
    data = {"ModelDataUrl": f"{scene.url}{oldest}"}
    if how == "ModelDataSource":
        data = {how: {"S3DataSource": source}}
    container = {"Image": "triton", **data}
    many = how == "Containers"
    name = scene.create_model(**({how: [container]} if many else {"PrimaryContainer": container}))

    pruned = scene.prune(keep=1)

    assert pruned.held == {oldest: (name,)}
    assert oldest not in pruned.deleted
    assert oldest in scene.manifest().models["minilm"].artifacts


@pytest.mark.parametrize(("keep", "days"), [(0, 7), (-1, 7), (1, -1), (1, 40_000)])
def test_numbers_out_of_range_are_refused(scene: Scene, keep: int, days: int) -> None:
    with pytest.raises(FleetError):
        scene.prune(keep=keep, older_than=timedelta(days=days))


# Manifest, manifest without them, objects, manifest read, manifest without the list.
STEPS = 5


@pytest.mark.story
@pytest.mark.parametrize("fault", ["cut", "lost"])
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_interrupted_anywhere_no_name_stands_for_a_missing_object_and_a_resumed_run_completes(
    proxy: FaultyS3, scene: Scene, number: int, fault: Fault
) -> None:
    proxy.expect({number: fault})

    with pytest.raises(FleetError):
        scene.prune(s3=client(proxy.url))
    assert len(proxy.requests) == number
    scene.manifest()

    scene.prune(resume=True)
    scene.is_pruned()


@pytest.fixture
def interrupted(proxy: FaultyS3, scene: Scene) -> Scene:
    """After a run that has written what it is about to delete, and deleted nothing."""
    proxy.expect({3: "cut"})
    with pytest.raises(FleetError):
        scene.prune(s3=client(proxy.url))
    return scene


def test_while_an_artifact_is_being_deleted_no_publisher_and_no_other_run_takes_over(
    interrupted: Scene,
) -> None:
    with reported("being-deleted"):
        interrupted.publish_first()
    with reported("being-deleted") as problems:
        interrupted.prune()
    assert "--resume" in problems[0].fix

    interrupted.prune(resume=True)
    assert interrupted.publish_first().uploaded == (interrupted.versions[0].name,)
    assert interrupted.manifest().target_model("minilm") == interrupted.versions[0].name


def test_what_an_interrupted_run_left_stays_if_a_model_names_it_by_now(interrupted: Scene) -> None:
    oldest = interrupted.versions[0].name
    interrupted.create_model(PrimaryContainer={"Image": "t", "ModelDataUrl": f"{interrupted.url}{oldest}"})

    pruned = interrupted.prune(resume=True)

    assert set(pruned.deleted) == interrupted.names(1, 2)
    assert oldest in interrupted.objects()
    assert interrupted.manifest().deleting == {}


def test_a_publication_between_looking_and_deleting_keeps_its_artifact(proxy: FaultyS3, scene: Scene) -> None:
    def meanwhile(request: Any) -> None:
        if request.number == 1:  # what prune reads is out of date before it gets there
            scene.publish_first()

    proxy.expect(after=meanwhile)
    pruned = scene.prune(s3=client(proxy.url))

    assert scene.versions[0].name not in pruned.deleted
    assert scene.manifest().target_model("minilm") == scene.versions[0].name


def test_a_publisher_that_found_an_artifact_that_is_deleted_meanwhile_sends_it_again(
    proxy: FaultyS3, scene: Scene
) -> None:
    def meanwhile(request: Any) -> None:
        if request.what == "PUT manifest.json" and proxy.requests.count("PUT manifest.json") == 1:
            scene.prune()

    proxy.expect(before=meanwhile)
    published = scene.publish_first(client(proxy.url))

    assert published.uploaded == (scene.versions[0].name,)
    assert scene.manifest().target_model("minilm") == scene.versions[0].name


@pytest.mark.parametrize("name", ["manifest.json", "../outside", "current"])
def test_what_no_run_can_have_listed_is_not_deleted(scene: Scene, name: str) -> None:
    before = scene.objects()
    document = json.loads(stored("manifest.json", scene.url, scene.s3))
    document["deleting"] = {scene.versions[-1].name if name == "current" else name: "run"}
    write_manifest(scene.url, document, scene.s3)

    with reported("deleting-name"):
        scene.prune(keep=9, older_than=OLDER_THAN, resume=True)

    assert scene.objects() == before


@pytest.mark.parametrize("operation", ["ListModels", "DescribeModel", "ListEndpoints"])
def test_an_answer_that_is_cut_off_deletes_nothing(aws: str, scene: Scene, operation: str) -> None:
    before = scene.objects()
    name = scene.create_model()
    cut = client(aws, "sagemaker")

    def half(request: Any, **_: Any) -> AWSResponse:
        return AWSResponse(request.url, 200, {}, _Raw(b'{"Mod'))

    cut.meta.events.register(f"before-send.sagemaker.{operation}", half)
    with reported("repository"):
        scene.prune(keep=1, sagemaker=cut)
    scene.sagemaker.delete_model(ModelName=name)

    assert scene.objects() == before


class _Raw(io.BytesIO):
    """The body of a response, as botocore reads it."""

    def stream(self) -> list[bytes]:
        return [self.read()]


def test_the_outcome_names_what_went_what_stayed_and_what_it_frees() -> None:
    pruned = Pruned(
        repository="s3://b/models/",
        deleted={"m-1.tar.gz": 1_500_000, "m-2.tar.gz": 500_000},
        held={"m-3.tar.gz": ("Single",)},
        dry_run=True,
    )

    first, _, held, total, restorable = pruned.lines()
    assert first == "m-1.tar.gz: would be deleted (1.5 MB)"
    assert held == "m-3.tar.gz: kept for the SageMaker Model Single"
    assert total == "2 artifacts, 2.0 MB would be deleted"
    assert "can be restored" in restorable
