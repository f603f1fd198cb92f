"""TF32, which GPUs from Ampere on round FP32 to: emulated here, off by default, recorded where it is on."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from buildable import every_model
from torch.utils._python_dispatch import TorchDispatchMode

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.builds.export.pytorch import export_torchscript
from triton_models.deliver.verify import process
from triton_models.spec import Tensor, load_build, models_folder

pytestmark = pytest.mark.story

aten = torch.ops.aten
BY_ONNX_RUNTIME = {"resnet50", "roberta_onnx", "dali_inception"}
PRODUCTS = {aten.conv2d.default, aten.linear.default, aten.matmul.default}


def model_of(parameter: Any) -> str:
    """The model's name, also of one that is skipped here."""
    return str(getattr(parameter, "values", [parameter])[0])


def nearest(tensor: Any) -> Any:
    """A tensor with 10 bits of mantissa, rounded to nearest even."""
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def truncated(tensor: Any) -> Any:
    """The same with the other bits cut off, as a tensor core reads an operand that was not rounded."""
    return (tensor.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


class EmulatedTf32(TorchDispatchMode):
    """Shortens what goes into convolutions and matrix products, and sums up in FP32, as tensor cores do."""

    def __init__(self, shorten: Callable[[Any], Any]) -> None:
        super().__init__()
        self.shorten = shorten

    def __torch_dispatch__(
        self, operator: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if operator is aten.scaled_dot_product_attention.default:
            return self.attention(*args, **(kwargs or {}))
        if operator in PRODUCTS:
            args = (*map(self.shorten, args[:2]), *args[2:])
        return operator(*args, **(kwargs or {}))

    def attention(self, query: Any, key: Any, value: Any, mask: Any = None, **_: Any) -> Any:
        scores = self.shorten(query) @ self.shorten(key).transpose(-1, -2) * query.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.shorten(scores.softmax(-1)) @ self.shorten(value)


@pytest.mark.parametrize("name", [each for each in every_model() if model_of(each) in BY_ONNX_RUNTIME])
def test_tf32_is_outside_of_the_tolerance_for_fp32_and_within_its_own(name):
    declared = load_build(name)
    inputs = declared.examples()[-1].inputs
    exact = declared.reference(inputs)
    off = {}
    for shorten in (nearest, truncated):
        with EmulatedTf32(shorten):
            coarse = declared.reference(inputs)
        off[shorten] = max(abs(coarse[output] - exact[output]).max() for output in exact)
    assert declared.allowed("fp32") < off[nearest] < off[truncated] < declared.allowed("tf32")


def precision_of(root: Path) -> list[str]:
    return json.loads((root / "build.json").read_text()).get("precisions", [])


def use_tf32(root: Path) -> list[str]:
    config = read_config(root / "net" / "config.pbtxt")
    chosen = config.optimization.execution_accelerators.gpu_execution_accelerator
    return [each.parameters["use_tf32"] for each in chosen if each.name == "cuda"]


@pytest.fixture
def net(declare_network: Callable[..., Path]) -> Callable[[str, str], Path]:
    """Declare a network of one convolution, with a backend and a tolerance."""

    def declare(backend: str, tolerance: str) -> Path:
        return declare_network(
            "net",
            f"reference=dict, tolerance={tolerance}",
            network="torch.nn.Conv2d(1, 1, 3)",
            inputs='Tensor("X__0", "FP32", [1, 4, 4])',
            output="Y__0",
            backend=backend,
        )

    return declare


@pytest.mark.parametrize(
    ("backend", "switch", "precisions"),
    [("OnnxRuntime()", ["0"], []), ("OnnxRuntime(tf32=True)", ["1"], ["tf32"])],
)
def test_a_model_says_whether_it_may_use_tf32_and_its_build_records_it(  # noqa: PLR0917  fixtures
    backend, switch, precisions, net, models, machine, tmp_path
):
    machine()
    net(backend, '{"fp32": 1e-4, "tf32": 1e-2}')
    root = build("net", output=tmp_path / "out", models=models, gpu="A10G")
    assert (use_tf32(root), precision_of(root)) == (switch, precisions)


def test_a_release_without_the_switch_is_not_given_one_that_it_refuses(net, models, tmp_path):
    net("OnnxRuntime()", "1e-4")
    assert use_tf32(build("net", output=tmp_path / "out", models=models, release="24.05")) == []
    assert use_tf32(build("net", output=tmp_path / "out", models=models, release="24.09")) == ["0"]


@pytest.mark.parametrize("backend", ["OnnxRuntime(tf32=True)", "LibTorch(tf32=True)"])
def test_tf32_needs_a_tolerance_of_its_own(backend, net, models):
    net(backend, '{"fp32": 1e-4}')
    assert "no tolerance for tf32" in refused(load_build, "net", models).what


@pytest.mark.parametrize("tf32", [False, True])
def test_a_traced_convolution_says_whether_cudnn_may_use_tf32(tf32, tmp_path):
    before = torch.backends.cudnn.allow_tf32
    export(tmp_path, how="trace", tf32=tf32)
    exported = torch.jit.load(tmp_path / "model.pt")
    (convolution,) = exported.graph.findAllNodes("aten::_convolution")
    assert list(convolution.inputs())[-1].toIValue() is tf32
    assert torch.backends.cudnn.allow_tf32 is before


def test_a_script_leaves_tf32_to_the_server_and_is_refused_unless_that_is_declared(tmp_path):
    assert "aten::conv2d" in refused(export, tmp_path, how="script").what
    for accepted in ({"tf32": True}, {"cudnn": False}, {"cpu": True}):
        export(tmp_path, how="script", **accepted)


def export(folder: Path, **given: Any) -> None:
    export_torchscript(
        torch.nn.Conv2d(1, 1, 3),
        folder / "model.pt",
        name="net",
        inputs=[Tensor("X__0", "FP32", [1, 4, 4])],
        outputs=["Y__0"],
        batches=True,
        **given,
    )


@pytest.mark.parametrize(("release", "override"), [("24.05", "0"), ("24.09", None)])
def test_the_server_that_verifies_has_no_tf32_where_a_model_cannot_say_so(release, override, monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    monkeypatch.setenv("NVIDIA_TRITON_SERVER_VERSION", release)
    assert process.server_environment().get("NVIDIA_TF32_OVERRIDE") == override


def test_t5_uses_fp32_and_an_arena_that_grows_in_powers_of_two_on_a_gpu(monkeypatch):
    sessions = []

    class Session(SimpleNamespace):
        def get_providers(self) -> list[str]:
            return [name for name, _ in self.providers[:1]]

    def start(path: str, options: Any, *, providers: list[Any]) -> Session:
        sessions.append(providers)
        return Session(providers=providers)

    options = SimpleNamespace(add_session_config_entry=lambda *_: None)
    runtime = SimpleNamespace(SessionOptions=lambda: options, InferenceSession=start)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", SimpleNamespace())
    model = runpy.run_path(str(models_folder() / "t5_translation" / "translator.py"))["TritonPythonModel"]()
    model.device = ("cuda", 0)
    model._load("encoder.onnx", 1)
    assert sessions[0][0] == ("CUDAExecutionProvider", {"device_id": 0, "use_tf32": "0"})
