"""Networks quantized to INT8 and FP8, and BF16: what is compiled, with which tolerance, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.builds.build import build
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release
from triton_models.facts.tensorrt import precision_problems

QUANTIZED = {"int8": "int8", "fp8": "float8e4m3fn"}
PROFILE = '{"X": ShapeRange(min=(1, 4), opt=(8, 4), max=(8, 4))}'


@pytest.fixture
def declared(declare_onnx: Callable[..., Path]) -> Callable[..., Path]:
    """Declare a network that doubles its input, quantized or not, and is compiled at a precision."""

    def declare(precision: str, *, quantized: str | None) -> Path:
        weights, nodes = "", "Y = Add(X, X)"
        if quantized is not None:
            weights = f"<float scale = {{0.01}}, {QUANTIZED[quantized]} zero = {{0}}>"
            nodes = "q = QuantizeLinear(X, scale, zero) d = DequantizeLinear(q, scale, zero) Y = Add(d, d)"
        graph = f"g (float[rows, 4] X) => (float[rows, 4] Y) {weights} {{ {nodes} }}"
        fields = f'max_batch_size=8, backend=TensorRt(precision="{precision}"), profile={PROFILE}'
        more = "examples=list, reference=dict, tolerance=0.1"
        return declare_onnx(network_of(graph, opsets='"": 19'), fields, more)

    return declare


@pytest.mark.parametrize(("precision", "gpu"), [("int8", "A10G"), ("fp8", "L4"), ("bf16", "A10G")])
def test_a_plan_is_compiled_and_recorded_at_its_precision(
    precision: str, gpu: str, declared: Any, machine: Any, tmp_path: Path
) -> None:
    log = machine(gpus=(f"NVIDIA {gpu}",))
    models = declared(precision, quantized=precision if precision in QUANTIZED else None)
    root = build("net", models=models, output=tmp_path / "out", gpu=gpu)
    assert json.loads((root / "build.json").read_text())["precisions"] == [precision]
    flags = {"bf16": {"--bf16"}, "int8": {"--int8", "--fp16"}, "fp8": {"--fp8", "--fp16"}}[precision]
    assert flags <= set(log.read_text().split())


@pytest.mark.parametrize(
    ("precision", "quantized", "said"),
    [("int8", None, "the network is not quantized"), ("fp16", "int8", "the network is quantized")],
)
def test_a_precision_that_is_not_that_of_the_file_is_refused(
    precision: str, quantized: str | None, said: str, declared: Any, tmp_path: Path
) -> None:
    problem = refused(build, "net", models=declared(precision, quantized=quantized), output=tmp_path / "out")
    assert (problem.rule, problem.what.startswith(said)) == ("plan-quantization", True)


@pytest.mark.parametrize(
    ("precision", "name", "gpu", "count"),
    [
        ("fp8", "25.09", "A10G", 1),
        ("fp8", "24.01", "T4", 2),
        ("bf16", "25.09", "T4", 1),
        ("int8", "25.09", "T4", 0),
        ("int8", "24.01", "T4", 1),
    ],
)
def test_a_precision_needs_its_gpu_and_its_tensorrt(precision: Any, name: str, gpu: str, count: int) -> None:
    problems = list(precision_problems(precision, release=release(name), gpu=gpu_named(gpu), where="here"))
    assert [each.rule for each in problems] == ["plan-precision"] * count
