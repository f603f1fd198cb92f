"""The models of the repository, each built once; a folder for made-up models; and a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_machine
import onnx
import pytest
from shared_builds import NETWORK, WRITES, BuiltModel, common_folder, shared_build
from wheel_shelf import put_numpy, put_wheel

from triton_models.builds import verified
from triton_models.builds.build import build

Declare = Callable[..., Path]

DECLARATION = """
from triton_models.spec import ModelDefinition, ShapeRange

def write(job):
    from triton_models.artifact.pbtxt import plain, tensor

    version = job.model(
        plain(
            name={name!r},
            backend="python",
            max_batch_size=0,
            inputs=[tensor("X", "FP32", [1])],
            outputs=[tensor("Y", "FP32", [1])],
        )
    )
    (version / "model.py").write_text("# version 1\\n")
{body}

BUILD = ModelDefinition(
    name={name!r},
    description="made up",
    write=write,
    examples=list,
    reference=dict,
    output="Y",
    tolerance=0.0,
)
"""

# Lines of write(): an encoder that a GPU build compiles.
ENCODER = """
import onnx
from onnx import TensorProto, helper
from triton_models.artifact.pbtxt import plain, tensor

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "XY")
graph = helper.make_graph([helper.make_node("Relu", ["X"], ["Y"])], "relu", [X], [Y])
encoder = job.model(plain(
    name="encoder", backend="tensorrt", max_batch_size=8,
    inputs=[tensor("X", "FP32", [4])], outputs=[tensor("Y", "FP32", [4])],
))
network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
onnx.save(network, encoder / "model.onnx")
shapes = {"X": ShapeRange(min=(1, 4), opt=(4, 4), max=(8, 4))}
job.compile_plan(encoder / "model.onnx", shapes=shapes)
"""

# A model of one ONNX file next to its declaration.
ONNX_FILE = """
from pathlib import Path
import numpy as np
from triton_models.spec import *

BUILD = ModelDefinition(
    name="net", description="made up", output="Y", {more},
    weights=LocalWeights(path=str(Path(__file__).with_name("net.onnx"))),
    models=[OnnxFile(name="net", {fields})],
)
"""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that build the models of the repository as long."""
    if "built_model" in getattr(item, "fixturenames", ()):
        item.add_marker("story")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the environments of the models, empty except for NumPy."""
    folder = tmp_path_factory.mktemp("wheels")
    put_numpy(folder)
    left_out = ("capi/libonnxruntime.so.1", "quantization/a.py", "tools/a.py", "transformers/a.py")
    put_wheel(folder, "onnxruntime", {f"onnxruntime/{each}": "" for each in left_out}, version="1.31.1")
    return folder


@pytest.fixture(scope="session")
def built_model(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> BuiltModel:
    """Builds a model of the repository, once for all processes."""
    output = common_folder(tmp_path_factory) / "built-models"

    def build(name: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            only_index(wheels, patch)
            return shared_build(name, output=output)

    return build


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make this a GPU machine, with nvidia-smi and trtexec on PATH; returns the log of trtexec's runs."""

    def make(**given: Any) -> Path:
        log = tmp_path / "trtexec.log"
        gpu_machine.install(tmp_path / "bin", log=log, **given)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        return log

    return make


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """An empty folder of model builds."""
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def declare(models: Path) -> Declare:
    """Add a model build: a small Python model, with more lines for its write() if given."""

    def add(name: str, body: str = "", *, declaration: str = DECLARATION) -> Path:
        (models / name).mkdir(exist_ok=True)
        path = models / name / "build.py"
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        path.write_text(declaration.format(name=name, body=indented))
        return path

    return add


@pytest.fixture
def relu_model(declare: Declare) -> Callable[..., None]:
    """Add the model `encoder`, which a GPU build compiles in FP16 if that is asked for."""

    def add(*, file: str = "model.onnx", fp16: bool = False, tolerance: str = "0.0") -> None:
        body = ENCODER.replace("model.onnx", file)
        body = body.replace("shapes=shapes)", 'shapes=shapes, precision="fp16")') if fp16 else body
        declare("encoder", body, declaration=WRITES.replace("tolerance=0.0", f"tolerance={tolerance}"))

    return add


@pytest.fixture
def declare_network(declare: Declare) -> Callable[..., Path]:
    """Add a model of one PyTorch network; `more` is what the declaration says besides."""

    def add(name: str, more: str = "reference=dict, tolerance=0.01", **given: str) -> Path:
        usual = {"network": "torch.nn.ReLU()", "inputs": 'Tensor("X", "FP32", [4])', "output": "Y"}
        filled = NETWORK.format(**{**usual, "examples": "list", "name": name, "more": more, **given})
        return declare(name, declaration=filled.replace("{", "{{").replace("}", "}}"))

    return add


@pytest.fixture
def declare_onnx(models: Path) -> Callable[..., Path]:
    """Add the model `net` of an ONNX network; `more` is what the declaration says besides."""

    def add(network: onnx.ModelProto, fields: str, more: str = "examples=list") -> Path:
        (models / "net").mkdir()
        onnx.save(network, models / "net" / "net.onnx")
        (models / "net" / "build.py").write_text(ONNX_FILE.format(fields=fields, more=more))
        return models

    return add


@pytest.fixture
def tiny(declare: Declare, models: Path, tmp_path: Path) -> Callable[..., Path]:
    """Add the model `tiny`, with more lines for its write() if given, and build it into out/."""

    def built(body: str = "", **given: Any) -> Path:
        declare("tiny", body)
        return build("tiny", output=tmp_path / "out", models=models, **given)

    return built


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only index that pip has."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    only_index(folder, monkeypatch)
    return folder


def only_index(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let pip look in a folder and nowhere else."""
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture
def small_networks_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks of few operations be in FP16 by default, as large ones are."""
    monkeypatch.setattr(verified, "_LEAST_OPERATIONS", 0.0)
