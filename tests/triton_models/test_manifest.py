from __future__ import annotations

import difflib
import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reported import reported
from triton_models.artifact.targets import ANY
from triton_models.base.errors import FleetError
from triton_models.repository import manifest_document
from triton_models.repository.manifest import ArtifactRecord, Manifest, ModelRecord, Publication, Repository

RECORD = ArtifactRecord(size=3, sha256="ab" * 32, build={"gpu": "A10G"})
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def _with(manifest: Manifest, *artifacts: str, record: ArtifactRecord = RECORD) -> Manifest:
    """The manifest after these were published at once, a model's name being what is before the dash."""
    wanted = [
        Publication(model=artifact.partition("-")[0], artifact=artifact, record=record)
        for artifact in artifacts
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
            st.text(min_size=1),
            st.text(min_size=1),
            st.integers(0),
            st.dictionaries(st.text(), st.text()),
            st.lists(st.text()).map(tuple),
            st.booleans(),
            st.datetimes(timezones=st.just(timezone.utc)).map(lambda at: at.replace(microsecond=0)),
            st.text(),
        )
    ),
    st.dictionaries(st.text(), st.text()),
)
def test_a_manifest_survives_writing_and_reading(entries, deleting) -> None:
    manifest = Manifest(deleting=deleting)
    for model, artifact, size, build, plans, portable, at, by in entries:
        record = ArtifactRecord(size=size, sha256="00", build=build, plans=plans, portable=portable)
        wanted = [Publication(model=model, artifact=artifact, record=record)]
        manifest = manifest.with_published(wanted, at=at, by=by)

    document = manifest.to_json().encode()
    assert Manifest.from_json(document) == manifest
    assert Manifest.by_line(document) == manifest


@given(st.permutations(["a-1", "b-1", "c-1"]))
def test_the_order_of_publication_does_not_change_the_text(order) -> None:
    assert _manifest(*order).to_json() == _manifest(*sorted(order)).to_json()


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
                        "sha256": "ab" * 32,
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


def test_five_thousand_models_are_published_in_one_step() -> None:
    names = [f"model{number}-1" for number in range(5000)]
    manifest = _with(Manifest(), *names)

    assert len(manifest.models) == 5000
    assert _with(manifest, *names) is manifest


@pytest.mark.parametrize(
    ("done", "back_to"),
    [
        (["1"], []),
        (["1", "2"], ["1"]),
        (["1", "2", "3"], ["1", "2"]),
        (["1", "2", "3", "<2"], ["1"]),
        (["1", "2", "3", "<2", "<1"], []),
        (["1", "2", "3", "<2", "4"], ["1", "2"]),
        (["1", "2", "3", "<1", "<3"], ["1"]),
        (["1", "2", "1"], ["2"]),
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
    manifest = _manifest("m-1", "m-2", "m-3").without(["m-1"], run="r")

    assert [change.artifact for change in manifest.models["m"].history] == ["m-2", "m-3"]
    assert set(manifest.models["m"].artifacts) == {"m-2", "m-3"}
    assert manifest.deleting == {"m-1": "r"}
    assert manifest.with_deleted(["m-1"]).deleting == {}


def test_what_another_run_is_deleting_stays_on_the_list() -> None:
    manifest = _manifest("m-1", "m-2", "m-3").without(["m-1"], run="r").without(["m-2"], run="s")

    assert manifest.deleting == {"m-1": "r", "m-2": "s"}
    assert manifest.with_deleted(["m-2"]).deleting == {"m-1": "r"}


def test_an_error_does_not_list_thousands_of_models() -> None:
    manifest = _with(Manifest(), *(f"model{number:04}-1" for number in range(5000)))

    with pytest.raises(FleetError, match="and 4980 more"):
        manifest.target_model("resnet50")


def test_an_older_artifact_can_become_current_again() -> None:
    model = _manifest("minilm-1", "minilm-2", "minilm-1").models["minilm"]

    assert set(model.current.values()) == {"minilm-1"}
    assert [change.artifact for change in model.history] == ["minilm-1", "minilm-2", "minilm-1"]


def test_making_an_artifact_current_leaves_the_old_manifest_as_it_was() -> None:
    old = _manifest("minilm-1")
    _with(old, "minilm-2")

    assert old == _manifest("minilm-1")


def test_a_reader_of_one_model_parses_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    read = manifest_document.model_record
    monkeypatch.setattr(manifest_document, "model_record", lambda given: parsed.append(given) or read(given))
    manifest = Manifest.by_line(
        _with(Manifest(), *(f"m{number}-1" for number in range(100))).to_json().encode()
    )

    assert manifest.target_model("m42") == manifest.target_model("m42") == "m42-1"
    assert len(manifest.models) == 100
    assert len(parsed) == 1


def test_a_damaged_record_harms_the_reader_of_its_model_alone() -> None:
    document = _manifest("a-1", "b-1").to_json().replace('"artifact": "a-1"', '"artifact": ]').encode()
    manifest = Manifest.by_line(document)

    with reported("manifest") as problems:
        manifest.target_model("a")
    assert problems[0].where == "manifest.json, a"
    assert manifest.target_model("b") == "b-1"


@pytest.mark.parametrize("indent", [None, 0, 1])
def test_a_document_in_another_layout_is_read_all_the_same(indent: int | None) -> None:
    manifest = _manifest("a-1", "b-1", "b-2")
    document = json.dumps(json.loads(manifest.to_json()), indent=indent).encode()

    assert Manifest.by_line(document) == manifest


def test_half_a_document_is_a_users_mistake() -> None:
    document = _manifest("a-1", "b-1").to_json().encode()
    for end in range(len(document) - 1):
        with reported("manifest"):
            Manifest.by_line(document[:end])


def test_a_name_is_compared_with_few_of_thousands_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "SequenceMatcher", None)
    manifest = _with(Manifest(), *(f"model{number:05}-1" for number in range(5000)))

    with reported("unknown-model") as problems:
        manifest.target_model("modle00001")
    assert problems[0].fix == "did you mean model00001?"


def test_an_unknown_model_is_answered_with_close_ones() -> None:
    with pytest.raises(FleetError) as caught:
        _manifest("minilm-1", "resnet50-1").target_model("minlm")

    (problem,) = caught.value.problems
    assert problem.fix == "did you mean minilm?"
    assert "minilm, resnet50" in problem.expected


def test_an_empty_repository_says_so() -> None:
    with pytest.raises(FleetError, match="none yet"):
        Manifest().target_model("minilm")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"version": 1}',
        '{"version": 1, "models": []}',
        '{"version": 1, "models": {"a": {}}}',
        '{"version": 1, "models": {"a": {"current": "a", "artifacts": {}, "history": [{"at": "noon"}]}}}',
        b"\xff",
    ],
)
def test_what_is_no_manifest_is_a_users_mistake(text) -> None:
    with reported("manifest") as problems:
        Manifest.from_json(text, where="s3://bucket/models/manifest.json")

    (problem,) = problems
    assert problem.where == "s3://bucket/models/manifest.json"


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://my-bucket/models/", "my-bucket", "models/"),
        ("s3://my-bucket/models", "my-bucket", "models/"),
        ("s3://my-bucket/a/b/", "my-bucket", "a/b/"),
        ("s3://my-bucket", "my-bucket", ""),
        ("s3://my-bucket/", "my-bucket", ""),
    ],
)
def test_a_repository_is_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    repository = Repository.parse(url)

    assert (repository.bucket, repository.prefix) == (bucket, prefix)
    assert repository.key("manifest.json") == f"{prefix}manifest.json"
    assert Repository.parse(repository.url) == repository


@pytest.mark.parametrize(
    "url",
    ["", "my-bucket/models", "https://my-bucket/models", "s3://", "s3://B/x", "s3://my-bucket//x", "s3://b/"],
)
def test_what_is_no_repository_is_a_users_mistake(url: str) -> None:
    with reported("repository-url"):
        Repository.parse(url)
