"""The document of results, and one summary of many documents."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from triton_models.base.errors import FleetError, Problem
from triton_models.cli.main import main
from triton_models.deliver.deliver import log_file, service_log
from triton_models.deliver.results import ModelResult, Results, summary
from triton_models.repository.places import Place

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
PROBLEM = Problem(what="it raised", where="build.py:3", fix="fix it", rule="r")
GOOD = ModelResult(
    model="good", status="published", step="publish", artifact="good-0.tar.gz", seconds=1.5, log="l"
)
BAD = ModelResult(model="bad", status="failed", step="build", problems=(PROBLEM, PROBLEM), log="logs/bad.log")


def write(folder: Path, name: str, *results: ModelResult, minutes: int = 0, finished: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    at = NOON + timedelta(minutes=minutes)
    document = Results(results=results, by="ann", at=at, finished=finished)
    (folder / f"{name}.json").write_text(document.to_json())


def summed(folder: Path, items: Path | None = None) -> Results:
    return summary(Place(address=str(folder)), items=Place(address=str(items)) if items else None)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"version": 2}', '{"version": 1, "at": null, "by": "", "models": [{}]}'),
        Results(results=(GOOD,), by="ann", at=NOON, finished=True).to_json().replace('"good"', "[]"),
    ],
)
def test_what_is_no_document_of_results_is_refused(text):
    with pytest.raises(FleetError, match="not a results document") as caught:
        Results.from_json(text, where="s3://b/k.json")
    assert caught.value.problems[0].where == "s3://b/k.json"


def test_many_documents_are_one_summary(tmp_path):
    with pytest.raises(FleetError, match="no document is there"):
        summed(tmp_path)
    write(tmp_path, "one", GOOD)
    write(tmp_path / "below", "two", BAD)
    found = summed(tmp_path)
    assert found.exit_code == 1
    assert list(found.lines()) == [
        "2 models: 1 published, 0 unchanged, 1 failed",
        "  bad: failed in build: it raised (and 1 more); log: logs/bad.log",
    ]
    (tmp_path / "three.json").write_text("{")
    with pytest.raises(FleetError, match="not a results document"):
        summed(tmp_path)


def test_of_a_model_that_was_tried_again_the_newest_result_counts(tmp_path):
    fixed = ModelResult(model="bad", status="published", step="publish")
    write(tmp_path, "a-second-attempt", fixed, minutes=5)
    write(tmp_path, "b-first-attempt", BAD)
    assert summed(tmp_path).failed == ()


def test_a_model_whose_build_never_began_has_failed(tmp_path):
    write(tmp_path / "runs", "one", GOOD)
    items = tmp_path / "items.json"
    items.write_text(json.dumps([{"models": "good lost"}]))
    (lost,) = summed(tmp_path / "runs", items).failed
    assert (lost.model, lost.reason) == ("lost", "no run has a result for this model")


def test_no_document_is_right_where_nothing_was_to_be_made(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "items.json").write_text("[]")
    found = summed(tmp_path / "runs", tmp_path / "items.json")
    assert (found.exit_code, list(found.lines())) == (0, ["0 models: 0 published, 0 unchanged, 0 failed"])


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"models": 1}]'])
def test_what_is_no_list_of_models_is_refused(text, tmp_path):
    write(tmp_path / "runs", "one", GOOD)
    (tmp_path / "items").write_text(text)
    with pytest.raises(FleetError, match="not a list of models"):
        summed(tmp_path / "runs", tmp_path / "items")


def test_documents_in_s3_are_summed_up_by_the_command(environment, s3, capsys):
    s3.create_bucket(Bucket="runs")
    for name, result in (("one", GOOD), ("two", BAD)):
        text = Results(results=(result,), at=NOON).to_json()
        Place(address=f"s3://runs/november/{name}.json", s3=s3).write(text)
    Place(address="s3://runs/november-2/other.json", s3=s3).write("{")
    assert main(["summarize", "s3://runs/november", "--summary", "s3://runs/summary.json"]) == 1
    written = Results.from_json(Place(address="s3://runs/summary.json", s3=s3).read(), where="here")
    assert [result.model for result in written.failed] == ["bad"]
    assert capsys.readouterr().out.splitlines()[0] == "2 models: 1 published, 0 unchanged, 1 failed"


def test_a_document_is_whole_or_the_one_before(tmp_path, monkeypatch):
    place = Place(address=str(tmp_path / "results.json"))
    place.write("before")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(FleetError, match="No space left"):
        place.write("after")
    assert place.read() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_the_log_of_a_service_is_named_by_the_build_or_by_the_job_that_it_started(tmp_path):
    config = tmp_path / "processingjobconfig.json"
    config.write_text(json.dumps({"ProcessingJobName": "builds-1"}))
    assert service_log({}, processing=tmp_path / "none.json") is None
    given = {"CODEBUILD_BUILD_ID": "models:5d0f", "CODEBUILD_LOG_PATH": "5d0f"}
    usual = "the log of the CodeBuild build models:5d0f, stream 5d0f"
    assert service_log(given, processing=tmp_path / "none.json") == usual
    expected = "CloudWatch Logs /aws/sagemaker/ProcessingJobs, streams builds-1/"
    assert service_log(given, processing=config) == expected


def test_the_log_of_any_name_is_a_file_in_the_folder_of_logs():
    for name in ("net", "net:plain", "../../etc/passwd", "..", "/"):
        assert log_file(Path("logs"), name).parent == Path("logs")


def test_a_result_names_the_precision_and_what_was_compared(tmp_path):
    answers = "equal on 3 of your examples and 512 drawn rows"
    proven = replace(GOOD, precision="fp16", proof="equal", answers=answers)
    assert proven.line() == f"good: published as good-0.tar.gz, fp16, {answers} (1.5 s)"
    write(tmp_path, "one", proven)
    (read,) = summed(tmp_path).results
    assert read == proven


def test_a_summary_names_the_models_that_only_load(tmp_path):
    loads = [replace(GOOD, model=f"m{number}", proof="loads") for number in range(4)]
    write(tmp_path, "one", replace(GOOD, proof="equal"), *loads, replace(BAD, proof="unknown"))
    _, line, *_ = summed(tmp_path).lines()
    assert line == "  not compared with a source, loads: m0, m1, m2 and 1 more"


def test_a_result_of_another_version_is_read(tmp_path):
    document = json.loads(Results(results=(GOOD,), by="ann", at=NOON).to_json())
    (model,) = document["models"]
    for name in ("precision", "proof", "answers"):  # as an older one wrote it
        del model[name]
    model["something new"] = 3
    (tmp_path / "one.json").write_text(json.dumps(document))
    assert summed(tmp_path).results == (GOOD,)
