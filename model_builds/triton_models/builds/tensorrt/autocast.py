"""FP16 and BF16 for a strongly typed TensorRT: NVIDIA's AutoCast adds the types to the ONNX file.

AutoCast is part of Model Optimizer: `python -m modelopt.onnx.autocast`, with the options of nvidia-modelopt
0.47.0, tested on a CPU on 2026-11-21. It keeps nodes in FP32 if their values in a run on random inputs exceed
FP16. Inputs and outputs keep their types, so requests do not depend on the precision.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from triton_models.base.checks import FROM_ARGUMENTS, Check

AUTOCAST = Check(id="autocast", source=FROM_ARGUMENTS)


def command(onnx: Path, converted: Path, *, to: str) -> list[str]:
    """Return the command that converts an ONNX file to "fp16" or "bf16", in this Python."""
    return [
        sys.executable,
        "-m",
        "modelopt.onnx.autocast",
        f"--onnx_path={onnx}",
        f"--output_path={converted}",
        f"--low_precision_type={to}",
        "--keep_io_types",
        "--providers",
        "cpu",
    ]


def is_installed() -> bool:
    """Return whether AutoCast is installed in this Python."""
    return importlib.util.find_spec("modelopt") is not None


def version() -> str:
    """Return the name and version of the package, such as "nvidia-modelopt 0.47.0"."""
    try:
        return f"nvidia-modelopt {importlib.metadata.version('nvidia-modelopt')}"
    except importlib.metadata.PackageNotFoundError:
        return "nvidia-modelopt"


def check_converted(onnx: Path, converted: Path, *, log: Path) -> None:
    """Compare the converted network with its source, because config.pbtxt describes the source's tensors."""
    from triton_models.artifact.networks import onnx_signature

    if not converted.is_file():
        what = "AutoCast wrote no file"
    elif onnx_signature(converted) != onnx_signature(onnx):
        what = "AutoCast changed the network's inputs or outputs"
    else:
        return
    fix = "check the log, or use precision='fp32', which needs no conversion"
    raise AUTOCAST.error(what=what, where=f"the network of {log.stem!r}; the log is {log}", fix=fix)
