"""FP16 on a GPU: the default where a network tolerates it, found out on the CPU; otherwise FP32, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.builds.build import build

onnxruntime = pytest.importorskip("onnxruntime")

TOLERANT = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4, 4] w = {WEIGHTS}> { h = MatMul(X, w) Y = Tanh(h) }"
)
# 1e6 is more than FP16 holds, and the answer is small again.
OVERFLOWS = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float big = {1e3}>"
    " { a = Mul(X, big) b = Mul(a, big) c = Div(b, big) Y = Div(c, big) }"
)
MASKED = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float least = {-3.4e38}, float zero = {0}>"
    " { hidden = Less(X, zero) kept = Where(hidden, least, X) Y = Softmax(kept) }"
)
INTEGERS_TOO = (
    "g (float[rows, 4] X) => (float[rows, 4] Y, int64[rows, 1] PLACE)"
    " { Y = Tanh(X) PLACE = ArgMax<axis: int = 1>(X) }"
)
INPUTS = 'lambda: [Example(name="one", inputs={"X": np.array([[0.5, 1, -2, 3]], np.float32)})]'
BOTH = '{"fp32": 1e-5, "fp16": 1e-2}'


@pytest.fixture
def built(declare_onnx: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Build a network, with a backend and a tolerance, and return its directory."""

    def build_it(graph: str, backend: str = "OnnxRuntime()", tolerance: str = BOTH, **given: object) -> Path:
        weights = ", ".join(str(each / 10) for each in range(16))
        network = network_of(graph.replace("WEIGHTS", weights), opsets='"": 18')
        more = f"examples={INPUTS}, reference=dict, tolerance={tolerance}"
        models = declare_onnx(network, f"max_batch_size=8, backend={backend}", more)
        return build("net", models=models, output=tmp_path / "out", **given)  # type: ignore[arg-type]

    return build_it


def precisions(root: Path) -> list[str]:
    return json.loads((root / "build.json").read_text()).get("precisions", [])


def types_of_weights(root: Path) -> set[int]:
    network = onnx.load(root / "net" / "1" / "model.onnx")
    return {each.data_type for each in network.graph.initializer}


def test_a_network_that_tolerates_fp16_is_converted_and_keeps_the_types_of_its_inputs_and_outputs(built):
    root = built(TOLERANT)
    assert (precisions(root), types_of_weights(root)) == (["fp16"], {onnx.TensorProto.FLOAT16})
    session = onnxruntime.InferenceSession(root / "net" / "1" / "model.onnx")
    assert [each.type for each in (*session.get_inputs(), *session.get_outputs())] == ["tensor(float)"] * 2
    (answer,) = session.run(None, {"X": np.ones((1, 4), np.float32)})
    assert np.abs(answer - np.tanh([2.4, 2.8, 3.2, 3.6])).max() < 1e-2


def test_equal_networks_give_equal_bytes_in_fp16(built, tmp_path):
    file = built(TOLERANT) / "net" / "1" / "model.onnx"
    again = build("net", models=tmp_path / "models", output=tmp_path / "again") / "net" / "1" / "model.onnx"
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("backend", "tolerance", "given"),
    [
        ("OnnxRuntime()", "1e-2", {}),
        ('OnnxRuntime(precision="fp32")', BOTH, {}),
        ("OnnxRuntime()", BOTH, {"cpu": True}),
    ],
    ids=["one tolerance for all", "declared FP32", "for CPUs"],
)
def test_a_network_stays_in_fp32_without_a_tolerance_of_fp16_where_fp32_is_declared_and_on_cpus(
    backend, tolerance, given, built
):
    root = built(TOLERANT, backend, tolerance, **given)
    assert (precisions(root), types_of_weights(root)) == ([], {onnx.TensorProto.FLOAT})


def test_a_network_that_overflows_in_fp16_stays_in_fp32_and_the_build_names_the_layer(built, capsys):
    root = built(OVERFLOWS)
    assert (precisions(root), types_of_weights(root)) == ([], {onnx.TensorProto.FLOAT})
    assert "net stays in FP32: Y differs by inf" in (said := capsys.readouterr().err)
    assert "Mul b, whose values reach 3e+06" in said


def test_a_declared_fp16_that_overflows_is_refused(built):
    problem = refused(built, OVERFLOWS, 'OnnxRuntime(precision="fp16")')
    assert problem.rule == "fp16-tolerance"


@pytest.mark.parametrize("graph", [MASKED, INTEGERS_TOO], ids=["a mask", "an output of integers"])
def test_a_mask_is_no_overflow_and_integers_are_not_rounded(graph, built):
    assert precisions(built(graph)) == ["fp16"]


def test_a_default_that_may_stay_in_fp32_needs_a_tolerance_for_both(built):
    assert "no tolerance for fp32" in refused(built, TOLERANT, tolerance='{"fp16": 1e-2}').what


@pytest.mark.parametrize(("graph", "precision"), [(TOLERANT, "fp16"), (OVERFLOWS, "fp32")])
def test_a_plan_is_compiled_in_fp16_if_the_network_tolerates_it(graph, precision, built, machine):
    log = machine()
    fields = "TensorRt(), profile={'X': ShapeRange(min=(1, 4), opt=(8, 4), max=(8, 4))}"
    assert precisions(built(graph, fields, gpu="A10G")) == [precision]
    assert ("--fp16" in log.read_text().split()) == (precision == "fp16")
