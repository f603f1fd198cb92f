"""Builds match their declarations: small models of each kind, loaded by a real Triton server."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import onnx
import pytest
from one_server import serving
from small_onnx import network_of

from tests.reported import reported
from triton_models.artifact.pbtxt import GPU_MEMORY, read_config
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.spec import Instances, OnnxRuntime, PythonBackend, TensorRt

ECHO = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(each, "TEXT").as_numpy() for each in requests]
        with open({log!r}, "a") as log:
            log.write(str([text.tolist() for text in texts]) + "\\n")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAME", text)]) for text in texts]
"""

TOP = """
from triton_models.spec import *

def examples():
    import numpy as np
    texts = np.array([["h\\u00e9".encode()], [b"other"]], dtype=object)
    return [Example(name="two texts", inputs={"TEXT": texts})]

BUILD = ModelDefinition(
    name="m", description="", examples=examples, reference=dict, output="SAME", tolerance=0, MODELS
)
"""

PYTHON = """models=[PythonModel(
    name="m", code="echo.py", max_batch_size=4,
    inputs=[Tensor("TEXT", "STRING", [1])], outputs=[Tensor("SAME", "STRING", [1])],
    parameters={"threshold": 0.5}, WARM)]"""

FILE = """weights=LocalWeights(path=PATH), models=[OnnxFile(name="m", max_batch_size=8, OPTIONS)]"""


@pytest.fixture
def declared(models: Path, tmp_path: Path):
    """Build a declaration of one model `m`."""

    def make(text: str, output: str = "SAME", **given: Any) -> Path:
        (models / "m").mkdir(exist_ok=True)
        (models / "m" / "build.py").write_text(TOP.replace("MODELS", text).replace("SAME", output, 1))
        (models / "m" / "echo.py").write_text(ECHO.format(log=str(tmp_path / "log.txt")))
        return build("m", output=tmp_path / "out", models=models, **given)

    return make


@pytest.fixture
def relu(tmp_path: Path) -> str:
    """An ONNX file of one operator, as a declaration names it."""
    path = tmp_path / "relu.onnx"
    onnx.save(network_of("g (float[batch, n] x) => (float[batch, n] SAME) { SAME = Relu(x) }"), path)
    return FILE.replace("PATH", repr(str(path)))


def test_an_onnx_file_is_served_with_its_own_tensors(declared, relu):
    root = declared(relu.replace("OPTIONS", ""))
    config = read_config(root / "m" / "config.pbtxt")
    assert [(each.name, list(each.dims)) for each in (*config.input, *config.output)] == [
        ("x", [-1]),
        ("SAME", [-1]),
    ]
    assert check_path(root) == []
    assert json.loads((root / "build.json").read_text())["sources"]["weights"].startswith("sha256:")


ENSEMBLE = """weights=LocalWeights(path=PATH), models=[
    OnnxFile(name="step", max_batch_size=8, labels={"SAME": "classes.txt"}),
    Ensemble(name="m", steps=[
        EnsembleStep(model_name="step", inputs={"x": "x"}, outputs={"SAME": "SAME"})
    ])]"""


@pytest.mark.parametrize("steps", [False, True], ids=["of a network", "of a step"])
def test_classes_have_the_names_of_the_labels_file(steps, declared, models, relu, tmp_path):
    (models / "m").mkdir()
    (models / "m" / "classes.txt").write_text("cat\ndog\n")
    path = f"path={str(tmp_path / 'relu.onnx')!r}"
    alone = relu.replace("OPTIONS", "labels={'SAME': 'classes.txt'}")
    root = declared(ENSEMBLE.replace("path=PATH", path) if steps else alone)
    assert check_path(root) == []
    wanted = [{"name": "SAME", "parameters": {"classification": 1}}]
    rows = [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 5]}]
    with serving(root, folder=tmp_path) as contract:
        body = json.dumps({"inputs": rows, "outputs": wanted}).encode()
        answer = contract.invoke(model_id="m", target_model="m", body=body)
    assert json.loads(answer.body)["outputs"][0]["data"] == ["5.000000:1:dog"]


def test_the_shown_output_is_one_of_the_files(declared, relu):
    with reported("unknown-output") as problems:
        declared(relu.replace("OPTIONS", ""), output="SAM")
    assert problems[0].fix == "did you mean SAME?"


def test_weights_that_are_not_there_are_reported_before_anything_is_exported(declared, models):
    text = (
        'weights=LocalWeights(path="/nowhere/weights.pt"), models=[PyTorchNetwork(name="m", network=None or '
    )
    text += 'exit, inputs=[Tensor("x", "FP32", [1])], outputs=["SAME"], max_batch_size=4)]'
    with reported("weights") as problems:
        declared(text)
    assert problems[0].what == "No such file or directory"


def test_a_cpu_build_takes_onnx_runtimes_place_without_tensorrts_parameters(declared, relu):
    options = (
        "profile={'x': ShapeRange(min=(1, 1), opt=(2, 4), max=(8, 9))}, "
        "backend=TensorRt(context_memory='on_profile_change', cuda_graphs=True), warm_up=WarmUp(count=3)"
    )
    root = declared(relu.replace("OPTIONS", options), cpu=True)
    config = read_config(root / "m" / "config.pbtxt")
    assert (config.backend, dict(config.parameters), config.HasField("optimization")) == (
        "onnxruntime",
        {},
        False,
    )
    assert list(config.model_warmup[0].inputs["x"].dims) == [4]
    assert config.model_warmup[0].count == 3
    assert check_path(root) == []


@pytest.mark.parametrize(
    ("backend", "parameters", "level"),
    [
        (OnnxRuntime(), {}, 0),
        (
            OnnxRuntime(
                intra_op_threads=2, inter_op_threads=1, execution="parallel", graph_optimization="basic",
                cpu_arena=False, memory_pattern=True, arena_shrinkage="cpu:0", device_initializers=True,
                convolution_search="heuristic", gpu_memory_limit=1 << 30,
                arena_extension="same_as_requested", copy_in_default_stream=False,
            ),
            {
                "intra_op_thread_count": "2", "inter_op_thread_count": "1", "execution_mode": "1",
                "enable_mem_arena": "0", "enable_mem_pattern": "1",
                "memory.enable_memory_arena_shrinkage": "cpu:0",
                "session.use_device_allocator_for_initializers": "1", "cudnn_conv_algo_search": "1",
                "gpu_mem_limit": "1073741824", "arena_extend_strategy": "1", "do_copy_in_default_stream": "0",
            },
            -1,
        ),

        (OnnxRuntime(graph_optimization="extended"), {}, 1),


        (TensorRt(context_memory="static"), {"execution_context_allocation_strategy": "STATIC"}, 0),
        (PythonBackend(host_inputs=False), {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}, 0),
    ],
)  # fmt: skip
def test_options_of_a_backend_are_written_as_it_reads_them(backend, parameters, level):
    from triton_models.artifact.pbtxt import schema

    config = schema().ModelConfig()
    backend.configure(config)
    assert {name: value.string_value for name, value in config.parameters.items()} == parameters
    assert config.optimization.graph.level == level


@pytest.mark.parametrize(
    ("options", "threads", "search"),
    [
        ("OnnxRuntime()", "1", "1"),
        ("OnnxRuntime(intra_op_threads=4, convolution_search='exhaustive')", "4", "0"),
        ("OnnxRuntime(), instances=Instances(kind='KIND_CPU')", "", ""),
    ],
)
def test_a_session_on_a_gpu_has_one_thread_and_searches_by_heuristics(
    options, threads, search, declared, relu
):
    root = declared(relu.replace("OPTIONS", f"backend={options}"))
    own = read_config(root / "m" / "config.pbtxt").parameters
    assert own["intra_op_thread_count"].string_value == threads
    assert own["cudnn_conv_algo_search"].string_value == search


def test_onnx_runtime_loads_a_model_with_every_cpu_option_and_is_warmed_up(declared, relu, tmp_path):
    options = (
        "backend=OnnxRuntime(intra_op_threads=1, inter_op_threads=1, execution='sequential', "
        "graph_optimization='off', cpu_arena=False, memory_pattern=False, device_initializers=True), "
        "batching=DynamicBatching(preferred=[4]), instances=Instances(count=2, kind='KIND_CPU')"
    )
    root = declared(relu.replace("OPTIONS", options))
    assert check_path(root) == []
    with serving(root, folder=tmp_path):
        pass


def test_the_declared_memory_of_a_gpu_is_in_the_configuration(declared, relu):
    root = declared(relu.replace("OPTIONS", "instances=Instances(gpu_memory_mb=300)"))
    config = read_config(next(root.glob("*/config.pbtxt")))
    assert config.parameters[GPU_MEMORY].string_value == "300"
    assert check_path(root) == []


@pytest.mark.parametrize("wrong", [{"gpu_memory_mb": 0}, {"gpu_memory_mb": 1, "kind": "KIND_CPU"}])
def test_memory_of_a_gpu_that_no_instance_takes_is_refused(wrong):
    assert [mistake.field for mistake in Instances(**wrong).mistakes()] == ["gpu_memory_mb"]
    assert list(Instances(gpu_memory_mb=1).mistakes()) == []


def test_an_example_is_run_while_the_model_loads(declared, tmp_path):
    warm = 'warm_up=WarmUp(batch_sizes=[1, 3], example="two texts")'
    root = declared(PYTHON.replace("WARM", warm))
    assert (root / "m" / "warmup" / "TEXT").read_bytes() == struct.pack("<I", 3) + b"h\xc3\xa9"
    assert check_path(root) == []
    with serving(root, folder=tmp_path):
        pass
    runs = (tmp_path / "log.txt").read_text().splitlines()
    assert runs == [str([[[b"h\xc3\xa9"]]] * count) for count in (1, 3)]


def test_an_example_that_does_not_exist_is_refused(declared):
    with pytest.raises(FleetError, match="the example 'two text' does not exist"):
        declared(PYTHON.replace("WARM", 'warm_up=WarmUp(example="two text")'))


def test_a_file_that_the_weights_lack_is_named(declared, tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "vocabulary.txt").write_text("a\n")
    weights = f"weights=LocalWeights(path={str(tmp_path / 'weights')!r}), "
    root = declared(weights + PYTHON.replace("WARM", 'weights_files=["vocabulary.txt"]'))
    assert (root / "m" / "1" / "vocabulary.txt").read_text() == "a\n"
    with pytest.raises(FleetError, match=r"cannot copy 'vocab.txt': No such file"):
        declared(weights + PYTHON.replace("WARM", 'weights_files=["vocab.txt"]'))


def test_parameters_are_written_as_text(declared):
    root = declared(PYTHON.replace("WARM", ""))
    assert read_config(root / "m" / "config.pbtxt").parameters["threshold"].string_value == "0.5"
