"""A publication records the inputs of its build."""

from __future__ import annotations

import pytest

from tests.triton_models.publishing_aws import artifact, consistent_manifest
from triton_models.artifact.targets import ANY
from triton_models.repository.manifest import ModelRecord
from triton_models.repository.publish import publish


@pytest.fixture
def published(s3, repository, tmp_path):
    """Publish one artifact again and again into one repository; gives the model's record each time."""
    one = artifact(tmp_path, name="net", weights=b"one")

    def again(**inputs: str) -> ModelRecord:
        given = {"inputs": {"net": inputs}} if inputs else {}
        publish([one], repository=repository, s3=s3, **given)
        return consistent_manifest(repository, s3).models["net"]

    return again


def test_other_inputs_that_gave_the_same_artifact_are_noted_without_a_change_in_the_history(published):
    before = published(tools="1")
    after = published(tools="2")
    assert after.history == before.history
    assert after.artifacts[after.on(ANY) or ""].inputs == {"tools": "2"}


def test_publishing_it_by_hand_forgets_nothing(published):
    published(tools="1")
    record = published()
    assert record.artifacts[record.on(ANY) or ""].inputs == {"tools": "1"}
