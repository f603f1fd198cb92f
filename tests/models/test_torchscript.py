"""PyTorch to TorchScript: what the file holds, what the configuration learns from it, what is refused."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from triton_models.artifact.networks import Forward, read_script
from triton_models.artifact.pbtxt import plain, read_config, schema
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.export import pytorch
from triton_models.builds.export.pytorch import export_torchscript
from triton_models.declare.mistakes import find_mistakes
from triton_models.spec import DynamicDim, LibTorch, PyTorchNetwork, Tensor

ROWS = Tensor("X__0", "FP32", [3])
TOKENS = DynamicDim(name="tokens", min=2, max=8)


class Scale(torch.nn.Module):
    """Doubles, in a module of its own, so that the file has names of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        torch.nn.init.eye_(self.inner.weight)
        torch.nn.init.zeros_(self.inner.bias)

    def forward(self, x):
        return self.inner(x) * 2


class SizeInPython(torch.nn.Module):
    """Divides by a size that a trace takes for a constant."""

    def forward(self, x):
        return x / float(len(x))


class OnTheCpu(torch.nn.Module):
    def forward(self, x):
        return x + torch.zeros(x.shape)  # a trace notes the device that the default was


@torch.library.custom_op("fleet_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


LIBRARY = torch.library.Library("fleet_library", "DEF")
LIBRARY.define("halves(Tensor x) -> Tensor[]")
LIBRARY.impl("halves", lambda x: [x / 2, x / 2], "CPU")


class Doubles(torch.nn.Module):
    def forward(self, x):
        return double(x)


class Scripted(torch.nn.Module):
    def forward(self, x):
        return torch.ops.fleet_library.halves(x)[0] if x.shape[0] > 1 else x / 2


class Primitive(torch.nn.Module):
    """Calls an operator that PyTorch registers in Python."""

    def forward(self, x):
        return torch.ops.prims.sin(x)


class Sums(torch.nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(1), mask.argmax(1, keepdim=True), x


def export(network, folder: Path, *, inputs=(ROWS,), outputs=("Y__0",), **given):
    return export_torchscript(
        network,
        folder / "model.pt",
        name="net",
        inputs=inputs,
        outputs=outputs,
        batches=given.pop("batches", True),
        **given,
    )


@pytest.mark.parametrize("how", ["trace", "script"])
def test_the_file_answers_as_the_network_does(how, tmp_path):
    export(Scale(), tmp_path, how=how)
    loaded = torch.jit.load(tmp_path / "model.pt")
    x = torch.rand(5, 3)
    torch.testing.assert_close(loaded(x), x * 2)
    assert not list(loaded.parameters())  # frozen: weights are constants


@pytest.mark.parametrize("how", ["trace", "script"])
def test_the_file_says_what_forward_takes_and_gives(how, tmp_path):
    assert read_script(tmp_path / "model.pt").forward is None
    export(Scale(), tmp_path, how=how)
    assert read_script(tmp_path / "model.pt").forward == Forward(
        arguments=(("x", "Tensor"),), returns="Tensor"
    )
    inputs = [Tensor("X__0", "FP32", [2, 3]), Tensor("MASK__1", "INT64", [2, 1])]
    export(Sums(), tmp_path, how=how, inputs=inputs, outputs=["SUM__0", "AT__1", "SAME__2"])
    assert read_script(tmp_path / "model.pt").forward == Forward(
        arguments=(("x", "Tensor"), ("mask", "Tensor")), returns="Tuple[Tensor, Tensor, Tensor]"
    )


def test_the_file_names_no_path_and_no_machine(tmp_path):
    export(Scale(), tmp_path)
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        names = archive.namelist()
        everything = b"".join(map(archive.read, names))
    assert not [name for name in names if name.endswith(("debug_pkl", "serialization_id"))]
    assert str(Path(torch.__file__).parent).encode() not in everything
    assert str(Path(__file__).parent).encode() not in everything


@pytest.mark.story
def test_another_process_that_exported_something_else_before_writes_the_same_bytes(tmp_path):
    for folder in ("here", "before", "there"):
        (tmp_path / folder).mkdir()
    torch.manual_seed(0)
    export(Scale(), tmp_path / "here")
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); folder = Path(sys.argv[2]);"
        "import test_torchscript as t;"
        "t.export(t.SizeInPython(), folder / 'before', how='script');"
        "t.export(t.Scale(), folder / 'before');"
        "t.export(t.Scale(), folder / 'there')"
    )
    arguments = [str(Path(__file__).parent), str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "there/model.pt").read_bytes() == (tmp_path / "here/model.pt").read_bytes()


def test_types_shapes_and_open_sizes_of_the_outputs_are_learnt_by_running_it(tmp_path):
    inputs = [Tensor("X__0", "FP32", [TOKENS, 3]), Tensor("MASK__1", "INT64", [TOKENS, 1])]
    signature = export(Sums(), tmp_path, inputs=inputs, outputs=["SUM__0", "AT__1", "SAME__2"])
    assert [(each.name, each.data_type, each.dims) for each in signature.inputs] == [
        ("X__0", "TYPE_FP32", ["batch", "tokens", 3]),
        ("MASK__1", "TYPE_INT64", ["batch", "tokens", 1]),
    ]
    assert [(each.name, each.data_type, each.dims) for each in signature.outputs] == [
        ("SUM__0", "TYPE_FP32", ["batch", 3]),
        ("AT__1", "TYPE_INT64", ["batch", 1, 1]),
        ("SAME__2", "TYPE_FP32", ["batch", None, 3]),
    ]


def test_without_a_batch_dimension_the_shapes_are_as_they_are(tmp_path):
    signature = export(Scale(), tmp_path, batches=False, inputs=[Tensor("X__0", "FP32", [4, 3])])
    assert [list(each.dims) for each in (*signature.inputs, *signature.outputs)] == [[4, 3], [4, 3]]


def test_a_trace_that_keeps_a_size_of_its_example_is_refused_and_scripting_takes_it(tmp_path):
    with pytest.raises(FleetError, match="for an input of another size") as caught:
        export(SizeInPython(), tmp_path)
    (problem,) = caught.value.problems
    assert (problem.where, problem.rule) == ("the network of 'net'", "torchscript-export")
    assert 'LibTorch(export="script")' in problem.fix
    assert not (tmp_path / "model.pt").exists()
    export(SizeInPython(), tmp_path, how="script")


def test_a_tensor_that_is_always_made_on_the_cpu_is_refused_unless_it_is_served_there(tmp_path):
    with pytest.raises(FleetError, match="creates tensors on the CPU"):
        export(OnTheCpu(), tmp_path)
    export(OnTheCpu(), tmp_path, cpu=True)


OWN_OPERATORS = [
    ("trace", Doubles(), "fleet_test::double"),
    ("trace", torch.nn.Sequential(Scale(), Doubles()), "fleet_test::double"),
    ("script", Scripted(), "fleet_library::halves"),
    ("trace", Primitive(), "prims::sin"),
]


@pytest.mark.parametrize(("how", "network", "operator"), OWN_OPERATORS)
def test_operators_that_only_the_exporting_process_has_are_refused(how, network, operator, tmp_path):
    with pytest.raises(FleetError) as caught:
        export(network, tmp_path, how=how)
    (problem,) = caught.value.problems
    assert (problem.rule, operator in problem.what) == ("torchscript-export", True)
    assert not (tmp_path / "model.pt").exists()


def test_quantized_operators_of_pytorch_are_exported(tmp_path):
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    export(torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}), tmp_path, cpu=True)
    assert read_script(tmp_path / "model.pt").operators == ["quantized::linear_dynamic"]


class Remembers(torch.nn.Module):
    """Recurrent, with the state of the last call: wrong answers, or a crash for batches of another size."""

    def __init__(self, *, guarded: bool) -> None:
        super().__init__()
        self.cell, self.guarded = torch.nn.LSTM(3, 2), guarded
        self.state = (torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))

    def forward(self, x):
        if self.guarded and self.state[0].shape[1] != x.shape[0]:
            self.state = (x.new_zeros(1, x.shape[0], 2), x.new_zeros(1, x.shape[0], 2))
        y, self.state = self.cell(x[None] if self.guarded else x[:, None], self.state)
        return y


@pytest.mark.parametrize("guarded", [True, False])
def test_a_state_that_is_kept_between_calls_is_refused_with_its_name(guarded, tmp_path):
    with pytest.raises(FleetError, match="it keeps state from one call to the next"):
        export(Remembers(guarded=guarded), tmp_path, tf32=True)


class ShowsWeights(Scale):
    def forward(self, x):
        self.shown = x.softmax(-1), x * 1j
        return super().forward(x)


class ShowsNoise(Scale):
    def forward(self, x):
        self.shown = torch.randn_like(x)
        return super().forward(x + self.shown)


class ScalesInPlace(ShowsWeights):
    def forward(self, x):
        return super().forward(x.sub_(0.5))


class OwnGradient(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * x.sigmoid()


class Swish(torch.nn.Module):
    def forward(self, x):
        return OwnGradient.apply(x)


def test_values_that_a_network_only_shows_are_no_state():
    for network in (ShowsWeights(), ShowsNoise(), ScalesInPlace()):
        assert not pytorch._kept_between_calls(network, [torch.rand(2, 3)])


def test_a_function_with_its_own_gradient_is_refused_with_a_backend_that_takes_it(tmp_path):
    with pytest.raises(FleetError, match="cannot be saved as TorchScript") as caught:
        export(Swish(), tmp_path)
    assert caught.value.problems[0].fix.endswith("or serve it with backend=OnnxRuntime()")


def test_sizes_that_are_too_small_are_refused_with_the_least_size_as_the_fix(tmp_path):
    network, steps = torch.nn.Conv1d(3, 2, 5), DynamicDim(name="steps", max=16)
    for written in ([], [{"X__0": np.ones((1, 3, 8), np.float32)}]):
        with pytest.raises(FleetError, match="it refuses the inputs that the build makes up") as caught:
            export(network, tmp_path, inputs=[Tensor("X__0", "FP32", [3, steps])], written=written, tf32=True)
        assert "declare the least size of 'steps', as DynamicDim(min=...)" in caught.value.problems[0].fix
    least = Tensor("X__0", "FP32", [3, dataclasses.replace(steps, min=5)])
    assert export(network, tmp_path, inputs=[least], tf32=True)


class ZerosByHand(torch.nn.Module):
    def forward(self, x):
        return x + torch.zeros(x.shape, device="cpu")


def test_a_fix_names_no_export_that_is_already_declared(tmp_path):
    for network in (OnTheCpu(), ZerosByHand()):
        with pytest.raises(FleetError, match="creates tensors on the CPU") as caught:
            export(network, tmp_path)
        assert 'LibTorch(export="script")' in caught.value.problems[0].fix
    with pytest.raises(FleetError, match="creates tensors on the CPU") as caught:
        export(ZerosByHand(), tmp_path, how="script")
    assert "LibTorch" not in caught.value.problems[0].fix


class Packed(torch.nn.Module):
    """Reads as many steps as a request says."""

    def __init__(self, cell, move: str):
        super().__init__()
        self.cell = cell(3, 4, batch_first=True)
        self.move = move

    def forward(self, x, lengths):
        lengths = lengths[:, 0].clamp(1, 5)
        lengths = lengths.cpu() if self.move == "cpu()" else lengths.to("cpu")
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        steps, _ = torch.nn.utils.rnn.pad_packed_sequence(self.cell(packed)[0], batch_first=True)
        return steps.sum(1)


@pytest.mark.parametrize("move", ["cpu()", "to()"])
@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU], ids=["LSTM", "GRU"])
def test_lengths_on_the_cpu_for_packed_sequences_are_exported_as_a_script(cell, move, tmp_path):
    inputs = [Tensor("X__0", "FP32", [5, 3]), Tensor("LENGTHS__1", "INT64", [1])]
    network = Packed(cell, move).eval()
    with pytest.raises(FleetError) as caught:
        export(network, tmp_path, inputs=inputs)
    assert 'LibTorch(export="script")' in caught.value.problems[0].fix
    with pytest.raises(FleetError, match="the server may choose TF32") as caught:
        export(network, tmp_path, inputs=inputs, how="script")
    assert "export" not in caught.value.problems[0].fix
    assert "cudnn=False" in caught.value.problems[0].fix
    export(network, tmp_path, inputs=inputs, how="script", cudnn=False)
    loaded, x = torch.jit.load(tmp_path / "model.pt"), torch.rand(3, 5, 3)
    for lengths in ([[1], [2], [3]], [[5], [4], [5]], [[2], [2], [2]]):
        torch.testing.assert_close(loaded(x, torch.tensor(lengths)), network(x, torch.tensor(lengths)))


class Returns(torch.nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        return self.what(x)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda x: (x, x), "returns a tensor, a tensor, and 1 outputs are declared: Y__0"),
        (lambda x: {"Y": x}, "it cannot be exported as TorchScript \\(trace\\)"),
    ],
)
def test_what_is_no_tensor_for_each_output_is_refused(what, said, tmp_path):
    with pytest.raises(FleetError, match=said):
        export(Returns(what), tmp_path)


def test_python_that_torchscript_has_no_words_for_is_refused_with_its_reason(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return next(iter({x.sum()}))

    with pytest.raises(FleetError, match=r"it cannot be exported as TorchScript \(script\): .") as caught:
        export(Odd(), tmp_path, how="script")
    assert 'LibTorch(export="trace")' in caught.value.problems[0].fix


def declared(**given) -> PyTorchNetwork:
    fields = {"inputs": [ROWS], "outputs": ["Y__0"], "max_batch_size": 4, "backend": LibTorch(), **given}
    return PyTorchNetwork(name="net", network=Scale, **fields)


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        ({"inputs": [Tensor("X", "FP32", [3])]}, "the tensor 'X' at position 0", "call it INPUT__0"),
        ({"inputs": [Tensor("X__1", "FP32", [3])]}, "the tensor 'X__1' at position 0", "call it INPUT__0"),
        ({"outputs": ["Y__0", "Z"]}, "the tensor 'Z' at position 1", "call it OUTPUT__1"),
        ({"inputs": [Tensor("X__0", "UINT16", [3])]}, "is UINT16, for LibTorch", "cast it inside"),
    ],
)
def test_libtorch_takes_tensors_by_position_and_no_unsigned_numbers(given, what, fix):
    ((_, mistake),) = find_mistakes(declared(**given))
    assert what in mistake.what
    assert mistake.fix.startswith(fix)


def written(backend: LibTorch) -> dict[str, str]:
    config = plain(name="net", backend="pytorch", max_batch_size=1, inputs=[ROWS], outputs=[ROWS])
    backend.configure(config)
    assert config.platform == "pytorch_libtorch"
    return {name: value.string_value for name, value in config.parameters.items()}


def test_every_option_is_written_as_the_backend_reads_it():
    options = {each.name for each in dataclasses.fields(LibTorch)} - {"export", "tf32"}
    on = {name: True for name in options if not name.endswith("threads")}
    assert written(LibTorch(**on, intra_op_threads=2, inter_op_threads=3)) == {
        "INFERENCE_MODE": "true",
        "DISABLE_OPTIMIZED_EXECUTION": "false",
        "DISABLE_CUDNN": "false",
        "ENABLE_WEIGHT_SHARING": "true",
        "ENABLE_CACHE_CLEANING": "true",
        "ENABLE_JIT_EXECUTOR": "true",
        "ENABLE_JIT_PROFILING": "true",
        "ENABLE_TENSOR_FUSER": "true",
        "INTRA_OP_THREAD_COUNT": "2",
        "INTER_OP_THREAD_COUNT": "3",
    }
    assert written(LibTorch(optimized_execution=False, cudnn=False, inference_mode=False)) == {
        "INFERENCE_MODE": "false",
        "DISABLE_OPTIMIZED_EXECUTION": "true",
        "DISABLE_CUDNN": "true",
    }
    assert written(LibTorch()) == {}


@pytest.mark.parametrize("cpu", [False, True])
def test_a_declared_network_becomes_a_whole_model_directory(cpu, declare_network, models, tmp_path):
    declare_network(
        "soft",
        network="torch.nn.Softmax(dim=1)",
        inputs='Tensor("INPUT__0", "FP32", [3])',
        output="OUTPUT__0",
        backend="LibTorch(intra_op_threads=1), batching=DynamicBatching(), warm_up=WarmUp()",
    )
    root = build("soft", output=tmp_path / "out", models=models, cpu=cpu)
    config = read_config(root / "soft" / "config.pbtxt")
    assert (config.backend, config.platform) == ("pytorch", "pytorch_libtorch")
    (output,) = config.output
    assert (output.name, schema().DataType.Name(output.data_type), list(output.dims)) == (
        "OUTPUT__0",
        "TYPE_FP32",
        [3],
    )
    assert config.model_warmup[0].inputs["INPUT__0"].zero_data
    assert config.model_warmup[0].count == 3
    loaded = torch.jit.load(io.BytesIO((root / "soft" / "1" / "model.pt").read_bytes()))
    torch.testing.assert_close(loaded(torch.zeros(1, 3)), torch.full((1, 3), 1 / 3))
