"""`fleet history --verify` reads what is published, and names what is not as the manifest records it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.publishing_aws import artifact, write_manifest
from triton_models.artifact.pack.pack import Artifact
from triton_models.cli.main import main
from triton_models.repository.manifest import MANIFEST_NAME, Repository
from triton_models.repository.publish import publish

NAMES = ("net", "other")


@pytest.fixture
def artifacts(tmp_path: Path) -> dict[str, Artifact]:
    return {name: artifact(tmp_path, name=name, weights=name.encode()) for name in NAMES}


@pytest.fixture
def repository(
    environment: pytest.MonkeyPatch, repository: str, s3: Any, artifacts: dict[str, Artifact]
) -> Repository:
    """Two models, of one build environment, one with a request."""
    publish(artifacts.values(), repository=repository, s3=s3, requests={"net": b"{}"})
    return Repository.parse(repository)


def verified(repository: Repository, *names: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """The exit status, and the document."""
    status = main(["history", "--json", "--verify", "--repository", repository.url, *names])
    return status, json.loads(capsys.readouterr().out)


def found(document: Any) -> list[tuple[str, str]]:
    """Rule and object of every problem."""
    return [(each["rule"], each["where"].rpartition("models/")[2]) for each in document["error"]]


def test_what_was_published_is_verified_with_its_documents(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = verified(repository, capsys=capsys)

    assert (status, document["verified"]) == (0, 3)


def test_every_object_that_differs_or_is_gone_is_named(
    repository: Repository, artifacts: dict[str, Artifact], s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    net, other = (artifacts[name].name for name in NAMES)
    content = bytearray(artifacts["net"].path.read_bytes())
    content[-1] ^= 1
    # The metadata is what a publisher compares: only the bytes say it.
    s3.put_object(
        Bucket=repository.bucket,
        Key=repository.key(net),
        Body=bytes(content),
        Metadata={"sha256": artifacts["net"].sha256},
    )
    s3.delete_object(Bucket=repository.bucket, Key=repository.key(other))

    status, document = verified(repository, capsys=capsys)

    assert (status, found(document)) == (1, [("artifact-changed", net), ("artifact-gone", other)])


def test_a_changed_request_is_named(
    repository: Repository, s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = s3.list_objects_v2(Bucket=repository.bucket, Prefix=repository.key("requests/"))["Contents"]
    (key,) = (each["Key"] for each in listed)
    s3.put_object(Bucket=repository.bucket, Key=key, Body=b"[]")

    status, document = verified(repository, capsys=capsys)

    assert (status, found(document)) == (1, [("artifact-changed", key.removeprefix("models/"))])


def test_a_manifest_that_was_changed_along_with_an_artifact_is_refused(
    repository: Repository, artifacts: dict[str, Artifact], s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    net, other = (artifacts[name] for name in NAMES)
    s3.put_object(Bucket=repository.bucket, Key=repository.key(net.name), Body=other.path.read_bytes())
    written = s3.get_object(Bucket=repository.bucket, Key=repository.key(MANIFEST_NAME))["Body"].read()
    document = json.loads(written.replace(net.sha256.encode(), other.sha256.encode()))
    write_manifest(repository.url, document, s3)

    status, document = verified(repository, "net", capsys=capsys)

    assert (status, [each["rule"] for each in document["error"]]) == (1, ["manifest-record"])


def test_only_the_named_models_are_read(
    repository: Repository, artifacts: dict[str, Artifact], s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    s3.delete_object(Bucket=repository.bucket, Key=repository.key(artifacts["net"].name))

    status, document = verified(repository, "other", capsys=capsys)

    assert (status, document["verified"]) == (0, 1)
