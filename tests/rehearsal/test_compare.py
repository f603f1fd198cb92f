"""`fleet compare`: models side by side, served on this machine or by an endpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.aws_for_hosting import moto_aws
from triton_models.artifact.pack.pack import pack
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.repository.publish import publish
from triton_models.spec import load_builds
from triton_rehearsal.compare.command import compare_locally
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

DECLARATION = """
import functools
from triton_models.spec import Example, ModelDefinition, PythonModel, SequenceBatching, Tensor

def examples(sequence=False):
    import numpy as np
    parts = np.ones((2, 1, 3) if sequence else (1, 3), dtype=np.float32)
    return [Example(name="ones", inputs={"X": parts}, sequence=sequence)]

def reference(factor, inputs):
    return {"Y": inputs["X"] * factor}

def declared(name, factor, code="double.py", sequence=False):
    return ModelDefinition(
        name=name,
        description="doubles",
        models=[
            PythonModel(
                name=name,
                code=code,
                inputs=[Tensor("X", "FP32", [3])],
                outputs=[Tensor("Y", "FP32", [3])],
                max_batch_size=2,
                batching=SequenceBatching() if sequence else None,
            )
        ],
        examples=functools.partial(examples, sequence),
        reference=functools.partial(reference, factor),
        output="Y",
        tolerance=0.0,
    )

BUILD = declared("double", 2)
FORMS = {
    "again": declared("double_again", 2),
    "wrong": declared("double_wrong", 3),
    "parts": declared("double_parts", 2, sequence=True),
    "broken": declared("double_broken", 2, code="broken.py"),
}
"""

DOUBLE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)]) for x in inputs]
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A folder of model builds with one model in several forms."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "double").mkdir()
    (folder / "double" / "build.py").write_text(DECLARATION)
    (folder / "double" / "double.py").write_text(DOUBLE)
    (folder / "double" / "broken.py").write_text(DOUBLE + "raise RuntimeError('no such luck')\n")
    return folder


def test_forms_are_served_and_measured_side_by_side(models, capsys):
    names = ["double", "double:again", "double:parts", "double:wrong"]
    builds = dict(zip(names, load_builds(names, models), strict=True))
    outcome = compare_locally(builds, requests=3, concurrency=2, cold_starts=1, models=models)
    document = outcome.as_dict()
    assert [each["name"] for each in document["models"]] == names
    for each in document["models"]:
        assert each["backends"] == ["python"]
        assert each["artifact_bytes"] > 0
        assert each["cold_start_ms"] >= each["load_ms"] > 0
        assert each["requests_per_second"] > 0
        assert 0 < each["p50_ms"] <= each["p95_ms"] <= each["p99_ms"]
    assert [each["difference"] for each in document["models"]] == [0.0, 0.0, 0.0, 1.0]
    assert outcome.exit_code == 1
    assert document["served_by"].startswith("the rehearsal's Triton server on ")
    assert "say nothing about a GPU" in document["notes"][0]


def test_a_model_that_does_not_load_is_named_with_the_servers_words(models):
    builds = dict(zip(["double:broken"], load_builds(["double:broken"], models), strict=True))
    with pytest.raises(FleetError, match="no such luck") as caught:
        compare_locally(builds, requests=1, concurrency=1, cold_starts=1, models=models)
    (problem,) = caught.value.problems
    assert problem.what.startswith("'double:broken' is not served: ")
    assert "fleet verify build/double_broken" in problem.fix


def test_an_unknown_form_and_a_missing_repository_are_reported_before_anything_is_built(
    models, monkeypatch, capsys
):
    monkeypatch.delenv("FLEET_REPOSITORY", raising=False)
    assert main(["compare", "double:agin", "--models", str(models)]) == 1
    assert "did you mean again?" in capsys.readouterr().err
    assert main(["compare", "double:again", "--models", str(models), "--endpoint", "any"]) == 1
    assert "[repository-url]" in capsys.readouterr().err


@pytest.fixture
def deployed(tmp_path, monkeypatch) -> Iterator[tuple[str, str]]:
    """A deployed endpoint and its repository, to which the environment points."""
    with moto_aws() as aws, Hosting(aws, directory=tmp_path / "hosting") as hosting:
        for name, value in aws.exports(runtime=hosting.url).items():
            monkeypatch.setenv(name, value)
        bucket = aws.bucket()
        yield aws.endpoint(aws.endpoint_config(bucket)), f"s3://{bucket}/models/"


NETWORK = """
from triton_models.spec import Example, ModelDefinition, OnnxRuntime, PyTorchNetwork, Tensor

def network():
    import torch
    return torch.nn.Linear(512, 1024)

def examples():
    import numpy as np
    return [Example(name="ones", inputs={"X": np.ones((4, 512), np.float32)})]

BUILD = ModelDefinition(
    name="matrix", description="a matrix", output="Y", examples=examples,
    models=[PyTorchNetwork(
        name="matrix", network=network, inputs=[Tensor("X", "FP32", [512])], outputs=["Y"], max_batch_size=8,
        backend=OnnxRuntime(precision="fp32"),
    )],
)
"""


@pytest.fixture
def matrix(tmp_path) -> Path:
    """A folder of model builds with one network."""
    (tmp_path / "declared" / "matrix").mkdir(parents=True)
    (tmp_path / "declared" / "matrix" / "build.py").write_text(NETWORK)
    return tmp_path / "declared"


def test_on_the_gpu_of_a_triton_image_a_network_is_measured_and_recorded_as_multiples_of_its_floor(
    matrix, tmp_path, monkeypatch, capsys
):
    (tmp_path / "bin").mkdir()
    trtexec = "&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # trtexec"
    for name, says in (("nvidia-smi", "NVIDIA A10G, 550.163.01"), ("trtexec", trtexec)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("NVIDIA_TRITON_SERVER_VERSION", "25.09")
    given = ["compare", "matrix", "--models", str(matrix), "--gpu", "A10G", "--requests", "3", "--json"]
    assert main([*given, "--record", str(tmp_path / "a10g.json")]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    assert found["times_floor"] == pytest.approx(found["p50_ms"] / found["floor_ms"], rel=0.2)
    assert found["larger"] == "bytes"
    recorded = json.loads((tmp_path / "a10g.json").read_text())
    assert (recorded["gpu"], recorded["driver"], recorded["release"]) == ("A10G", "550.163.01", "25.09")
    (network,) = recorded["networks"]
    assert (network["batch"], network["operations"]) == (4, 4 * 2 * 512 * 1024)
    assert network["median_ms"] == {"onnxruntime fp32": found["p50_ms"]}


def test_an_endpoint_is_measured_as_multiples_of_the_floor_on_its_gpu(matrix, deployed, tmp_path, capsys):
    endpoint, repository = deployed
    packed = pack(build("matrix", output=tmp_path, models=matrix), output=tmp_path / "dist")
    publish([packed], repository=repository)
    given = ["compare", "matrix", "--models", str(matrix), "--repository", repository]
    assert main([*given, "--endpoint", endpoint, "--requests", "2"]) == 0
    said = capsys.readouterr().out
    assert "x floor" in said
    assert "networks of one request" in said
    assert "on T4" in said


def test_without_a_gpu_nothing_is_recorded(matrix, tmp_path, capsys):
    given = ["compare", "matrix", "--models", str(matrix), "--gpu", "A10G", "--json"]
    assert main([*given, "--record", str(tmp_path / "a10g.json")]) == 1
    assert [each["rule"] for each in json.loads(capsys.readouterr().out)["error"]] == ["compare-record"]


def test_an_endpoint_is_measured_with_what_its_repository_holds(models, deployed, tmp_path, capsys):
    endpoint, repository = deployed
    packed = [
        pack(build(name, output=tmp_path, models=models), output=tmp_path / "dist")
        for name in ("double", "double:again", "double:parts")
    ]
    publish(packed, repository=repository)
    arguments = ["double", "--models", str(models), "--repository", repository]
    code = main(["compare", *arguments, "--endpoint", endpoint, "--requests", "2", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document
    assert document["served_by"] == f"endpoint {endpoint} (ml.g4dn.xlarge)"
    assert [each["name"] for each in document["models"]] == ["double", "double:again", "double:parts"]
    for each, artifact in zip(document["models"], packed, strict=True):
        assert each["artifact_bytes"] == artifact.size
        assert each["difference"] == 0.0
        assert each["load_ms"] is None
    assert "One cold start per model" in document["notes"][0]
    assert document["notes"][1] == "Not published, so not measured: double:wrong, double:broken."
