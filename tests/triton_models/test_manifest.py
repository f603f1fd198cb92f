from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reported import reported
from tests.triton_models.hostile_manifests import HOSTILE_VALUES, KEY, changed, places
from tests.triton_models.publishing_aws import file_name, record_of
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.check.estimate import estimated
from triton_models.repository.history import Artifacts, published
from triton_models.repository.manifest import (
    ArtifactRecord,
    Manifest,
    ModelRecord,
    Publication,
    Repository,
    Share,
)
from triton_models.repository.model_record import ARTIFACT_NAME
from triton_models.repository.prune import expendable

PROFILE = estimated("bad", size=93.5e6, backend="onnxruntime", rows=8)
RECORD = ArtifactRecord(size=3, sha256="ab" * 32, build={"gpu": "A10G"})
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def _with(manifest: Manifest, *artifacts: str, record: ArtifactRecord | None = None) -> Manifest:
    """The manifest after these were published at once, a model's name being what is before the dash."""
    records = {each: record or record_of(each, build={"gpu": "A10G"}) for each in artifacts}
    wanted = [
        Publication(model=each.partition("-")[0], artifact=each, record=records[each]) for each in artifacts
    ]
    return manifest.with_published(wanted, at=NOON, by="ann")


def _manifest(*artifacts: str) -> Manifest:
    manifest = Manifest()
    for artifact in artifacts:
        manifest = _with(manifest, artifact)
    return manifest


def _model(*artifacts: str) -> ModelRecord:
    """The model `m` after artifacts were published; "<3" rolls back to the artifact 3."""
    manifest = Manifest()
    for number, artifact in enumerate(artifacts):
        at = NOON + timedelta(days=number)
        if artifact.startswith("<"):
            manifest = manifest.with_rollback(model="m", to=artifact[1:], at=at, by="ann", target=ANY)
        else:
            wanted = [Publication(model="m", artifact=artifact, record=RECORD)]
            manifest = manifest.with_published(wanted, at=at, by="ann")
    return manifest.models["m"]


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True),
            st.from_regex(r"[0-9a-f]", fullmatch=True),
            st.integers(0, 2**50),
            st.dictionaries(st.sampled_from(["sources", "packages"]), st.text()),
            st.lists(st.sampled_from(["10.13.3.9", "10.16.1"])).map(tuple),
            st.booleans(),
            st.sampled_from([None, ANY, ArtifactTarget.parse("ampere+-trt10.13.3")]),
            st.datetimes(timezones=st.just(timezone.utc)).map(lambda at: at.replace(microsecond=0)),
            st.text().filter(str.isprintable),
        )
    ),
    st.dictionaries(st.text(), st.text()),
)
def test_a_manifest_survives_writing_and_reading(entries, deleting) -> None:
    manifest = Manifest(deleting=deleting)
    for model, digit, size, build, plans, portable, target, at, by in entries:
        name = file_name(model, digit)
        record = record_of(name, size=size, build=build, plans=plans, portable=portable)
        wanted = [Publication(model=model, artifact=name, record=record, target=target)]
        manifest = manifest.with_published(wanted, at=at, by=by)

    assert list(manifest.unreadable(before=Manifest())) == []
    document = manifest.to_json().encode()
    assert Manifest.from_json(document) == manifest
    assert Manifest.by_line(document) == manifest


def test_a_profile_survives_writing_and_reading() -> None:
    name = file_name("bad", "1")
    manifest = _with(Manifest(), name, record=record_of(name, build={}, profile=PROFILE))
    again = Manifest.from_json(manifest.to_json())
    assert again.models["bad"].artifacts[name].profile == PROFILE


@pytest.mark.parametrize("examples", [None, 0, 3])
def test_the_number_of_compared_examples_survives_and_is_absent_where_it_is_not_known(
    examples: int | None,
) -> None:
    name = file_name("bad", "1")
    text = _with(Manifest(), name, record=record_of(name, build={}, examples=examples)).to_json()
    assert Manifest.from_json(text).models["bad"].artifacts[name].examples == examples
    assert ('"examples"' in text) is (examples is not None)


def test_the_document_has_the_documented_shape() -> None:
    assert json.loads(_manifest("minilm-1", "minilm-2").to_json()) == {
        "version": 2,
        "deleting": {},
        "models": {
            "minilm": {
                "current": {"any": "minilm-2"},
                "history": [
                    {
                        "target": "any",
                        "artifact": name,
                        "how": "publish",
                        "at": "2026-11-21T12:00:00Z",
                        "by": "ann",
                    }
                    for name in ("minilm-1", "minilm-2")
                ],
                "artifacts": {
                    name: {
                        "size": 3,
                        "sha256": name[-1].ljust(64, "0"),
                        "build": {"gpu": "A10G"},
                        "plans": [],
                        "portable": False,
                        "targets": ["any"],
                    }
                    for name in ("minilm-1", "minilm-2")
                },
            }
        },
    }


def test_each_model_is_one_line_so_that_two_versions_can_be_compared() -> None:
    old, new = _manifest("a-1", "b-1", "c-1"), _manifest("a-1", "b-1", "c-1", "b-2")

    changed = set(new.to_json().splitlines()) - set(old.to_json().splitlines())

    assert [line.partition(":")[0] for line in changed] == ['"b"']


@pytest.mark.parametrize(
    ("done", "back_to"),
    [
        (["1"], []),
        (["1", "2"], ["1"]),
        (["1", "2", "3", "<2"], ["1"]),
        (["1", "2", "3", "<2", "4"], ["1", "2"]),
        (["1", "2", "3", "<1", "<3"], ["1"]),
        (["1", "2", "1", "<2"], []),
    ],
)
def test_a_rollback_goes_further_back_and_never_to_what_was_rolled_back_from(done, back_to) -> None:
    assert list(_model(*done).earlier()) == back_to


def test_an_artifact_that_is_published_again_is_the_newest() -> None:
    assert _model("1", "2", "3", "<2", "1").by_publication() == ("2", "3", "1")


def test_it_is_known_when_a_name_left_an_artifact() -> None:
    model = _model("1", "2", "<1", "3")

    assert model.left_at("1") == NOON + timedelta(days=3)
    assert model.left_at("2") == NOON + timedelta(days=2)
    assert model.left_at("3") is None
    assert model.left_at("never") is None


def test_what_is_being_deleted_belongs_to_no_model() -> None:
    manifest = _manifest("m-1", "m-2", "m-3").without(["m-1"], run="r").without(["m-2"], run="s")

    assert [change.artifact for change in manifest.models["m"].history] == ["m-3"]
    assert set(manifest.models["m"].artifacts) == {"m-3"}
    assert manifest.deleting == {"m-1": "r", "m-2": "s"}
    assert manifest.with_deleted(["m-2"]).deleting == {"m-1": "r"}


def test_a_damaged_record_harms_the_reader_of_its_model_alone() -> None:
    a, b = file_name("a", "1"), file_name("b", "1")
    document = _manifest(a, b).to_json().replace(f'"artifact": "{a}"', '"artifact": ]').encode()
    manifest = Manifest.by_line(document)

    with reported("manifest-record"):
        manifest.target_model("a")
    assert not manifest.knows("a", ANY)
    assert manifest.target_model("b") == b


@pytest.mark.parametrize("indent", [None, 0, 1])
def test_a_document_in_another_layout_is_read_all_the_same(indent: int | None) -> None:
    manifest = _manifest(file_name("a", "1"), file_name("b", "1"), file_name("b", "2"))
    document = json.dumps(json.loads(manifest.to_json()), indent=indent).encode()

    assert Manifest.by_line(document) == manifest


@pytest.mark.parametrize(
    ("published", "fix"),
    [
        (["minilm-1", "resnet50-1"], "did you mean minilm?"),
        ([], "publish it, or name one of none yet"),
        ([f"other{number:04}-1" for number in range(5000)], "and 4980 more"),
    ],
    ids=["close", "none", "thousands"],
)
def test_an_unknown_model_is_answered_with_close_ones_or_some(published: list[str], fix: str) -> None:
    with reported("unknown-model") as problems:
        _with(Manifest(), *published).target_model("minlm")

    assert problems[0].fix.endswith(fix)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1, "models": {}}',
        '{"version": 2}',
        '{"version": 2, "models": []}',
        '{"version": 2, "models": {}, "deleting": []}',
        '{"version": 2, "models": {"m": {"size": NaN}}}',
        "[" * 100_000,
        '{"version": 2, "models": {"m": ' + "[" * 900 + "]" * 900 + "}}",
        b"\xff",
    ],
)
def test_what_is_no_manifest_is_a_users_mistake(text) -> None:
    with reported("manifest") as problems:
        Manifest.from_json(text, where="s3://bucket/models/manifest.json")

    (problem,) = problems
    assert problem.where == "s3://bucket/models/manifest.json"


GOOD, BAD = file_name("good", "1"), file_name("bad", "2")
OLDER = file_name("bad", "1")


def _document() -> dict[str, Any]:
    """A manifest of two models, one of them with every field there is."""
    manifest = Manifest()
    target = ArtifactTarget.parse("sm86-trt10.13.3")
    build: dict[str, Any] = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3.9"}
    build["plans"] = {"m": {"hardware": "x"}}
    span = {"between": [0, 255], "why": "pixels"}
    compared = {"examples": 1, "drawn": 8, "allowed": 0.1, "precision": "fp16", "ranges": {"x": span}}
    build |= {"model": "bad", "precisions": ["fp16"], "compared": {"bad": compared, "part": compared}}
    more = {"inputs": {"packages": "0"}, "request": "cd" * 32, "examples": 3}
    full = {"build": build, "plans": ("10.13.3.9",), "profile": PROFILE, **more}
    for name, more in ((GOOD, {}), (OLDER, full), (BAD, full)):
        model = name.partition("-")[0]
        wanted = [Publication(model=model, artifact=name, record=record_of(name, **more), target=target)]
        manifest = manifest.with_published(wanted, at=NOON, by="ann")
    wanted = Publication(model="bad", artifact=OLDER, record=manifest.models["bad"].artifacts[OLDER])
    for share, more in ((500, {}), (900, {"how": "shadow", "tolerance": 0.5})):
        manifest = manifest.with_candidate(wanted, share=Share(parts=share, **more), at=NOON, by="ann")
        if share == 500:
            manifest = manifest.with_rollout_ended("bad", promoted=False, at=NOON, by="ann", why="slow")
    document: dict[str, Any] = json.loads(manifest.to_json())
    return document


NOT_CURRENT = ("bad", "current")
"""With {} there, a model has artifacts and none that is current, as `ModelRecord.without` leaves it."""


@settings(max_examples=1000 if os.environ.get("FLEET_FUZZ") == "1" else 150)
@given(
    st.sampled_from([each for each in places(_document()["models"]) if each[0] == "bad"]),
    st.sampled_from(HOSTILE_VALUES) | st.text(),
)
@example(NOT_CURRENT, {})
def test_a_record_with_any_other_value_is_read_as_it_was_meant_or_refused_alone(
    path: tuple[Any, ...], value: Any
) -> None:
    document = _document()
    document["models"] = changed(document["models"], path, value)
    name = str(value) if path[1:] == (KEY,) else "bad"
    manifest = Manifest.from_json(json.dumps(document))

    by_line = Manifest.by_line(manifest.to_json().encode())
    for each in (manifest, by_line):
        assert each.target_model("good") == GOOD
        found = name not in manifest.invalid and (path, value) != (NOT_CURRENT, {})
        assert each.knows(name, None) == found
    assert published(manifest, ["good"])
    if name in manifest.invalid:
        assert json.loads(manifest.to_json())["models"][name] == document["models"][name]
        for each in (manifest, by_line):
            with reported("manifest-record"):
                each.model(name)
    else:
        history = Artifacts(repository="s3://b/", artifacts=tuple(published(manifest)))
        assert all(map(str.isprintable, history.lines()))
        assert all(ARTIFACT_NAME.fullmatch(each.artifact) for each in history.artifacts)
        assert all(each.record.sha256.startswith(each.artifact[-23:-7]) for each in history.artifacts)
        expendable(manifest, keep=1, older_than=timedelta(), now=NOON)
    assert Manifest.from_json(manifest.to_json()).to_json() == manifest.to_json()


@pytest.mark.parametrize("build", [{"gpu": 5}, {"tensorrt": "new"}, {"plans": []}])
def test_a_record_that_readers_would_refuse_is_not_written(build: dict[str, Any]) -> None:
    manifest = Manifest()
    name = file_name("m", "1")
    changed = _with(manifest, name, record=record_of(name, build=build))

    assert [each.rule for each in changed.unreadable(before=manifest)] == ["manifest-record"]


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [("s3://b1c/m/", "b1c", "m/"), ("s3://my-bucket/a/b", "my-bucket", "a/b/"), ("s3://b1c", "b1c", "")],
)
def test_a_repository_is_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    repository = Repository.parse(url)

    assert (repository.bucket, repository.prefix) == (bucket, prefix)
    assert repository.key("manifest.json") == f"{prefix}manifest.json"
    assert Repository.parse(repository.url) == repository


@pytest.mark.parametrize("url", ["my-bucket/models", "s3://", "s3://B/x", "s3://my-bucket//x", "s3://b/"])
def test_what_is_no_repository_is_a_users_mistake(url: str) -> None:
    with reported("repository-url"):
        Repository.parse(url)
