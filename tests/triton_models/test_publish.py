"""Against moto's server over a real socket, with an unmodified boto3."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.reported import reported
from tests.triton_models.model_folders import tar, write_ensemble, write_plain
from tests.triton_models.publishing_aws import (
    client,
    consistent_manifest,
    delete,
    objects,
    put,
    stored,
    unfinished_uploads,
    write_manifest,
)
from tests.triton_models.real_networks import write_onnx
from triton_models.artifact.layout import read_layout
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.artifact.profile import UNKNOWN, Range
from triton_models.base.errors import FleetError
from triton_models.check.estimate import of_layout
from triton_models.cli.main import main
from triton_models.repository import publish as publish_module
from triton_models.repository.manifest import Repository
from triton_models.repository.objects import Store
from triton_models.repository.publish import PublishOptions, publish
from triton_models.repository.upload import MAX_PARTS, PART_BYTES, parts_of, upload

pytestmark = pytest.mark.usefixtures("environment")


def another_client() -> Any:
    return client(os.environ["AWS_ENDPOINT_URL"])


@pytest.fixture
def s3(environment: pytest.MonkeyPatch) -> Any:
    return another_client()


@pytest.fixture
def resnet50(tmp_path: Path) -> Artifact:
    return pack(write_plain(tmp_path / "resnet50"), output=tmp_path / "out")


@pytest.fixture
def newer(tmp_path: Path) -> Artifact:
    root = write_plain(tmp_path / "newer" / "resnet50")
    write_onnx(root / "resnet50", b"better weights")
    return pack(root, output=tmp_path / "out")


@pytest.fixture
def minilm(tmp_path: Path) -> Artifact:
    return pack(write_ensemble(tmp_path / "minilm", gpu="A10G"), output=tmp_path / "out")


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
    resnet50: Artifact, newer: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    published = publish([resnet50, minilm], repository=repository, s3=another_client())

    where = Repository.parse(repository)
    for artifact in (resnet50, minilm):
        assert stored(artifact.name, repository, s3) == artifact.path.read_bytes()
        key = where.key(artifact.name)
        head = s3.head_object(Bucket=where.bucket, Key=key, ChecksumMode="ENABLED")
        assert head["ChecksumSHA256"]
        assert head["Metadata"] == {"sha256": artifact.sha256}
    manifest = consistent_manifest(repository, s3)
    assert manifest.target_model("resnet50") == resnet50.name
    assert manifest.models["minilm"].artifacts[minilm.name].build["gpu"] == "A10G"
    assert published.targets == {"resnet50": resnet50.name, "minilm": minilm.name}
    assert set(published.uploaded) == {resnet50.name, minilm.name}

    publish([newer], repository=repository, s3=another_client())
    model = consistent_manifest(repository, s3).models["resnet50"]
    assert set(model.current.values()) == {newer.name}
    assert [change.artifact for change in model.history] == [resnet50.name, newer.name]
    assert resnet50.name in objects(repository, s3)


def test_a_manifest_that_vanishes_meanwhile_is_made_again(
    resnet50: Artifact, minilm: Artifact, repository: str, s3
) -> None:
    publish([resnet50], repository=repository, s3=another_client())
    rival = another_client()
    _on_put(s3, lambda: delete("manifest.json", repository, rival), key_ends="manifest.json")

    publish([minilm], repository=repository, s3=s3)

    assert set(consistent_manifest(repository, s3).models) == {"minilm"}


def test_losing_every_round_is_one_error(resnet50: Artifact, repository: str, s3, monkeypatch) -> None:
    monkeypatch.setattr("triton_models.repository.stored_manifest.ROUNDS", 3)
    rival = another_client()
    rounds = iter(range(100))

    def interfere() -> None:
        write_manifest(repository, {"version": 2, "models": {}, "round": next(rounds)}, rival)

    _on_put(s3, interfere, key_ends="manifest.json", times=99)

    with reported("contended"):
        publish([resnet50], repository=repository, s3=s3)


def test_an_object_of_that_name_with_other_content_is_not_overwritten(
    resnet50: Artifact, repository: str, s3
) -> None:
    put(resnet50.name, b"something else", repository, s3)

    with reported("artifact-changed"):
        publish([resnet50], repository=repository, s3=another_client())
    assert stored(resnet50.name, repository, s3) == b"something else"
    assert objects(repository, s3) == {resnet50.name}


def test_what_check_refuses_is_not_published(tmp_path: Path, repository: str, s3) -> None:
    root = write_plain(tmp_path / "resnet50")
    artifact = pack(root, output=tmp_path / "out")
    two = write_plain(write_plain(tmp_path / "two", name="other"))
    broken = replace(artifact, path=tar(two, tmp_path / "resnet50-0123456789abcdef.tar.gz"))

    with pytest.raises(FleetError) as caught:
        publish([artifact, broken], repository=repository, s3=another_client())

    assert "several-models" in {problem.rule for problem in caught.value.problems}
    assert objects(repository, s3) == set()


def test_two_artifacts_of_one_model_are_refused(
    resnet50: Artifact, newer: Artifact, repository: str, s3
) -> None:
    with pytest.raises(FleetError, match="'resnet50' has 2 artifacts"):
        publish([resnet50, newer], repository=repository, s3=another_client())

    assert objects(repository, s3) == set()


@pytest.mark.parametrize(
    ("text", "what"),
    [(b'{"mine": true}', "not a manifest"), (b'{"version": 3, "models": []}', "the manifest has version 3")],
)
def test_a_manifest_that_is_foreign_or_newer_is_not_touched(
    resnet50: Artifact, repository: str, s3, text: bytes, what: str
) -> None:
    put("manifest.json", text, repository, s3)

    with pytest.raises(FleetError, match=what) as caught:
        publish([resnet50], repository=repository, s3=another_client())

    assert caught.value.problems[0].where == f"{repository}manifest.json"
    assert stored("manifest.json", repository, s3) == text
    assert objects(repository, s3) == {"manifest.json"}


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "credentials are missing"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "credentials are missing"),
        ({"AWS_PROFILE": "missing"}, "missing"),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}, "S3 does not answer"),
    ],
)
def test_an_environment_in_which_s3_cannot_be_asked_is_one_error(
    resnet50: Artifact, repository: str, environment, variables: dict[str, str], what: str
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value) if value else environment.delenv(name)

    with pytest.raises(FleetError, match=what) as caught:
        publish([resnet50], repository=repository)

    assert len(caught.value.problems) == 1


def test_what_the_command_cannot_begin_with_is_said_at_once(tmp_path: Path, repository: str) -> None:
    with pytest.raises(FleetError, match="FLEET_REPOSITORY"):
        publish_module.run(PublishOptions(artifacts=(), repository=None))
    with reported("unreadable", "unreadable"):
        publish_module.run(PublishOptions(artifacts=[tmp_path / "a", tmp_path / "b"], repository=repository))


def test_the_outcome_says_what_each_name_stands_for(resnet50: Artifact, repository: str) -> None:
    options = PublishOptions(artifacts=[resnet50.path], repository=repository)

    first, second = publish_module.run(options), publish_module.run(options)

    assert list(first.lines()) == [f"resnet50 -> {repository}{resnet50.name} (uploaded)"]
    assert list(second.lines()) == [f"resnet50 -> {repository}{resnet50.name} (already there)"]
    assert first.as_dict()["targets"] == {"resnet50": resnet50.name}


def test_the_outcome_names_the_precision_of_what_a_build_made(
    resnet50: Artifact, repository: str, s3: Any
) -> None:
    made = replace(resnet50, build={"model": "resnet50", "precisions": ["fp16"]})
    first = publish([made], repository=repository, examples={"resnet50": 3})
    assert list(first.lines()) == [f"resnet50 -> {repository}{made.name} (uploaded, fp16)"]

    again = publish([made], repository=repository)  # by hand: what was verified is still known

    record = consistent_manifest(repository, s3).models["resnet50"].artifacts[made.name]
    assert (again.unchanged, record.examples) == (("resnet50",), 3)
    assert record.evidence.words() == "equal on 3 of your examples"


@pytest.fixture
def many(resnet50: Artifact) -> list[Artifact]:
    """More artifacts than are asked for one by one: the same content under many names."""
    found = []
    for number in range(40):
        path = resnet50.path.with_name(f"model{number}-{resnet50.digest}.tar.gz")
        path.write_bytes(resnet50.path.read_bytes())
        found.append(replace(resnet50, model=f"model{number}", path=path))
    return found


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, to which copies under other names are unfit."""
    monkeypatch.setattr("triton_models.repository.publish.check_layout", lambda layout: [])


def test_many_unchanged_artifacts_are_found_with_one_list_and_what_is_gone_is_sent_again(
    many: list[Artifact], unchecked: None, repository: str, s3
) -> None:
    publish(many, repository=repository, s3=another_client())
    asked: list[str] = []
    s3.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))

    again = publish(many, repository=repository, s3=s3)

    assert asked == ["GetObject", "ListObjectsV2"]
    assert len(again.present) == len(many)

    gone = many[7].name
    delete(gone, repository, s3)
    again = publish(many, repository=repository, s3=another_client())
    assert again.uploaded == (gone,)
    assert gone in objects(repository, s3)


def test_what_the_manifest_does_not_record_is_not_believed_because_of_its_name(
    many: list[Artifact], unchecked: None, repository: str, s3
) -> None:
    foreign = many[3]
    put(foreign.name, b"x" * foreign.size, repository, s3)

    with pytest.raises(FleetError) as caught:
        publish(many, repository=repository, s3=another_client())

    assert [problem.where for problem in caught.value.problems] == [f"{repository}{foreign.name}"]
    assert consistent_manifest(repository, s3).models == {}


@pytest.fixture
def large(resnet50: Artifact, tmp_path: Path) -> Artifact:
    """An artifact of a bit more than two of the smallest parts that S3 takes."""
    root = write_plain(tmp_path / "large" / "resnet50")
    noise = random.Random(1).randbytes(11 << 20)  # noqa: S311 -- repeatable, and does not compress
    write_onnx(root / "resnet50", noise)
    return pack(root, output=tmp_path / "out")


LEAST_PART = 5 << 20


def test_a_large_artifact_goes_in_parts_with_a_checksum_each(large: Artifact, repository: str, s3) -> None:
    sent: list[dict[str, Any]] = []
    s3.meta.events.register(
        "before-parameter-build.s3.UploadPart", lambda params, **_: sent.append(dict(params))
    )

    publish([large], repository=repository, s3=s3, part_bytes=LEAST_PART)

    content = large.path.read_bytes()
    for part in sent:
        start = (part["PartNumber"] - 1) * LEAST_PART
        digest = hashlib.sha256(content[start : start + LEAST_PART]).digest()
        assert part["ChecksumSHA256"] == base64.b64encode(digest).decode()
    assert sorted(part["PartNumber"] for part in sent) == [1, 2, 3]
    where = Repository.parse(repository)
    assert stored(large.name, repository, s3) == content
    head = s3.head_object(Bucket=where.bucket, Key=where.key(large.name))
    assert head["Metadata"] == {"sha256": large.sha256}


def test_parts_are_put_together_only_where_nothing_is(large: Artifact, repository: str, s3) -> None:
    rival = another_client()

    def interfere(params: dict[str, Any], **_: object) -> None:
        put(large.name, b"something else", repository, rival)

    s3.meta.events.register("before-parameter-build.s3.CompleteMultipartUpload", interfere)

    with pytest.raises(FleetError, match="has other content"):
        publish([large], repository=repository, s3=s3, part_bytes=LEAST_PART)

    assert stored(large.name, repository, s3) == b"something else"
    assert unfinished_uploads(repository, s3) == []


def test_a_file_that_changed_after_it_was_read_is_not_sent(large: Artifact, repository: str, s3) -> None:
    with large.path.open("r+b") as file:
        file.seek(6 << 20)
        file.write(b"other")

    with reported("artifact-changed"):
        upload([large], Store(Repository.parse(repository), s3), part_bytes=LEAST_PART)
    assert objects(repository, s3) == set()


def test_what_is_larger_than_one_request_takes_has_parts_that_s3_takes(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(90_001)
    whole = hashlib.sha256(bytes(90_001)).hexdigest()
    artifact = Artifact(model="m", digest="0" * 16, path=path, size=90_001, sha256=whole, build={})

    parts = parts_of(artifact, part_bytes=1)

    assert len(parts) <= MAX_PARTS
    assert sum(part.size for part in parts) == artifact.size
    assert [part.start for part in parts] == list(range(0, artifact.size, parts[0].size))
    assert MAX_PARTS * PART_BYTES > 500 << 30  # and at the default size, half a terabyte without growing


def test_the_history_has_the_time_of_s3_and_the_build(
    resnet50: Artifact, repository: str, s3, monkeypatch
) -> None:
    monkeypatch.setenv("CODEBUILD_BUILD_ID", "builds:1c8f")

    def answer(parsed: dict[str, Any], **_: object) -> None:
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = "Wed, 21 Oct 2015 07:28:00 GMT"

    s3.meta.events.register("after-call.s3.GetObject", answer)

    publish([resnet50], repository=repository, s3=s3)

    (change,) = consistent_manifest(repository, s3).models["resnet50"].history
    assert change.at == datetime(2015, 10, 21, 7, 28, tzinfo=timezone.utc)
    assert change.by == "CodeBuild builds:1c8f"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("AccessDenied", "access to the repository is denied"),
        ("PermanentRedirect", "another region"),
        ("SlowDown", "throttles"),
        ("SomethingNew", "AWS refused: SomethingNew"),
    ],
)
def test_what_s3_refuses_is_one_error_that_says_what_to_do(
    resnet50: Artifact, repository: str, s3, code: str, what: str
) -> None:
    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")

    s3.meta.events.register("before-call.s3.PutObject", refuse)

    with pytest.raises(FleetError) as caught:
        publish([resnet50], repository=repository, s3=s3)

    (problem,) = caught.value.problems
    assert what in problem.what
    assert problem.fix
    assert problem.why == f"PutObject: {code}: no"
    assert consistent_manifest(repository, s3).models == {}


def test_the_same_object_from_a_faster_publisher_counts_as_there(
    resnet50: Artifact, repository: str, s3
) -> None:
    _on_put(
        s3, lambda: publish([resnet50], repository=repository, s3=another_client()), key_ends=resnet50.name
    )

    assert publish([resnet50], repository=repository, s3=s3).present == (resnet50.name,)


def test_a_plan_reads_what_the_published_models_need(resnet50, minilm, repository, s3, capsys):
    publish([resnet50, minilm], repository=repository, s3=s3)
    given = ["plan", "--repository", repository, "--requests", "1/s", "--for", "10m", "--json"]
    assert main([*given, "--types", "ml.g5.xlarge"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == 2


def test_a_plan_says_of_which_models_nothing_is_recorded(resnet50, repository, s3, capsys):
    publish([resnet50], repository=repository, s3=s3)
    document = json.loads(stored("manifest.json", repository, s3))
    del document["models"]["resnet50"]["artifacts"][resnet50.name]["profile"]
    write_manifest(repository, document, s3)
    assert main(["plan", "--repository", repository, "--requests", "1/s"]) == 1
    assert "nothing is recorded about resnet50" in capsys.readouterr().err
    publish([resnet50], repository=repository, s3=s3)
    given = ["plan", "--repository", repository, "--requests", "1/s", "--for", "10m"]
    assert main([*given, "--types", "ml.g5.xlarge"]) == 0


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("measured on NVIDIA A10G", "estimated: a rehearsal measures nothing"),
        (f"{UNKNOWN}a framework in Python", f"{UNKNOWN}a framework in Python"),
    ],
)
def test_a_published_model_of_a_rehearsal_is_never_called_measured(  # noqa: PLR0917  fixtures
    source, kept, resnet50, repository, s3, monkeypatch
):
    monkeypatch.setenv("FLEET_PORTABLE", "1")
    estimate = of_layout(read_layout(resnet50.path))
    profile = replace(estimate, memory=Range.measured(1.0, source))
    monkeypatch.setattr(publish_module, "of_layout", lambda layout: profile)
    publish([resnet50], repository=repository, s3=s3)
    record = consistent_manifest(repository, s3).record(model="resnet50", artifact=resnet50.name)
    assert record.profile.memory.source == kept
