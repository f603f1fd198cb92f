from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_models.errors import FleetError
from triton_models.manifest import ArtifactRecord, Manifest, Repository

RECORD = ArtifactRecord(size=3, sha256="ab" * 32, build={"gpu": "A10G"})


def _manifest(*artifacts: str) -> Manifest:
    manifest = Manifest()
    for artifact in artifacts:
        manifest = manifest.with_current(model=artifact.partition("-")[0], artifact=artifact, record=RECORD)
    return manifest


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1), st.text(min_size=1), st.integers(0), st.dictionaries(st.text(), st.text())
        )
    )
)
def test_a_manifest_survives_writing_and_reading(entries) -> None:
    manifest = Manifest()
    for model, artifact, size, build in entries:
        record = ArtifactRecord(size=size, sha256="00", build=build)
        manifest = manifest.with_current(model=model, artifact=artifact, record=record)

    assert Manifest.from_json(manifest.to_json()) == manifest


@given(st.permutations(["a-1", "b-1", "c-1"]))
def test_the_order_of_publication_does_not_change_the_text(order) -> None:
    assert _manifest(*order).to_json() == _manifest(*sorted(order)).to_json()


def test_the_document_has_the_documented_shape() -> None:
    assert json.loads(_manifest("minilm-1", "minilm-2").to_json()) == {
        "version": 1,
        "models": {
            "minilm": {
                "current": "minilm-2",
                "history": ["minilm-1", "minilm-2"],
                "artifacts": {
                    name: {"size": 3, "sha256": "ab" * 32, "build": {"gpu": "A10G"}}
                    for name in ("minilm-1", "minilm-2")
                },
            }
        },
    }


def test_a_name_stands_for_the_artifact_that_was_made_current_last() -> None:
    assert _manifest("minilm-1", "minilm-2").target_model("minilm") == "minilm-2"


def test_what_is_current_already_changes_nothing() -> None:
    manifest = _manifest("minilm-1")

    assert manifest.with_current(model="minilm", artifact="minilm-1", record=RECORD) is manifest


def test_an_older_artifact_can_become_current_again() -> None:
    model = _manifest("minilm-1", "minilm-2", "minilm-1").models["minilm"]

    assert model.current == "minilm-1"
    assert model.history == ("minilm-1", "minilm-2", "minilm-1")


def test_making_an_artifact_current_leaves_the_old_manifest_as_it_was() -> None:
    old = _manifest("minilm-1")
    old.with_current(model="minilm", artifact="minilm-2", record=RECORD)

    assert old == _manifest("minilm-1")


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
        b"\xff",
    ],
)
def test_what_is_no_manifest_is_a_users_mistake(text) -> None:
    with pytest.raises(FleetError) as caught:
        Manifest.from_json(text, where="s3://bucket/models/manifest.json")

    (problem,) = caught.value.problems
    assert problem.rule == "manifest"
    assert problem.where == "s3://bucket/models/manifest.json"


def test_a_manifest_of_another_version_is_not_touched() -> None:
    with pytest.raises(FleetError, match="version 2"):
        Manifest.from_json('{"version": 2, "models": {}}')


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
    with pytest.raises(FleetError) as caught:
        Repository.parse(url)

    assert caught.value.problems[0].rule == "repository-url"
