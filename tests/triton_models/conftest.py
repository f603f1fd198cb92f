"""A small AWS for tests that publish, and what they publish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from tests.triton_models.faulty_s3 import FaultyS3
from tests.triton_models.publishing_aws import ENVIRONMENT, artifact, client, new_repository, small_aws
from tests.triton_models.scripted_server import World
from triton_models.artifact.pack.pack import Artifact


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with small_aws() as url:
        yield url


@pytest.fixture(scope="module")
def s3(aws: str) -> Any:
    return client(aws)


@pytest.fixture(scope="module")
def proxy(aws: str) -> Iterator[FaultyS3]:
    """Its S3 behind a proxy that makes faults."""
    with FaultyS3(aws) as proxy:
        yield proxy


@pytest.fixture
def repository(s3: Any) -> str:
    return new_repository(s3)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    folder = tmp_path_factory.mktemp("versions")
    return [artifact(folder, name="minilm", weights=b"%d" % number) for number in range(5)]


@pytest.fixture
def environment(aws: str, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment in which every SDK reaches the small AWS; gives what changes it further."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": aws}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "FLEET_PORTABLE", "FLEET_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def session() -> boto3.Session:
    """One session for all clients: it reads the API models once."""
    return boto3.Session()


@pytest.fixture(params=["threads", "asyncio"])
def world(
    session: boto3.Session, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[World]:
    with ExitStack() as open_until:
        world = World(open_until, session, client=request.param)
        for name, value in world.exports().items():
            monkeypatch.setenv(name, value)
        yield world
