"""Builds for instances without a GPU: ONNX Runtime serves what TensorRT would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from one_server import ask, serving

from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.check.check import check_path

Relu = Callable[..., None]


def _backends(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.glob("*/config.pbtxt")):
        yield path.parent.name, read_config(path).backend


def test_a_file_of_another_name_is_named_in_the_configuration(
    relu_model: Relu, models: Path, tmp_path: Path
) -> None:
    relu_model(file="relu.onnx")

    root = build("encoder", output=tmp_path / "out", models=models, cpu=True)

    assert read_config(root / "encoder" / "config.pbtxt").default_model_filename == "relu.onnx"
    assert check_path(root) == []


def test_a_portable_build_still_names_tensorrt_for_the_rehearsals_stand_in(
    relu_model: Relu, models: Path, tmp_path: Path
) -> None:
    relu_model()

    root = build("encoder", output=tmp_path / "out", models=models)

    assert list(_backends(root)) == [("encoder", "tensorrt")]


def test_what_would_be_a_plan_is_served_by_onnx_runtime(
    relu_model: Relu, models: Path, tmp_path: Path
) -> None:
    relu_model()
    root = build("encoder", output=tmp_path / "out", models=models, cpu=True)

    assert list(_backends(root)) == [("encoder", "onnxruntime")]
    assert json.loads((root / "build.json").read_text())["gpu"] is None
    assert check_path(root) == []
    with serving(root, folder=tmp_path) as contract:
        answer = ask(contract, "encoder", {"X": np.array([[-1, 0, 1, 2]], np.float32)})

    assert answer["Y"].tolist() == [[0, 0, 1, 2]]
