"""PyTorch to ONNX: one self-contained file, the same bytes for the same network."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError
from triton_models.builds.export.opset import lowered
from triton_models.declare.tensors import OpenSize, Tensor

if TYPE_CHECKING:
    import torch

OPSET = 18
"""Native to PyTorch's exporter. ONNX Runtime of every release reads it, and TensorRT from 10 on."""

IR_VERSION = 8
"""The oldest with opset 18. The exporter writes 10, which releases before 24.05 refuse."""

LARGEST_BYTES = (1 << 31) - 1
"""What a protobuf message can be, and an ONNX file with its weights is one."""


def export_onnx(
    module: torch.nn.Module,
    path: Path,
    *,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Mapping[int, str]],
    opset: int = OPSET,
) -> None:
    """Export a network.

    Args:
        module: The network; it is put into evaluation mode. Its `forward` takes the inputs in their order.
        path: The file to write. All weights go into it.
        inputs: An example of each input. A dynamic dimension must have a size of 2 or more in it: the
            exporter takes 0 and 1 for constants.
        outputs: Names of the outputs, in order.
        dynamic: For each input the dimensions that vary, with a name. Dimensions of one name are equal.
        opset: The newest opset that reads the file: 17 or newer.

    The exporter optimises ahead of time what is the same on every machine: constants are folded, batch
    normalisations go into the convolutions before them, what is not used is gone.

    Raises:
        FleetError: An input has no effect on the outputs, the weights do not fit into one file, or what the
            exporter wrote is no valid ONNX, or none of that opset.
    """
    import torch

    _refuse_too_large(module, path)
    # It warns of every torchvision operator that it cannot register; a network that needs one fails by
    # itself.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    # Clones, because one tensor given for two inputs would make them one input.
    examples = tuple(example.clone() for example in inputs.values())
    sizes = {name: torch.export.Dim(name) for axes in dynamic.values() for name in axes.values()}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own deprecations, none about the network
        program = torch.onnx.export(
            module.eval(),
            examples,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=tuple(
                {axis: sizes[size] for axis, size in dynamic.get(name, {}).items()} for name in inputs
            ),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        msg = "the exporter returned no program"
        raise AssertionError(msg)
    model = program.model_proto if opset >= OPSET else lowered(program.model_proto)
    model.ir_version = IR_VERSION
    _refuse_unused(model.graph, path)
    path.write_bytes(_serialise(model))
    check_onnx(path)


def example_tensors(inputs: Sequence[Tensor], *, batches: bool) -> dict[str, torch.Tensor]:
    """An example of each declared input to export a network with.

    Zeros and ones in turn: token numbers that every vocabulary has, and a mask that hides something, for an
    exporter leaves out what a network skips when nothing is hidden.

    Args:
        inputs: The inputs.
        batches: Whether a batch dimension comes first.
    """
    import torch

    types = {"TYPE_FP16": "float16", "TYPE_FP32": "float32", "TYPE_FP64": "float64", "TYPE_BF16": "bfloat16"}
    examples = {}
    for tensor in inputs:
        dims = [max(size.min, 2) if isinstance(size, OpenSize) else size for size in tensor.dims]
        shape = [2, *dims] if batches else dims
        name = types.get(tensor.full_type, tensor.full_type.removeprefix("TYPE_").lower())
        count = torch.Size(shape).numel()
        examples[tensor.name] = (torch.arange(count) % 2).reshape(shape).to(getattr(torch, name))
    return examples


def check_onnx(path: Path) -> None:
    """Run ONNX's own checker and its strict inference of shapes and types over a file.

    It reads the file again, in a tenth of a second for 100 MB. Operators of other domains, such as
    ONNX Runtime's own, are left alone.

    Raises:
        FleetError: It is no ONNX, or says things that contradict each other.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        said = " ".join(str(error).replace(str(path), path.name).split())
        raise FleetError.of(
            what=f"{path.name} is no valid ONNX: {said}",
            where=_file(path),
            expected="a file that onnx.checker.check_model accepts, with full_check",
            why="the server would refuse it, or answer with other shapes than it says",
            fix="export it again; or fetch it again, if it was downloaded",
            rule="network-file",
        ) from error


def optimize_onnx(path: Path) -> None:
    """Optimise a file ahead of time, as the exporter does: what is the same on every machine.

    Nothing is fused into operators of one runtime: such a file loads in that runtime and version only.

    Raises:
        FleetError: The result is no valid ONNX.
    """
    import onnx
    from onnxscript import optimizer

    path.write_bytes(_serialise(optimizer.optimize(onnx.load(str(path)))))
    check_onnx(path)


def _refuse_too_large(module: torch.nn.Module, path: Path) -> None:
    state = (*module.parameters(), *module.buffers())
    size = sum(tensor.numel() * tensor.element_size() for tensor in state)
    if size > LARGEST_BYTES:
        raise FleetError.of(
            what=f"the network has {size / 1e9:.1f} GB of weights",
            where=_file(path),
            expected=f"at most {LARGEST_BYTES / 1e9:.1f} GB, which is what an ONNX file can hold",
            why="a file of weights beside it would have to be loaded by each backend in its own way",
            fix="serve it as TorchScript, which has no such limit: backend=LibTorch()",
            rule="network-too-large",
        )


def _file(path: Path) -> str:
    return f"the export of {path.parent.parent.name}/1/{path.name}"


def _refuse_unused(graph: Any, path: Path) -> None:
    used = {name for node in graph.node for name in node.input}
    if unused := [value.name for value in graph.input if value.name not in used]:
        raise FleetError.of(
            what=f"the network makes no use of {', '.join(unused)}",
            where=_file(path),
            expected="every input to have an effect on an output",
            why="requests would be answered as if that input were not there",
            fix="leave the input out, or give an example of it that the network does not skip",
            rule="unused-input",
        )


def _serialise(model: Any) -> bytes:
    """The file's bytes without what differs between two machines or tells one from the other.

    The exporter notes for every node the source lines it came from, as absolute paths, and the variant of
    PyTorch that ran.
    """
    model.producer_version = ""
    model.doc_string = ""
    del model.metadata_props[:]
    for function in model.functions:
        _forget(function)
    _forget(model.graph)
    return bytes(model.SerializeToString(deterministic=True))


def _forget(scope: Any) -> None:
    scope.doc_string = ""
    del scope.metadata_props[:]
    values = (getattr(scope, field, ()) for field in ("input", "output", "value_info", "initializer"))
    for each in (*scope.node, *(value for group in values for value in group if not isinstance(value, str))):
        each.doc_string = ""
        del each.metadata_props[:]
    for node in scope.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.type in {5, 10} else ():
                _forget(graph)
