"""Every precision that a model is built in has a tolerance, or nothing is compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.spec import load_build

ENCODER = """
from triton_models.spec import ModelDefinition, PyTorchNetwork, Tensor, TensorRt

def network():
    NETWORK

BUILD = ModelDefinition(
    name="encoder",
    description="",
    models=[
        PyTorchNetwork(
            name="encoder",
            network=network,
            inputs=[Tensor("X", "FP32", [4])],
            outputs=["Y"],
            max_batch_size=8,
            backend=TensorRt(precision="fp16"),
        )
    ],
    examples=list,
    output="Y",
    REST
)
"""
RELU = "import torch; return torch.nn.ReLU()"
NEVER = "raise AssertionError('exported')"

# A network that write() compiles in a precision of its own choice.
OWN = """
import onnx
from onnx import TensorProto, helper
from triton_models.config.pbtxt import plain, tensor

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "XY")
graph = helper.make_graph([helper.make_node("Relu", ["X"], ["Y"])], "relu", [X], [Y])
own = job.model(plain(
    name="own", backend="tensorrt", max_batch_size=8,
    inputs=[tensor("X", "FP32", [4])], outputs=[tensor("Y", "FP32", [4])],
))
onnx.save(
    helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), own / "model.onnx"
)
shapes = {"X": ShapeRange(min=(1, 4), opt=(4, 4), max=(8, 4))}
job.compile_plan(own / "model.onnx", shapes=shapes, precision="fp16")
"""


@pytest.fixture
def encoder(models: Path) -> Callable[..., None]:
    """Declare an encoder that a GPU build compiles in FP16."""

    def declare(rest: str, network: str = RELU) -> None:
        (models / "encoder").mkdir()
        text = ENCODER.replace("REST", rest).replace("NETWORK", network)
        (models / "encoder" / "build.py").write_text(text)

    return declare


@pytest.fixture
def own(models: Path) -> Callable[[str], None]:
    """Declare a model whose write() compiles a plan in FP16."""

    def declare(tolerance: str) -> None:
        (models / "own").mkdir()
        lines = "".join(f"    {line}\n" for line in OWN.splitlines())
        (models / "own" / "build.py").write_text(
            f"from triton_models.spec import ModelDefinition, ShapeRange\n\ndef write(job):\n{lines}\n"
            "BUILD = ModelDefinition(name='own', description='', write=write, examples=list, output='Y',\n"
            f"                   reference=dict, tolerance={tolerance})\n"
        )

    return declare


def test_a_reference_needs_a_tolerance(encoder, models):
    encoder("reference=dict")
    with pytest.raises(FleetError, match="'encoder' has a reference and no tolerance"):
        load_build("encoder", models)


def test_without_a_reference_no_tolerance_is_needed(encoder, models, tmp_path):
    encoder("")
    build("encoder", output=tmp_path, models=models)


def test_a_build_without_plans_needs_a_tolerance_for_fp32_before_anything_is_exported(
    encoder, models, tmp_path
):
    encoder('reference=dict, tolerance={"fp16": 0.1}', network=NEVER)
    with pytest.raises(FleetError, match=r"no tolerance for fp32, only for fp16 \[no-tolerance\]"):
        build("encoder", output=tmp_path, models=models)


def test_one_tolerance_is_for_every_precision(encoder, models, tmp_path):
    encoder("reference=dict, tolerance=0.1")
    build("encoder", output=tmp_path, models=models)
    assert load_build("encoder", models).allowed("fp16") == 0.1


def test_a_build_without_plans_records_no_precision(encoder, models, tmp_path):
    encoder("")
    record = json.loads((build("encoder", output=tmp_path, models=models) / "build.json").read_text())
    assert "precisions" not in record


def test_a_plan_is_recorded_with_its_precision(encoder, models, machine, tmp_path):
    machine()
    encoder('reference=dict, tolerance={"fp16": 0.1}')
    root = build("encoder", output=tmp_path / "out", models=models, gpu="A10G")
    assert json.loads((root / "build.json").read_text())["precisions"] == ["fp16"]


def test_a_plan_of_write_without_a_tolerance_is_not_compiled(own, models, machine, tmp_path):
    log = machine()
    own('{"fp32": 0.1}')
    with pytest.raises(FleetError, match=r"no tolerance for fp16, only for fp32 \[no-tolerance\]"):
        build("own", output=tmp_path / "out", models=models, gpu="A10G")
    assert not log.exists()


def test_what_write_makes_without_plans_needs_a_tolerance_for_fp32_too(own, models, tmp_path):
    own('{"fp16": 0.1}')
    with pytest.raises(FleetError, match="no tolerance for fp32, only for fp16"):
        build("own", output=tmp_path / "out", models=models)
