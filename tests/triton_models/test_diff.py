"""Models must be rebuilt if their inputs differ from those recorded at their publication."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.declared_models import declare
from tests.triton_models.publishing_aws import EARLIER, client, write_manifest
from triton_models.artifact.targets import ANY
from triton_models.builds.inputs import Inputs, find_inputs
from triton_models.cli.main import main
from triton_models.deliver.diff import ModelState, changed
from triton_models.deliver.results import Results
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication, Share
from triton_models.repository.places import Place

RELEASE = "25.09"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def inputs_of(name: str, models: Path) -> Inputs:
    return find_inputs(name, release=RELEASE, models=models).inputs


def published(manifest: Manifest, model: str, inputs: Inputs | None, *, version: int = 0) -> Manifest:
    record = ArtifactRecord(size=1, sha256=f"{version:064x}", build={}, inputs=inputs or {})
    artifact = f"{model}-{version:016x}.tar.gz"
    wanted = Publication(model=model, artifact=artifact, record=record)
    return manifest.with_published([wanted], at=EARLIER, by="ann")


def rolled_back(manifest: Manifest, model: str, *, version: int = 0) -> Manifest:
    to = f"{model}-{version:016x}.tar.gz"
    return manifest.with_rollback(model=model, to=to, at=EARLIER, by="ann", target=ANY)


def states(names: list[str], manifest: Manifest, models: Path, **given: Any) -> dict[str, ModelState]:
    return {
        each.model: each
        for each in changed(names, manifest, **{"release": RELEASE, "models": models, **given})
    }


def state(manifest: Manifest, models: Path, **given: Any) -> tuple[str, tuple[str, ...]]:
    found = states(["net"], manifest, models, **given)["net"]
    return found.state, found.differs


def test_a_model_is_new_changed_or_as_it_was_published(models):
    declare(models, "net")
    assert state(Manifest(), models) == ("changed", ("new",))
    without = published(Manifest(), "net", None).to_json()
    assert state(Manifest.from_json(without), models) == ("changed", ("published without its inputs",))
    manifest = Manifest.from_json(published(Manifest(), "net", inputs_of("net", models)).to_json())
    assert state(manifest, models) == ("unchanged", ())
    declare(models, "net", factor=3)
    assert state(manifest, models, cpu=True) == ("changed", ("declaration", "hardware"))


@pytest.fixture
def two_versions(models: Path) -> Manifest:
    """The sources and the current artifact are those of the second version."""
    declare(models, "net")
    first = published(Manifest(), "net", inputs_of("net", models))
    declare(models, "net", factor=3)
    return published(first, "net", inputs_of("net", models), version=1)


def test_a_rollback_is_undone_by_other_sources_and_not_by_better_tools(two_versions, models):
    assert state(rolled_back(two_versions, "net"), models) == ("held", ())
    newest = two_versions.models["net"]
    name = newest.current[ANY]
    artifact = newest.artifacts[name]
    other = replace(artifact, inputs={**artifact.inputs, "tools": "other", "packages": "other"})
    record = replace(newest, artifacts={**newest.artifacts, name: other})
    with_other_tools = replace(two_versions, models={"net": record})
    assert state(with_other_tools, models) == ("changed", ("tools", "packages"))
    assert state(rolled_back(with_other_tools, "net"), models) == ("held", ())
    declare(models, "net", factor=4)
    assert state(rolled_back(two_versions, "net"), models) == ("changed", ("declaration",))


@pytest.mark.parametrize("ends", [False, True])
def test_a_candidate_is_built_again_only_from_other_sources_also_when_it_was_returned(models, ends):
    declare(models, "net")
    current = published(Manifest(), "net", inputs_of("net", models))
    declare(models, "net", factor=3)
    record = ArtifactRecord(size=1, sha256=64 * "1", build={}, inputs=inputs_of("net", models))
    wanted = Publication(model="net", artifact=f"net-{16 * '1'}.tar.gz", record=record)
    later = EARLIER + timedelta(hours=1)
    manifest = current.with_candidate(wanted, share=Share(parts=500), at=later, by="ann")
    if ends:
        manifest = manifest.with_rollout_ended("net", promoted=False, at=later, by="ann", why="slow")
    assert state(manifest, models) == ("held", ())
    declare(models, "net", factor=4)
    assert state(manifest, models) == ("changed", ("declaration",))


def test_after_a_rollback_the_sources_that_went_back_too_are_unchanged(two_versions, models):
    declare(models, "net")
    assert state(rolled_back(two_versions, "net"), models) == ("unchanged", ())


def test_after_a_rollback_another_release_is_a_change_for_the_old_artifact_may_not_serve_it(
    two_versions, models
):
    found, differs = state(rolled_back(two_versions, "net"), models, release="25.04")
    assert (found, "release" in differs) == ("changed", True)


BROKEN = {
    "crashes": ("os._exit(3)", "exit code 3"),
    "exits": ("sys.exit('no')", "SystemExit: no"),
    "mistyped": ("def (", "SyntaxError"),
    "raises": ("1 / 0", "ZeroDivisionError"),
}


def test_a_broken_declaration_is_reported_with_its_reason_and_stops_no_other(models):
    for name, (top, _) in BROKEN.items():
        declare(models, name, top=top)
    declare(models, "net")
    declare(models, "zoo")
    found = states(["net", *BROKEN, "missing", "zoo"], Manifest(), models)
    assert {name: each.state for name, each in found.items()} == {
        "net": "changed",
        **dict.fromkeys(BROKEN, "broken"),
        "missing": "broken",
        "zoo": "changed",
    }
    for name, (_, reason) in BROKEN.items():
        assert reason in found[name].problems[0].what


def test_weights_in_s3_that_are_not_there_make_a_model_broken_and_no_other(models, aws):
    path = declare(models, "net", weights="S3Weights(url='s3://nowhere/net')")
    path.write_text(path.read_text().replace("import Example", "import S3Weights, Example"))
    declare(models, "zoo")
    found = states(["net", "zoo"], Manifest(), models, s3=client(aws))
    assert (found["net"].state, found["zoo"].state) == ("broken", "changed")
    assert found["net"].problems[0].where == "the weights 's3://nowhere/net'"


@pytest.fixture
def repository(environment: pytest.MonkeyPatch, repository: str, s3: Any, models: Path) -> str:
    """A repository for the command, with one model that is as it was, and one that is not."""
    declare(models, "same")
    declare(models, "other")
    manifest = published(Manifest(), "same", inputs_of("same", models))
    write_manifest(repository, json.loads(published(manifest, "other", {"tools": "older"}).to_json()), s3)
    return repository


def run(repository: str, models: Path, *given: str) -> int:
    return main(["diff", *given, "--repository", repository, "--models", str(models), "--release", RELEASE])


def test_the_command_lists_what_to_build_and_shares_it_evenly(repository, models, capsys, tmp_path):
    declare(models, "new")
    assert run(repository, models, "--all", "--items", str(tmp_path / "items.json")) == 0
    assert json.loads((tmp_path / "items.json").read_text()) == [{"models": "new"}, {"models": "other"}]
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "new: changed: new"
    assert second.startswith("other: changed: declaration, tools")
    assert last == "3 models: 2 changed, 1 unchanged"

    for name in ("a", "b", "c"):
        declare(models, name)
    place = f"{repository}runs/items.json"
    run(repository, models, "--all", "--items", place, "--models-per-build", "3")
    assert json.loads(Place(address=place).read()) == [{"models": "a c other"}, {"models": "b new"}]
    assert run(repository, models, "same", "--items", place) == 0
    assert json.loads(Place(address=place).read()) == []


def test_what_is_broken_is_exit_code_1_unless_a_document_of_results_says_it(
    repository, models, capsys, tmp_path
):
    declare(models, "bad", top="1 / 0")
    assert run(repository, models, "--all") == 1
    assert "bad: broken: build.py of model 'bad' cannot be read" in capsys.readouterr().out
    document = tmp_path / "results.json"
    assert run(repository, models, "--all", "--results", str(document)) == 0
    (result,) = Results.from_json(document.read_bytes(), where="here").results
    assert (result.model, result.status, result.step) == ("bad", "failed", "read")


def test_a_build_gets_ten_times_as_many_members_of_a_family_as_models(repository, models, tmp_path):
    path = declare(models, "tenants")
    sample = path.read_text().replace("BUILD =", "SAMPLE =")
    family = """
from dataclasses import replace
from triton_models.spec import Family, Member, RandomWeights

ONE = Member(weights=RandomWeights(seed=1), parameters=None)
BUILD = Family(
    name="tenants",
    members=lambda: [replace(ONE, name=f"t{each}", weights=RandomWeights(seed=each)) for each in range(25)],
    model=lambda member: replace(
        SAMPLE, name=member.model, models=[replace(SAMPLE.models[0], name=member.model)]
    ),
    sample=ONE,
)
"""
    path.write_text(sample + family)
    declare(models, "net")

    place = tmp_path / "items.json"
    assert run(repository, models, "net", "tenants", "--items", str(place)) == 0
    items = [each["models"].split() for each in json.loads(place.read_text())]

    assert items[0] == ["net"]
    assert [len(each) for each in items[1:]] == [9, 8, 8]
    assert {name for each in items[1:] for name in each} == {f"tenants:t{each}" for each in range(25)}
