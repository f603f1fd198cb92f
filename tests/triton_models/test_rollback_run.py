"""Names that moved together go back together, in one write, or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.reported import refused, reported
from tests.triton_models.faulty_s3 import Fault, FaultyS3, Request
from tests.triton_models.publishing_aws import (
    EARLIER,
    artifact,
    client,
    consistent_manifest,
    delete,
    new_repository,
    put,
    stored,
    write_manifest,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.cli.main import main
from triton_models.repository.manifest import ArtifactRecord, Change, Manifest, Publication, Repository
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback, rollback_run

A10G = ArtifactTarget.parse("sm86-trt10.13.3")
T4 = ArtifactTarget.parse("sm75-trt10.13.3")
ONE, TWO = "CodeBuild fleet:1", "CodeBuild fleet:2"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Three versions of the models a, b and c, by name and number."""
    folder = tmp_path_factory.mktemp("artifacts")
    each = [(name, number) for name in "abc" for number in (1, 2, 3)]
    return {
        f"{name}{number}": artifact(folder, name=name, weights=f"{name}{number}".encode())
        for name, number in each
    }


class Written:
    """A repository with writes at known times: the nth one n minutes after the first."""

    def __init__(self, s3: Any, made: dict[str, Artifact]) -> None:
        self.s3, self.made, self.url = s3, made, new_repository(s3)
        self._writes = 0

    def write(
        self, *names: str, by: str, target: ArtifactTarget | None = None, minutes: int | None = None
    ) -> str:
        """Publish artifacts in one write, and return the id of its run."""
        manifest, wanted = self.manifest(), []
        where = Repository.parse(self.url)
        for each in (self.made[name] for name in names):
            self.s3.put_object(
                Bucket=where.bucket,
                Key=where.key(each.name),
                Body=each.path.read_bytes(),
                Metadata={"sha256": each.sha256},
            )
            record = ArtifactRecord(size=each.size, sha256=each.sha256, build=each.build)
            wanted.append(Publication(model=each.model, artifact=each.name, record=record, target=target))
        at = EARLIER + timedelta(minutes=self._writes if minutes is None else minutes)
        self._writes += 1
        write_manifest(self.url, json.loads(manifest.with_published(wanted, at=at, by=by).to_json()), self.s3)
        return Change(artifact="", how="publish", at=at, by=by).run

    def manifest(self) -> Manifest:
        if not self._writes:
            return Manifest()
        return consistent_manifest(self.url, self.s3)

    def document(self) -> bytes:
        return stored("manifest.json", self.url, self.s3)

    def current(self) -> dict[str, str]:
        """Return the version of each model, such as {"a": "a1"}."""
        versions = {each.name: version for version, each in self.made.items()}
        manifest = self.manifest()
        return {name: versions[manifest.target_model(name)] for name in manifest.models}

    def back(self, run: str, *, s3: Any = None, **more: Any) -> Any:
        return rollback_run(run, repository=self.url, s3=s3 or self.s3, by="bob", **more)


@pytest.fixture
def written(s3: Any, made: dict[str, Artifact]) -> Written:
    return Written(s3, made)


@pytest.fixture
def run(written: Written) -> str:
    """A run that has moved a and b together, after other writes."""
    written.write("a1", by="ann")
    written.write("b1", "c1", by="carl")
    return written.write("a2", "b2", by="ann")


def _manifest_writes(requests: Sequence[str]) -> int:
    return requests.count("PUT manifest.json")


def test_all_names_of_a_run_go_back_in_one_write_and_others_stay(
    proxy: FaultyS3, written: Written, run: str
) -> None:
    proxy.expect()

    done = written.back(run, s3=client(proxy.url))

    assert written.current() == {"a": "a1", "b": "b1", "c": "c1"}
    assert _manifest_writes(proxy.requests) == 1
    assert [each.model for each in done.models] == ["a", "b"]
    changes = [written.manifest().models[name].history[-1] for name in "ab"]
    assert {(each.how, each.by, each.at) for each in changes} == {("rollback", "bob", changes[0].at)}


def test_the_last_run_is_the_newest_and_goes_back_once(written: Written, run: str) -> None:
    assert written.back("last").run == run
    before = written.document()

    again = written.back("last")

    assert written.current() == {"a": "a1", "b": "b1", "c": "c1"}
    assert written.document() == before
    assert [each.changed for each in again.models] == [False, False]


def test_of_two_newest_runs_one_is_to_be_named(written: Written) -> None:
    runs = [written.write(name, by=by, minutes=5) for name, by in (("a1", "ann"), ("b1", "carl"))]

    assert all(each in refused(written.back, "last").what for each in runs)


def test_names_that_have_moved_again_are_refused_together_and_nothing_changes(
    written: Written, run: str
) -> None:
    written.write("b3", by="dora")
    written.write("a3", by="emil")
    before = written.document()

    with reported("changed-meanwhile", "changed-meanwhile") as problems:
        written.back(run)

    assert [(each.what.split()[0], each.why.split()[0]) for each in problems] == [
        ("'a'", "emil"),
        ("'b'", "dora"),
    ]
    assert written.document() == before


def test_one_name_that_has_moved_again_keeps_all_others(written: Written, run: str) -> None:
    rollback("b", repository=written.url, s3=written.s3)
    rollback("b", repository=written.url, to=written.made["b2"].name, s3=written.s3, by="emil")

    with reported("changed-meanwhile") as problems:
        written.back(run)

    assert "'b'" in problems[0].what
    assert "emil" in problems[0].why
    assert written.current() == {"a": "a2", "b": "b2", "c": "c1"}


def test_names_that_have_moved_again_can_be_left(written: Written, run: str) -> None:
    rollback("b", repository=written.url, s3=written.s3)
    rollback("b", repository=written.url, to=written.made["b2"].name, s3=written.s3)

    assert written.back(run, leave_moved=True).left == ("b",)
    assert written.current() == {"a": "a1", "b": "b2", "c": "c1"}


def test_a_name_that_went_back_alone_does_not_hold_up_the_others(written: Written, run: str) -> None:
    rollback("a", repository=written.url, s3=written.s3)

    written.back(run)

    assert written.current() == {"a": "a1", "b": "b1", "c": "c1"}
    assert len(written.manifest().models["a"].history) == 3


def test_another_target_of_a_name_may_move_meanwhile(written: Written) -> None:
    written.write("a1", by="ann", target=A10G)
    run = written.write("a2", by="ann", target=A10G)
    written.write("a2", by="ann", target=T4)

    written.back(run)

    current = written.manifest().models["a"].current
    assert current == {A10G: written.made["a1"].name, T4: written.made["a2"].name}


def test_artifacts_of_single_targets_that_a_run_replaced_come_back(written: Written) -> None:
    written.write("a1", by="ann")
    written.write("a2", by="ann", target=A10G)
    before = written.manifest().models["a"].current
    run = written.write("a3", by="carl")
    assert written.manifest().models["a"].current == {ANY: written.made["a3"].name}

    written.back(run)

    assert written.manifest().models["a"].current == before


def test_the_publications_of_a_build_are_one_run(written: Written) -> None:
    written.write("a1", "b1", "c1", by=ONE)
    run = written.write("a2", by=TWO)
    assert run == written.write("b2", by=TWO)
    written.write("c2", by="ann")

    written.back(run)

    assert written.current() == {"a": "a1", "b": "b1", "c": "c2"}


def test_a_model_that_a_run_published_first_stays_and_the_others_go_back(written: Written) -> None:
    written.write("a1", by="ann")
    run = written.write("a2", "b1", by="ann")

    done = written.back(run)

    assert written.current() == {"a": "a1", "b": "b1"}
    assert f"b remains {written.made['b1'].name}, which has no predecessor" in list(done.lines())
    assert [each["current"] for each in done.as_dict()["models"]] == [written.made["a1"].name, None]


def test_a_run_of_new_models_alone_has_nothing_to_go_back_to(written: Written) -> None:
    written.write("a1", by="ann")

    with reported("no-earlier-artifact"):
        written.back("last")


@pytest.mark.parametrize("run", ["last", "0123456789ab"])
def test_an_unknown_run_is_refused(written: Written, run: str) -> None:
    with reported("unknown-run"):
        written.back(run)


def test_an_object_that_is_gone_or_overwritten_keeps_all_names(written: Written, run: str) -> None:
    earlier = [written.made[each] for each in ("a1", "b1")]
    delete(earlier[0].name, written.url, written.s3)
    put(earlier[1].name, b"something else", written.url, written.s3)
    before = written.document()

    with reported("artifact-gone", "artifact-changed"):
        written.back(run)

    assert written.document() == before


@pytest.mark.parametrize("fault", ["cut", "lost"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_fault_never_moves_a_name_twice(
    proxy: FaultyS3, written: Written, run: str, fault: Fault, number: int
) -> None:
    proxy.expect({number: fault})

    written.back(run, s3=client(proxy.url, attempts=2))

    assert written.current() == {"a": "a1", "b": "b1", "c": "c1"}
    assert [len(written.manifest().models[name].history) for name in "ab"] == [3, 3]


@pytest.mark.parametrize("other", ["c", "b"])
def test_a_publication_meanwhile_is_not_undone(
    proxy: FaultyS3, written: Written, run: str, tmp_path: Path, other: str
) -> None:
    fixed = artifact(tmp_path, name=other, weights=b"fixed")

    def meanwhile(request: Request) -> None:
        if request.number == 1:
            publish([fixed], repository=written.url, s3=written.s3, by="emil")

    proxy.expect(after=meanwhile)
    if other == "b":
        with reported("changed-meanwhile"):
            written.back(run, s3=client(proxy.url))
    else:
        written.back(run, s3=client(proxy.url))

    manifest = written.manifest()
    assert manifest.target_model(other) == fixed.name
    assert manifest.target_model("a") == written.made["a2" if other == "b" else "a1"].name


def test_a_dry_run_lists_what_would_go_back(written: Written, run: str) -> None:
    before = written.document()

    lines = list(written.back(run, dry_run=True).lines())

    assert written.document() == before
    assert lines == [
        f"a -> {written.url}{written.made['a1'].name} (was {written.made['a2'].name})",
        f"b -> {written.url}{written.made['b1'].name} (was {written.made['b2'].name})",
        "Nothing was changed: omit --dry-run to roll back.",
    ]


def test_the_command_takes_the_run_that_history_shows(
    environment: pytest.MonkeyPatch, written: Written, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setenv("FLEET_REPOSITORY", written.url)
    environment.setenv("COLUMNS", "300")
    assert main(["history", "a", "--json"]) == 0
    newest = json.loads(capsys.readouterr().out)["artifacts"][0]
    assert newest["run"] == run
    assert main(["history"]) == 0
    assert capsys.readouterr().out.count(run) == 2

    assert main(["rollback", "a", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert main(["rollback", "--run", run, "--target", str(ANY)]) == 1
    assert "[rollback-options]" in capsys.readouterr().err
    assert written.current() == {"a": "a2", "b": "b2", "c": "c1"}
    assert main(["rollback", "--run", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == run
    assert written.current() == {"a": "a1", "b": "b1", "c": "c1"}
