"""The rehearsal itself, from end to end, run once as a user runs it: `fleet rehearse --stay --json`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
FLEET = [sys.executable, "-m", "triton_models", "rehearse"]
LIMIT_S = 280


def run_fleet(*arguments: str, temporary: Path, cwd: Path = ROOT) -> subprocess.Popen[str]:
    """Start `fleet rehearse` with a folder of its own for everything temporary."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'model_builds'}{os.pathsep}{ROOT}",
        "TMPDIR": str(temporary),
    }
    return subprocess.Popen(
        [*FLEET, *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(temporary: Path) -> list[str]:
    """The command lines of every process that works in a temporary folder, the rehearsal's children."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended while we looked
            continue
        if str(temporary) in command:
            found.append(command)
    return found


def shared_memory_of(processes: list[str]) -> list[str]:
    """The shared memory regions of the Triton servers among some processes."""
    marks = {mark for command in processes for mark in re.findall(r"shm-region-prefix-name=(\S+)", command)}
    return [str(path) for mark in marks for path in Path("/dev/shm").glob(f"{mark}*")]  # noqa: S108


def until(condition: Callable[[], object], *, process: subprocess.Popen[str]) -> None:
    """Wait until something is so while a process runs; its end before that fails the test."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        assert process.poll() is None, process.stderr and process.stderr.read()


@dataclass
class Stayed:
    """A rehearsal that is running."""

    document: dict[str, Any]

    def ask(self, code: str) -> Any:
        """Run Python in a process that knows nothing but the exported variables; its last line is JSON."""
        environment = {**self.document["exports"], "PATH": os.environ["PATH"]}
        answer = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout.splitlines()[-1])

    def target(self, model: str) -> str:
        return next(str(made["artifact"]) for made in self.document["predictions"] if made["model"] == model)


def read_document(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    if not lines:
        assert process.stderr is not None
        pytest.fail(process.stderr.read())
    document: dict[str, Any] = json.loads("".join(lines))
    return document


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal that ran and stays; at its end an interrupt must leave nothing of it."""
    temporary = tmp_path_factory.mktemp("rehearsal")
    process = run_fleet("--stay", "--json", temporary=temporary)
    try:
        yield Stayed(read_document(process))
        running = processes_of(temporary)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        left = [*processes_of(temporary), *shared_memory_of(running), *map(str, temporary.iterdir())]
        assert any("tritonserver" in command for command in running)
        assert (process.returncode, left) == (0, [])
    finally:
        process.kill()
        process.communicate()


def test_every_model_that_the_app_names_is_served_and_equals_its_source(stayed: Stayed) -> None:
    named = json.loads((ROOT / "cdk.json").read_text())["context"]["tritonFleet"]["models"]
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


def test_an_unmodified_boto3_is_answered_in_json(stayed: Stayed) -> None:
    answer = stayed.ask(f"""
import boto3, json
body = {{"inputs": [{{"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["Sentence 1"]}}]}}
response = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName={stayed.document["deployed"]["endpoint"]!r}, TargetModel={stayed.target("minilm")!r},
    ContentType="application/json", Body=json.dumps(body))
print(response["Body"].read().decode())
""")
    (output,) = answer["outputs"]
    assert output["shape"] == [1, 384]
    assert np.linalg.norm(output["data"]) == pytest.approx(1, abs=1e-5)


def test_an_unmodified_boto3_is_answered_in_binary(stayed: Stayed) -> None:
    answer = stayed.ask(f"""
import boto3, json, numpy as np, tritonclient.http as triton
tensor = triton.InferInput("INPUT", [1, 3, 224, 224], "FP32")
tensor.set_data_from_numpy(np.ones((1, 3, 224, 224), dtype=np.float32))
make = triton.InferenceServerClient.generate_request_body
body, header = make([tensor], outputs=[triton.InferRequestedOutput("OUTPUT", binary_data=True)])
response = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName={stayed.document["deployed"]["endpoint"]!r}, TargetModel={stayed.target("resnet50")!r},
    ContentType=f"application/vnd.sagemaker-triton.binary+json;json-header-size={{header}}", Body=body)
size = int(response["ContentType"].rpartition("=")[2])
read = triton.InferenceServerClient.parse_response_body
print(json.dumps(read(response["Body"].read(), header_length=size).as_numpy("OUTPUT").tolist()))
""")
    logits = np.array(answer)
    assert logits.shape == (1, 1000)
    assert np.isfinite(logits).all()
    assert logits.std() > 0


def test_the_client_finds_the_endpoint_by_its_alias(stayed: Stayed) -> None:
    shape = stayed.ask(f"""
import sys, json
sys.path.insert(0, {str(ROOT / "model_builds")!r})
from triton_models.client import Client
client = Client(alias={stayed.document["deployed"]["alias"]!r},
                repository={stayed.document["deployed"]["repository"]!r})
answer = client.infer(model="minilm", inputs={{"TEXT": [["How do I reset my password?"]]}})
print(json.dumps(answer["EMBEDDING"].shape))
""")
    assert shape == [1, 384]


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


def test_what_the_dashboard_charts_has_data(stayed: Stayed) -> None:
    assert stayed.document["inventory"]["peak_models_loaded"] >= 1
    assert 0 < stayed.document["inventory"]["cache_hit_ratio"] < 1


def test_there_are_alarms_and_one_that_pages(stayed: Stayed) -> None:
    conditions = [alarm["condition"] for alarm in stayed.document["inventory"]["alarms"]]
    assert sum(condition.count("ALARM(") > 1 for condition in conditions) == 1
    assert len(conditions) > 1


def test_a_taken_port_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = run_fleet("--port", str(port), temporary=tmp_path)
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert f"port {port}" in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_in_the_middle_of_the_deployment_leaves_nothing(tmp_path: Path) -> None:
    process = run_fleet(temporary=tmp_path)
    until(lambda: processes_of(tmp_path), process=process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_outside_a_clone_it_says_where_to_go(tmp_path: Path) -> None:
    process = run_fleet(temporary=tmp_path, cwd=tmp_path)
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "no cdk.json" in stderr
    assert "fix:" in stderr


def test_an_unknown_model_is_named_before_anything_starts(tmp_path: Path) -> None:
    process = run_fleet("minlm", temporary=tmp_path)
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "minlm" in stderr
    assert "minilm" in stderr
    assert list(tmp_path.iterdir()) == []
