"""Exports of networks of a few numbers; the real ones are in test_model_builds.py."""

import onnx
import onnxruntime
import pytest
import torch

from tests.reported import reported
from triton_models.artifact.networks import read_onnx_file
from triton_models.base.errors import FleetError
from triton_models.builds.export.onnx import OPSET, export_onnx
from triton_models.builds.job import Job
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.releases import RELEASES, release

AXES = {0: "batch", 1: "tokens"}
ONES = torch.ones((2, 8), dtype=torch.int32)


class Weighted(torch.nn.Module):
    """Two inputs with different roles."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([3.0]))

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first.float() * self.weight + second.float()


class Deaf(torch.nn.Module):
    """Ignores its second input."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        del second
        return first.float() * 2


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "net" / "1"
    folder.mkdir(parents=True)
    return folder / "model.onnx"


def export(module, path, *, first=ONES, second=ONES):
    export_onnx(
        module,
        path,
        inputs={"first": first, "second": second},
        outputs=["sum"],
        dynamic={"first": AXES, "second": AXES},
    )
    return onnx.load(path)


def test_names_types_and_open_dimensions_are_those_asked_for(path):
    model = export(Weighted(), path)
    onnx.checker.check_model(model, full_check=True)
    for value in model.graph.input:
        assert value.type.tensor_type.elem_type == onnx.TensorProto.INT32
        assert [size.dim_param for size in value.type.tensor_type.shape.dim] == ["batch", "tokens"]
    assert [value.name for value in model.graph.input] == ["first", "second"]
    assert [value.name for value in model.graph.output] == ["sum"]
    assert [(each.domain, each.version) for each in model.opset_import if not each.domain] == [("", OPSET)]


class Reduces(torch.nn.Module):
    """Has the operators that opset 18 changed."""

    def forward(self, first, second):
        low, high = (first * 1.5 + second).reshape(-1, 2, 4).chunk(2, dim=1)
        wide = torch.nn.functional.interpolate((low - high)[:, None], scale_factor=2)
        return wide.mean((2, 3)) + wide.amax((2, 3)) + torch.linalg.vector_norm(low, dim=2)


@pytest.mark.story
def test_the_file_loads_in_the_oldest_onnx_runtime_of_the_table(path):
    oldest = min((each.onnx_ir_version, each.onnx_opset) for each in RELEASES.values())
    model = export(Weighted(), path)
    assert (model.ir_version, OPSET) <= oldest == (9, 19)


@pytest.mark.story
def test_an_opset_that_tensorrt_8_reads_gives_the_same_answers(path):
    from onnx.reference import ReferenceEvaluator

    first, second = (torch.rand(2, 8, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    given = {"inputs": {"first": first, "second": second}, "dynamic": {"first": {0: "b"}, "second": {0: "b"}}}
    export_onnx(Reduces(), path, outputs=["sum"], opset=release("24.01").plan_opset, **given)
    model = onnx.load(path)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    assert {"ReduceMean", "ReduceMax", "Resize"} <= {node.op_type for node in model.graph.node}
    (answer,) = ReferenceEvaluator(model).run(None, {"first": first.numpy(), "second": second.numpy()})
    torch.testing.assert_close(torch.from_numpy(answer), Reduces()(first, second))


def test_a_plan_of_an_opset_that_tensorrt_8_misreads_is_refused(path):
    export(Weighted(), path)
    shapes = {name: ShapeRange(min=(1, 1), opt=(2, 2), max=(4, 8)) for name in ("first", "second")}
    root = path.parents[2]
    Job(root=root, source=root, release=release("24.05")).compile_plan(path, shapes=shapes)
    with reported("plan-opset"):
        Job(root=root, source=root, release=release("24.03")).compile_plan(path, shapes=shapes)


def test_the_head_of_a_file_is_what_the_onnx_package_reads(path):
    model = export(Weighted(), path)
    head = read_onnx_file(path)
    assert (head.ir_version, head.opset, head.initializers) == (model.ir_version, OPSET, ())
    assert {each.name: each.dims for each in (*head.signature.inputs, *head.signature.outputs)} == {
        each.name: [size.dim_value or size.dim_param for size in each.type.tensor_type.shape.dim]
        for each in (*model.graph.input, *model.graph.output)
    }
    weight = model.graph.initializer[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    onnx.save(model, path)
    again = read_onnx_file(path)
    assert again.signature == head.signature
    assert [tensor.name for tensor in again.initializers] == [weight.name]
    model.ir_version = 3  # whose weights are all listed as inputs, and constant
    onnx.save(model, path)
    assert read_onnx_file(path).initializers == ()


@pytest.mark.parametrize("content", [b"", b"weights", b"\x08\x08", b"\x3a\xff"])
def test_what_is_no_onnx_file_has_no_head(content, path):
    path.write_bytes(content)
    assert read_onnx_file(path) is None


def test_an_input_without_effect_is_refused(path):
    with pytest.raises(FleetError, match="does not use second"):
        export(Deaf(), path)
    assert not path.exists()


def test_the_network_is_exported_as_it_predicts_not_as_it_trains(path):
    class Dropping(Weighted):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(super().forward(first, second), training=self.training)

    model = export(Dropping().train(), path)
    assert not any("ropout" in node.op_type for node in model.graph.node)


@pytest.mark.parametrize(
    ("guarded", "x"),
    [
        (lambda x: x / (x.std(dim=1, keepdim=True) + 1e-8), [[1.0, 1.0], [0.0, 0.0]]),
        (lambda x: x / torch.sqrt(x.var(dim=1, keepdim=True) + 1e-10), [[1.0, 1.0], [0.0, 0.0]]),
        (lambda x: torch.log(x + 1e-9), [[0.0, 1.0], [1e-9, 0.0]]),
        (lambda x: 1e-20 + x, [[0.0, 1e-20], [0.0, 0.0]]),
        (lambda x: x - 1e-9, [[0.0, 1e-9], [0.0, 0.0]]),
        (lambda x: (x.double() + 1e-30).log().float(), [[0.0, 1.0], [0.0, 0.0]]),
        (lambda x: x / x.sum(dim=1, keepdim=True).clamp(min=1e-12), [[0.0, 0.0], [0.0, 1e-13]]),
    ],
    ids=["std", "variance", "log", "addition", "subtraction", "FP64", "clamp"],
)
def test_small_constants_stay_in_the_file(guarded, x, path):
    class Guarded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return guarded(x)

    example = {"x": torch.ones(2, 2)}
    export_onnx(Guarded(), path, inputs=example, outputs=["y"], dynamic={"x": {0: "batch"}})

    [y] = onnxruntime.InferenceSession(path).run(None, {"x": torch.tensor(x).numpy()})
    torch.testing.assert_close(torch.from_numpy(y), guarded(torch.tensor(x)), atol=0, rtol=1e-5)


class Recurrent(torch.nn.Module):
    def __init__(self, *layers: torch.nn.RNNBase) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)[0]
        return x[:, -1]


def export_steps(path, *layers):
    torch.manual_seed(0)
    network = Recurrent(*layers).eval()
    dynamic = {"x": {0: "batch", 1: "steps"}}
    export_onnx(network, path, inputs={"x": torch.ones(2, 2, 4)}, outputs=["y"], dynamic=dynamic)
    return network


@pytest.mark.parametrize("_", range(2))
@pytest.mark.parametrize(
    "layers",
    [
        lambda: [torch.nn.LSTM(4, 8, batch_first=True)],
        lambda: [torch.nn.GRU(4, 8, batch_first=True)],
        lambda: [torch.nn.LSTM(4, 8, num_layers=2, bidirectional=True, batch_first=True)],
    ],
    ids=["LSTM", "GRU", "several layers"],
)
def test_recurrent_networks_keep_an_open_number_of_steps_in_every_export_of_a_process(layers, _, path):
    network = export_steps(path, *layers())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", "steps", 4]
    for rows, steps in ((1, 1), (3, 5), (2, 17)):
        x = torch.randn(rows, steps, 4)
        [y] = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(y), network(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_a_size_that_the_exporter_fixed_is_named_with_a_backend_that_keeps_it(nonlinearity, path):
    with pytest.raises(FleetError) as error:
        export_steps(path, torch.nn.RNN(4, 8, batch_first=True, nonlinearity=nonlinearity))
    [problem] = error.value.problems
    assert problem.rule == "network-size-fixed"
    assert problem.what == "the exporter fixed 'steps' of the input 'x' at 2"
    assert 'backend=LibTorch(export="script", cudnn=False)' in (problem.fix or "")
