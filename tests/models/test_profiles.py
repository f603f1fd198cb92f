"""The profiles of a plan, the batches it is tuned for, its graphs, and the memory it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.builds.tensorrt.compiler import plan_memory
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.declare.scheduling import Batching
from triton_models.spec import DynamicBatching, SequenceBatching, TensorRt

MIB = 1 << 20
STRATEGY = "execution_context_allocation_strategy"
BANNERS = {"24.03": ("8603", 1, (8, 6, 3, 1)), "24.05": ("100001", 6, (10, 0, 1, 6))}
BANNERS |= {"25.04": ("100900", 34, (10, 9, 0, 34)), "25.09": ("101303", 9, (10, 13, 3, 9))}

# The lines of trtexec that are read, in their order: the first figure is that of an intermediate step.
TRTEXEC_LOG = f"""
[I] [TRT] Total Activation Memory: {900 * MIB}
[I] [TRT] Detected 1 inputs and 1 output network tensors.
[I] [TRT] Total Activation Memory: {74 * MIB} bytes
[I] [TRT] Total Weights Memory: {49 * MIB - 100} bytes
[I] [TRT] Total Activation Memory: {3 * MIB} bytes
"""

Built = Callable[..., tuple[Path, list[str]]]


@pytest.fixture
def built(declare_onnx: Any, machine: Any, tmp_path: Path) -> Built:
    """Build a plan of a network that doubles rows; returns its artifact root and trtexec's options."""

    def make(
        options: str = "", *, largest: int = 32, tuned: int = 8, release: str = "25.09", **given: Any
    ) -> Any:
        number, fix, version = BANNERS[release]
        log = machine(banner=f"[TensorRT v{number}] [b{fix}]", version=version, **given)
        profile = f'{{"X": ShapeRange(min=(1, 4), opt=({tuned}, 4), max=({largest}, 4))}}'
        fields = f"max_batch_size={largest}, profile={profile}, backend=TensorRt(precision='fp32', {options})"
        network = network_of("g (float[rows, 4] X) => (float[rows, 4] Y) { Y = Add(X, X) }")
        models = declare_onnx(network, fields, "examples=list, reference=dict, tolerance=0.1")
        root = build("net", models=models, output=tmp_path / "out", gpu="A10G", release=release)
        return root, log.read_text().split()[4:]

    return make


def test_a_plan_for_large_batches_has_a_profile_for_small_ones_and_each_instance_has_both(
    built: Built,
) -> None:
    root, options = built()
    assert options == [
        *("--profile=0", "--minShapes=X:1x4", "--optShapes=X:8x4", "--maxShapes=X:32x4"),
        *("--profile=1", "--minShapes=X:1x4", "--optShapes=X:1x4", "--maxShapes=X:4x4"),
    ]
    config = read_config(root / "net" / "config.pbtxt")
    assert [list(group.profile) for group in config.instance_group] == [["0", "1"]]
    assert config.parameters[STRATEGY].string_value == "ON_PROFILE_CHANGE"
    assert json.loads((root / "build.json").read_text())["plans"]["net/1/model.plan"]["profiles"] == 2
    assert check_path(root, target=target(release="25.09", gpu="A10G")) == []


@pytest.mark.parametrize(("declared", "sizes"), [("", [1, 5]), ("batch_sizes=[2, 16]", [2, 16])])
def test_the_warm_up_reaches_both_profiles(declared: str, sizes: list[int], built: Built) -> None:
    root, _ = built("), warm_up=WarmUp(" + declared)
    warmed = read_config(root / "net" / "config.pbtxt").model_warmup
    assert [each.batch_size for each in warmed] == sizes


@pytest.mark.parametrize(
    ("options", "given"),
    [("", {"release": "25.04"}), ("", {"largest": 8, "tuned": 4}), ("small_batch=0", {})],
    ids=["contexts of the largest size", "small batches", "declared"],
)
def test_a_plan_has_one_profile_where_a_second_does_not_pay(
    options: str, given: dict[str, Any], built: Built
) -> None:
    root, flags = built(options, **given)
    assert [flag for flag in flags if flag.startswith("--profile")] == []
    config = read_config(root / "net" / "config.pbtxt")
    assert (list(config.instance_group[0].profile), dict(config.parameters)) == ([], {})


@pytest.mark.parametrize(("release", "strategy"), [("24.05", ""), ("25.09", "STATIC")])
def test_a_declared_profile_for_small_batches_ends_at_its_size(
    release: str, strategy: str, built: Built
) -> None:
    chosen = "context_memory='static'" if strategy else ""
    root, flags = built(f"small_batch=2, {chosen}", release=release)
    assert flags[-1] == "--maxShapes=X:2x4"
    assert read_config(root / "net" / "config.pbtxt").parameters[STRATEGY].string_value == strategy


def test_two_profiles_are_refused_before_tensorrt_10(built: Built) -> None:
    assert refused(built, "small_batch=2", release="24.03").rule == "plan-profiles"


@pytest.mark.parametrize(
    ("largest", "batching", "tuned"),
    [
        *((size, None, tuned) for size, tuned in ((1, 1), (2, 2), (4, 4), (8, 4), (32, 8), (128, 16))),
        (128, DynamicBatching(preferred=[16, 64]), 64),
        (32, SequenceBatching(), 8),
    ],
)
def test_a_plan_is_tuned_for_the_batches_that_form(
    largest: int, batching: Batching | None, tuned: int
) -> None:
    assert TensorRt().tuned_batch(largest, batching) == tuned
    assert TensorRt(opt_batch=3).tuned_batch(largest, batching) == 3


@pytest.mark.parametrize(("options", "sizes"), [("", [1, 2, 3, 4]), (", small_batch=2", [1, 2])])
def test_graphs_are_recorded_for_small_batches(options: str, sizes: list[int], built: Built) -> None:
    root, _ = built(f"cuda_graphs=True{options}")
    cuda = read_config(root / "net" / "config.pbtxt").optimization.cuda
    assert (cuda.graphs, [each.batch_size for each in cuda.graph_spec]) == (True, sizes)


def test_the_build_says_how_much_gpu_memory_a_plan_takes(
    built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    root, _ = built(ending=f"cat <<'END'\n{TRTEXEC_LOG}\nEND")
    assert "the plan of net takes 123 MiB of GPU memory per instance: 49 for" in capsys.readouterr().err
    assert json.loads((root / "build.json").read_text())["plans"]["net/1/model.plan"]["memory_mb"] == 123


def test_before_tensorrt_10_the_weights_take_the_size_of_the_plan() -> None:
    log = "\n".join(line for line in TRTEXEC_LOG.splitlines() if "Weights" not in line)
    assert plan_memory(log, size=20 * MIB) == (20, 74)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("max_batch_size=32", "max_batch_size=16"), "the profile of 'X' ends at a batch of 32"),
        (("max_batch_size=32", "max_batch_size=64"), "the profile of 'X' ends at [32, 4]"),
        (("TensorRt(", "TensorRt(small_batch=32, "), "small_batch 32"),
        (("TensorRt(", "TensorRt(opt_batch=33, "), "opt_batch 33"),
    ],
)
def test_batches_that_do_not_fit_the_plan_are_a_mistake(
    change: tuple[str, str], said: str, built: Built, models: Path, tmp_path: Path
) -> None:
    built()
    declaration = models / "net" / "build.py"
    declaration.write_text(declaration.read_text().replace(*change))
    assert said in refused(build, "net", models=models, output=tmp_path / "out").what
