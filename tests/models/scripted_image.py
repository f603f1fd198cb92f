"""The image of a release on a machine with a GPU, as `fleet probe gpu` sees it: executables on PATH.

nvidia-smi, dpkg-query, python3, trtexec and tritonserver are small scripts. Each answers as the real one
should, unless it is given something else to say.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gpu_machine
import pytest

from triton_models.declare import requires
from triton_models.facts.image_contents import backends
from triton_models.facts.releases import release
from triton_models.probe.gpu import compiler, image
from triton_models.probe.gpu.machine import IMAGE_VARIABLE

# Answers Triton's requests about models; refuses those that $REFUSED names, and plans of no TensorRT.
SERVER = """#!{python}
import http.server, json, os, sys

flags = dict(each[2:].partition("=")[::2] for each in sys.argv[1:])
loaded = set()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda self, *_: None

    def do_GET(self):
        self.answer(200, {{"name": flags["id"]}})

    def do_POST(self):
        global loaded
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        *_, name, verb = self.path.split("/")
        if verb == "infer":  # of the probe's Python model
            facts = json.dumps({{"python": "3.12.3", "numpy": "1.26.4", "file": {numpy!r}}})
            output = {{"name": "FACTS", "datatype": "BYTES", "shape": [1], "data": [facts]}}
            self.answer(200, {{"model_name": name, "outputs": [output]}})
            return
        if verb == "load" and (error := self.refusal(name)):
            self.answer(400, {{"error": f"load failed for model '{{name}}': {{error}}"}})
            return
        if verb == "load":
            for each, kind in ((name, "{placed}"), (name + "_step", "{steps}")):
                print(f"TRITONBACKEND_ModelInstanceInitialize: {{each}}_0_0 ({{kind}} device 0)", flush=True)
            loaded.add(name)
        loaded -= {{name}} if verb == "unload" else set()
        self.answer(200, [{{"name": each, "state": "READY"}} for each in loaded])

    def refusal(self, name):
        if name in os.environ.get("REFUSED", "").split():
            return "no such layer"
        plan = os.path.join(flags["model-repository"], name, "1", "model.plan")
        if os.path.exists(plan) and open(plan, "rb").read()[27] == 255 and not os.environ.get("LENIENT"):
            return "expecting library version 10.13.3.9 got 10.13.3.255"

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(flags["http-port"])), Handler).serve_forever()
"""

# What trtexec says of an operator that it does not know, and of a cache that it has loaded.
TRTEXEC_ENDING = """
for argument; do case $argument in
  --onnx=*) grep -q MadeUpOperator "${argument#*=}" && { cat <<'EOF'
[E] [TRT] ModelImporter.cpp:961: While parsing node number 0 [MadeUpOperator -> "y"]:
[E] [TRT] ModelImporter.cpp:967: ERROR: onnxOpCheckers.cpp:818 In function checkFallbackPluginImporter:
EOF
    exit 1; };;
  --timingCacheFile=*) echo "Loaded $(wc -c < "${argument#*=}") bytes of timing cache from ${argument#*=}";;
esac; done
exit 0
"""

DECLARATION = """
from functools import partial

from triton_models.spec import ModelDefinition, ShapeRange

def write(job, name):
    import onnx
    from onnx import TensorProto, helper
    from triton_models.config.pbtxt import plain, tensor

    one = dict(inputs=[tensor("X", "FP32", [4])], outputs=[tensor("Y", "FP32", [4])])
    version = job.model(plain(name=f"{{name}}_network", backend="tensorrt", max_batch_size=2, **one))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "XY"]
    graph = helper.make_graph([helper.make_node("Relu", ["X"], ["Y"])], "g", ends[:1], ends[1:])
    network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(network, version / "model.onnx")
    sizes = ShapeRange(min=(1, 4), opt=(1, 4), max=(2, 4))
    job.compile_plan(version / "model.onnx", shapes={{"X": sizes}}, precision="fp16")

def build(name):
    return ModelDefinition(
        name=name,
        description="made up",
        write=partial(write, name=name),
        examples=list,
        reference=dict,
        output="Y",
        tolerance=0.0,
    )

BUILD = build({name!r})
FORMS = {{"torchscript": build({name!r} + "_torchscript")}}
"""


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """The answers of the executables.

    Attributes:
        gpu: nvidia-smi's answer: name, driver, compute capability and MiB; None without a GPU.
        packages: dpkg's list.
        python: python3's answer: its version, the status of CUDA, NumPy and DALI with their places.
        variables: The image's variables.
        machine: trtexec's script; see `gpu_machine.install`.
        placed: The server's folder of models.
        steps: The folder of the Python step that comes with each.
        model_numpy: The NumPy that a Python model imports.
        server: The places of the server: on PATH, in the place of Triton's images, or both.
        backends: The server's backends.
        agents: The server's agents of the model repository.
        onnxruntime: The version of ONNX Runtime.
        compat: The files of CUDA's forward compatibility.
    """

    gpu: tuple[str, str, str, str] | None = ("NVIDIA A10G", "580.82.07", "8.6", "23028")
    packages: str = "libnvinfer10 10.13.3.9-1+cuda13.0"
    python: tuple[str, str, str, str] = (
        "3.12.3",
        "0",
        "1.26.4 {dali}/numpy/__init__.py",
        "1.51.2 {dali}/d.py",
    )
    variables: Mapping[str, str] | None = None
    machine: Mapping[str, Any] | None = None
    placed: str = "GPU"
    steps: str = "CPU"
    model_numpy: str = "{dali}/numpy/__init__.py"
    server: tuple[str, ...] = ("PATH", "place")
    backends: tuple[str, ...] = tuple(sorted(backends(release("25.09"))))
    agents: tuple[str, ...] = ("checksum",)
    onnxruntime: str = "1.23.0"
    compat: tuple[str, ...] = ("libcuda.so.580.82.07",)

    def but(self, **changed: Any) -> Scripted:
        """The same, answering otherwise in something."""
        return replace(self, **changed)

    def install(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Put the executables on PATH, and where the image has them; returns their folder."""
        programs, dali = folder / "opt" / "bin", folder / "dali"
        programs.parent.mkdir()
        given = {"ending": TRTEXEC_ENDING, **(self.machine or {})}
        gpu_machine.install(programs, log=folder / "trtexec.log", **given)
        version, status, numpy, found = (each.format(dali=dali) for each in self.python)
        scripts = {
            "nvidia-smi": _shell("exit 9" if self.gpu is None else _nvidia_smi(*self.gpu)),
            "dpkg-query": _shell(f"echo '{self.packages}'" if self.packages else "exit 1"),
            "python3": _shell(
                f'case "$*" in *--version*) echo Python {version};; *cudart*) echo status {status};; '
                f"*numpy*) echo {numpy};; *dali*) echo {found};; esac"
            ),
        }
        places = {"PATH": programs / "tritonserver", "place": folder / "opt" / "server" / "tritonserver"}
        places["place"].parent.mkdir()
        for name in self.server:
            scripts[str(places[name])] = SERVER.format(
                python=sys.executable,
                placed=self.placed,
                steps=self.steps,
                numpy=self.model_numpy.format(dali=dali),
            )
        for name, text in scripts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        for kind, names in (("backends", self.backends), ("repoagents", self.agents)):
            for name in names:
                (folder / "opt" / kind / name).mkdir(parents=True)
        library = folder / "opt" / "backends" / "onnxruntime" / "libonnxruntime.so"
        if library.parent.is_dir():
            library.write_bytes(f"\0libc.so.6\0VERS_{self.onnxruntime}\0".encode())
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        monkeypatch.setattr(compiler, "IMAGE_TRTEXEC", programs / "trtexec")
        (folder / "compat").mkdir()
        for name in self.compat:
            (folder / "compat" / name).touch()
        monkeypatch.setattr(image, "IMAGE_COMPAT", folder / "compat")
        monkeypatch.setattr(image, "IMAGE_SERVER", places["place"])
        monkeypatch.setattr(image, "IMAGE_MODULES", {"nvidia.dali": dali})
        assert "nvidia.dali" in requires.IMAGE_MODULES
        usual = {
            IMAGE_VARIABLE: "25.09",
            "CUDA_VERSION": "13.0.1.012",
            "TRT_VERSION": "10.13.3.9+cuda13.0",
            "PYTHONPATH": f"{dali}:",
        }
        for name, value in {**usual, **(self.variables or {})}.items():
            monkeypatch.setenv(name, value)
        return programs


def _nvidia_smi(name: str, driver: str, capability: str, memory: str) -> str:
    all_of_it = f"{name}, {driver}, {capability}, {memory} MiB"
    cases = {"*memory*": all_of_it, "*driver*": f"{name}, {driver}", "*": name}
    return f'case "$*" in {" ".join(f"{case}) echo {said!r};;" for case, said in cases.items())} esac'


def _shell(text: str) -> str:
    return f"#!/bin/sh\n{text}\n"
