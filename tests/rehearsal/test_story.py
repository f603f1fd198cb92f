"""The rehearsal itself, from end to end, as a user runs it: `fleet rehearse --stay --json`."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.rehearsal import generated_models
from tests.rehearsal.stayed import ROOT, Stayed, clone_with, processes_of, run_fleet, staying
from triton_models.cli.main import main
from triton_rehearsal.rehearse import command

LIMIT_S = 280
SMALL = {"double": 2, "triple": 3}
REPORT = "page.html"
Rehearse = Callable[..., Any]


def until(condition: Callable[[], object], *, process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds while a process runs. If the process ends earlier, the test fails."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        assert process.poll() is None, process.stderr and process.stderr.read()


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal of a clone with two small models, which has run and stays."""
    clone = clone_with(tmp_path_factory.mktemp("clones") / "fleet", SMALL)
    with staying(clone, tmp_path_factory.mktemp("rehearsal"), f"--report={clone / REPORT}") as stayed:
        yield stayed


def test_every_model_that_the_app_names_is_published_served_and_equals_its_source(stayed: Stayed) -> None:
    document = stayed.document
    assert [made for made in document["predictions"] if not made["passed"]] == []
    assert document["passed"] is True
    served = {made["model"]: made["artifact"] for made in document["predictions"]}
    assert set(served) == set(SMALL)
    assert {each["model"]: each["artifact"] for each in document["results"]} == served
    assert {each["status"] for each in document["results"]} == {"published"}
    assert all(re.fullmatch(rf"{name}-[0-9a-f]{{16}}\.tar\.gz", each) for name, each in served.items())
    assert all(made["cold_ms"] > made["warm_ms"] for made in document["predictions"])


def test_the_call_that_it_prints_for_boto3_is_answered(stayed: Stayed) -> None:
    (output,) = stayed.ask(stayed.document["calls"]["boto3"])["outputs"]
    assert output["data"] == [2, 2, 2]


def test_metrics_of_the_hour_before_the_time_that_it_prints_count_requests_at_its_speed(
    stayed: Stayed,
) -> None:
    stated = stayed.document["clock"]
    counted = stayed.ask(f"""
import boto3, datetime, json
end = datetime.datetime.fromisoformat({stated["now"]!r})
answer = boto3.client("cloudwatch").get_metric_statistics(
    Namespace="AWS/SageMaker", MetricName="Invocations", Statistics=["Sum"], Period=3600,
    Dimensions=[{{"Name": "EndpointName", "Value": {stayed.document["deployed"]["endpoint"]!r}}},
                {{"Name": "VariantName", "Value": "AllTraffic"}}],
    StartTime=end - datetime.timedelta(hours=1), EndTime=end)
print(sum(point["Sum"] for point in answer["Datapoints"]))
""")
    assert stated["speed"] == 60
    assert counted >= 60


def test_the_client_finds_the_endpoint_by_its_alias(stayed: Stayed) -> None:
    deployed = stayed.document["deployed"]
    answer = stayed.ask(f"""
import sys, json, numpy as np
sys.path.insert(0, {str(ROOT / "model_builds")!r})
from triton_models.client import Client
client = Client(alias={deployed["alias"]!r}, repository={deployed["repository"]!r})
answer = client.infer(model="double", inputs={{"X": np.array([[1, 2, 3]], np.float32)}})
print(json.dumps(answer["Y"].tolist()))
""")
    assert answer == [[2, 4, 6]]


def test_the_inventory_has_scaling_on_two_metrics_data_in_the_dashboard_and_an_alarm_that_pages(
    stayed: Stayed,
) -> None:
    inventory = stayed.document["inventory"]
    (target,) = inventory["targets"]
    assert target["resource"] == f"endpoint/{stayed.document['deployed']['endpoint']}/variant/AllTraffic"
    assert {policy["metric"] for policy in target["policies"]} == {
        "SageMakerVariantInvocationsPerInstance",
        "GPUUtilization",
    }
    charted = {metric for widget in inventory["widgets"] for metric in widget["metrics"]}
    assert {"LoadedModelCount", "ModelCacheHit"} <= charted
    assert inventory["peak_models_loaded"] >= 1
    assert 0 < inventory["cache_hit_ratio"] < 1
    conditions = [alarm["condition"] for alarm in inventory["alarms"]]
    assert sum(condition.count("ALARM(") > 1 for condition in conditions) == 1
    assert len(conditions) > 1


def test_the_page_and_its_report_show_the_instance_with_its_models_and_how_they_were_loaded(
    stayed: Stayed,
) -> None:
    with urlopen(f"{stayed.document['page']}document.json") as answer:  # noqa: S310 -- on this machine
        page = json.load(answer)
    text = (stayed.project / REPORT).read_text()
    [reported] = re.findall(r'<script id="document"[^>]*>(.*?)</script>', text, re.DOTALL)
    served = {made["artifact"] for made in stayed.document["predictions"]}

    for document in (page, json.loads(reported)):
        [instance] = document["instances"]
        assert set(instance["models"]) == served
    assert {each["subject"] for each in page["timeline"] if each["text"] == "loaded"} == served
    assert {"deployment", "instance", "model"} <= {each["kind"] for each in page["timeline"]}


BROKEN = {
    "unloadable": ("verify", "does not load it"),
    "mistyped": ("check", "model.py"),
    "raises": ("build", "building 'raises' failed: RuntimeError: no such layer"),
    "refused": ("check", "model.py"),
    "wrong": ("verify", "the answer differs by 97"),
    "killed": ("build", "SIGKILL"),
}


@pytest.mark.story
def test_models_that_fail_in_parallel_builds_fail_the_rehearsal_are_the_last_words_and_stop_no_other(
    tmp_path: Path,
) -> None:
    clone = clone_with(tmp_path / "clone", {"double": 2}, parallel_builds=2)
    for name in BROKEN:
        models = clone / "model_builds" / "models"
        generated_models.declare(models, name, 2, **generated_models.BROKEN[name])
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    process = run_fleet("double", *BROKEN, temporary=temporary, cwd=clone)
    output, progress = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 1
    assert re.search(
        r"^FAILED .* Build, verify and publish the models  1 published, 6 failed", progress, re.M
    )
    assert re.search(r"^ok .* Invoke every model", progress, re.M)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", progress + output)
    assert "Alarms" not in output
    assert re.search(r"double +one row .* identical", output)
    reasons = " ".join(output.partition("FAILED: 1 of 7 models built")[2].split())
    for name, (step, words) in BROKEN.items():
        assert re.search(rf"\b{name}: failed in {step} [^:]*{re.escape(words)}", reasons), reasons
    assert "where: model_builds/models/raises/build.py:" in reasons
    assert set(output.splitlines()[-1].partition("Then rehearse again: fleet rehearse ")[2].split()) == set(
        BROKEN
    )
    assert list(temporary.iterdir()) == []


@pytest.mark.story
def test_an_interrupt_in_the_middle_of_the_deployment_leaves_nothing(tmp_path: Path) -> None:
    process = run_fleet(temporary=tmp_path)
    until(lambda: processes_of(tmp_path), process=process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def rehearse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rehearse:
    """Run `fleet rehearse` in this process. Returns its only problem; nothing may be left behind."""
    monkeypatch.setattr(command, "_end_like_an_interrupt", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(*arguments: str, cwd: Path = ROOT) -> Any:
        monkeypatch.chdir(cwd)
        assert main(["rehearse", "--json", *arguments]) == 1
        output, said = capsys.readouterr()
        assert list(tmp_path.iterdir()) == []
        assert "seconds" not in said  # the time is not estimated
        [problem] = json.loads(output)["error"]
        return problem

    return run


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["minlm"], "did you mean minilm?"),
        (["--scenario", "trash"], "did you mean thrash?"),
        (["--stage", "none"], "declares no `stages`"),
        (["--gpu-memory", "much"], "MiB"),
    ],
)
def test_a_mistyped_argument_is_one_error_before_anything_starts(
    rehearse: Rehearse, arguments: list[str], fix: str
) -> None:
    assert fix in rehearse(*arguments)["fix"]


def test_a_taken_port_is_reported_and_nothing_is_left(rehearse: Rehearse) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert f"port {port}" in rehearse("--port", str(port))["what"]


def test_outside_a_clone_it_says_where_to_go(rehearse: Rehearse, tmp_path: Path) -> None:
    assert "no cdk.json in" in rehearse(cwd=tmp_path)["what"]
