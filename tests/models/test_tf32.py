"""TF32, which GPUs from Ampere on round FP32 to: emulated here, off by default, recorded where it is on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.builds.export.pytorch import export_torchscript
from triton_models.deliver.verify import server
from triton_models.spec import Tensor, load_build

pytestmark = pytest.mark.story

aten = torch.ops.aten


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
    [("OnnxRuntime()", ["0"], []), ('OnnxRuntime(precision="tf32")', ["1"], ["tf32"])],
)
def test_a_model_says_whether_it_may_use_tf32_and_its_build_records_it(  # noqa: PLR0917  fixtures
    backend, switch, precisions, net, models, machine, tmp_path
):
    machine()
    net(backend, '{"fp32": 1e-4, "tf32": 1e-2}')
    root = build("net", output=tmp_path / "out", models=models, gpu="A10G")
    assert (use_tf32(root), precision_of(root)) == (switch, precisions)


HALF_INPUT = (
    "g (float16[rows, 1, 4, 4] X) => (float[rows, 4] Y) <float[1, 1, 3, 3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1},"
    " float[4, 4] f = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}>"
    " { a = Cast<to = 1>(X) IN c = Conv(x, w) h = Flatten(c) OUT }"
)
CONVOLVED_IN_FP32 = {"IN": "x = Identity(a)", "OUT": "Y = MatMul(h, f)"}
PRODUCT_IN_FP16 = {
    "IN": "x = Identity(a)",
    "OUT": "k = Cast<to = 10>(h) f2 = Cast<to = 10>(f) m = MatMul(k, f2) Y = Cast<to = 1>(m)",
}
CONVOLVED_IN_FP16 = {
    "IN": "x = Cast<to = 10>(a) w = Cast<to = 10>(w1)",
    "OUT": "m = Cast<to = 1>(h) Y = MatMul(m, f)",
}


@pytest.mark.parametrize(
    ("parts", "switch", "precision"),
    [(CONVOLVED_IN_FP32, ["0"], "fp32"), (PRODUCT_IN_FP16, ["0"], "fp16"), (CONVOLVED_IN_FP16, [], "fp16")],
    ids=["an input in FP16", "a product in FP16", "a convolution in FP16"],
)
def test_a_file_with_some_fp16_keeps_the_switch_unless_its_convolutions_are_in_fp16(
    parts, switch, precision, declare_onnx, tmp_path
):
    text = HALF_INPUT.replace("IN", parts["IN"]).replace("OUT", parts["OUT"])
    text = text.replace("3] w =", "3] w1 =") if "w1" in text else text
    examples = 'lambda: [Example(name="one", inputs={"X": np.ones((1, 1, 4, 4), np.float16)})]'
    more = f'examples={examples}, reference=dict, tolerance={{"fp32": 1e-2, "fp16": 1}}'
    spans = 'inputs_between={"X": Between(-3, 3, why="scaled")}'
    models = declare_onnx(network_of(text, opsets='"": 18'), f"max_batch_size=8, {spans}", more)
    root = build("net", output=tmp_path / "out", models=models)
    record = json.loads((root / "build.json").read_text())
    assert (use_tf32(root), record["compared"]["net"]["precision"]) == (switch, precision)
    assert record.get("precisions", []) == (["fp16"] if precision == "fp16" else [])


def test_a_release_without_the_switch_is_not_given_one_that_it_refuses(net, models, tmp_path):
    net("OnnxRuntime()", "1e-4")
    assert use_tf32(build("net", output=tmp_path / "out", models=models, release="24.05")) == []
    assert use_tf32(build("net", output=tmp_path / "out", models=models, release="24.09")) == ["0"]


@pytest.mark.parametrize("backend", ['OnnxRuntime(precision="tf32")', "LibTorch(tf32=True)"])
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
    assert server.server_environment().get("NVIDIA_TF32_OVERRIDE") == override
