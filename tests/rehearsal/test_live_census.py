"""`fleet census --endpoint`: what models take of a rehearsed instance, with an nvidia-smi that counts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from tests.rehearsal.served_models import FLOATS, python_model
from tests.rehearsal.test_hosting import Endpoint
from tests.triton_models.publishing_aws import EARLIER, file_name, record_of
from triton_models.cli.main import main
from triton_models.repository.manifest import Manifest, Publication
from triton_models.repository.objects import request_name
from triton_rehearsal.hosting.service import Hosting

REQUEST = json.dumps({"content_type": "application/json", "body": base64.b64encode(FLOATS).decode()}).encode()


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as aws:
        yield aws


def count_calls(one: Endpoint, folder: Path) -> None:
    """Let each call of the instance's nvidia-smi report 100 MiB more."""
    [program] = one.instance.server.directory.glob("**/nvidia-smi")
    program.write_text(f"#!/bin/sh\necho . >> {folder}/asked\necho $(($(wc -l < {folder}/asked) * 100))\n")


def published(one: Endpoint, *names: str) -> str:
    """Publish models with a request each, of which the last one has no object; return the repository."""
    sha256 = hashlib.sha256(REQUEST).hexdigest()
    artifacts = {name: file_name(name, "1") for name in names}
    wanted = [
        Publication(model=name, artifact=artifact, record=record_of(artifact, request=sha256))
        for name, artifact in artifacts.items()
    ]
    manifest = Manifest().with_published(wanted, at=EARLIER, by="ann")
    for name in names[:-1]:
        one.upload(artifacts[name], python_model(name=name))
    one.upload("manifest.json", manifest.to_json().encode())
    one.upload(request_name(sha256), REQUEST)
    return f"s3://{one.bucket}/models/"


def test_each_model_shows_what_it_takes_of_an_instance_and_nothing_is_left(
    aws: MotoAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Hosting(aws, directory=tmp_path / "hosting", lookup_s=0.0) as hosting:
        one = Endpoint(aws, hosting)
        repository = published(one, "first", "second", "third")
        for name, value in aws.exports(runtime=hosting.url).items():
            monkeypatch.setenv(name, value)
        hosting.start(one.name)
        count_calls(one, tmp_path)
        given = ["census", "--endpoint", one.name, "--repository", repository]
        assert main([*given, "--json"]) == 1
        first, second, third = json.loads(capsys.readouterr().out)["models"]
        assert [each["gpu"] for each in (first, second)] == [100 << 20, 100 << 20]
        assert first["seconds"] > 0
        assert first["error"] == second["error"] == ""
        assert third["error"]
        assert main([*given, "second"]) == 0
        assert capsys.readouterr().out.splitlines()[2].startswith("second")
        keys = aws.client("s3").list_objects_v2(Bucket=one.bucket)["Contents"]
        assert not any("census" in each["Key"] for each in keys)


def test_an_endpoint_with_several_instances_is_refused(
    aws: MotoAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Hosting(aws, directory=tmp_path / "hosting", lookup_s=0.0) as hosting:
        one = Endpoint(aws, hosting, instances=2)
        for name, value in aws.exports(runtime=hosting.url).items():
            monkeypatch.setenv(name, value)
        given = ["census", "--endpoint", one.name, "--repository", f"s3://{one.bucket}/models/", "--json"]
        assert main(given) == 1
        assert json.loads(capsys.readouterr().out)["error"][0]["rule"] == "census-one-instance"
