"""ONNX networks that OpenVINO runs on the CPU: the configuration, the answers, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_server import ENDPOINT, ask, serving
from small_onnx import network_of

from triton_models.artifact.pbtxt import ModelConfig, read_config, schema, write_config
from triton_models.builds.build import build
from triton_models.check.survey import check_declaration
from triton_models.declare.mistakes import find_mistakes
from triton_models.facts.releases import RELEASES
from triton_models.spec import (
    DynamicDim,
    Instances,
    ModelDefinition,
    OnnxFile,
    OpenVino,
    PyTorchNetwork,
    Tensor,
)
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

Built = Callable[..., Path]


@pytest.fixture
def built(declare_onnx: Callable[..., Path], tmp_path: Path) -> Built:
    """Build a network that doubles its input, declared with some fields."""

    def build_it(fields: str = "max_batch_size=0, backend=OpenVino()", *, kind: str = "float") -> Path:
        graph = f"g ({kind}[rows, 3] X) => ({kind}[rows, 3] Y) {{ Y = Add(X, X) }}"
        return build("net", models=declare_onnx(network_of(graph), fields), output=tmp_path / "out")

    return build_it


def parameters(config: ModelConfig) -> dict[str, str]:
    return {name: each.string_value for name, each in config.parameters.items()}


def test_the_configuration_names_the_file_and_keeps_the_model_on_the_cpu(built: Built) -> None:
    root = built('max_batch_size=0, backend=OpenVino(threads=2, streams="auto", performance="throughput")')
    config = read_config(root / "net" / "config.pbtxt")
    assert (config.backend, config.default_model_filename) == ("openvino", "model.onnx")
    assert [each.kind for each in config.instance_group] == [schema().ModelInstanceGroup.KIND_CPU]
    assert parameters(config) == {
        "INFERENCE_NUM_THREADS": "2",
        "NUM_STREAMS": "AUTO",
        "PERFORMANCE_HINT": "THROUGHPUT",
    }
    assert json.loads((root / "build.json").read_text())["precisions"] == ["bf16"]


@pytest.mark.parametrize(("kind", "element"), [("float", np.float32), ("float16", np.float16)])
def test_requests_carry_batches_of_their_own(kind: str, element: type, built: Built, tmp_path: Path) -> None:
    root = built(kind=kind)
    with serving(root, folder=tmp_path) as server:
        for rows in (4, 1, 4):
            asked = np.ones((rows, 3), element)
            assert ask(server, root.name, {"X": asked})["Y"].tolist() == (asked * 2).tolist()


def network(**changes: Any) -> OnnxFile:
    return dataclasses.replace(OnnxFile(name="net", max_batch_size=0, backend=OpenVino()), **changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"max_batch_size": 2}, "max_batch_size"),
        ({"instances": Instances(kind="KIND_GPU")}, "instances"),
        ({"instances": Instances(gpu_memory_mb=100)}, "instances"),
        ({"backend": OpenVino(threads=0)}, "threads"),
        ({"backend": OpenVino(streams=0)}, "streams"),
    ],
)
def test_what_the_backend_cannot_do_is_a_mistake(changes: dict[str, Any], field: str) -> None:
    ((_, mistake),) = find_mistakes(network(**changes))
    assert mistake.field == field


@pytest.mark.parametrize("gpu", [True, False])
def test_a_type_that_the_backend_lacks_is_refused_by_the_synthesis(gpu: bool, tmp_path: Path) -> None:
    declared = ModelDefinition(
        name="net",
        description="a network",
        models=[
            PyTorchNetwork(
                name="net",
                network=lambda: None,
                inputs=[Tensor("X", "FP64", [DynamicDim(name="rows", max=4), 3])],
                outputs=["Y"],
                max_batch_size=0,
                backend=OpenVino(),
            )
        ],
        examples=list,
        output="Y",
    )
    checked = check_declaration(declared, source=tmp_path / "net", release=RELEASES["25.09"], gpu=gpu)
    assert [problem.rule for problem in checked.problems] == ["network-type"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.ClearField("default_model_filename"), "unable to find"),
        (
            lambda it: setattr(it.input[0], "name", "Q"),
            "unexpected inference input 'Q', allowed inputs are: X",
        ),
        (lambda it: it.input[0].dims.__setitem__(1, 4), "tensor 'X': the model expects 2 dimensions"),
        (lambda it: setattr(it.input[0], "data_type", 12), "unsupported datatype TYPE_FP64 for input 'X'"),
    ],
    ids=["no-file", "input", "size", "type"],
)
def test_the_stand_in_refuses_what_the_backend_refuses(
    change: Callable[[ModelConfig], None], message: str, built: Built, tmp_path: Path
) -> None:
    root = built()
    config = read_config(root / "net" / "config.pbtxt")
    change(config)
    write_config(config, root / "net" / "config.pbtxt")
    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        answer = contract.load(model_id="net", target_model="net", folder=str(root))
    assert answer.status == 400
    assert message in answer.text


def test_a_shape_may_be_the_configurations_if_it_says_so(built: Built, tmp_path: Path) -> None:
    root = built()
    config = read_config(root / "net" / "config.pbtxt")
    for tensor in (config.input[0], config.output[0]):
        tensor.dims[:] = [2, 5]
    config.parameters["RESHAPE_IO_LAYERS"].string_value = "YES"
    write_config(config, root / "net" / "config.pbtxt")
    with serving(root, folder=tmp_path) as server:
        assert ask(server, root.name, {"X": np.ones((2, 5), np.float32)})["Y"].shape == (2, 5)
