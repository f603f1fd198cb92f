"""`fleet history --verify` reads what is published, and names what is not as the manifest records it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.publishing_aws import artifact
from triton_models.artifact.pack.pack import Artifact
from triton_models.cli.main import main
from triton_models.repository.manifest import Repository
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
    status = main(["history", "--json", "--verify", "--repository", repository.url, *names])
    return status, json.loads(capsys.readouterr().out)


def found(document: Any) -> list[tuple[str, str]]:
    return [(each["rule"], each["where"].rpartition("models/")[2]) for each in document["error"]]


def test_every_object_that_differs_or_is_gone_is_named(
    repository: Repository, artifacts: dict[str, Artifact], s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = verified(repository, capsys=capsys)
    assert (status, document["verified"]) == (0, 3)
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
    listed = s3.list_objects_v2(Bucket=repository.bucket, Prefix=repository.key("requests/"))["Contents"]
    (key,) = (each["Key"] for each in listed)
    s3.put_object(Bucket=repository.bucket, Key=key, Body=b"[]")
    request = ("artifact-changed", key.removeprefix("models/"))

    status, document = verified(repository, "other", capsys=capsys)
    assert (status, document["verified"]) == (0, 1)

    s3.delete_object(Bucket=repository.bucket, Key=repository.key(other))
    status, document = verified(repository, capsys=capsys)
    assert status == 1
    assert sorted(found(document)) == sorted([("artifact-changed", net), ("artifact-gone", other), request])
