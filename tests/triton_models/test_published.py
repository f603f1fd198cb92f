"""`fleet history` shows what was published."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.reported import reported
from tests.triton_models.publishing_aws import file_name, record_of, write_manifest
from triton_models.artifact.targets import ArtifactTarget
from triton_models.repository import history
from triton_models.repository.history import Artifacts, built_for, published
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
FIRST, SECOND, THIRD = (file_name("minilm", digit) for digit in "123")
FOR_A10G = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3.9"}


def _with(manifest: Manifest, artifact: str, *, day: int, **fields: Any) -> Manifest:
    record = _record(artifact, **fields)
    wanted = [Publication(model=artifact.partition("-")[0], artifact=artifact, record=record)]
    return manifest.with_published(wanted, at=NOON + timedelta(days=day), by=f"ann{day}")


def _record(artifact: str, **fields: Any) -> ArtifactRecord:
    return record_of(artifact, **{"size": 1_500_000, "build": FOR_A10G, **fields})


@pytest.fixture
def manifest() -> Manifest:
    """Three of minilm, rolled back from the last, and one of resnet50."""
    manifest = Manifest()
    for day in (1, 2, 3):
        manifest = _with(manifest, file_name("minilm", str(day)), day=day)
    manifest = manifest.with_rollback(
        model="minilm",
        to=SECOND,
        at=NOON + timedelta(days=4),
        by="bob",
        target=ArtifactTarget.parse("sm86-trt10.13.3"),
    )
    return _with(manifest, file_name("resnet50", "1"), day=5, build={})


def test_the_newest_come_first_and_the_current_and_the_previous_are_marked(manifest: Manifest) -> None:
    rows = [(row.artifact, row.state) for row in published(manifest, ["minilm"])]

    assert rows == [(THIRD, ""), (SECOND, "current"), (FIRST, "previous")]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_at_every_width_the_table_fits_and_digests_are_whole(
    width: int, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    digest = "0123456789abcdef"
    rows = [replace(row, artifact=f"minilm-{digest}.tar.gz") for row in published(manifest, ["minilm"])]
    head, *lines = Artifacts(repository="s3://b/models/", artifacts=tuple(rows)).lines()

    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if f"-{digest}.tar.gz" not in line and f" {digest} " not in line] == []
    assert {"model", "artifact", "state", "published"} <= set(head.split())


def _run(repository: str) -> Artifacts:
    return history.run(history.HistoryOptions(repository=repository))


def test_the_command_reads_the_repository(environment, repository: str, s3: Any, manifest: Manifest) -> None:
    write_manifest(repository, json.loads(manifest.to_json()), s3)

    shown = _run(repository).as_dict()

    assert shown["repository"] == repository
    assert shown["artifacts"][1] == {
        "model": "minilm",
        "artifact": SECOND,
        "state": "current",
        "targets": ["sm86-trt10.13.3"],
        "size": 1_500_000,
        "sha256": ("2" * 16).ljust(64, "0"),
        "portable": False,
        "precision": "unknown",
        "proof": "unknown",
        "answers": "unknown; no verification is recorded",
        "build": FOR_A10G,
        "plans": [],
        "request": "",
        "published": "2026-11-23T12:00:00Z",
        "by": "ann2",
        "run": next(each.run for each in manifest.models["minilm"].history if each.artifact == SECOND),
    }


def test_each_artifact_has_its_precision_and_what_was_compared(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = {"examples": 0, "drawn": 512, "allowed": 0.1, "precision": "fp16"}
    build = {"model": "minilm", "precisions": ["fp16"], "compared": {"minilm": compared}}
    row, *_ = published(manifest, ["minilm"])
    rows = [
        replace(row, record=replace(row.record, build=build, examples=3)),
        replace(row, record=replace(row.record, build={"model": "minilm"}, examples=0)),
        row,
    ]
    artifacts = Artifacts(repository="s3://b/models/", artifacts=tuple(rows))
    found = [(each["precision"], each["proof"]) for each in artifacts.as_dict()["artifacts"]]
    assert found == [("fp16", "equal"), ("fp32", "loads"), ("unknown", "unknown")]
    for width, first in ((300, "equal on 3 of your examples and 512 drawn rows"), (140, "equal")):
        monkeypatch.setenv("COLUMNS", str(width))
        head, line, other, _ = artifacts.lines()
        assert (line[head.index("precision") :].split()[0], other.count("fp32")) == ("fp16", 1)
        assert line[head.index("answers") :].startswith(f"{first} ")
        assert other[head.index("answers") :].startswith("loads")


def test_an_empty_repository_says_so(environment, repository: str) -> None:
    assert list(_run(repository).lines()) == [f"no models are published in {repository}"]


def test_what_an_artifact_was_built_for_is_reported_as_far_as_it_is_known(manifest: Manifest) -> None:
    assert built_for(_record("m-1", portable=True)) == "rehearsals only (portable)"
    assert built_for(_record("m-1", build={})) == "not recorded"
    assert built_for(_record("m-1")) == "A10G, release 25.09, TensorRT 10.13.3.9"


def test_every_unknown_name_is_reported(manifest: Manifest) -> None:
    with reported("unknown-model", "unknown-model") as problems:
        published(manifest, ["minlm", "resnet5", "minilm"])
    assert [each.fix for each in problems] == ["did you mean minilm?", "did you mean resnet50?"]
