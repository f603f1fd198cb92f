"""`fleet check` accepts the TorchScript networks that the PyTorch backend serves, and no others."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorDeviceMismatchError, FakeTensorMode

from tests.models.script_cases import FAILED, FAILED_BY_TYPE, REFUSED, SERVED, Takes, TakesOne, script
from tests.models.script_cases import ScriptCase as Case
from tests.triton_models.model_folders import write
from tests.triton_models.real_networks import script_archive
from triton_models.artifact.networks import read_script
from triton_models.artifact.pbtxt import as_json, read_text
from triton_models.base.errors import Problem
from triton_models.check.backend_rules.libtorch import Script, load_refusals, request_failures
from triton_models.check.backend_rules.libtorch_devices import mixed_devices
from triton_models.check.check import check_path
from triton_models.check.target import target


def _check(folder: Path, config: str, content: bytes, file: str = "model.pt") -> list[Problem]:
    write(folder / "net/config.pbtxt", config.encode())
    write(folder / f"net/1/{file}", content)
    return check_path(folder)


def _rules_of(case: Case, folder: Path) -> tuple[list[str], list[str]]:
    write(folder / "rule/model.pt", script(case.network))
    forward = read_script(folder / "rule/model.pt").forward
    assert forward is not None
    config = as_json(read_text(f'name: "net"\n{case.config()}', where="config.pbtxt"))
    network = Script(arguments=dict(forward.arguments), returns=forward.returns)
    refusals, failures = load_refusals(config, network), request_failures(config, network)
    return [each.message for each in refusals], [each.message for each in failures]


@pytest.mark.parametrize("case", SERVED, ids=str)
def test_a_script_that_the_backend_serves_is_accepted(case, tmp_path):
    assert _check(tmp_path / "it", case.config(), script(case.network)) == []
    assert _rules_of(case, tmp_path) == ([], [])


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_script_that_the_backend_does_not_load_is_refused_in_its_words(case, tmp_path):
    problems = _check(tmp_path / "it", case.config(), script(case.network))
    assert "torchscript-tensor" in {problem.rule for problem in problems}
    assert case.refused in _rules_of(case, tmp_path)[0][0]


@pytest.mark.parametrize("case", [*FAILED, *FAILED_BY_TYPE], ids=str)
def test_a_script_that_loads_and_fails_every_request_is_refused(case, tmp_path):
    problems = _check(tmp_path / "it", case.config(), script(case.network))
    assert {problem.rule for problem in problems} == {"torchscript-tensor"}
    refusals, failures = _rules_of(case, tmp_path)
    assert refusals == []
    assert case.failed in failures[0]


def _save(content: object, folder: Path, **options: bool) -> bytes:
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "saved", **options)
    return (folder / "saved").read_bytes()


def _export() -> bytes:
    content = io.BytesIO()
    torch.export.save(torch.export.export(TakesOne(), (torch.ones(1, 4),)), content)
    return content.getvalue()


PLAIN = Case(network=TakesOne)


def test_weights_or_a_module_saved_as_model_pt_are_not_torchscript(tmp_path):
    weights = torch.nn.Linear(4, 4)
    contents = {
        "state_dict": _save(weights.state_dict(), tmp_path),
        "module": _save(weights, tmp_path),
        "old": _save(weights.state_dict(), tmp_path, _use_new_zipfile_serialization=False),
        "program": _export(),
        "safetensors": (17).to_bytes(8, "little") + b'{"__metadata__":{}}',
    }
    for name, content in contents.items():
        problems = _check(tmp_path / name, PLAIN.config(), content)
        assert [problem.rule for problem in problems] == ["torchscript-file"], name
    assert _check(tmp_path / "traced", PLAIN.config(), _traced()) == []


def test_a_file_that_is_no_whole_archive_is_not_torchscript(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 123\n"
    contents = {
        "nothing": (b"", "0 bytes"),
        "onnx": (b"\x08\x08\x3a\x00", "something else than a zip archive"),
        "cut": (_traced()[:-100], "a cut archive"),
        "half": (_traced()[:500], "a cut archive"),
    }
    for name, (content, what) in contents.items():
        [problem] = _check(tmp_path / name, PLAIN.config(), content)
        assert (problem.rule, what in problem.what) == ("torchscript-file", True), name
    problems = _check(tmp_path / "pointer", PLAIN.config(), pointer)
    assert [problem.rule for problem in problems] == ["lfs-pointer"]


@torch.library.custom_op("fleet_rules::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _fails_in_another_process(path: Path) -> str:
    command = [sys.executable, "-c", f"import torch; torch.jit.load({str(path)!r})"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_file_with_operators_of_the_process_that_exported_it_is_refused(tmp_path):
    content = _traced_net(lambda _, x: double(x))
    write(tmp_path / "model.pt", content)
    assert "Unknown builtin op: fleet_rules::double" in _fails_in_another_process(tmp_path / "model.pt")
    (problem,) = _check(tmp_path / "it", PLAIN.config(), content)
    assert (problem.rule, "fleet_rules::double" in problem.what) == ("torchscript-file", True)


@pytest.mark.parametrize(
    ("call", "is_known"),
    [
        ("ops.torchvision.nms(x, x, 0.5)", True),
        ("ops.quantized.linear_dynamic(x, CONSTANTS.c0, True)", True),
        ("torch.relu(x)", True),
        ("ops.torch_scatter.scatter_max(x, x)", False),
        ("torch.add(x, ops.fbgemm.asynchronous_complete_cumsum(x))", False),
    ],
)
def test_images_have_operators_of_pytorch_and_torchvision(call, is_known, tmp_path):
    called = f"def called(self: Net, x: Tensor) -> Tensor:\n    return {call}\n"
    content = script_archive(f"{called}  def forward(self: Net, x: Tensor) -> Tensor")
    problems = _check(tmp_path, PLAIN.config(), content)
    assert [problem.rule for problem in problems] == ([] if is_known else ["torchscript-file"])


SWITCHES = ("INFERENCE_MODE", "DISABLE_OPTIMIZED_EXECUTION", "ENABLE_WEIGHT_SHARING", "DISABLE_CUDNN")


@pytest.mark.parametrize(
    ("name", "value", "release", "is_right"),
    [
        *(
            (name, value, None, True)
            for name in SWITCHES
            for value in ("true", "ON", "1", "False", "off", "0")
        ),
        *((name, value, None, False) for name in SWITCHES for value in ("maybe", "yes", "", "2", "true ")),
        ("ENABLE_TENSOR_FUSER", "x", None, False),
        ("ENABLE_CACHE_CLEANING", "x", None, False),
        ("ENABLE_JIT_PROFILING", "x", None, False),
        ("ENABLE_JIT_EXECUTOR", "x", "24.03", False),
        ("DISABLE_CUDNN", "x", "24.05", True),  # read since 24.06
        ("DISABLE_CUDNN", "x", "24.06", False),
        ("INTRA_OP_THREAD_COUNT", "many", "24.04", True),  # read since 24.05
        ("INTRA_OP_THREAD_COUNT", "many", "24.05", False),
        ("INTER_OP_THREAD_COUNT", "", None, False),
        ("INTER_OP_THREAD_COUNT", "4 threads", None, True),  # std::stoi reads what it can
        ("INTRA_OP_THREAD_COUNT", "-1", None, True),
        ("INFERENCE_MODES", "maybe", None, True),  # nothing reads it
    ],
)
def test_parameters_have_values_that_the_backend_parses(name, value, release, is_right, tmp_path):
    config = PLAIN.config(f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}')
    write(tmp_path / "net/config.pbtxt", config.encode())
    write(tmp_path / "net/1/model.pt", script(TakesOne))
    problems = check_path(tmp_path, target=target(release=release, auto_complete=True))
    assert [problem.rule for problem in problems] == ([] if is_right else ["pytorch-parameter"])


def test_weights_beside_the_code_of_pytorchs_python_runtime_are_accepted(tmp_path):
    write(tmp_path / "net/1/model.py", b"import torch\n")
    weights = _save(torch.nn.Linear(4, 4).state_dict(), tmp_path / "weights")
    (tmp_path / "weights/saved").unlink()
    (tmp_path / "weights").rmdir()
    assert _check(tmp_path, PLAIN.config('runtime: "model.py"'), weights) == []


def _traced() -> bytes:
    with torch.inference_mode():
        traced = torch.jit.trace(TakesOne(), torch.ones(1, 4))
    return bytes(traced.save_to_buffer())


def test_the_fix_of_names_without_a_position_is_accepted(tmp_path):
    wrong = Case(network=Takes, inputs=("X__1", "X__2"), outputs=("y",))
    [problem] = _check(tmp_path / "wrong", wrong.config(), script(Takes))
    assert "name the inputs like forward()'s arguments (x, y)" in (problem.fix or "")
    right = Case(network=Takes, inputs=("x", "y"), outputs=("y",))
    assert _check(tmp_path / "right", right.config(), script(Takes)) == []


class _Net(torch.nn.Module):
    """A network whose forward() is a function of it and an input of [2, 4]."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear, self.embedding = torch.nn.Linear(4, 4), torch.nn.Embedding(9, 4)
        self.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4)])
        self.register_buffer("steps", torch.arange(4.0))

    def forward(self, x):
        return self.function(self, x)


class _Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4)


class _OnItsDevice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4, device=x.device)


class _Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 4, batch_first=True)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        return torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


ON_TWO_DEVICES = {
    "a range": lambda net, x: x + torch.arange(4),
    "positions": lambda net, x: x + net.embedding(torch.arange(x.shape[1]))[:2],
    "zeros next to inputs": lambda net, x: torch.cat([x, torch.zeros(2, 1)], 1),
    "a list": lambda net, x: torch.stack([x, x + torch.ones(2, 1), torch.zeros(2, 4)]),
    "a condition": lambda net, x: torch.where(torch.ones(4, dtype=torch.bool), x, x),
    "a mask": lambda net, x: net.linear(x).masked_fill(torch.ones(4, 4).tril()[:2] == 0, 0),
    "a matrix": lambda net, x: torch.matmul(net.parts[0](x), torch.eye(4)),
    "a buffer": lambda net, x: x + (net.steps + torch.arange(4)),
    "a copy of the input": lambda net, x: x.cpu() * net.linear(x),
    "an index that was moved": lambda net, x: net.linear(x) + x.cpu()[torch.arange(2)],
}
ON_ONE_DEVICE = {
    "a scalar": lambda net, x: x + torch.tensor(3.0),
    "zeros without a dimension": lambda net, x: x + torch.zeros(()),
    "an index": lambda net, x: x[:, torch.arange(3)],
    "an element": lambda net, x: x + torch.arange(4)[1],
    "a sum": lambda net, x: x + torch.arange(4).sum(),
    "zeros of the input": lambda net, x: net.linear(x) + torch.zeros_like(x) + x.new_zeros(4),
    "all on the CPU": lambda net, x: x.cpu() + torch.arange(4),
    "a size": lambda net, x: x * x.shape[1],
    "a copy to the GPU": lambda net, x: x.clone().copy_(torch.arange(4)),
}


def _fails_on_a_gpu(network: torch.nn.Module) -> bool:
    """Return whether PyTorch refuses its devices, for tensors of a GPU that have no values."""
    state = {name: (value.shape, value.dtype) for name, value in network.state_dict().items()}
    with FakeTensorMode():
        tensors = {name: torch.empty(*kind[0], dtype=kind[1], device="cuda") for name, kind in state.items()}
        try:
            torch.func.functional_call(network, tensors, (torch.empty(2, 4, device="cuda"),))
        except FakeTensorDeviceMismatchError:
            return True
        except RuntimeError:  # PyTorch without CUDA cannot go on
            return False
    return False


def _archive(network: torch.jit.ScriptModule) -> bytes:
    torch.jit.save(network, content := io.BytesIO())
    return content.getvalue()


def _traced_net(function) -> bytes:
    return _archive(torch.jit.trace(_Net(function).eval(), (torch.zeros(2, 4),), check_trace=False))


def _problems(folder: Path, content: bytes, group: str = "", **options: str) -> list[Problem]:
    config = f"{PLAIN.config()}\n{group}"
    write(folder / "net/config.pbtxt", config.encode())
    write(folder / "net/1/model.pt", content)
    return check_path(folder, target=target(**options))


@pytest.mark.parametrize("name", ON_TWO_DEVICES)
def test_a_trace_that_mixes_its_own_tensors_with_those_of_a_gpu_is_refused(name, tmp_path):
    assert _fails_on_a_gpu(_Net(ON_TWO_DEVICES[name]))
    content = _traced_net(ON_TWO_DEVICES[name])
    (problem,) = _problems(tmp_path, content, gpu="A10G")
    assert (problem.rule, "tensors on the CPU" in problem.what) == ("torchscript-file", True)
    assert _problems(tmp_path, content, "instance_group { kind: KIND_CPU }", gpu="A10G") == []
    assert _problems(tmp_path, content) == []
    assert len(_problems(tmp_path, content, "instance_group { kind: KIND_GPU }")) == 1


@pytest.mark.parametrize("name", ON_ONE_DEVICE)
def test_a_trace_whose_own_tensors_a_gpu_takes_is_accepted(name, tmp_path):
    assert not _fails_on_a_gpu(_Net(ON_ONE_DEVICE[name]))
    assert _problems(tmp_path, _traced_net(ON_ONE_DEVICE[name]), gpu="A10G") == []


def test_a_script_creates_tensors_on_the_cpu_or_on_the_device_of_an_input(tmp_path):
    assert _fails_on_a_gpu(_Scripted())
    assert not _fails_on_a_gpu(_OnItsDevice())
    assert len(_problems(tmp_path, _archive(torch.jit.script(_Scripted())), gpu="A10G")) == 1
    assert _problems(tmp_path, _archive(torch.jit.script(_OnItsDevice())), gpu="A10G") == []


def test_lengths_of_packed_sequences_may_be_on_the_cpu():
    example = torch.zeros(2, 3, 4), torch.tensor([3, 2])
    network = torch.jit.trace(_Packed(), example, check_trace=False)
    code = read_script(io.BytesIO(_archive(network)))
    assert mixed_devices(code.network, code.classes) == ""
