"""Convolutions on ONNX Runtime: the build says where every change of a shape makes cuDNN plan them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.spec import DynamicBatching, OnnxRuntime, PyTorchNetwork, forms_of, load_build

CONVOLUTION = (
    "g (float[rows, 3, SIZE, 8] X) => (float[rows, 2, HIGH, 6] Y) <float[2, 3, 3, 3] w = {WEIGHTS}>"
    " { Y = Conv(X, w) }"
)
PRODUCT = "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4, 4] w = {WEIGHTS}> { Y = MatMul(X, w) }"
RANGE = '{"X": ShapeRange(min=(1, 3, 8, 8), opt=(4, 3, 8, 8), max=(8, 3, 8, 8))}'
BATCHES = "max_batch_size=8, batching=DynamicBatching()"


@pytest.fixture
def note(declare_onnx: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Build a network, and return what the build says about its convolutions."""

    def build_it(options: str, *, size: str = "8", graph: str = CONVOLUTION, **target: object) -> str:
        count = 54 if graph is CONVOLUTION else 16
        text = graph.replace("WEIGHTS", ", ".join(["1"] * count))
        text = text.replace("SIZE", size).replace("HIGH", "6" if size == "8" else "low")
        network = network_of(text, opsets='"": 18')
        models = declare_onnx(network, options, 'examples=list, tolerance={"fp32": 1e-3}')
        build("net", models=models, output=tmp_path / "out", **target)  # type: ignore[arg-type]
        return "".join(line for line in capsys.readouterr().err.splitlines() if "convolutions" in line)

    return build_it


def test_joined_requests_are_said_to_plan_convolutions_again(note):
    said = note(BATCHES)
    assert "net plans its convolutions again" in said
    assert "whenever the number of rows in a batch changes" in said
    assert "Use backend=TensorRt(), or remove batching, and send requests of one size" in said


def test_requests_of_several_rows_plan_convolutions_again_although_none_are_joined(note):
    said = note("max_batch_size=8")
    assert "whenever the number of rows in a batch changes" in said
    assert said.endswith("Use backend=TensorRt(), or send requests of one size")


def test_open_image_sizes_are_said_to_plan_convolutions_again(note):
    said = note("max_batch_size=1", size="high")
    assert "whenever a size of their input changes" in said
    assert "or give inputs one size" in said


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("max_batch_size=1", {}),
        (BATCHES, {"release": "24.09"}),
        (BATCHES, {"cpu": True}),
        (f"{BATCHES}, instances=Instances(kind='KIND_CPU')", {}),
        (f"{BATCHES}, backend=TensorRt(), profile={RANGE}", {}),
        (BATCHES, {"graph": PRODUCT}),
        ("max_batch_size=1, batching=DynamicBatching()", {}),
    ],
    ids=["one size", "a cache by shape", "CPU", "CPU instances", "TensorRT", "no convolution", "one row"],
)
def test_shapes_that_do_not_change_or_cost_nothing_are_not_mentioned(options, given, note):
    assert note(options, **given) == ""


@pytest.mark.parametrize(("option", "release"), [("prefer_nhwc", "25.04"), ("fuse_conv_bias", "24.12")])
def test_an_option_of_convolutions_reaches_cuda_since_the_release_that_has_it(
    option, release, note, tmp_path
):
    declared = f"max_batch_size=8, backend=OnnxRuntime({option}=True)"
    note(declared, release=release)
    config = read_config(tmp_path / "out" / "net" / "net" / "config.pbtxt")
    (cuda,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert (cuda.name, cuda.parameters[option]) == ("cuda", "1")


@pytest.mark.parametrize(("option", "older"), [("prefer_nhwc", "24.12"), ("fuse_conv_bias", "24.09")])
def test_an_option_that_the_onnx_runtime_of_the_release_lacks_is_refused(option, older, note):
    problem = refused(note, f"max_batch_size=8, backend=OnnxRuntime({option}=True)", release=older)
    assert problem.rule == "onnx-option"
    assert problem.fix.startswith(f"remove {option}, or build for release")


@pytest.mark.parametrize("name", ["resnet50", "dali_inception"])
def test_no_form_of_ours_joins_requests_for_convolutions_on_onnx_runtime(name):
    for form in forms_of(name, None):
        for model in load_build(form).models:
            if isinstance(model, PyTorchNetwork):
                joins = isinstance(model.batching, DynamicBatching)
                assert joins is not isinstance(model.backend, OnnxRuntime), form
