"""FP16 for a strongly typed TensorRT: NVIDIA's AutoCast puts the types into the ONNX file.

AutoCast is part of Model Optimizer: `python -m modelopt.onnx.autocast`, with the options of nvidia-modelopt
0.47.0, tried on a CPU on 2026-11-21. It keeps nodes in FP32 whose numbers would not fit, judged by a run of
the network on random inputs. Inputs and outputs keep their types, so that a model is called alike whatever
its precision.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from triton_models.base.errors import FleetError


def command(onnx: Path, converted: Path) -> list[str]:
    """The command that converts an ONNX file to FP16, in this Python."""
    return [
        sys.executable,
        "-m",
        "modelopt.onnx.autocast",
        f"--onnx_path={onnx}",
        f"--output_path={converted}",
        "--low_precision_type=fp16",
        "--keep_io_types",
        "--providers",
        "cpu",
    ]


def is_installed() -> bool:
    """Whether this Python has it."""
    return importlib.util.find_spec("modelopt") is not None


def version() -> str:
    """What converts, such as "nvidia-modelopt 0.47.0"."""
    try:
        return f"nvidia-modelopt {importlib.metadata.version('nvidia-modelopt')}"
    except importlib.metadata.PackageNotFoundError:
        return "nvidia-modelopt"


def check_converted(onnx: Path, converted: Path, *, log: Path) -> None:
    """Compare the converted network with its source: config.pbtxt was made from the source's tensors.

    Raises:
        FleetError: There is no converted file, or its inputs or outputs are others.
    """
    from triton_models.artifact.signature import onnx_signature

    if not converted.is_file():
        what = "AutoCast wrote no file"
    elif onnx_signature(converted) != onnx_signature(onnx):
        what = "AutoCast changed the network's inputs or outputs"
    else:
        return
    raise FleetError.of(
        what=what,
        where=f"the network of {log.stem!r}; the log is {log}",
        expected="the same inputs and outputs, and FP16 in between",
        why="requests are made for the tensors of the source",
        fix="read the log; precision='fp32' compiles the network without a conversion",
        rule="autocast",
    )
