"""The models behind the probes' endpoint: Python models that report what they see of their host."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping

_CONFIG = """\
backend: "python"
max_batch_size: 0
input [{name: "ASK" data_type: TYPE_STRING dims: [1]}]
output [{name: "ANSWER" data_type: TYPE_STRING dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""

_HEAD = """\
import json
import os
import pathlib
import subprocess
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip()
    except OSError as error:
        return str(error)


def server():
    # The stub that runs this model is a child of the server.
    with open(f"/proc/{os.getppid()}/cmdline", "rb") as file:
        return file.read().decode(errors="replace").split("\\0")[:-1]

"""

_BODY = """\

class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"]) / args["model_version"]
        load(self.folder)

    def finalize(self):
        unload()

    def execute(self, requests):
        answers = []
        for request in requests:
            asked = json.loads(pb_utils.get_input_tensor_by_name(request, "ASK").as_numpy()[0])
            text = json.dumps(answer(asked, self.folder)).encode()
            tensor = pb_utils.Tensor("ANSWER", np.array([text], dtype=np.object_))
            answers.append(pb_utils.InferenceResponse([tensor]))
        return answers
"""

_INSPECTOR = """\
def load(folder):
    pass


def unload():
    pass


def answer(asked, folder):
    if "fail" in asked:
        raise ValueError(asked["fail"])
    time.sleep(asked.get("sleep", 0))
    if asked.get("see") != "host":
        return {"version": VERSION}
    return {
        "version": VERSION,
        "driver": run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "shared_memory": run("df", "-k", "/dev/shm").splitlines(),
        "executable": os.access(folder / "bin" / "python3", os.X_OK),
        "server": server(),
        "markers": sorted(path.name for path in pathlib.Path(MARKERS).glob("*")),
    }
"""

_SLOW = """\
def load(folder):
    time.sleep(SECONDS)


def unload():
    pass


def answer(asked, folder):
    return {}
"""

_BROKEN = """\
def load(folder):
    raise ValueError("the probe's model does not load")


def unload():
    pass


def answer(asked, folder):
    return {}
"""

# A stand-in for limited memory: any two of these models fit at a time.
_BALLAST = """\
def load(folder):
    markers = pathlib.Path(MARKERS)
    markers.mkdir(parents=True, exist_ok=True)
    if len(list(markers.glob("*"))) >= 2:
        raise pb_utils.TritonModelException("CUDA out of memory: the probe's models fill it")
    (markers / NAME).touch()


def unload():
    (pathlib.Path(MARKERS) / NAME).unlink(missing_ok=True)


def answer(asked, folder):
    return {"name": NAME}
"""


def inspector(markers: str, *, version: int = 1) -> bytes:
    """Return a model that reports what it sees. The file `bin/python3` next to its code is executable."""
    return _artifact(
        "inspector", _INSPECTOR, {"VERSION": version, "MARKERS": markers}, {"1/bin/python3": b"#!/bin/sh\n"}
    )


def slow(seconds: float) -> bytes:
    """Return a model that takes this many seconds to load."""
    return _artifact("slow", _SLOW, {"SECONDS": seconds})


def broken() -> bytes:
    """Return a model that fails to load."""
    return _artifact("broken", _BROKEN, {})


def ballast(name: str, markers: str) -> bytes:
    """Return one of several models of which only two fit at a time."""
    return _artifact(name, _BALLAST, {"NAME": name, "MARKERS": markers})


def _artifact(
    name: str, source: str, values: Mapping[str, object], more: Mapping[str, bytes] | None = None
) -> bytes:
    """Return a model as a .tar.gz of stored blocks, as `fleet pack` writes weights."""
    constants = "".join(f"{key} = json.loads({json.dumps(value)!r})\n" for key, value in values.items())
    files = {
        "config.pbtxt": f'name: "{name}"\n{_CONFIG}'.encode(),
        "1/model.py": f"{_HEAD}\n{constants}\n\n{source}\n{_BODY}".encode(),
        **(more or {}),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mode = len(content), 0o755 if "/bin/" in path else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=0, mtime=0)


def body(asked: Mapping[str, object]) -> bytes:
    """Return the body of a request."""
    tensor = {"name": "ASK", "shape": [1], "datatype": "BYTES", "data": [json.dumps(asked)]}
    return json.dumps({"inputs": [tensor]}).encode()
