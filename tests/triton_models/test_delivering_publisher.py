"""Models that are ready are published together, and refused one by one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError, Problem
from triton_models.deliver import publisher as module
from triton_models.deliver.publisher import Publisher
from triton_models.deliver.steps import Made
from triton_models.repository.publish import Published
from triton_models.repository.s3 import contended

LONG_S = 60.0


def made(name: str, size: int = 1) -> Made:
    path = Path(f"{name}-0123456789abcdef.tar.gz")
    artifact = Artifact(
        model=name, digest="0123456789abcdef", path=path, size=size, sha256="0" * 64, build={}
    )
    return Made(name=name, artifact=artifact, inputs={})


class Repository:
    """Takes everything but some models; lets the first publication wait until it may go on."""

    def __init__(self, *refused: str, error: Exception | None = None) -> None:
        self.refused, self.error = refused, error
        self.batches: list[list[str]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.reports: dict[str, tuple[Published | None, tuple[Problem, ...]]] = {}

    def publish(self, batch: Sequence[Made]) -> Published:
        names = [each.name for each in batch]
        self.batches.append(names)
        self.begun.set()
        assert self.go_on.wait(LONG_S)
        if set(names) & set(self.refused):
            raise self.error or FleetError.of(what=f"not {names}", where="there", fix="go")
        return Published(repository="there", uploaded=(), present=(), targets={})

    def report(self, each: Made, published: Published | None, problems: tuple[Problem, ...]) -> None:
        self.reports[each.name] = (published, problems)

    def published(self) -> list[str]:
        return [name for name, (published, _) in self.reports.items() if published]


def publish_while_the_first_is_under_way(repository: Repository, *names: str) -> None:
    publisher = Publisher(repository.publish, repository.report)
    publisher.add(made("first"))
    assert repository.begun.wait(LONG_S)
    for name in names:
        publisher.add(made(name))
    repository.go_on.set()
    publisher.close()


def test_what_is_ready_is_published_at_once_and_what_comes_meanwhile_together():
    repository = Repository()
    publish_while_the_first_is_under_way(repository, "a", "b", "c")
    assert repository.batches == [["first"], ["a", "b", "c"]]
    assert repository.published() == ["first", "a", "b", "c"]


def test_one_that_is_refused_is_found_in_halves_and_the_others_are_published():
    repository = Repository("c")
    publish_while_the_first_is_under_way(repository, "a", "b", "c", "d")
    assert repository.batches[1:] == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"], ["c"], ["d"]]
    assert repository.published() == ["first", "a", "b", "d"]
    published, problems = repository.reports["c"]
    assert (published, problems[0].what) == (None, "not ['c']")


def test_a_race_that_is_lost_is_run_again_before_it_is_run_in_halves():
    repository = Repository("a", error=contended("s3://there/manifest.json"))
    publish_while_the_first_is_under_way(repository, "a", "b")
    assert repository.batches[1:3] == [["a", "b"], ["a", "b"]]
    assert len(repository.batches) == 1 + 3 + 3 + 1  # thrice together, thrice alone, and the other
    assert repository.reports["a"][1][0].rule == "contended"
    assert repository.published() == ["first", "b"]


def test_an_error_that_nobody_foresaw_is_reported_and_publishing_goes_on():
    repository = Repository("first", error=RuntimeError("a bug"))
    publish_while_the_first_is_under_way(repository, "a")
    _, problems = repository.reports["first"]
    assert problems[0].what == "publishing failed: RuntimeError: a bug"
    assert repository.published() == ["a"]


def test_making_waits_when_more_is_ready_than_the_disk_should_hold(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    repository = Repository()
    publisher = Publisher(repository.publish, repository.report)
    publisher.add(made("first"))
    assert repository.begun.wait(LONG_S)
    publisher.add(made("fits", size=10))
    added = threading.Event()
    thread = threading.Thread(target=lambda: (publisher.add(made("more")), added.set()))
    thread.start()
    try:
        assert not added.wait(0.2)
    finally:
        repository.go_on.set()
        thread.join()
        publisher.close()
    assert repository.published() == ["first", "fits", "more"]
