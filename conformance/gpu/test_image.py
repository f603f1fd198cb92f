"""Beliefs about the image of a release: CUDA, Python, NumPy, DALI, the server, and TensorRT with trtexec."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from conformance.gpu.machine import IMAGE_VARIABLE, Machine, alike, image_python, names, python, run, variable
from conformance.records import Asked
from triton_models.artifact.networks import PlanHeader
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.compiler import Compiler, unknown_operators
from triton_models.builds.tensorrt.driver import IMAGE_COMPAT
from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC, find_compiler, find_trtexec, trtexec_version
from triton_models.builds.tensorrt.options import CommandLine, PlanOptions
from triton_models.builds.tensorrt.timing_cache import TimingCache
from triton_models.declare.requires import IMAGE_MODULES
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.dali import dali_version
from triton_models.facts.image_contents import IMAGE_SERVER, REPOSITORY_AGENTS, backends
from triton_models.facts.tensorrt import Precision

pytestmark = pytest.mark.gpu("image")

LOADED = re.compile(r"Loaded (\d+) bytes of (?:\S+ )?timing cache", re.IGNORECASE)
MADE_UP = "MadeUpOperator"
TURING = "7.5"
NUMPY = "import numpy; print(numpy.__version__, numpy.__file__)"
DALI = "import nvidia.dali as dali; print(dali.__version__, dali.__file__)"
DALI_FOLDER = IMAGE_MODULES["nvidia.dali"]
PYTHON_CONFIG = """\
name: "conformance"
backend: "python"
max_batch_size: 0
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "FACTS" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
PYTHON_CODE = """\
import json

import numpy
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        facts = json.dumps([numpy.__version__, numpy.__file__]).encode()
        said = numpy.array([facts], dtype=object)
        return [pb.InferenceResponse([pb.Tensor("FACTS", said)]) for _ in requests]
"""


def test_the_image_names_its_release(here: Machine, ask: Asked) -> None:
    assert ask(lambda: variable(IMAGE_VARIABLE)) == here.release.name


def test_the_image_has_a_newer_driver_for_older_hosts(ask: Asked) -> None:
    assert [each for each in ask(lambda: names(IMAGE_COMPAT)) if each.startswith("libcuda.so")]


def test_the_cuda_of_the_image_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    assert alike(ask(lambda: variable("CUDA_VERSION")), here.release.cuda)


def test_the_python_of_the_image_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    said = ask(lambda: run(image_python(), "--version"))
    assert said.removeprefix("Python ").split(".")[:2] == here.release.python.split(".")


def test_the_images_python_path_is_dalis_folder(ask: Asked) -> None:
    assert str(DALI_FOLDER) in (ask(lambda: variable("PYTHONPATH")) or "").split(os.pathsep)


def test_numpy_is_in_dalis_folder(ask: Asked) -> None:
    assert Path(ask(lambda: python(NUMPY)).partition(" ")[2]).is_relative_to(DALI_FOLDER)


def test_numpy_is_what_the_release_needs(here: Machine, ask: Asked) -> None:
    major, below = ask(lambda: python(NUMPY)).partition(".")[0], here.release.numpy_below
    assert below is None or int(major) < below


def test_a_python_model_imports_the_numpy_of_python3(tmp_path: Path, ask: Asked) -> None:
    def served() -> Any:
        import numpy as np

        from triton_models.deliver.steps import process_server

        folder = tmp_path / "conformance"
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(PYTHON_CONFIG)
        (folder / "1" / "model.py").write_text(PYTHON_CODE)
        server = process_server()
        with server.loaded(tmp_path, "conformance"):
            answer = server.infer("conformance", {"X": np.zeros(1, np.float32)}, where="the suite's model")
        return json.loads(answer["FACTS"].item())

    assert ask(served, "the model's") == ask(lambda: python(NUMPY).split(" ", 1), "python3's")


def test_dali_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    version, _, where = ask(lambda: python(DALI)).partition(" ")
    assert alike(version, dali_version(here.release))
    assert Path(where).is_relative_to(DALI_FOLDER)


def test_the_server_is_in_its_place_and_on_the_path(ask: Asked) -> None:
    found = ask(lambda: [os.access(IMAGE_SERVER, os.X_OK), shutil.which("tritonserver") is not None])
    assert found == [True, True]


def test_the_image_has_the_backends_of_the_table(here: Machine, ask: Asked) -> None:
    cpu = ask(lambda: variable("CUDA_VERSION") is None, "for CPUs")
    assert ask(lambda: names(IMAGE_SERVER.parents[1] / "backends")) == sorted(backends(here.release, cpu=cpu))


def test_the_image_has_the_agents_of_the_table(ask: Asked) -> None:
    assert set(ask(lambda: names(IMAGE_SERVER.parents[1] / "repoagents"))) == REPOSITORY_AGENTS


def test_onnx_runtime_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    def version() -> str | None:
        """Return the version in the symbols of the backend's library, such as VERS_1.23.0."""
        for library in sorted((IMAGE_SERVER.parents[1] / "backends").glob("onnxruntime/libonnxruntime.so*")):
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if match := re.search(rb"\0VERS_(\d+\.\d+\.\d+)\0", content):
                    return match[1].decode()
        return None

    assert ask(version) == here.release.onnxruntime


def trtexec() -> Path:
    return find_trtexec() or pytest.skip("there is no trtexec")


def installed() -> str:
    listed = run("sh", "-c", "dpkg-query -W -f '${Package} ${Version} ' 'libnvinfer*'")
    match = re.search(r"\blibnvinfer\d+ (\d+(?:\.\d+)+)", listed)
    return match[1] if match else ""


def test_tensorrt_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    assert PlanHeader(tensorrt=ask(installed)).loads_in(here.release.tensorrt)


def test_a_variable_has_the_version_of_tensorrt(ask: Asked) -> None:
    assert ask(lambda: variable("TRT_VERSION"), "TRT_VERSION").partition("+")[0] == ask(installed, "package")


def test_trtexec_is_in_its_place(ask: Asked) -> None:
    assert ask(lambda: os.access(IMAGE_TRTEXEC, os.X_OK))


def test_trtexecs_first_line_has_its_version(ask: Asked) -> None:
    said = ask(lambda: trtexec_version(trtexec()), "trtexec")
    assert said != "unknown"
    assert PlanHeader(tensorrt=said).loads_in(ask(installed, "package"))


def test_trtexec_knows_the_options_of_our_command_lines(here: Machine, ask: Asked) -> None:
    def known() -> list[str]:
        said = run("sh", "-c", f"{trtexec()} --help | tr '\\n' ' '")
        return sorted(set(re.findall(r"--[A-Za-z][A-Za-z0-9]*", said)))

    shown = ask(known)
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "fp16")
    for precision in precisions:
        command = CommandLine(
            trtexec=IMAGE_TRTEXEC,
            onnx=Path("model.onnx"),
            plan=Path("model.plan"),
            release=here.release,
            profiles=[{"x": ShapeRange(min=(1,), opt=(1,), max=(2,))}],
            options=PlanOptions(precision=precision, workspace_mb=1, optimization_level=1),
            timing_cache=Path("times"),
        )
        assert {each.partition("=")[0] for each in command.arguments()[1:]} <= set(shown)


def compiled(compiler: Compiler, folder: Path, operator: str = "Relu", **more: PlanOptions) -> str:
    """Compile a network of one node; return the rule of the error, or "", before trtexec's log."""
    import onnx
    from onnx import TensorProto, helper

    network = folder / "1" / "model.onnx"
    network.parent.mkdir(parents=True, exist_ok=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), network)
    rule = ""
    try:
        compiler.compile(network, network.with_suffix(".plan"), profiles=(), **more)
    except FleetError as error:
        rule = str(error.problems[0].rule)
    newest = max(compiler.logs.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    lines = newest.read_text(errors="replace").splitlines()[1:]  # the first is the command, with paths
    kept = [each for each in lines if LOADED.search(each)] or lines[-60:]
    return "\n".join([rule, *kept])


def compiler(here: Machine, folder: Path, cache: TimingCache | None = None) -> Compiler:
    return find_compiler(
        release=here.release, gpu=here.present, logs=folder / "trtexec-logs", timing_cache=cache
    )


def test_an_unknown_operator_is_reported_as_one(here: Machine, tmp_path: Path, ask: Asked) -> None:
    rule, _, log = ask(lambda: compiled(compiler(here, tmp_path), tmp_path, MADE_UP)).partition("\n")
    assert rule == "plan-operator"
    assert list(unknown_operators(log)) == [MADE_UP]


def test_a_second_build_loads_the_timing_cache(here: Machine, tmp_path: Path, ask: Asked) -> None:
    def twice() -> str:
        cached = compiler(here, tmp_path, TimingCache.at(str(tmp_path / "times")))
        return [compiled(cached, tmp_path) for _ in range(2)][-1]

    match = LOADED.search(ask(twice))
    assert match
    assert int(match[1])


def test_a_plan_for_a_compute_capability_compiles_on_the_oldest_gpu(
    here: Machine, tmp_path: Path, ask: Asked
) -> None:
    if here.present.compute_capability != TURING:
        pytest.skip(f"{here.place} has compute capability {here.present.compute_capability}")
    level = PlanOptions(hardware="same-compute-capability")
    said = ask(lambda: compiled(compiler(here, tmp_path), tmp_path, options=level)).partition("\n")[0]
    if said not in {"", "plan-compile"}:
        pytest.skip(f"the rule {said} says nothing about the level")
    assert said == ""
