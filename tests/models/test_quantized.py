"""Networks quantized to INT8 and FP8, and BF16: what is compiled, with which tolerance, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from triton_models.base.errors import FleetError, Problem
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release
from triton_models.facts.tensorrt import precision_problems

DECLARED = """
from pathlib import Path

from triton_models.spec import *

FILE = Path(__file__).with_name("net.onnx")

def examples():
    import numpy as np
    return [Example(name="rows", inputs={{"X": np.linspace(-1, 1, 8).reshape(2, 4).astype(np.float32)}})]

def reference(inputs):
    return {{"Y": inputs["X"] * 2}}

BUILD = ModelDefinition(
    name="net", description="made up", weights=LocalWeights(path=str(FILE)),
    models=[OnnxFile(
        name="net", max_batch_size=8, backend=TensorRt(precision="{precision}"),
        profile={{"X": ShapeRange(min=(1, 4), opt=(8, 4), max=(8, 4))}},
    )],
    examples=examples, reference=reference, output="Y", tolerance={tolerance},
)
"""
KINDS = {"int8": TensorProto.INT8, "fp8": TensorProto.FLOAT8E4M3FN}
SCALE = {"int8": 1 / 127, "fp8": 1 / 448}


def network(kind: str | None) -> bytes:
    """Return a network that doubles its input, quantized to INT8 or FP8."""
    nodes = [helper.make_node("Add", ["X", "X"], ["Y"])]
    weights = []
    if kind is not None:
        zero = helper.make_tensor("zero", KINDS[kind], [], [0])
        weights = [numpy_helper.from_array(np.array(SCALE[kind], np.float32), "scale"), zero]
        nodes = [
            helper.make_node("QuantizeLinear", ["X", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
            helper.make_node("Add", ["d", "d"], ["Y"]),
        ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "XY"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    made = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 19)])
    content: bytes = made.SerializeToString()
    return content


@pytest.fixture
def declared(models: Path) -> Callable[..., Path]:
    """Declare an ONNX file that is compiled at a precision."""

    def declare(precision: str, *, quantized: str | None, tolerance: Any = 0.1) -> Path:
        (models / "net").mkdir()
        (models / "net" / "net.onnx").write_bytes(network(quantized))
        text = DECLARED.format(precision=precision, tolerance=tolerance)
        (models / "net" / "build.py").write_text(text)
        return models

    return declare


def refused(models: Path, out: Path, **given: Any) -> Problem:
    with pytest.raises(FleetError) as error:
        build("net", models=models, output=out, **given)
    (problem,) = error.value.problems
    return problem


@pytest.mark.parametrize(("precision", "gpu"), [("int8", "A10G"), ("fp8", "L4"), ("bf16", "A10G")])
def test_a_plan_is_compiled_and_recorded_at_its_precision(
    precision: str, gpu: str, declared: Any, machine: Any, tmp_path: Path
) -> None:
    log = machine(gpus=(f"NVIDIA {gpu}",))
    models = declared(precision, quantized=precision if precision in KINDS else None)
    root = build("net", models=models, output=tmp_path / "out", gpu=gpu)
    assert json.loads((root / "build.json").read_text())["precisions"] == [precision]
    flags = {"bf16": {"--bf16"}}.get(precision, {"--stronglyTyped", "--noTF32"})
    assert flags <= set(log.read_text().split())


@pytest.mark.parametrize(
    ("tolerance", "status", "said"),
    [(0.02, 0, "net: int8, 1 example, largest difference"), (1e-4, 1, "[outside-tolerance]")],
)
def test_a_quantized_network_is_verified_with_the_tolerance_of_its_precision(  # noqa: PLR0917  fixtures
    tolerance: float,
    status: int,
    said: str,
    declared: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    models = declared("int8", quantized="int8", tolerance={"int8": tolerance})
    root = build("net", models=models, output=tmp_path / "out")
    assert main(["verify", str(root), "--models", str(models)]) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("precision", "quantized", "said"),
    [
        ("int8", None, "the network is not quantized"),
        ("fp16", "int8", "the network is quantized"),
        ("fp32", "fp8", "the network is quantized"),
    ],
)
def test_a_precision_that_is_not_that_of_the_file_is_refused(
    precision: str, quantized: str | None, said: str, declared: Any, tmp_path: Path
) -> None:
    problem = refused(declared(precision, quantized=quantized), tmp_path / "out")
    assert (problem.rule, problem.what.startswith(said)) == ("plan-quantization", True)


@pytest.mark.parametrize(
    ("precision", "name", "gpu", "count"),
    [
        ("fp8", "25.09", "A10G", 1),
        ("fp8", "25.09", "L4", 0),
        ("fp8", "24.01", "T4", 2),
        ("bf16", "25.09", "T4", 1),
        ("bf16", "25.09", "A10G", 0),
        ("int8", "25.09", "T4", 0),
        ("int8", "24.01", "T4", 1),
        ("fp16", "24.01", "T4", 0),
    ],
)
def test_a_precision_needs_its_gpu_and_its_tensorrt(precision: Any, name: str, gpu: str, count: int) -> None:
    problems = list(precision_problems(precision, release=release(name), gpu=gpu_named(gpu), where="here"))
    assert [each.rule for each in problems] == ["plan-precision"] * count
