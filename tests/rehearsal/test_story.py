"""The rehearsal itself, from end to end, as a user runs it: `fleet rehearse --stay --json`.

It runs once with two small models and, as a long story, once with the models in cdk.json.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from botocore import xform_name
from botocore.session import Session

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
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal of a clone with two small models."""
    clone = clone_with(tmp_path_factory.mktemp("clones") / "fleet", SMALL)
    with staying(clone, tmp_path_factory.mktemp("rehearsal"), f"--report={clone / REPORT}") as stayed:
        yield stayed


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal of this repository."""
    with staying(ROOT, tmp_path_factory.mktemp("rehearsal")) as stayed:
        yield stayed


@pytest.fixture(scope="module", params=["small", pytest.param("named", marks=pytest.mark.story)])
def stayed(request: pytest.FixtureRequest) -> Stayed:
    """A rehearsal that has run and stays."""
    found: Stayed = request.getfixturevalue(request.param)
    return found


def test_every_model_that_the_app_names_is_served_and_equals_its_source(stayed: Stayed) -> None:
    named = json.loads((stayed.project / "cdk.json").read_text())["context"]["tritonFleet"]["models"]
    assert {made["model"] for made in stayed.document["predictions"]} == set(named)
    assert [made for made in stayed.document["predictions"] if not made["passed"]] == []
    assert stayed.document["passed"] is True


def test_there_is_a_result_on_each_of_them_with_the_artifact_that_is_served(stayed: Stayed) -> None:
    served = {made["model"]: made["artifact"] for made in stayed.document["predictions"]}
    results = stayed.document["results"]
    assert {each["model"]: each["artifact"] for each in results} == served
    assert {each["status"] for each in results} == {"published"}


def test_the_first_call_of_a_model_is_cold_and_the_next_is_warm(stayed: Stayed) -> None:
    first = {}
    for made in stayed.document["predictions"]:
        first.setdefault(made["model"], made)
    assert [made["model"] for made in first.values() if made["cold_ms"] <= made["warm_ms"]] == []


def test_artifacts_carry_their_digest_in_their_name(stayed: Stayed) -> None:
    for made in stayed.document["predictions"]:
        assert re.fullmatch(rf"{made['model']}-[0-9a-f]{{16}}\.tar\.gz", made["artifact"])


def test_an_unmodified_boto3_is_answered_in_json(small: Stayed) -> None:
    answer = small.ask(f"""
import boto3, json
body = {{"inputs": [{{"name": "X", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}}]}}
response = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName={small.document["deployed"]["endpoint"]!r}, TargetModel={small.target("double")!r},
    ContentType="application/json", Body=json.dumps(body))
print(response["Body"].read().decode())
""")
    (output,) = answer["outputs"]
    assert (output["shape"], output["data"]) == ([1, 3], [2, 4, 6])


def test_an_unmodified_boto3_is_answered_in_binary(small: Stayed) -> None:
    answer = _asked_in_binary(small, "triple", tensor="X", shape=[2, 3], output="Y")
    assert answer.tolist() == [[3, 3, 3], [3, 3, 3]]


@pytest.mark.story
def test_two_rehearsals_with_the_same_names_do_not_meet(small: Stayed, tmp_path: Path) -> None:
    clone = clone_with(tmp_path / "fleet", {"double": 20})
    temporary = tmp_path / "rehearsal"
    temporary.mkdir()
    with staying(clone, temporary) as other:
        assert other.document["deployed"]["endpoint"] == small.document["deployed"]["endpoint"]
        assert other.document["exports"] != small.document["exports"]
        for rehearsal, factor in ((small, 2), (other, 20), (small, 2)):
            answer = _asked_in_binary(rehearsal, "double", tensor="X", shape=[1, 3], output="Y")
            assert answer.tolist() == [[factor] * 3]
    answer = _asked_in_binary(small, "triple", tensor="X", shape=[1, 3], output="Y")
    assert answer.tolist() == [[3, 3, 3]]


@pytest.mark.story
def test_an_ensemble_reads_sentences(named: Stayed) -> None:
    (embedding,) = _asked_by_alias(named, "minilm", "{'TEXT': [['Sentence 1']]}", output="EMBEDDING")
    assert len(embedding) == 384
    assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-5)


@pytest.mark.story
def test_a_network_reads_an_image(named: Stayed) -> None:
    logits = _asked_in_binary(named, "resnet50", tensor="INPUT", shape=[1, 3, 224, 224], output="OUTPUT")
    assert logits.shape == (1, 1000)
    assert np.isfinite(logits).all()
    assert logits.std() > 0


def test_the_call_that_it_prints_for_boto3_is_answered(small: Stayed) -> None:
    (output,) = small.ask(small.document["calls"]["boto3"])["outputs"]
    assert output["data"] == [2, 2, 2]


def test_metrics_of_the_hour_before_the_time_that_it_prints_count_requests_at_its_speed(
    small: Stayed,
) -> None:
    stated = small.document["clock"]
    counted = small.ask(f"""
import boto3, datetime, json
end = datetime.datetime.fromisoformat({stated["now"]!r})
answer = boto3.client("cloudwatch").get_metric_statistics(
    Namespace="AWS/SageMaker", MetricName="Invocations", Statistics=["Sum"], Period=3600,
    Dimensions=[{{"Name": "EndpointName", "Value": {small.document["deployed"]["endpoint"]!r}}},
                {{"Name": "VariantName", "Value": "AllTraffic"}}],
    StartTime=end - datetime.timedelta(hours=1), EndTime=end)
print(sum(point["Sum"] for point in answer["Datapoints"]))
""")
    assert stated["speed"] == 60
    assert counted >= 60


def test_the_call_that_it_prints_for_the_command_line_has_the_options_of_the_service(small: Stayed) -> None:
    command = small.document["calls"]["the AWS command line"].replace("\\\n", "")
    verb, options, output = shlex.split(command)[1:3], shlex.split(command)[3:-1], shlex.split(command)[-1]
    members = (
        Session().get_service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape.members
    )
    assert (verb, output) == (["sagemaker-runtime", "invoke-endpoint"], "/dev/stdout")
    assert {xform_name(name, "-") for name in members}.issuperset(
        name.removeprefix("--") for name in options[::2]
    )


def test_the_client_finds_the_endpoint_by_its_alias(small: Stayed) -> None:
    assert _asked_by_alias(small, "double", "{'X': np.array([[1, 2, 3]], np.float32)}", output="Y") == [
        [2, 4, 6]
    ]


def _asked_in_binary(
    stayed: Stayed, model: str, *, tensor: str, shape: list[int], output: str
) -> np.ndarray[Any, Any]:
    """Return the answer of a model to inputs of ones."""
    answer = stayed.ask(f"""
import boto3, json, numpy as np, tritonclient.http as triton
tensor = triton.InferInput({tensor!r}, {shape}, "FP32")
tensor.set_data_from_numpy(np.ones({shape}, dtype=np.float32))
make = triton.InferenceServerClient.generate_request_body
body, header = make([tensor], outputs=[triton.InferRequestedOutput({output!r}, binary_data=True)])
response = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName={stayed.document["deployed"]["endpoint"]!r}, TargetModel={stayed.target(model)!r},
    ContentType=f"application/vnd.sagemaker-triton.binary+json;json-header-size={{header}}", Body=body)
size = int(response["ContentType"].rpartition("=")[2])
read = triton.InferenceServerClient.parse_response_body
print(json.dumps(read(response["Body"].read(), header_length=size).as_numpy({output!r}).tolist()))
""")
    return np.array(answer)


def _asked_by_alias(stayed: Stayed, model: str, inputs: str, *, output: str) -> Any:
    """Return the answer of a model to inputs, which are Python code."""
    return stayed.ask(f"""
import sys, json, numpy as np
sys.path.insert(0, {str(ROOT / "model_builds")!r})
from triton_models.client import Client
client = Client(alias={stayed.document["deployed"]["alias"]!r},
                repository={stayed.document["deployed"]["repository"]!r})
print(json.dumps(client.infer(model={model!r}, inputs={inputs})[{output!r}].tolist()))
""")


def test_a_model_that_does_not_exist_is_a_validation_error_naming_its_key(stayed: Stayed) -> None:
    message = stayed.ask(f"""
import boto3, json
runtime = boto3.client("sagemaker-runtime")
try:
    runtime.invoke_endpoint(EndpointName={stayed.document["deployed"]["endpoint"]!r},
                            TargetModel="nobody-0000000000000000.tar.gz", Body=b"")
except runtime.exceptions.ClientError as error:
    print(json.dumps(error.response["Error"]))
""")
    assert message["Code"] == "ValidationError"
    assert "models/nobody-0000000000000000.tar.gz" in message["Message"]


def test_scaling_tracks_invocations_and_gpu_utilization(stayed: Stayed) -> None:
    (target,) = stayed.document["inventory"]["targets"]
    assert target["resource"] == f"endpoint/{stayed.document['deployed']['endpoint']}/variant/AllTraffic"
    assert {policy["metric"] for policy in target["policies"]} == {
        "SageMakerVariantInvocationsPerInstance",
        "GPUUtilization",
    }


def test_the_dashboard_charts_loaded_models_and_the_cache(stayed: Stayed) -> None:
    charted = {metric for widget in stayed.document["inventory"]["widgets"] for metric in widget["metrics"]}
    assert {"LoadedModelCount", "ModelCacheHit"} <= charted


def test_the_page_shows_the_instance_with_its_models_and_how_they_were_loaded(stayed: Stayed) -> None:
    with urlopen(f"{stayed.document['page']}document.json") as answer:  # noqa: S310 -- on this machine
        page = json.load(answer)
    served = {made["artifact"] for made in stayed.document["predictions"]}
    loaded = {each["subject"] for each in page["timeline"] if each["text"] == "loaded"}

    assert {target for instance in page["instances"] for target in instance["models"]} == served
    assert loaded == served
    assert {"deployment", "instance", "model"} <= {each["kind"] for each in page["timeline"]}


def test_a_report_holds_the_page_at_the_end_of_the_rehearsal(small: Stayed) -> None:
    text = (small.project / REPORT).read_text()
    [document] = re.findall(r'<script id="document"[^>]*>(.*?)</script>', text, re.DOTALL)
    [instance] = json.loads(document)["instances"]

    assert set(instance["models"]) == {small.target(model) for model in SMALL}


def test_what_the_dashboard_charts_has_data(stayed: Stayed) -> None:
    assert stayed.document["inventory"]["peak_models_loaded"] >= 1
    assert 0 < stayed.document["inventory"]["cache_hit_ratio"] < 1


def test_there_are_alarms_and_one_that_pages(stayed: Stayed) -> None:
    conditions = [alarm["condition"] for alarm in stayed.document["inventory"]["alarms"]]
    assert sum(condition.count("ALARM(") > 1 for condition in conditions) == 1
    assert len(conditions) > 1


@pytest.mark.story
def test_a_model_that_fails_fails_the_rehearsal_and_is_the_last_word(tmp_path: Path) -> None:
    clone = clone_with(tmp_path / "clone", {"double": 2})
    generated_models.declare(
        clone / "model_builds" / "models", "raises", 2, **generated_models.BROKEN["raises"]
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    process = run_fleet("double", "raises", temporary=temporary, cwd=clone)
    output, progress = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 1
    assert re.search(
        r"^FAILED .* Build, verify and publish the models  1 published, 1 failed", progress, re.M
    )
    assert re.search(r"^ok .* Invoke every model", progress, re.M)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", progress + output)
    assert "Alarms" not in output
    assert re.search(r"double +one row .* identical", output)
    reason = output.partition("FAILED: 1 of 2 models built")[2]
    assert "raises: failed in build\n  building 'raises' failed: RuntimeError: no such layer" in reason
    assert "where:    model_builds/models/raises/build.py:" in reason
    assert output.splitlines()[-1] == "Then rehearse again: fleet rehearse raises"
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
