"""Rolling back moves a name and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reported import reported
from tests.triton_models.faulty_s3 import Fault, FaultyS3, Request
from tests.triton_models.publishing_aws import (
    artifact,
    client,
    consistent_manifest,
    delete,
    objects,
    put,
    repository_of,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError
from triton_models.repository import rollback as rollback_module
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback


@pytest.fixture
def repository(s3: Any, versions: list[Artifact]) -> str:
    return repository_of(versions[:3], s3)


def _current(repository: str, s3: Any) -> str:
    return consistent_manifest(repository, s3).target_model("minilm")


def test_the_artifact_before_becomes_current_then_the_one_before_it_and_a_third_is_refused(
    repository: str, s3: Any, versions: list[Artifact]
) -> None:
    before = objects(repository, s3)
    (moved,) = rollback("minilm", repository=repository, s3=s3, by="bob").moved
    assert objects(repository, s3) == before
    assert (moved.before, moved.current) == (versions[2].name, versions[1].name)
    change = consistent_manifest(repository, s3).models["minilm"].history[-1]
    assert (change.artifact, change.how, change.by) == (versions[1].name, "rollback", "bob")

    rollback("minilm", repository=repository, s3=s3)
    assert _current(repository, s3) == versions[0].name

    with reported("no-earlier-artifact"):
        rollback("minilm", repository=repository, s3=s3)
    assert _current(repository, s3) == versions[0].name


@pytest.mark.parametrize("by_name", [True, False])
def test_any_artifact_can_be_named_and_so_goes_forth_again(
    repository: str, s3: Any, versions: list[Artifact], by_name: bool
) -> None:
    newest = versions[2]
    rollback("minilm", repository=repository, s3=s3)

    rollback("minilm", repository=repository, to=newest.name if by_name else newest.digest, s3=s3)

    assert _current(repository, s3) == newest.name
    again = rollback("minilm", repository=repository, to=newest.name, s3=s3)
    assert list(again.lines()) == [f"minilm -> {repository}{newest.name} (unchanged)"]


@pytest.mark.parametrize("rule", ["artifact-gone", "artifact-changed"])
def test_an_object_that_is_gone_or_overwritten_does_not_become_current(
    repository: str, s3: Any, versions: list[Artifact], rule: str
) -> None:
    name = versions[1].name
    if rule == "artifact-gone":
        delete(name, repository, s3)
    else:
        put(name, b"something else", repository, s3)

    with reported(rule) as problems:
        rollback("minilm", repository=repository, s3=s3)

    assert [problem.where for problem in problems] == [f"{repository}{name}"]


def test_an_unknown_model_or_artifact_is_answered_with_close_ones(repository: str, s3: Any) -> None:
    with pytest.raises(FleetError, match="did you mean minilm"):
        rollback("minlm", repository=repository, s3=s3)
    with reported("unknown-artifact"):
        rollback("minilm", repository=repository, to="0123456789abcdef", s3=s3)


@pytest.mark.parametrize("fault", ["cut", "lost"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_fault_never_rolls_back_twice(
    proxy: FaultyS3, repository: str, s3: Any, fault: Fault, number: int
) -> None:
    proxy.expect({number: fault})

    done = rollback("minilm", repository=repository, s3=client(proxy.url, attempts=2))

    (moved,) = done.moved
    assert _current(repository, s3) == moved.current != moved.before
    assert len(consistent_manifest(repository, s3).models["minilm"].history) == 4


def test_the_same_models_publication_meanwhile_is_not_undone(
    proxy: FaultyS3, repository: str, s3: Any, tmp_path: Path
) -> None:
    fixed = artifact(tmp_path, name="minilm", weights=b"fixed")
    proxy.expect(after=_at(1, lambda: publish([fixed], repository=repository, s3=s3, by="carl")))

    with reported("changed-meanwhile") as problems:
        rollback("minilm", repository=repository, s3=client(proxy.url))

    (problem,) = problems
    assert "carl" in problem.why
    assert _current(repository, s3) == fixed.name


def _at(number: int, act: Any) -> Any:
    return lambda request: act() if isinstance(request, Request) and request.number == number else None


def test_the_command_says_what_it_did_and_when_it_is_seen(
    environment, repository: str, versions: list[Artifact]
) -> None:
    done = rollback_module.run(rollback_module.RollbackOptions(model="minilm", repository=repository))

    moved, seen = done.lines()
    assert moved == f"minilm -> {repository}{versions[1].name} (was {versions[2].name})"
    assert "after 30 s" in seen
