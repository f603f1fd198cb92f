"""FP16 on a GPU: of files where it is declared, of networks of PyTorch where the build finds it equal."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds import verified
from triton_models.builds.build import build
from triton_models.builds.export import half
from triton_models.builds.export.answers import run_file

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("small_networks_gain")

TOLERANT = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4, 4] w = {WEIGHTS}> { h = MatMul(X, w) Y = Tanh(h) }"
)
# 1e6 is more than FP16 holds, and the answer is small again.
OVERFLOWS = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float big = {1e3}, float[4, 4] w = {MIXING}>"
    " { x = MatMul(X, w) a = Mul(x, big) b = Mul(a, big) c = Div(b, big) d = Div(c, big) Y = MatMul(d, w) }"
)
MASKED = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float least = {-3.4e38}, float zero = {0},"
    " float[4, 4] w = {MIXING}> { x = MatMul(X, w) hidden = Less(X, zero) kept = Where(hidden, least, x)"
    " s = Softmax(kept) Y = MatMul(s, w) }"
)
INTEGERS_TOO = (
    "g (float[rows, 4] X) => (float[rows, 4] Y, int64[rows, 1] PLACE)"
    " <float five = {5}, float[4, 4] w = {MIXING}> { x = MatMul(X, w) Y = Tanh(x)"
    " big = Greater(X, five) n = Cast<to: int = 1>(big) PLACE = ArgMax<axis: int = 1>(n) }"
)
INPUTS = 'lambda: [Example(name="one", inputs={"X": np.array([[0.5, 1, -2, 3]], np.float32)})]'
ASKED = 'OnnxRuntime(precision="fp16")'
SMALL = 'inputs_between={"X": Between(-3, 3, why="scaled before")}'
MIXING = "1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1"
"""Weights whose products of equal features are not equal."""
BOTH = '{"fp32": 1e-5, "fp16": 1e-2}'


@pytest.fixture
def built(declare_onnx: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Build a network, with a backend and a tolerance, and return its directory."""

    def build_it(  # noqa: PLR0917
        graph: str,
        backend: str = ASKED,
        tolerance: str = BOTH,
        ranges: str = SMALL,
        examples: str = INPUTS,
        opsets: str = '"": 18',
        **given: object,
    ) -> Path:
        weights = ", ".join(str(each / 10) for each in range(16))
        network = network_of(graph.replace("WEIGHTS", weights).replace("MIXING", MIXING), opsets=opsets)
        more = f"examples={examples}, reference=dict, tolerance={tolerance}"
        shutil.rmtree(tmp_path / "models" / "net", ignore_errors=True)
        models = declare_onnx(network, f"max_batch_size=8, backend={backend}, {ranges}", more)
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


def test_a_network_of_few_operations_is_in_fp16_only_if_that_is_declared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(verified, "_LEAST_OPERATIONS", 1e7)
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    text = NETWORK.replace("LINE", between_layers("x")).replace(
        "RANGE", f"backend=BACKEND, {SMALL.replace('X', 'x')}"
    )
    for backend, expected in (("OnnxRuntime()", []), (ASKED, ["fp16"])):
        (folder / "build.py").write_text(text.replace("BACKEND", backend))
        assert precisions(build("net", models=tmp_path / "models", output=tmp_path / "out")) == expected
    assert "million operations, too few to gain time in FP16" in capsys.readouterr().err


@pytest.mark.usefixtures("small_networks_gain")
def test_a_network_without_examples_of_the_user_stays_in_fp32(tmp_path, capsys):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    yours = NETWORK.replace("LINE", between_layers("x")).replace("RANGE", SMALL.replace("X", "x"))
    made_up = yours.replace('name="one"', 'name="one", generated=True')
    for text, expected in ((yours, ["fp16"]), (made_up, [])):
        (folder / "build.py").write_text(text)
        assert precisions(build("net", models=tmp_path / "models", output=tmp_path / "out")) == expected
    assert "net stays in FP32: none of its examples is yours" in capsys.readouterr().err


def test_equal_networks_give_equal_bytes_in_fp16(built, tmp_path):
    file = built(TOLERANT) / "net" / "1" / "model.onnx"
    again = build("net", models=tmp_path / "models", output=tmp_path / "again") / "net" / "1" / "model.onnx"
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("backend", "tolerance", "given"),
    [
        ("OnnxRuntime()", BOTH, {}),
        ("OnnxRuntime()", "1e-2", {}),
        ('OnnxRuntime(precision="fp32")', BOTH, {}),
        (ASKED, BOTH, {"cpu": True}),
    ],
    ids=["nothing said", "one tolerance for all", "declared FP32", "for CPUs"],
)
def test_a_file_keeps_its_precision_unless_fp16_is_declared_and_on_cpus(backend, tolerance, given, built):
    root = built(TOLERANT, backend, tolerance, **given)
    assert (precisions(root), types_of_weights(root)) == ([], {onnx.TensorProto.FLOAT})


def test_a_declared_fp16_that_overflows_is_refused_with_the_row_and_the_layer(built):
    problem = refused(built, OVERFLOWS)
    assert problem.rule == "fp16-tolerance"
    assert "Y differs by inf for the example X=[0.5, 1, -2, 3]; 0.01 is allowed" in problem.what
    assert "Mul b, whose values reach 5.5e+06" in problem.what


IMAGES = (
    "g (float[rows, 1, 4, 4] X) => (float[rows, 1, 4, 4] Y) <float[1, 1, 1, 1] w = {1}, float zero = {0}>"
)


@pytest.mark.parametrize("product", ["MatMul(X, X)", 'Einsum<equation: string = "abij,abjk->abik">(X, X)'])
def test_products_in_fp32_next_to_convolutions_in_fp16_lose_digits_to_tf32(product, built):
    graph = f"{IMAGES} {{ c = Conv(X, w) d = Mul(c, zero) e = Conv(d, w) p = {product} Y = Add(p, e) }}"
    inputs = INPUTS.replace("[[0.5, 1, -2, 3]]", "np.linspace(-3, 3, 16).reshape(1, 1, 4, 4)")
    problem = refused(built, graph, tolerance='{"fp32": 1e-5, "fp16": 1e-3}', examples=inputs)
    assert "Y differs by 0.0" in problem.what
    assert precisions(built(graph, tolerance='{"fp32": 1e-5, "fp16": 2e-2}', examples=inputs)) == ["fp16"]


def test_fp16_needs_examples_of_the_user(built):
    made_up = INPUTS.replace("inputs=", "generated=True, inputs=")
    problem = refused(built, TOLERANT, examples=made_up)
    assert "none of its examples is yours" in problem.what
    assert precisions(built(TOLERANT, "OnnxRuntime()", examples=made_up)) == []


def test_fp16_is_refused_where_nothing_says_which_values_come(built):
    problem = refused(built, TOLERANT, ranges="")
    assert "nothing says which values 'X' gets" in problem.what
    assert "inputs_between" in problem.fix
    assert precisions(built(TOLERANT)) == ["fp16"]  # the fix


TREES = "g (float[rows, 4] X) => (float[rows, 4] Y) { Y = ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>(X) }"
IN_A_BRANCH = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <bool yes = {1}> { Y = If(yes) <"
    "then_branch = t () => (float[rows, 4] T) { T = ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>(X) },"
    "else_branch = e () => (float[rows, 4] E) { E = Identity(X) }> }"
)


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (TREES, "it has Scaler, an operator of ai.onnx.ml"),
        (IN_A_BRANCH, "it has Scaler, an operator of ai.onnx.ml"),
    ],
    ids=["an operator of ML", "an operator of ML in a branch"],
)
def test_fp16_is_refused_where_no_example_can_prove_it(graph, said, built):
    problem = refused(built, graph, ranges="", opsets='"": 18, "ai.onnx.ml": 3')
    assert said in problem.what


def test_what_cuda_has_in_float_only_stays_in_fp32(built):
    graph = (
        "g (float[rows, 4] X) => (float[rows, 4] Y) <int64[4] four = {-1, 1, 2, 2}, int64[4] grid = "
        "{-1, 1, 2, 2}, int64[2] flat = {-1, 4}, float[4, 4] w = {MIXING}> "
        "{ m = MatMul(X, w) h = Tanh(m) image = Reshape(h, four) ends = Concat<axis: int = 3>(image, image)"
        " places = Reshape(h, grid) p = Concat<axis: int = 1>(places, places)"
        " q = Transpose<perm = [0, 2, 3, 1]>(p) g = GridSample(image, q) f = Reshape(g, flat)"
        " Y = MatMul(f, w) }"
    )
    root = built(graph)
    network = onnx.shape_inference.infer_shapes(onnx.load(root / "net" / "1" / "model.onnx"))
    types = {each.name: each.type.tensor_type.elem_type for each in network.graph.value_info}
    sampled = next(node for node in network.graph.node if node.op_type == "GridSample")
    assert precisions(root) == ["fp16"]
    assert {types[name] for name in sampled.input} == {onnx.TensorProto.FLOAT}


def test_a_file_that_the_conversion_breaks_is_refused_and_nothing_replaces_it(built, monkeypatch):
    monkeypatch.setattr(half, "to_fp16", lambda network, **_: onnx.ModelProto(ir_version=8))
    assert "it cannot be converted" in refused(built, TOLERANT).what
    assert precisions(built(TOLERANT, "OnnxRuntime()")) == []


def test_a_file_that_ends_onnx_runtime_stays_in_fp32_and_the_build_goes_on(built, monkeypatch):
    monkeypatch.setattr(half, "_LOADED", set())
    monkeypatch.setattr(half, "_LOAD", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert "ONNX Runtime ends with signal 11" in refused(built, TOLERANT).what


def test_a_structure_is_loaded_once_whatever_its_weights_are(built, monkeypatch):
    loaded = []
    monkeypatch.setattr(half, "_LOADED", set())
    monkeypatch.setattr(half, "_load_as_a_server", loaded.append)
    scaled = (
        "g (float[rows, 4] X) => (float[rows, 4] Y) <float[1] w = {WEIGHT}, float[4, 4] m = {MIXING}>"
        " { h = MatMul(X, m) Y = Mul(h, w) }"
    )
    for graph in (scaled.replace("WEIGHT", "1"), scaled.replace("WEIGHT", "2"), TOLERANT):
        built(graph)
    assert len(loaded) == 2


def options(root: Path) -> dict[str, str]:
    config = read_config(root / "net" / "config.pbtxt")
    entries = config.optimization.execution_accelerators.gpu_execution_accelerator
    return {name: value for entry in entries for name, value in entry.parameters.items()}


def test_a_file_in_fp16_has_no_switch_for_tf32_which_takes_tensor_cores_away(built):
    assert "use_tf32" not in options(built(TOLERANT))


def test_a_file_in_fp32_has_the_switch(built):
    assert options(built(TOLERANT, "OnnxRuntime()")) == {"use_tf32": "0"}


NORM = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4] one = {1, 1, 1, 1}, float[1, 4] row = {1, 2, 3, 4},"
    " float[4, 4] w = {MIXING}> { h = MatMul(X, w) sum = Add(h, OTHER) n = LayerNormalization(sum, one)"
    " Y = MatMul(n, w) }"
)


@pytest.mark.parametrize(
    ("other", "release", "strict"), [("X", "25.09", True), ("row", "25.09", False), ("X", "24.05", False)]
)
def test_norms_sum_in_fp32_by_the_strict_mode_or_else_stay_in_fp32(other, release, strict, built):
    root = built(NORM.replace("OTHER", other), release=release)
    network = onnx.load(root / "net" / "1" / "model.onnx")
    scale = next(node for node in network.graph.node if node.op_type == "LayerNormalization").input[1]
    weights = {each.name: each.data_type for each in network.graph.initializer}
    assert ("enable_skip_layer_norm_strict_mode" in options(root)) == strict
    assert (weights[scale] == onnx.TensorProto.FLOAT16) == strict


SPELLED_OUT = {
    "mean": "m = ReduceMean<axes = [-1]>(sum) d = Sub(sum, m) q = Pow(d, two)",
    "root mean square": "d = Identity(sum) q = Mul(sum, sum)",
}
"""What is divided, and its squares, of normalizations that are no operator of their own."""


def spelled_out(kind: str, other: str) -> str:
    return (
        "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4] one = {1, 1, 1, 1}, float two = {2},"
        " float least = {1e-12}, float[1, 4] row = {1, 2, 3, 4}, float[4, 4] w = {MIXING}>"
        f" {{ h = Gemm(X, w, row) sum = Add(h, {other}) {SPELLED_OUT[kind]} v = ReduceMean<axes = [-1]>(q)"
        " e = Add(v, least) s = Sqrt(e) n = Div(d, s) scaled = Mul(n, one)"
        " t = Add(scaled, one) Y = Gemm(t, w, row) }"
    )


def types_read(root: Path, but: set[str]) -> set[int]:
    """Return the types that a file's operators read, but for whole numbers and for some operators."""
    network = onnx.shape_inference.infer_shapes(onnx.load(root / "net" / "1" / "model.onnx"))
    values = (*network.graph.input, *network.graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {weight.name: weight.data_type for weight in network.graph.initializer}
    nodes = [node for node in network.graph.node if node.op_type not in but]
    return {types[name] for node in nodes for name in node.input} - {onnx.TensorProto.INT64}


@pytest.mark.parametrize("kind", SPELLED_OUT)
@pytest.mark.parametrize(
    ("other", "release", "strict"), [("X", "25.09", True), ("row", "25.09", False), ("X", "24.05", False)]
)
def test_norms_that_a_file_spells_out_sum_in_fp32_too(kind, other, release, strict, built, tmp_path):  # noqa: PLR0917  fixtures
    root = built(spelled_out(kind, other), release=release, opsets='"": 16')
    assert precisions(root) == ["fp16"]
    assert ("enable_skip_layer_norm_strict_mode" in options(root)) == strict
    fusing = onnxruntime.SessionOptions()
    fusing.optimized_model_filepath = str(tmp_path / "fused.onnx")
    fusing.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(root / "net" / "1" / "model.onnx", fusing)
    assert types_read(root, but={"Gemm", "Cast"}) == {onnx.TensorProto.FLOAT}


def test_the_least_divisor_of_a_norm_stays_what_it_is(built):
    graph = spelled_out("mean", "row").replace("float least = {1e-12}, ", "")
    root = built(
        graph.replace("e = Add", "least = Constant<value = float {1e-12}>() e = Add"), opsets='"": 16'
    )
    network = onnx.load(root / "net" / "1" / "model.onnx")
    session = onnxruntime.InferenceSession(root / "net" / "1" / "model.onnx")
    assert precisions(root) == ["fp16"]
    assert onnx.TensorProto.FLOAT in {each.data_type for each in network.graph.initializer}
    assert np.isfinite(session.run(None, {"X": np.zeros((1, 4), np.float32)})[0]).all()


def test_operators_that_stay_in_fp32_may_share_their_constants():
    shared = (
        NORM.replace("OTHER", "row")
        .replace("MIXING", MIXING)
        .replace(
            "n = LayerNormalization(sum, one)",
            "a = LayerNormalization(sum, one) b = Add(a, row) c = Mul(b, one) n = LayerNormalization(c, one)",
        )
    )
    network = half.to_fp16(network_of(shared, opsets='"": 18'), exact_norms=True)
    names = [name for node in network.graph.node for name in node.output]
    assert len(names) == len(set(names))
    onnx.checker.check_model(network, full_check=True)
    norms = [node for node in network.graph.node if node.op_type == "LayerNormalization"]
    assert [name.endswith("_cast_to_fp32") for node in norms for name in node.input] == [True] * 4


def test_two_enlargements_of_an_image_share_their_scales():
    graph = (
        "g (float[rows, 1, 2, 2] X) => (float[rows, 1, 8, 8] Y) <float[4] twice = {1, 1, 2, 2}>"
        ' { a = Resize<mode = "linear">(X, , twice) b = Tanh(a) Y = Resize<mode = "linear">(b, , twice) }'
    )
    network = half.to_fp16(network_of(graph, opsets='"": 18'))
    onnx.checker.check_model(network, full_check=True)
    onnxruntime.InferenceSession(network.SerializeToString())


def test_sizes_that_the_conversion_writes_are_in_the_configuration(built):
    graph = "g (float[rows, 4] X) => (float[rows, out] Y)"
    graph += " <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { Y = MatMul(X, w) }"
    root = built(graph)
    written = onnx.load(root / "net" / "1" / "model.onnx").graph.output[0].type.tensor_type.shape.dim[1]
    (output,) = read_config(root / "net" / "config.pbtxt").output
    assert list(output.dims) == [written.dim_value or -1]


SMALL_VALUES = {
    "a norm": "m = ReduceMean<axes = [-1]>(X) d = Sub(X, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q)"
    " e = Add(v, tiny) s = Sqrt(e) h = Div(d, s)",
    "a root mean square": "q = Mul(X, X) v = ReduceMean<axes = [-1]>(q) e = Add(tiny, v) s = Sqrt(e)"
    " r = Reciprocal(s) h = Mul(X, r)",
    "a share": "a = Abs(X) v = ReduceL1<axes = [-1]>(a) e = Add(v, tiny) h = Div(X, e)",
    "a least length": "v = ReduceL2<axes = [-1]>(X) e = Clip(v, tiny) h = Div(X, e)",
    "a logarithm": "a = Abs(X) e = Add(a, tiny) l = Log(e) h = Mul(l, tenth)",
    "an operator": "h = LayerNormalization(X, one)",
    "a sign": "b = Less(X, zero) f = Cast<to: int = 1>(b) h = Add(f, one)",
}
"""Values of rows such as 1e-6, which FP16 rounds, and which are of the usual size behind these operators."""


def of_small_values(kind: str, shared: str = "") -> str:
    return (
        "g (float[rows, 4] X) => (float[rows, 4] Y) <float tiny = {1e-8}, float[4] one = {1, 1, 1, 1},"
        " float zero = {0}, float tenth = {0.1}, float[4, 4] w = {MIXING}>"
        f" {{ {SMALL_VALUES[kind]} p = MatMul(h, w) {shared} Y = Tanh({'t' if shared else 'p'}) }}"
    )


def small_rows() -> np.ndarray:
    random = np.random.default_rng(seed=3)
    sizes = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
    rows = [size * random.standard_normal((20, 4)) for size in sizes]
    even = random.uniform(-3, 3, (20, 1)) * (1 + 1e-3 * random.standard_normal((20, 4)))
    return np.concatenate([*rows, even, np.zeros((1, 4))]).astype(np.float32)


@pytest.mark.parametrize("kind", SMALL_VALUES)
def test_small_values_stay_in_fp32_until_they_are_of_the_usual_size(kind, built):
    graph = of_small_values(kind)
    root = built(graph, opsets='"": 17' if kind == "an operator" else '"": 13')
    assert precisions(root) == ["fp16"]
    file = onnx.load(root / "net" / "1" / "model.onnx")
    source = onnx.load(root.parent.parent / "models" / "net" / "net.onnx")
    assert {weight.name: weight.data_type for weight in file.graph.initializer}[
        "w"
    ] == onnx.TensorProto.FLOAT16
    answers = [run_file(network)({"X": small_rows()})["Y"] for network in (half._rounding(file), source)]
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-2)
    onnxruntime.InferenceSession(root / "net" / "1" / "model.onnx")  # as a server fuses it


def test_a_small_constant_keeps_its_value_where_operators_in_fp16_read_it_too(built):
    root = built(of_small_values("a share", shared="t = Add(p, tiny)"), opsets='"": 13')
    file = onnx.load(root / "net" / "1" / "model.onnx")
    scalars = [weight for weight in file.graph.initializer if not weight.dims]
    assert np.float32(1e-8) in [onnx.numpy_helper.to_array(weight).item() for weight in scalars]


def test_small_values_that_nothing_guards_are_drawn_and_fp16_is_refused_with_the_row(built):
    graph = of_small_values("a share").replace("e = Add(v, tiny)", "e = Sqrt(v)")
    graph = graph.replace("a = Abs(X) v = ReduceL1<axes = [-1]>(a)", "a = Mul(X, X) v = ReduceSum(a, one)")
    graph = graph.replace("float[4] one = {1, 1, 1, 1}", "int64[1] one = {1}")
    graph = graph.replace("{ a =", "{ x = MatMul(X, w) a =").replace("Mul(X, X)", "Mul(x, x)")
    graph = graph.replace("Div(X, e)", "Div(x, e)")
    problem = refused(built, graph, opsets='"": 13')
    assert problem.rule == "fp16-tolerance"
    assert "for the drawn X=[" in problem.what
    assert precisions(built(graph, "OnnxRuntime()", opsets='"": 13')) == []


def test_a_network_without_layers_stays_in_fp32(built):
    graph = of_small_values("a share").partition(" p = ")[0] + " Y = Identity(h) }"
    assert "it has no layers with weights" in refused(built, graph, opsets='"": 13').what


@pytest.mark.parametrize("graph", [MASKED, INTEGERS_TOO], ids=["a mask", "an output of integers"])
def test_a_mask_is_no_overflow_and_integers_are_not_rounded(graph, built):
    assert precisions(built(graph)) == ["fp16"]


def test_a_default_that_may_stay_in_fp32_needs_a_tolerance_for_both(built):
    assert "no tolerance for fp32" in refused(built, TOLERANT, "OnnxRuntime()", '{"fp16": 1e-2}').what


def test_a_plan_of_a_file_is_compiled_in_fp16_only_if_that_is_declared(built, machine):
    profile = "profile={'X': ShapeRange(min=(1, 4), opt=(8, 4), max=(8, 4))}"
    log = machine()
    assert precisions(built(TOLERANT, f"TensorRt(), {profile}", gpu="A10G")) == ["fp32"]
    assert "--fp16" not in log.read_text().split()
    assert precisions(built(TOLERANT, f'TensorRt(precision="fp16"), {profile}', gpu="A10G")) == ["fp16"]
    assert "--fp16" in log.read_text().split()


NETWORK = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1, bias=False)
            torch.nn.init.ones_(self.layer.weight)
        def same(self, x):
            return self.layer(x[..., None])[..., 0]
        def forward(self, x):
            return LINE
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={"x": np.array([[0.5, 1, -2, 3]], np.float32)})]

BUILD = ModelDefinition(
    name="net", description="made up", output="Y", examples=examples, reference=dict,
    tolerance={"fp32": 1e-4, "fp16": 1e-2},
    models=[PyTorchNetwork(name="net", network=network, outputs=["Y"], max_batch_size=8, RANGE)],
)
"""


def between_layers(line: str) -> str:
    return f"self.same({re.sub(r'(?<![.a-z])x(?![a-z])', 'self.same(x)', line)})"


@pytest.mark.parametrize(
    ("line", "largest", "said"),
    [
        ("torch.tanh(x * 2)", "3", ""),
        ("x * 1e3 * 1e3 / 1e3 / 1e3", "3", "Y differs by inf for the example x=[0.5, 1, -2, 3]"),
        ("torch.tanh(x * 2)", "1e9", "input 'x' reaches 1e+09, FP16 65504"),
    ],
    ids=["tolerant", "overflows", "reaches"],
)
def test_a_network_of_pytorch_is_in_fp16_by_default_if_its_range_stays_equal(
    line, largest, said, tmp_path, capsys
):
    ranges = f'inputs_between={{"x": Between(-3, {largest}, why="scaled")}}'
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(NETWORK.replace("LINE", between_layers(line)).replace("RANGE", ranges))
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    assert precisions(root) == ([] if said else ["fp16"])
    assert said in capsys.readouterr().err


RANKED = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.items = torch.nn.Linear(6, 400, bias=False)
            self.register_buffer("names", torch.randperm(400) + 1_000_000)
        def forward(self, X):
            return RANKING
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={"X": np.array([[0.5, 1, -2, 3, 0.1, 2]], np.float32)})]

BUILD = ModelDefinition(
    name="net", description="made up", output="Y", examples=examples, reference=dict,
    tolerance={"fp32": 1e-4, "fp16": 1e-2},
    models=[PyTorchNetwork(
        name="net", network=network, inputs=[Tensor("X", "FP32", [6])], outputs=["Y"], max_batch_size=8,
        inputs_between={"X": Between(-3, LARGEST, why="scaled before")},
    )],
)
"""


@pytest.mark.parametrize(
    ("ranking", "largest", "said"),
    [
        ("self.names[self.items(X).topk(5).indices]", "3", "stays in FP32: Y differs by "),
        ("torch.cdist(X, self.items.weight * 30).topk(5).indices", "1e14", "stays in FP32: "),
        ("(self.items(X) > 0).all(1, keepdim=True).long() + 1_000_000", "3", ""),
    ],
    ids=["names", "distances to the last bit", "equal"],
)
def test_whole_numbers_are_equal_or_not_except_where_scores_tie(ranking, largest, said, tmp_path, capsys):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(RANKED.replace("RANKING", ranking).replace("LARGEST", largest))
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    assert precisions(root) == ([] if said else ["fp16"])
    assert said in capsys.readouterr().err


TABULAR = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(201, 2)
            self.last = torch.nn.Linear(4, 2)
        def forward(self, X):
            return torch.sigmoid(self.last(FIRST))
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={"X": np.array([[120, 13, 42, 3]], np.TYPE)})]

BUILD = ModelDefinition(
    name="net", description="made up", output="Y", examples=examples, reference=dict,
    tolerance={"fp32": 1e-4, "fp16": 1e-2},
    models=[
        PyTorchNetwork(name="net", network=network, inputs=[INPUT], outputs=["Y"], max_batch_size=8, MORE)
    ],
)
"""
FLOATS = 'Tensor("X", "FP32", [4])'
BETWEEN = 'inputs_between={"X": Between(0, 200, why="scaled before")}'
# Of one input, the first column is a category, and the last two are amounts.
NEXT_TO = "torch.cat([self.table(X[:, 0].long()), torch.log1p(X[:, 2:].abs().float())], 1)"


@pytest.mark.parametrize(
    ("first", "data_type", "more", "expected"),
    [
        ("X.clamp(0, 4)", "float32", "", []),
        ("torch.log1p(X.float())", "int64", "", []),
        ("torch.log1p(X)", "float32", BETWEEN, ["fp16"]),
        ("torch.log1p(X.float())", "int64", BETWEEN, ["fp16"]),
        ("torch.nn.functional.layer_norm(X, (4,))", "float32", BETWEEN, ["fp16"]),
        ("(X - X.mean(1, keepdim=True)) / (X.std(1, keepdim=True) + 1e-8)", "float32", BETWEEN, ["fp16"]),
        (NEXT_TO, "float32", "", []),
        (NEXT_TO, "int64", BETWEEN.replace("200", "2000"), ["fp16"]),
    ],
    ids=[
        *("any", "whole", "a range", "whole with a range", "a norm", "an epsilon"),
        *("next to a category", "a range next to a category"),
    ],
)
def test_features_are_in_fp16_only_in_a_range(first, data_type, more, expected, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    tensor = FLOATS if data_type == "float32" else FLOATS.replace("FP32", "INT64")
    text = TABULAR.replace("FIRST", first).replace("TYPE", data_type).replace("INPUT", tensor)
    (folder / "build.py").write_text(text.replace("MORE", more))
    assert precisions(build("net", models=tmp_path / "models", output=tmp_path / "out")) == expected


@pytest.mark.parametrize(
    ("first", "precision"),
    [
        ("self.table(X).sum(2)", ["fp16"]),
        ("self.table(X).sum(2) * (X > 0)", ["fp16"]),
        ("self.table(X.reshape(-1, 2, 2)).flatten(1)[:, :4]", ["fp16"]),
        ("self.table(X).sum(2) * X", []),
        ("self.table(X % 201).sum(2)", []),
        ("self.table(X + torch.tensor([0, 5, 9, 20])).sum(2)", []),
        ("torch.cat([self.table(X)[:, 0], self.last.weight[X[:, 0] % 2][:, :2]], 1)", []),
        ("(X > 0).float()", []),
        ("torch.where(X.bool(), 1.0, 2.0)", []),
    ],
    ids=[
        *("a table", "a table and padding", "a table in another shape", "a table that is a number, too"),
        *("the rest of a division", "one table of several", "two tables", "no table", "a mask that chooses"),
    ],
)
def test_whole_numbers_are_in_fp16_without_a_range_only_if_they_index_one_table(
    first, precision, tmp_path, capsys
):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    text = TABULAR.replace("FIRST", first).replace("TYPE", "int64").replace("MORE", "")
    (folder / "build.py").write_text(text.replace("INPUT", FLOATS.replace("FP32", "INT64")))
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    assert precisions(root) == precision
    assert ("nothing says which values 'X' gets; inputs_between" in capsys.readouterr().err) != bool(
        precision
    )


LONG = """inputs=[Tensor("x", "FP32", [DynamicDim(name="n", min=1, opt=100, max=1500)])],
        inputs_between={"x": Between(-100, 100, why="decibels")}"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x.sum(1, keepdim=True) / x.shape[1]", []),
        ("x.cumsum(1)[:, -1:] / x.shape[1]", []),
        ("(x * x / 100).sum(1, keepdim=True).sqrt()", []),
        ("x.relu().sum(1, keepdim=True) / x.shape[1]", []),
        ("x.mean(1, keepdim=True)", ["fp16"]),
    ],
    ids=["sum", "running sum", "squares", "of one sign", "mean"],
)
def test_sums_of_the_longest_rows_of_one_sign_decide_about_fp16(line, expected, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(NETWORK.replace("LINE", between_layers(line)).replace("RANGE", LONG))
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    assert precisions(root) == expected


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("self.same(((x - x.mean(1, keepdim=True)) ** 2).sum(1, keepdim=True).log1p())", 16.523),
        ("(self.same(x) ** 2).sum(1, keepdim=True).log1p()", 16.523),
        ("self.same((x > 1e-9).float() * x.pow(2)).mean(1, keepdim=True) / 100", 50.0),
    ],
    ids=["before a layer", "behind it", "compared with a small number"],
)
def test_what_lies_outside_of_layers_stays_in_fp32(line, right, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(NETWORK.replace("LINE", line).replace("RANGE", LONG))
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    row = np.tile(np.float32([100, -100]), (1, 750))
    (answer,) = run_file(half._rounding(onnx.load(root / "net" / "1" / "model.onnx")))({"x": row}).values()
    assert precisions(root) == ["fp16"]
    assert answer.item() == pytest.approx(right, rel=1e-3)


@pytest.mark.parametrize(
    ("most", "kept"),
    [(1, onnx.TensorProto.FLOAT16), (60000, onnx.TensorProto.FLOAT)],
    ids=["trained", "amounts"],
)
def test_a_table_of_amounts_stays_in_fp32(most, kept, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    text = TABULAR.replace("TYPE", "int64").replace("INPUT", FLOATS.replace("FP32", "INT64"))
    text = text.replace("2)\n", f"2)\n            torch.nn.init.constant_(self.table.weight, {most})\n", 1)
    text = text.replace("FIRST", "torch.log1p(self.table(X).sum(2))").replace("MORE", "")
    (folder / "build.py").write_text(text)
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    weights = onnx.load(root / "net" / "1" / "model.onnx").graph.initializer
    assert precisions(root) == ["fp16"]
    assert [weight.data_type for weight in weights if list(weight.dims) == [201, 2]] == [kept]


@pytest.mark.parametrize(
    "table",
    [
        "torch.nn.functional.embedding(X, PRICES)",
        "torch.nn.functional.embedding(X, PRICES.int().float())",
        "torch.nn.functional.embedding(X, PRICES * 1.5)",
        "torch.nan_to_num(torch.nn.functional.embedding(X, PRICES))",
    ],
    ids=["beyond FP16", "of another type", "computed", "without missing ones"],
)
def test_tables_keep_their_numbers_wherever_they_come_from(table, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    text = TABULAR.replace("TYPE", "int64").replace("INPUT", FLOATS.replace("FP32", "INT64"))
    prices = "prices = torch.linspace(1, 2e6, 20_000).reshape(-1, 2)"
    text = text.replace(
        "def network():\n    import torch\n", f"def network():\n    import torch\n    {prices}\n"
    )
    text = text.replace("FIRST", f"torch.log1p({table.replace('PRICES', 'prices')}.sum(2)) / 10")
    (folder / "build.py").write_text(text.replace("MORE", BETWEEN.replace("200", "9999")))
    half_root, root = (
        build("net", models=tmp_path / "models", output=tmp_path / name, cpu=name == "cpu")
        for name in ("gpu", "cpu")
    )
    file = "net/1/model.onnx"
    request = {"X": np.array([[9999, 9998, 5000, 0]])}
    rounded = run_file(half._rounding(onnx.load(half_root / file)))(request)["Y"]
    assert precisions(half_root) == ["fp16"]
    np.testing.assert_allclose(rounded, run_file(str(root / file))(request)["Y"], rtol=0, atol=1e-3)
