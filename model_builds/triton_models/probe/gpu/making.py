"""One model, built, checked and verified on this machine, in a separate process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact.layout import BUILD_FILE
from triton_models.builds.build import LOGS
from triton_models.declare.reading import load_build
from triton_models.deliver.building import Order, built, check_built, process_server
from triton_models.deliver.worker import Report

PYTHON_MODEL = "fleet_probe"

_PYTHON_CONFIG = f"""\
name: "{PYTHON_MODEL}"
backend: "python"
max_batch_size: 0
input [ {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "FACTS" data_type: TYPE_STRING dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU }} ]
"""

_PYTHON_CODE = """\
import json
import platform
import sys

import numpy
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        facts = {
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "file": numpy.__file__,
            "path": sys.path,
        }
        said = numpy.array([json.dumps(facts).encode()], dtype=object)
        return [pb.InferenceResponse([pb.Tensor("FACTS", said)]) for _ in requests]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A built model that answers like its source.

    Attributes:
        root: The artifact root.
        record: The content of its build.json.
        accuracy: The result of `fleet verify`.
        log: The server's log while it served the model.
        compiling: The output of trtexec.
    """

    root: Path
    record: Mapping[str, Any]
    accuracy: str
    log: str
    compiling: str


def make(order: Order, report: Report) -> Made:
    """Build, check and verify a model.

    Raises:
        FleetError: The model is wrong; the step reported last has failed.
    """
    from triton_models.verify.verify import verify

    report("read")
    declaration = load_build(order.name, order.models)
    root = built(order, report)
    report("check")
    check_built(root)
    report("verify")
    server = process_server()
    begin = server.log.stat().st_size if server.log.exists() else 0
    accuracy = verify(root, declaration, server=server)
    with server.log.open("rb") as file:
        file.seek(begin)
        log = file.read().decode(errors="replace")
    logs = sorted((order.output / LOGS).rglob("*.log"))
    return Made(
        root=root,
        record=json.loads((root / BUILD_FILE).read_text()),
        accuracy=accuracy.line(),
        log=log,
        compiling="\n".join(path.read_text(errors="replace") for path in logs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """An artifact to load.

    Attributes:
        root: The artifact root.
        model: The name of one of its models.
    """

    root: Path
    model: str


def load(loading: Loading, report: Report) -> bool:
    """Check that the server loads a model.

    Raises:
        FleetError: The server does not load it.
    """
    report("load")
    with process_server().loaded(loading.root, loading.model):
        return True


def ask_python(root: Path, report: Report) -> dict[str, Any]:
    """Return the Python, NumPy and module path of a Python model in the server.

    Args:
        root: An empty folder.
        report: Called with each step.

    Raises:
        FleetError: The server does not start, or does not load the model.
    """
    import numpy as np

    report("load")
    folder = root / PYTHON_MODEL
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(_PYTHON_CONFIG)
    (folder / "1" / "model.py").write_text(_PYTHON_CODE)
    server = process_server()
    with server.loaded(root, PYTHON_MODEL):
        answer = server.infer(PYTHON_MODEL, {"X": np.zeros(1, np.float32)}, where="the probe's model")
    facts: dict[str, Any] = json.loads(answer["FACTS"].item())
    return facts
