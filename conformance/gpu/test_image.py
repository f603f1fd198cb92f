"""Beliefs about the image of a release, which need no GPU: CUDA, Python, NumPy, DALI, the server."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
from pathlib import Path
from typing import Any

from conformance.beliefs import gpu
from conformance.gpu.machine import IMAGE_VARIABLE, Machine, alike, image_python, names, python, run, variable
from conformance.records import Asked
from triton_models.builds.tensorrt.driver import IMAGE_COMPAT
from triton_models.declare.requires import IMAGE_MODULES
from triton_models.facts.dali import dali_version
from triton_models.facts.image_contents import IMAGE_SERVER, REPOSITORY_AGENTS, backends

pytestmark = gpu("image")

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
