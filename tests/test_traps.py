"""Each trap that a rule prevents, in an otherwise correct fleet or artifact: only its rule catches it."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Annotations, Match

from tests.constructs.declared import with_serving, with_values
from tests.triton_models.correct_artifacts import CHECKPOINT_FILE, checkpoint_file, write_checkpoint
from tests.triton_models.model_folders import PYTHON_CODE, Edit, tar, write, write_ensemble
from tests.triton_models.real_networks import write_onnx
from tests.triton_models.test_check_target import plan
from tests.triton_models.test_servable import build, network, python, rules
from triton_fleet import (
    EndpointScaling,
    FleetError,
    GpuUtilization,
    ModelBuildProject,
    ModelRepository,
    MultiModelEndpoint,
    TritonMetrics,
    TritonServer,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.client import Client
from triton_models.spec import Ensemble, Wheels

ROOT = Path(__file__).parents[1]
TENSORRT = "10.13.3.9"
ROWS = re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", (ROOT / "docs" / "traps.md").read_text(), re.MULTILINE)
TRAPS = {name: stops for name, stops in ROWS if name != "trap"}
"""The rule that stops each trap, from the page."""

Caught = set[str]


# Correct fleets and artifacts


def fleet(tmp_path: Path, *, volume_key: bool = False, **given: Any) -> Caught:
    """Return the rules that a fleet breaks, errors and warnings. None, unless a given value is wrong."""
    stack = Stack(App(), "Fleet")
    if volume_key:
        given["encryption_key"] = kms.Key(stack, "Key")
    target_percent = given.pop("gpu_percent", 60)
    builds = {"release": given.get("release", "25.09"), "instance_type": "ml.g5.2xlarge"} | given.pop(
        "builds", {}
    )
    try:
        repository = ModelRepository(stack, "Repository")
        endpoint = MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=repository,
            endpoint_name="fleet",
            **with_values({"instance_type": "ml.g5.2xlarge", "release": "25.09"} | given),
        )
        ModelBuildProject(
            stack,
            "Builds",
            repository=repository,
            source=ROOT / "model_builds",
            models=["minilm"],
            **with_serving(builds),
        )
        EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[GpuUtilization(percent=target_percent)])
    except FleetError as error:
        return {problem.rule for problem in error.problems}
    warnings = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    return {found for each in warnings for found in re.findall(r"triton-fleet:[a-z-]+", str(each.entry.data))}


def artifact(tmp_path: Path, spoil: Callable[[Path], None] = lambda root: None, **wanted: str) -> Caught:
    """Return the rules that an artifact breaks. None, unless it is spoiled or meant for another target."""
    root = write_ensemble(tmp_path / "minilm", gpu="A10G")
    write(root / "minilm_encoder" / "1" / "model.plan", plan(TENSORRT))
    spoil(root)
    served = {"release": "25.09", "gpu": "A10G", "endpoint": "multi-model"} | wanted
    return {problem.rule for problem in check_path(root, target=target(**served))}


# Traps


def edited(folder: str, edit: Callable[[Any], None]) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        with Edit(root / folder) as config:
            edit(config)

    return spoil


def replaced(path: str, old: str, new: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new))

    return spoil


def serve_with_tensorflow(root: Path) -> None:
    with Edit(root / "minilm_pooling") as config:
        config.backend, config.platform = "", "tensorflow_graphdef"
    (root / "minilm_pooling" / "1" / "model.py").rename(root / "minilm_pooling" / "1" / "model.graphdef")


def call_from_each(root: Path) -> None:
    for model in ("minilm", "minilm_tokenizer", "minilm_encoder", "minilm_pooling"):
        with Edit(root / model) as config:
            config.parameters["fleet.calls.minilm_encoder"].string_value = "minilm_encoder"


def without_ensemble(root: Path) -> None:
    shutil.rmtree(root / "minilm")


def remove_version(root: Path) -> None:
    (root / "minilm" / "1" / ".keep").unlink()
    (root / "minilm" / "1").rmdir()


def overwritten(tmp_path: Path) -> Caught:
    path = tar(write_ensemble(tmp_path / "minilm"), tmp_path / f"minilm-{'0' * 16}.tar.gz")
    try:
        Artifact.read(path)
    except FleetError as error:
        return {problem.rule for problem in error.problems}
    return set()


def joined(tmp_path: Path) -> Caught:
    path = tar(write_ensemble(tmp_path / "minilm"), tmp_path / "minilm.tar.gz")
    path.write_bytes(path.read_bytes() * 2)
    return {problem.rule for problem in check_path(path)}


def too_large(tmp_path: Path) -> Caught:
    session = boto3.Session(region_name="eu-west-1")
    client = Client(endpoint_name="fleet", repository="s3://bucket/models/", session=session)
    try:
        client.invoke_target(target_model="a.tar.gz", inputs={"X": np.zeros((1, 7 << 20), np.uint8)})
    except FleetError as error:
        return {problem.rule for problem in error.problems}
    return set()


def forest_of_unequal_scores(tmp_path: Path) -> Caught:
    write_checkpoint(tmp_path)
    write(tmp_path / CHECKPOINT_FILE, checkpoint_file(base_scores=(1.0, 0.5, 0.5)))
    return {problem.rule for problem in check_path(tmp_path, target=target(release="25.09", gpu="A10G"))}


def two_of_one_name(tmp_path: Path) -> Caught:
    reader = python("reader")
    ensembles = [build(name, reader, Ensemble(name=name, steps=["reader"])) for name in ("first", "second")]
    return set(rules(*ensembles))


def reader_with(wheels: Any, *, release: str) -> Caught:
    return set(rules(build("reader", python(environment=Wheels(wheels))), release=release))


def compile_at_load(root: Path) -> None:
    def on_onnx_runtime(config: Any) -> None:
        config.backend = "onnxruntime"
        config.optimization.execution_accelerators.gpu_execution_accelerator.add(name="tensorrt")

    edited("minilm_encoder", on_onnx_runtime)(root)
    (root / "minilm_encoder" / "1" / "model.plan").unlink()
    write_onnx(root / "minilm_encoder")


TRAPS_SET: list[tuple[str, Callable[[Path], Caught]]] = [
    ("composing-name-taken", two_of_one_name),
    ("network-type", lambda tmp: set(rules(build("encoder", network("INT64")), release="24.01"))),
    ("network-type", lambda tmp: set(rules(build("encoder", network("BF16")), release="24.05"))),
    ("environment-numpy", lambda tmp: reader_with(["numpy==2.2.0"], release="24.09")),
    ("environment-python", lambda tmp: reader_with({"3.10": ["numpy==1.26.4"]}, release="25.09")),
    ("plan-gpu", lambda tmp: artifact(tmp, gpu="T4")),
    ("plan-version", lambda tmp: artifact(tmp, release="25.04")),
    ("engine-at-load", lambda tmp: artifact(tmp, compile_at_load)),
    ("backend-removed", lambda tmp: artifact(tmp, serve_with_tensorflow)),
    (
        "backend-unknown",
        lambda tmp: artifact(tmp, replaced("minilm_pooling/config.pbtxt", '"python"', '"pyton"')),
    ),
    (
        "inner-model-name",
        lambda tmp: artifact(
            tmp,
            lambda root: write(
                root / "minilm_pooling/1/model.py", PYTHON_CODE + b'InferenceRequest(model_name="a")'
            ),
        ),
    ),
    ("inner-model-callers", lambda tmp: artifact(tmp, call_from_each)),
    (
        "gpu-generation-supported",
        lambda tmp: fleet(
            tmp, instance_type="ml.p3.2xlarge", builds={"instance_type": "ml.g5.2xlarge", "release": "25.09"}
        ),
    ),
    ("server-port", lambda tmp: fleet(tmp, server=TritonServer(metrics=TritonMetrics(port=8002)))),
    (
        "multi-model-type",
        lambda tmp: fleet(tmp, instance_type="ml.g6.2xlarge", builds={"instance_type": "ml.g6.2xlarge"}),
    ),
    ("local-storage-no-volume", lambda tmp: fleet(tmp, volume_key=True)),
    ("triton-fleet:unload-stall", lambda tmp: fleet(tmp, release="26.05")),
    (
        "composing-cache",
        lambda tmp: artifact(
            tmp, edited("minilm_pooling", lambda config: setattr(config.response_cache, "enable", True))
        ),
    ),
    (
        "decoupled",
        lambda tmp: artifact(
            tmp,
            edited(
                "minilm_pooling", lambda config: setattr(config.model_transaction_policy, "decoupled", True)
            ),
        ),
    ),
    ("several-models", lambda tmp: artifact(tmp, without_ensemble)),
    (
        "ensemble-undetected",
        lambda tmp: artifact(tmp, replaced("minilm/config.pbtxt", '"ensemble"', "'ensemble'")),
    ),
    ("version-missing", lambda tmp: artifact(tmp, remove_version)),
    ("scaling-target-reachable", lambda tmp: fleet(tmp, gpu_percent=170)),
    (
        "multi-model-argument",
        lambda tmp: fleet(tmp, server=TritonServer(extra_arguments=("--model-load-gpu-limit=0:0.8",))),
    ),
    ("fil-gpu", forest_of_unequal_scores),
    ("payload", too_large),
    ("artifact-changed", overwritten),
    ("archive-trailing", joined),
]


def test_a_correct_fleet_breaks_no_rule(tmp_path: Path) -> None:
    assert fleet(tmp_path) == set()


def test_a_correct_artifact_breaks_no_rule(tmp_path: Path) -> None:
    assert artifact(tmp_path) == set()


@pytest.mark.parametrize(("rule", "trap"), TRAPS_SET)
def test_a_trap_is_caught_by_its_rule_and_by_no_other(
    rule: str, trap: Callable[[Path], Caught], tmp_path: Path
) -> None:
    assert trap(tmp_path) == {rule}
    assert any(f"`{rule}`" in stops for stops in TRAPS.values())


# The page


@pytest.mark.parametrize("name", TRAPS)
def test_what_the_page_names_is_there(name: str) -> None:
    stops = TRAPS[name]
    rules, _, rest = stops.partition("**Default**") if "**Rule" in stops else ("", "", stops)
    code = _code()
    missing = [rule for rule in re.findall(r"`([a-z0-9:-]+)`", rules) if f'"{rule}"' not in code]
    for words, path in re.findall(r"\[([^\]]+)\]\(\.\./([^)]+)\)", rest):
        test = f"def test_{words.replace(' ', '_')}(" if words != Path(path).stem else "def test_"
        if test not in (ROOT / path).read_text():
            missing.append(words)
    assert missing == []


@functools.cache
def _code() -> str:
    folders = (ROOT / "constructs" / "triton_fleet", ROOT / "model_builds" / "triton_models")
    return "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
