"""Against moto's server over a real socket, with an unmodified boto3."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from tests.triton_models.model_folders import write, write_ensemble, write_plain
from triton_models import publish as publish_module
from triton_models.errors import FleetError
from triton_models.manifest import Manifest, Repository
from triton_models.pack import Artifact, pack
from triton_models.publish import publish, read_manifest

BUCKETS = iter(range(10**6))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def environment(endpoint: str, monkeypatch, tmp_path: Path) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "FLEET_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def s3(environment: None) -> Any:
    return boto3.session.Session().client("s3")


@pytest.fixture
def repository(s3) -> str:
    bucket = f"publish-test-{next(BUCKETS)}"
    s3.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/models/"


@pytest.fixture
def resnet50(tmp_path: Path) -> Artifact:
    return pack(write_plain(tmp_path / "resnet50"), output=tmp_path / "out")


@pytest.fixture
def newer(tmp_path: Path) -> Artifact:
    root = write_plain(tmp_path / "newer" / "resnet50")
    write(root / "resnet50" / "1" / "model.onnx", b"better weights")
    return pack(root, output=tmp_path / "out")


@pytest.fixture
def minilm(tmp_path: Path) -> Artifact:
    return pack(write_ensemble(tmp_path / "minilm", gpu="A10G"), output=tmp_path / "out")


def _manifest(repository: str, s3: Any) -> Manifest:
    return read_manifest(Repository.parse(repository), s3=s3)


def _on_put(s3: Any, act, *, key_ends: str, times: int = 1) -> list[str]:
    """Before each PUT of such a key, let something happen; at most so many times."""
    seen: list[str] = []

    def hook(params: dict[str, Any], **_: object) -> None:
        if params["Key"].endswith(key_ends) and len(seen) < times:
            seen.append(params["Key"])
            act()

    s3.meta.events.register("before-parameter-build.s3.PutObject", hook)
    return seen


def test_artifacts_and_the_manifest_are_there_afterwards(
    resnet50: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    published = publish([resnet50, minilm], repository=repository)

    where = Repository.parse(repository)
    for artifact in (resnet50, minilm):
        stored = s3.get_object(Bucket=where.bucket, Key=where.key(artifact.path.name))
        assert stored["Body"].read() == artifact.path.read_bytes()
    manifest = _manifest(repository, s3)
    assert manifest.target_model("resnet50") == resnet50.path.name
    assert manifest.models["minilm"].artifacts[minilm.path.name].build["gpu"] == "A10G"
    assert published.targets == {"resnet50": resnet50.path.name, "minilm": minilm.path.name}
    assert set(published.uploaded) == {resnet50.path.name, minilm.path.name}


def test_s3_is_given_the_checksum_to_verify(resnet50: Artifact, repository: str, s3) -> None:
    publish([resnet50], repository=repository)

    where = Repository.parse(repository)
    stored = s3.head_object(Bucket=where.bucket, Key=where.key(resnet50.path.name), ChecksumMode="ENABLED")
    assert stored["ChecksumSHA256"]
    assert stored["Metadata"] == {"sha256": resnet50.sha256}


def test_the_manifest_is_written_last(resnet50: Artifact, minilm: Artifact, repository: str, s3) -> None:
    order: list[str] = []
    s3.meta.events.register(
        "before-parameter-build.s3.PutObject", lambda params, **_: order.append(params["Key"])
    )

    publish([resnet50, minilm], repository=repository, s3=s3)

    assert order[-1] == "models/manifest.json"
    assert order.count("models/manifest.json") == 1


def test_publishing_again_sends_nothing(resnet50: Artifact, repository: str, s3) -> None:
    publish([resnet50], repository=repository)
    puts = _on_put(s3, lambda: None, key_ends="", times=99)

    again = publish([resnet50], repository=repository, s3=s3)

    assert puts == []
    assert again.uploaded == ()
    assert again.present == (resnet50.path.name,)


def test_a_new_version_becomes_current_and_the_old_object_stays(
    resnet50: Artifact, newer: Artifact, repository: str, s3
) -> None:
    publish([resnet50], repository=repository)
    publish([newer], repository=repository)

    model = _manifest(repository, s3).models["resnet50"]
    assert model.current == newer.path.name
    assert model.history == (resnet50.path.name, newer.path.name)
    where = Repository.parse(repository)
    assert s3.head_object(Bucket=where.bucket, Key=where.key(resnet50.path.name))


def test_a_publisher_that_was_faster_is_not_undone(
    resnet50: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    publish([resnet50], repository=repository)  # so that the manifest is replaced, not created
    root = write_plain(minilm.path.parent / "other", name="other")
    other = pack(root, output=minilm.path.parent)
    lost = _on_put(s3, lambda: publish([other], repository=repository), key_ends="manifest.json")

    publish([minilm], repository=repository, s3=s3)

    assert lost
    assert set(_manifest(repository, s3).models) == {"resnet50", "other", "minilm"}


def test_a_publisher_that_created_the_manifest_first_is_not_undone(
    resnet50: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    lost = _on_put(s3, lambda: publish([resnet50], repository=repository), key_ends="manifest.json")

    publish([minilm], repository=repository, s3=s3)

    assert lost
    assert set(_manifest(repository, s3).models) == {"resnet50", "minilm"}


def test_a_manifest_that_vanishes_meanwhile_is_made_again(
    resnet50: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    publish([resnet50], repository=repository)
    where = Repository.parse(repository)
    rival = boto3.session.Session().client("s3")
    _on_put(
        s3,
        lambda: rival.delete_object(Bucket=where.bucket, Key=where.key("manifest.json")),
        key_ends="manifest.json",
    )

    publish([minilm], repository=repository, s3=s3)

    assert set(_manifest(repository, s3).models) == {"minilm"}


def test_losing_every_round_is_one_error(resnet50: Artifact, repository: str, s3, monkeypatch) -> None:
    monkeypatch.setattr(publish_module, "_MANIFEST_ROUNDS", 3)
    where = Repository.parse(repository)
    rival = boto3.session.Session().client("s3")
    rounds = iter(range(100))

    def interfere() -> None:
        manifest = {"version": 1, "models": {}, "round": next(rounds)}
        rival.put_object(
            Bucket=where.bucket, Key=where.key("manifest.json"), Body=json.dumps(manifest).encode()
        )

    _on_put(s3, interfere, key_ends="manifest.json", times=99)

    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository=repository, s3=s3)

    assert caught.value.problems[0].rule == "contended"


def test_the_same_object_from_a_faster_publisher_counts_as_there(
    resnet50: Artifact, repository: str, s3
) -> None:
    _on_put(s3, lambda: publish([resnet50], repository=repository), key_ends=resnet50.path.name)

    published = publish([resnet50], repository=repository, s3=s3)

    assert published.present == (resnet50.path.name,)


def test_an_object_of_that_name_with_other_content_is_not_overwritten(
    resnet50: Artifact, repository: str, s3
) -> None:
    where = Repository.parse(repository)
    s3.put_object(Bucket=where.bucket, Key=where.key(resnet50.path.name), Body=b"something else")

    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository=repository)

    assert caught.value.problems[0].rule == "artifact-changed"
    stored = s3.get_object(Bucket=where.bucket, Key=where.key(resnet50.path.name))
    assert stored["Body"].read() == b"something else"
    assert _manifest(repository, s3).models == {}


def test_what_check_refuses_is_not_published(tmp_path: Path, repository: str, s3) -> None:
    root = write_plain(tmp_path / "resnet50")
    artifact = pack(root, output=tmp_path / "out")
    two = write_plain(write_plain(tmp_path / "two", name="other"))
    broken = replace(artifact, path=_tar_as_artifact(two, tmp_path))

    with pytest.raises(FleetError) as caught:
        publish([artifact, broken], repository=repository)

    assert "several-models" in {problem.rule for problem in caught.value.problems}
    assert "Contents" not in s3.list_objects_v2(Bucket=Repository.parse(repository).bucket)


def _tar_as_artifact(root: Path, folder: Path) -> Path:
    from tests.triton_models.model_folders import tar

    return tar(root, folder / "resnet50-0123456789abcdef.tar.gz")


def test_two_artifacts_of_one_model_are_refused(
    resnet50: Artifact, newer: Artifact, repository: str, s3
) -> None:
    with pytest.raises(FleetError, match="2 artifacts of the model 'resnet50'"):
        publish([resnet50, newer], repository=repository)

    assert "Contents" not in s3.list_objects_v2(Bucket=Repository.parse(repository).bucket)


def test_an_artifact_too_large_for_one_request_is_refused(resnet50: Artifact, repository: str) -> None:
    with pytest.raises(FleetError, match=r"an artifact of 6\.0 GiB"):
        publish([replace(resnet50, size=6 * 1024**3)], repository=repository)


def test_a_foreign_manifest_is_not_overwritten(resnet50: Artifact, repository: str, s3) -> None:
    where = Repository.parse(repository)
    s3.put_object(Bucket=where.bucket, Key=where.key("manifest.json"), Body=b'{"mine": true}')

    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository=repository)

    assert caught.value.problems[0].where == f"{repository}manifest.json"
    assert len(s3.list_objects_v2(Bucket=where.bucket)["Contents"]) == 1


def test_a_bucket_that_does_not_exist_is_one_error(resnet50: Artifact) -> None:
    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository="s3://there-is-no-such-bucket/models/")

    (problem,) = caught.value.problems
    assert "no such bucket" in problem.what
    assert problem.where == "s3://there-is-no-such-bucket/models/"


def test_missing_credentials_are_one_error(resnet50: Artifact, repository: str, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository=repository)

    (problem,) = caught.value.problems
    assert "credentials" in problem.what


def test_half_credentials_are_one_error(resnet50: Artifact, repository: str, monkeypatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(FleetError, match="no usable AWS credentials"):
        publish([resnet50], repository=repository)


def test_an_unknown_profile_is_one_error(resnet50: Artifact, repository: str, monkeypatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    with pytest.raises(FleetError, match="nobody"):
        publish([resnet50], repository=repository)


def test_an_endpoint_that_does_not_answer_is_one_error(
    resnet50: Artifact, repository: str, monkeypatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

        with pytest.raises(FleetError) as caught:
            publish([resnet50], repository=repository)

    (problem,) = caught.value.problems
    assert problem.what == "S3 does not answer"


def test_no_repository_is_one_error(resnet50: Artifact) -> None:
    with pytest.raises(FleetError, match="FLEET_REPOSITORY"):
        publish_module.run(argparse.Namespace(artifacts=[resnet50.path], repository=None))


def test_every_unreadable_artifact_is_named_at_once(tmp_path: Path, repository: str) -> None:
    with pytest.raises(FleetError) as caught:
        publish_module.run(
            argparse.Namespace(artifacts=[tmp_path / "a", tmp_path / "b"], repository=repository)
        )

    assert len(caught.value.problems) == 2


def test_the_outcome_says_what_each_name_stands_for(resnet50: Artifact, repository: str) -> None:
    arguments = argparse.Namespace(artifacts=[resnet50.path], repository=repository)

    first, second = publish_module.run(arguments), publish_module.run(arguments)

    assert list(first.lines()) == [f"resnet50 -> {repository}{resnet50.path.name} (uploaded)"]
    assert list(second.lines()) == [f"resnet50 -> {repository}{resnet50.path.name} (already there)"]
    assert first.as_dict()["targets"] == {"resnet50": resnet50.path.name}
