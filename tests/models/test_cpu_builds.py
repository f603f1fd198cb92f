"""Builds for instances without a GPU: ONNX Runtime serves what TensorRT would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.cli.main import main
from triton_models.config.pbtxt import read_config
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

ENCODER = """
import numpy as np
from triton_models.config.pbtxt import plain, tensor
import onnx
from onnx import TensorProto, helper

X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", 4])
Y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["batch", 4])
graph = helper.make_graph([helper.make_node("Relu", ["X"], ["Y"])], "relu", [X], [Y])
encoder = job.model(
    plain(
        name="encoder",
        backend="tensorrt",
        max_batch_size=8,
        inputs=[tensor("X", "FP32", [4])],
        outputs=[tensor("Y", "FP32", [4])],
    )
)
network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
onnx.save(network, encoder / "FILE")
job.compile_plan(
    encoder / "FILE", shapes={"X": ShapeRange(min=(1, 4), opt=(4, 4), max=(8, 4))}
)
"""


def _only_encoder(folder: Path, name: str, file: str = "model.onnx") -> None:
    """A model build of one encoder that a GPU build would compile."""
    lines = "\n".join(f"    {line}" for line in ENCODER.replace("FILE", file).splitlines() if line)
    (folder / name).mkdir()
    (folder / name / "build.py").write_text(
        "from triton_models.spec import ModelDefinition, ShapeRange\n\n"
        f"def write(job):\n{lines}\n\n"
        f"BUILD = ModelDefinition(name={name!r}, description='', write=write, examples=list,\n"
        "                        reference=dict, output='Y', tolerance=0.0)\n"
    )


def _backends(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.glob("*/config.pbtxt")):
        yield path.parent.name, read_config(path).backend


def test_what_would_be_a_plan_is_served_by_onnx_runtime(models: Path, tmp_path: Path) -> None:
    _only_encoder(models, "encoder")

    root = build("encoder", output=tmp_path / "out", models=models, cpu=True)

    assert list(_backends(root)) == [("encoder", "onnxruntime")]
    assert (root / "encoder" / "1" / "model.onnx").is_file()
    assert json.loads((root / "build.json").read_text())["gpu"] is None
    assert check_path(root) == []


def test_a_file_of_another_name_is_named_in_the_configuration(models: Path, tmp_path: Path) -> None:
    _only_encoder(models, "encoder", file="relu.onnx")

    root = build("encoder", output=tmp_path / "out", models=models, cpu=True)

    assert read_config(root / "encoder" / "config.pbtxt").default_model_filename == "relu.onnx"
    assert check_path(root) == []


def test_a_portable_build_still_names_tensorrt_for_the_rehearsals_stand_in(
    models: Path, tmp_path: Path
) -> None:
    _only_encoder(models, "encoder")

    root = build("encoder", output=tmp_path / "out", models=models)

    assert list(_backends(root)) == [("encoder", "tensorrt")]


def test_a_real_server_answers_without_tensorrt(models: Path, tmp_path: Path) -> None:
    _only_encoder(models, "encoder")
    root = build("encoder", output=tmp_path / "out", models=models, cpu=True)
    asked = {"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [-1, 0, 1, 2]}]}

    endpoint = {
        "SAGEMAKER_MULTI_MODEL": "true",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    }
    with TritonServer(endpoint, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        loaded = contract.load(model_id="1", target_model="encoder", folder=str(root))
        assert loaded.ok, f"{loaded.text}\n{server.log_tail()}"
        answer = contract.invoke(
            model_id="1",
            target_model="encoder",
            body=json.dumps(asked).encode(),
            headers={"Content-Type": "application/json"},
        )

    assert answer.ok, answer.text
    assert json.loads(answer.body)["outputs"][0]["data"] == [0, 0, 1, 2]


def test_other_models_stay_as_they_are_declared(declare: object, models: Path, tmp_path: Path) -> None:
    declare("tiny")  # type: ignore[operator]

    root = build("tiny", output=tmp_path / "out", models=models, cpu=True)

    assert list(_backends(root)) == [("tiny", "python")]


def test_the_command_builds_for_a_cpu(models: Path, tmp_path: Path) -> None:
    _only_encoder(models, "encoder")

    status = main(["build", "encoder", "--cpu", "-o", str(tmp_path / "out"), "--models", str(models)])

    assert status == 0
    assert list(_backends(tmp_path / "out" / "encoder")) == [("encoder", "onnxruntime")]


def test_a_gpu_and_none_at_once_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["build", "encoder", "--cpu", "--gpu", "A10G"])

    assert raised.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
