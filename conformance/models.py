"""The models behind the suite's endpoints: Python models that report what they see of their host."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping

CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: 0
input [{{name: "ASK" data_type: TYPE_STRING dims: [1]}}]
output [{{name: "ANSWER" data_type: TYPE_STRING dims: [1]}}]
instance_group [{{kind: KIND_CPU count: 1}}]
"""

CODE = """\
import contextlib
import json
import os
import pathlib
import subprocess
import time

import numpy as np
import triton_python_backend_utils as pb_utils

NAME, SECONDS, VERSION, FITS = json.loads({settings!r})
MARKERS = pathlib.Path({markers!r})


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip()
    except OSError as error:
        return str(error)


def host(folder):
    # The stub that runs this model is a child of the server.
    server = pathlib.Path(f"/proc/{{os.getppid()}}/cmdline").read_bytes().decode(errors="replace")
    return {{
        "driver": run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "shared_memory": run("df", "-k", "/dev/shm").splitlines(),
        "executable": os.access(folder / "bin" / "python3", os.X_OK),
        "server": server.split("\\0")[:-1],
        "loaded": sorted(path.name for path in MARKERS.glob("*")),
    }}


class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"]) / args["model_version"]
        if SECONDS < 0:
            raise ValueError("this model does not load")
        time.sleep(SECONDS)
        if FITS:
            MARKERS.mkdir(parents=True, exist_ok=True)
            if len(list(MARKERS.glob("*"))) >= FITS:
                raise pb_utils.TritonModelException("CUDA out of memory: the models fill it")
            (MARKERS / NAME).touch()

    def finalize(self):
        (MARKERS / NAME).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are loaded
            MARKERS.rmdir()

    def execute(self, requests):
        return [self.answer(json.loads(self.asked(each))) for each in requests]

    def asked(self, request):
        return pb_utils.get_input_tensor_by_name(request, "ASK").as_numpy()[0]

    def answer(self, asked):
        if "fail" in asked:
            raise ValueError(asked["fail"])
        time.sleep(asked.get("sleep", 0))
        said = {{"version": VERSION, **(host(self.folder) if asked.get("see") == "host" else {{}})}}
        tensor = pb_utils.Tensor("ANSWER", np.array([json.dumps(said).encode()], dtype=np.object_))
        return pb_utils.InferenceResponse([tensor])
"""


def model(
    markers: str, name: str = "inspector", *, seconds: float = 0, version: int = 1, fits: int = 0
) -> bytes:
    """Return a model as a .tar.gz of stored blocks, as `fleet pack` writes weights.

    Args:
        markers: The folder in the container where models leave a mark while they are loaded.
        name: Its name.
        seconds: The time that it takes to load; below 0, it does not load.
        version: A number that it answers with.
        fits: The number of models with this argument that fit at a time, instead of their memory.
    """
    settings = json.dumps([name, seconds, version, fits])
    files = {
        "config.pbtxt": CONFIG.format(name=name).encode(),
        "1/model.py": CODE.format(settings=settings, markers=markers).encode(),
        "1/bin/python3": b"#!/bin/sh\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mode = len(content), 0o755 if "/bin/" in path else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=0, mtime=0)


def body(asked: Mapping[str, object], size: int = 0) -> bytes:
    tensor = {"name": "ASK", "shape": [1], "datatype": "BYTES", "data": [json.dumps(asked)]}
    return json.dumps({"inputs": [tensor]}).encode().ljust(size)
