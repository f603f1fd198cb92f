"""Convolutions on ONNX Runtime with cuDNN 9, which plans them again whenever their input changes its shape.

It keeps the plan of the last shape only: Conv::UpdateState in core/providers/cuda/nn/conv.cc of ONNX Runtime
1.21.0, read 2026-11-28. The cache by shape of conv_8.h, in releases before 24.12, is for cuDNN 8. Public
figures per change: 94 ms (issue 23006 of onnxruntime, 1.20.1) and 53 ms (1.27.1 on an RTX 4090).
"""

from __future__ import annotations

import sys
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.builds.job import Job
from triton_models.declare.backends import OnnxRuntime
from triton_models.declare.models import Network
from triton_models.declare.scheduling import DynamicBatching
from triton_models.facts.releases import Release

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def note_changing_shapes(path: Path, model: Network, job: Job) -> None:
    """Print a note if a network on a GPU gets shapes that make ONNX Runtime plan its convolutions again."""
    on_gpu = not job.cpu and model.instances.kind != "KIND_CPU"
    if not (on_gpu and isinstance(model.backend, OnnxRuntime) and job.release.replans_convolutions):
        return
    convolves, opens = _convolutions(path, batches=model.max_batch_size > 0)
    changes, remedies = [], []
    if model.max_batch_size > 1:
        changes.append("the number of rows in a batch")
        joins = "remove batching, and " if isinstance(model.batching, DynamicBatching) else ""
        remedies.append(f"{joins}send requests of one size")
    if opens:
        changes.append("a size of their input")
        remedies.append("give inputs one size")
    if convolves and changes:
        sys.stderr.write(
            f"note: {model.name} plans its convolutions again, 50 to 100 ms for a large network, whenever "
            f"{' or '.join(changes)} changes (ONNX Runtime since release 24.12). Use backend=TensorRt(), or "
            f"{', and '.join(remedies)}\n"
        )


def check_options(model: Network, release: Release) -> None:
    """Refuse options of convolutions that the release's ONNX Runtime is built without.

    NHWC operators are built since ONNX Runtime 1.21 (pull request 22648), and cuDNN 9's fusion since 1.20.
    """
    for option, since in OnnxRuntime.CONVOLUTION_OPTIONS.items():
        if getattr(model.backend, option, None) and release.name < since:
            raise FleetError.of(
                what=f"{option}=True with release {release.name}, ONNX Runtime {release.onnxruntime}",
                where=f"the backend of {model.name!r}",
                why="ONNX Runtime would refuse to load the model",
                fix=f"remove {option}, or build for release {since} or newer",
                rule="onnx-option",
            )


def _convolutions(path: Path, *, batches: bool) -> tuple[bool, bool]:
    """Return whether a file has convolutions, and whether their inputs have open sizes besides the batch."""
    import onnx

    from triton_models.builds.export.accepted import inferred_graph, nodes_of, values_of

    model = onnx.load(str(path), load_external_data=False)
    nodes = [node for node in nodes_of(model) if node.op_type in _CONVOLUTIONS]
    if not nodes:
        return False, False
    values = values_of(inferred_graph(model))
    inputs = [values[node.input[0]] for node in nodes if node.input[0] in values]
    shapes = [list(value.type.tensor_type.shape.dim)[1 if batches else 0 :] for value in inputs]
    return True, not all(size.HasField("dim_value") for shape in shapes for size in shape)
