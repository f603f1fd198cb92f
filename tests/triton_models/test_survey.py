"""Many declarations are checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.declared_models import declare
from triton_models.check.survey import Survey
from triton_models.facts.releases import RELEASES

NAMES = [f"net-{number}" for number in range(9)]

Check = Callable[..., list[str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "model_builds"
    for name in NAMES:
        declare(folder / "models", name)
    return folder


@pytest.fixture
def survey(source: Path) -> Callable[..., Survey]:
    def make(names: list[str] = NAMES, *, release: str = "25.09", **given: Any) -> Survey:
        return Survey(names, source=source, release=RELEASES[release], gpu=True, **{"given": {}, **given})

    return make


@pytest.fixture
def check(survey: Callable[..., Survey]) -> Check:
    def find(*arguments: Any, **given: Any) -> list[str]:
        return [f"{problem.rule}: {problem.what}" for problem in survey(*arguments, **given).problems()]

    return find


def replace(source: Path, name: str, old: str, new: str) -> None:
    path = source / "models" / name / "build.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_each_declaration_is_read_once(source: Path, survey: Callable[..., Survey], tmp_path: Path) -> None:
    log = tmp_path / "read.log"
    declare(source / "models", "net-3", top=f"open({str(log)!r}, 'a').write('read')")
    surveyed = survey()
    assert len(surveyed.results()) == len(NAMES)
    assert list(surveyed.problems()) == []
    assert log.read_text() == "read"


def test_two_models_with_one_name(source: Path, check: Check) -> None:
    replace(source, "net-8", "name='net-8',\n            code", "name='net-0',\n            code")
    assert "composing-name-taken: 'net-0' is a model of net-0 and net-8" in check()


def test_what_ties_a_model_to_a_gpu_is_known(source: Path, survey: Callable[..., Survey]) -> None:
    declare(source / "models", "net-4", body="job.compile_plan(None)")
    replace(source, "net-5", "parameters={}", "environment=Wheels(lambda job: ['numpy==2.2.6'])")
    replace(source, "net-5", "PythonModel, Tensor", "PythonModel, Tensor, Wheels")
    first = survey().results()

    assert {each.artifact: each.plans for each in first if each.plans} == {"net-4": ("this-gpu",)}
    assert [each.artifact for each in first if each.environments and each.any_gpu] == ["net-5"]


def test_a_folder_that_takes_the_name_of_a_form(source: Path, check: Check) -> None:
    path = source / "models" / "net-3" / "build.py"
    path.write_text(
        f"{path.read_text()}\nfrom dataclasses import replace\n"
        "FORMS = {'other': replace(BUILD, name='net-3_other')}\n"
    )
    assert check() == []

    declare(source / "models", "net-3_other")

    assert "bad-declaration: the form 'other' is called 'net-3_other', a folder's too" in check()


@pytest.mark.parametrize(
    ("path", "elsewhere"),
    [
        ("'/data/weights.pt'", ("/data/weights.pt",)),
        ("'weights.pt'", ("weights.pt",)),
        ("str(Path(__file__).with_name('weights.pt'))", ()),
        ("os.environ['PRICES_WEIGHTS']", ()),
    ],
    ids=["elsewhere", "relative", "next to build.py", "of this shell"],
)
def test_local_weights_that_no_build_job_has_are_found(
    source: Path, survey: Any, monkeypatch: pytest.MonkeyPatch, path: str, elsewhere: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PRICES_WEIGHTS", "/home/me/prices.pt")
    top = "import os\nfrom pathlib import Path\nfrom triton_models.spec import LocalWeights"
    declare(source / "models", "net-1", top=top, weights=f"LocalWeights(path={path})")

    (result,) = survey(["net-1"]).results()

    assert (result.problems, result.elsewhere) == ((), elsewhere)


def test_declarations_are_read_with_the_variables_of_the_build(source: Path, survey: Any) -> None:
    top = "import os\nfrom triton_models.spec import LocalWeights, weights_at"
    weights = "weights_at(os.environ.get('PRICES_WEIGHTS'), otherwise=LocalWeights(path='/data/weights.pt'))"
    declare(source / "models", NAMES[0], top=top, weights=weights)

    def elsewhere(given: dict[str, str]) -> list[tuple[str, ...]]:
        return [each.elsewhere for each in survey(NAMES[:1], given=given).results()]

    assert elsewhere({}) == [("/data/weights.pt",)]
    assert elsewhere({"PRICES_WEIGHTS": "s3://weights/prices.pt"}) == [()]


def test_declarations_are_read_without_the_credentials_of_the_deployment(
    source: Path, survey: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {"AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "p", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t"}
    for name, value in {**hidden, "AWS_REGION": "eu-central-1"}.items():
        monkeypatch.setenv(name, value)
    wanted = f"assert os.environ['AWS_REGION'] and not {set(hidden)} & set(os.environ)"
    declare(source / "models", NAMES[0], top=wanted)
    before = dict(os.environ)
    assert list(survey().problems()) == []
    assert dict(os.environ) == before
