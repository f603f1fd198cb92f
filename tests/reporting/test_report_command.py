"""`fleet report` as a user runs it, in a checkout whose working tree differs from its last commit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commits import READER, make_repository

from tests.triton_models.publishing_aws import ENVIRONMENT, artifact, client, repository_of, small_aws
from triton_models.cli.main import main


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    make_repository(folder)
    with (folder / READER).open("a") as declaration:
        declaration.write("# another line\n")
    return folder


@pytest.mark.story
def test_the_working_tree_is_compared_with_a_commit(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(checkout / "model_builds")

    assert main(["report", "--base", "main", "--markdown", str(tmp_path / "report.md"), "--json"]) == 0

    summary = json.loads(capsys.readouterr().out)
    assert summary["models"] == {"reader": "changed"}
    assert summary["permissions_widened"] == 0
    assert summary["usd_a_month"] == {"floor": 0, "ceiling": 0}
    assert {change["risk"] for change in summary["changes"]} == {"none"}
    assert (tmp_path / "report.md").read_text().startswith("### Model reader changed\n")


@pytest.mark.story
def test_with_a_repository_it_says_what_each_model_stands_for_now(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = artifact(tmp_path, name="reader", weights=bytes(3_000_000))
    compared = {"examples": 2, "drawn": 512, "allowed": 0.1, "precision": "fp16"}
    build = {"model": "reader", "gpu": "A10G", "release": "25.09", "compared": {"reader": compared}}
    made = replace(made, build=build)
    monkeypatch.chdir(checkout)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with small_aws() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        repository = repository_of([made], client(url))
        output = tmp_path / "report.md"
        assert main(["report", "--base", "main", "--repository", repository, "--markdown", str(output)]) == 0

    size = f"{made.size / 1e6:,.1f} MB"
    assert (
        "| model | what | built for | published now |\n|---|---|---|---|\n"
        f"| `reader` | changed: `build.py` | A10G and Triton 26.05 | {size}, fp16, for A10G and Triton 25.09"
        ", equal on 2 of your examples and 512 drawn rows |\n"
    ) in output.read_text()


def test_outside_of_a_project_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["report", "--base", "main"]) == 1
    assert "the folder has no cdk.json" in capsys.readouterr().err
