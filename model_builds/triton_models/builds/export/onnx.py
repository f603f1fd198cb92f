"""Export of PyTorch networks to one self-contained ONNX file; equal networks give equal bytes.

A network is traced to a graph, which is the slow part, and the graph gets the network's weights and is then
optimized. Networks of a family that differ only in their weights share a graph.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import read_onnx_file, side_files
from triton_models.base.errors import FleetError, Problem
from triton_models.builds.export.accepted import nodes_of
from triton_models.builds.export.optimized import optimized
from triton_models.check.onnx_network import missing_locale
from triton_models.declare.models import PyTorchNetwork
from triton_models.declare.network_inputs import TYPES
from triton_models.declare.tensors import NUMPY_TYPES, DynamicDim, Tensor
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    import torch

OPSET = 18
"""The native opset of PyTorch's exporter, for ONNX Runtime of every release and TensorRT 10 or newer."""

IR_VERSION = 8
"""The oldest IR version with opset 18. The exporter writes 10, which releases before 24.05 refuse."""

LARGEST_BYTES = (1 << 31) - 1
"""The size limit of a protobuf message, such as an ONNX file with its weights."""


def export_onnx(
    module: torch.nn.Module,
    path: Path,
    *,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Mapping[int, str]],
    opset: int = OPSET,
) -> None:
    """Export a network, which is set to evaluation mode, into one file with all weights.

    The optimizations are equal on every machine: constants are folded, batch normalizations are merged into
    the preceding convolutions, and unused nodes are removed.

    The dynamic dimensions of the examples must have a size of 2 or more, because the exporter treats 0 and 1
    as constants. Dimensions with the same name are equal.

    Raises:
        FleetError: An input has no effect on the outputs, the weights do not fit into one file, or the
            exported file is not valid ONNX of that opset.
        OnnxExporterError: PyTorch cannot export the network.
    """
    _refuse_too_large(module, path)
    module.eval()
    structure = "" if _graphs is None else _structure(module, inputs, outputs, dynamic)
    graph = None if _graphs is None else _graphs.get(structure)
    if graph is None:
        graph = _traced(module, inputs, outputs, dynamic, path)
    if _graphs is not None:
        _graphs[structure] = graph
    model = optimized(_filled(graph, module))
    if opset < OPSET:
        model = _lowered(model)
    model.ir_version = IR_VERSION
    _refuse_unused(model.graph, path)
    path.write_bytes(serialise(model))
    check_onnx(path)


_graphs: dict[str, Any] | None = None


@contextlib.contextmanager
def shared_graphs(graphs: dict[str, Any]) -> Iterator[None]:
    """Trace equal networks once, for the members of a family, and keep their graphs in `graphs`.

    Networks are equal here if their modules are, with all attributes except the values of parameters and
    buffers. What `forward` takes from elsewhere is not seen, so the answers have to be compared.
    """
    global _graphs  # noqa: PLW0603  of this process, which builds one family
    before, _graphs = _graphs, graphs
    try:
        yield
    finally:
        _graphs = before


def _traced(
    module: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Mapping[int, str]],
    path: Path,
) -> Any:
    """Return the graph of a network, not optimized, and with the names of its weights instead of them."""
    import torch

    # Clone them, because the exporter merges two inputs that share a tensor.
    examples = tuple(example.clone() for example in inputs.values())
    sizes = {name: torch.export.Dim(name) for axes in dynamic.values() for name in axes.values()}
    shapes: tuple[Any, ...] = tuple(
        {axis: sizes[size] for axis, size in dynamic.get(name, {}).items()} for name in inputs
    )
    parameters = list(inspect.signature(module.forward).parameters.values())
    if parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        shapes = (*shapes[: len(parameters) - 1], shapes[len(parameters) - 1 :])
    _forget_recurrent()
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            module,
            examples,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=shapes,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
            optimize=False,
        )
    if program is None:
        msg = "the exporter returned no program"
        raise AssertionError(msg)
    graph, weights = program.model_proto, _weights(module)
    _refuse_fixed(graph.graph, inputs, dynamic, path)
    for each in graph.graph.initializer:
        if each.name in weights:
            each.ClearField("raw_data")
    return graph


def _forget_recurrent() -> None:
    """Forget how PyTorch ran recurrent operators before, so that each export is as the first of a process.

    What one export leaves in this cache makes the next unroll the time steps of an LSTM or GRU, and the
    exporter then fixes their number in silence (PyTorch 2.13, tried 2026-11-28).
    """
    import torch

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        operator = getattr(torch.ops.aten, name)
        for overload in operator.overloads():
            getattr(getattr(operator, overload), "_dispatch_cache", {}).clear()


def _refuse_fixed(
    graph: Any, inputs: Mapping[str, torch.Tensor], dynamic: Mapping[str, Mapping[int, str]], path: Path
) -> None:
    """Refuse a graph in which the exporter fixed a size that is declared as variable.

    It does so, without a word, for a forward() that unrolls the size, such as the time steps of nn.RNN.
    """
    for value in graph.input:
        sizes = value.type.tensor_type.shape.dim
        for axis, name in dynamic.get(value.name, {}).items() if value.name in inputs else ():
            if sizes[axis].HasField("dim_value"):
                size = sizes[axis].dim_value
                raise FleetError.of(
                    what=f"the exporter fixed {name!r} of the input {value.name!r} at {size}",
                    where=_file(path),
                    why="the network has an operator per step, as nn.RNN has, or needs the size otherwise",
                    fix="serve it as TorchScript, which keeps the size: "
                    'backend=LibTorch(export="script", cudnn=False); or declare the size as a number',
                    rule="network-size-fixed",
                )


def _filled(graph: Any, module: torch.nn.Module) -> Any:
    """Return a copy of a graph with the weights of a network of equal structure."""
    import onnx

    model, weights = onnx.ModelProto(), _weights(module)
    model.CopyFrom(graph)
    for each in model.graph.initializer:
        if each.name in weights:
            each.raw_data = _bytes(weights[each.name])
    return model


def _weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def _bytes(tensor: torch.Tensor) -> bytes:
    import torch

    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _structure(*parts: Any) -> str:
    """Return a digest of networks and other values with all their attributes, but without their weights."""
    return hashlib.sha256("\n".join(_described(parts, set())).encode()).hexdigest()


def _described(value: Any, seen: set[int]) -> Iterator[str]:
    import torch

    if isinstance(value, torch.Tensor):
        yield f"{value.dtype}{tuple(value.shape)} {hashlib.sha256(_bytes(value)).hexdigest()}"
    elif isinstance(value, str | int | float | None):
        yield repr(value)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield f"{name}:"
            yield from _described(each, seen)
    elif isinstance(value, list | tuple):
        yield f"{len(value)} values"
        for each in value:
            yield from _described(each, seen)
    elif isinstance(value, torch.nn.Module) or (hasattr(value, "__dict__") and not callable(value)):
        yield type(value).__qualname__
        if id(value) not in seen:
            seen.add(id(value))
            attributes = dict(vars(value))
            for name, tensor in (
                (n, t) for kind in ("_parameters", "_buffers") for n, t in attributes.pop(kind, {}).items()
            ):
                yield f"{name} {None if tensor is None else (tensor.dtype, tuple(tensor.shape))}"
            yield from _described(attributes, seen)
    else:
        yield getattr(value, "__qualname__", type(value).__qualname__)


def export_network(
    network: torch.nn.Module, model: PyTorchNetwork, path: Path, *, opset: int = OPSET
) -> None:
    """Export a declared network, whose inputs are known.

    Raises:
        FleetError: As of `export_onnx`.
    """
    batches = model.max_batch_size > 0
    export_onnx(
        network,
        path,
        inputs=example_tensors(model.inputs, batches=batches),
        outputs=model.outputs,
        dynamic={tensor.name: _open_axes(tensor, batches=batches) for tensor in model.inputs},
        opset=opset,
    )


def _open_axes(tensor: Tensor, *, batches: bool) -> dict[int, str]:
    """Return the variable dimensions of an input, with their names."""
    sizes = enumerate(tensor.dims, start=1 if batches else 0)
    names = {axis: size.name for axis, size in sizes if isinstance(size, DynamicDim)}
    return {0: "batch", **names} if batches else names


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the exporter's deprecations, and the graphs that it logs before an error.

    What the network prints stays visible.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def example_tensors(inputs: Sequence[Tensor], *, batches: bool) -> dict[str, torch.Tensor]:
    """Return an example of each declared input, to export a network with.

    Zeros and ones alternate: they are valid token ids in every vocabulary, and a mask that hides something.
    With a mask that hides nothing, an exporter would omit the code path for masks.
    """
    import torch

    examples = {}
    for tensor in inputs:
        dims = [max(size.min, 2) if isinstance(size, DynamicDim) else size for size in tensor.dims]
        shape = [2, *dims] if batches else dims
        name = NUMPY_TYPES.get(tensor.full_type.removeprefix("TYPE_"), "bfloat16")
        count = torch.Size(shape).numel()
        examples[tensor.name] = (torch.arange(count) % 2).reshape(shape).to(getattr(torch, name))
    return examples


def type_problems(
    network: torch.nn.Module, tensors: Mapping[str, torch.Tensor], *, name: str, from_examples: bool
) -> Iterator[Problem]:
    """Yield the inputs whose types a network cannot take, if it can take them in others.

    This runs the network, so it is for one whose export has failed.
    """
    import torch

    own = next((each.dtype for each in network.parameters() if each.is_floating_point()), torch.float32)
    if _runs(network, tensors):
        return
    for floating, others in ((own, None), (None, own), (own, own), (torch.int64, None)):
        other = {
            tensor: each.to((floating if each.is_floating_point() else others) or each.dtype)
            for tensor, each in tensors.items()
        }
        if not _runs(network, other):
            continue
        for tensor, value in tensors.items():
            given, right = (str(each.dtype).removeprefix("torch.") for each in (value, other[tensor]))
            if given != right:
                yield Problem(
                    what=f"the examples have {tensor} as {given}; the network computes with {right}"
                    if from_examples
                    else f"{tensor} is declared as {given}; the network computes with {right}",
                    where=f"the inputs of {name!r}",
                    fix=f"use np.{right} in examples(), or cast it in forward()"
                    if from_examples
                    else f"declare it as {TYPES.get(right, 'BF16')}, or cast it in forward()",
                    rule="network-declared",
                )
        return


def _runs(network: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> bool:
    import torch

    try:
        with torch.no_grad():
            network(*tensors.values())
    except Exception:  # noqa: BLE001  whatever a framework raises
        return False
    return True


def check_onnx(path: Path) -> None:
    """Check a file with ONNX's own checker and its strict inference of shapes and types.

    Reading the file again takes a tenth of a second per 100 MB. Operators of other domains, such as those of
    ONNX Runtime, are not checked.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        said = " ".join(str(error).replace(str(path), path.name).split())
        raise FleetError.of(
            what=f"{path.name} is not valid ONNX: {said}",
            where=_file(path),
            why="the server would refuse it, or answer with unexpected shapes",
            fix="export or download it again",
            rule="network-file",
        ) from error


def check_file(path: Path) -> None:
    """Check a file that the build did not export: what ONNX's checker refuses may load in ONNX Runtime.

    That sorts nodes, infers missing shapes, replaces wrong ones, and needs fewer names.
    """
    try:
        check_onnx(path)
    except FleetError:
        if not _loads(path):
            raise
    head = read_onnx_file(path)
    what, fix = missing_locale(head) if head else ("", "")
    if what:
        why = "ONNX Runtime says: Failed to construct locale"
        raise FleetError.of(what=what, where=_file(path), why=why, fix=fix, rule="network-file")


def import_opsets(path: Path, release: Release) -> None:
    """Write the opsets that a file does not import, although its operators need them.

    ONNX Runtime loads such a file with the newest that it has (1.21, 1.22 and 1.31, tried 2026-11-28), and
    onnx does not.
    """
    import onnx

    try:
        network = onnx.load(str(path), load_external_data=False)
    except Exception:  # noqa: BLE001  of protobuf; `check_file` says it
        return
    imported = {opset.domain: opset.version for opset in network.opset_import}
    newest = {"": release.onnx_opset, "ai.onnx.ml": release.onnx_ml_opset, "com.microsoft": 1}
    newest["ai.onnx"] = imported.get("", newest[""])
    domains = {node.domain for node in nodes_of(network)} & newest.keys() - imported.keys()
    if imported and domains:
        network.opset_import.extend(onnx.helper.make_opsetid(name, newest[name]) for name in sorted(domains))
        path.write_bytes(network.SerializeToString(deterministic=True))


def _loads(path: Path) -> bool:
    """Return whether ONNX Runtime loads a file, and answers with the sizes that the file says."""
    import onnx

    from triton_models.builds.export.answers import session

    try:
        shapes = {output.name: output.shape for output in session(str(path)).get_outputs()}
    except Exception:  # noqa: BLE001  whatever ONNX Runtime raises
        return False
    return all(
        shapes[value.name][at : at + 1] == [size.dim_value]
        for value in onnx.load(str(path), load_external_data=False).graph.output
        for at, size in enumerate(value.type.tensor_type.shape.dim)
        if size.HasField("dim_value")
    )


def copy_onnx(source: Path, target: Path) -> None:
    """Copy an ONNX file together with its side file: into one file, if one can hold both.

    Raises:
        OSError: A file cannot be read.
    """
    import onnx

    others = [source.with_name(name) for name in side_files(source)]
    if others and sum(each.stat().st_size for each in (source, *others)) < LARGEST_BYTES:
        target.write_bytes(serialise(onnx.load(str(source))))
        return
    shutil.copyfile(source, target)
    for each in others:
        shutil.copyfile(each, target.with_name(each.name))


def optimize_onnx(path: Path) -> None:
    """Apply the same machine-independent optimizations to a file as the exporter.

    Nodes are not fused into operators of one runtime, because such a file loads only in that runtime version.
    """
    import onnx

    path.write_bytes(serialise(optimized(onnx.load(str(path)))))
    check_file(path)


def _refuse_too_large(module: torch.nn.Module, path: Path) -> None:
    state = (*module.parameters(), *module.buffers())
    size = sum(tensor.numel() * tensor.element_size() for tensor in state)
    if size > LARGEST_BYTES:
        raise FleetError.of(
            what=f"{size / 1e9:.1f} GB of weights; an ONNX file holds {LARGEST_BYTES / 1e9:.1f} GB",
            where=_file(path),
            why="backends load a separate file of weights in different ways",
            fix="serve it as TorchScript, which has no such limit: backend=LibTorch()",
            rule="network-too-large",
        )


def _file(path: Path) -> str:
    return f"the export of {path.parent.parent.name}/1/{path.name}"


def _refuse_unused(graph: Any, path: Path) -> None:
    used = {name for node in graph.node for name in node.input}
    if unused := [value.name for value in graph.input if value.name not in used]:
        raise FleetError.of(
            what=f"the network does not use {', '.join(unused)}",
            where=_file(path),
            why="answers would ignore that input",
            fix="remove the input, or give an example of it that the network uses",
            rule="unused-input",
        )


def serialise(model: Any) -> bytes:
    """Return the file's bytes without metadata of the build machine.

    The exporter records the source lines of every node with absolute paths, and the variant of PyTorch.
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


# The opset that `_lowered` converts to, for a TensorRT that cannot read the exporter's own. ONNX's version
# converter, which the exporter uses, fails for a network with a ReduceMean, and the exporter then keeps opset
# 18 (onnxscript 0.7.2 with onnx 1.23.2, tested 2026-11-22). Opset 18 changed little: docs/Changelog.md of
# onnx, read 2026-11-22.
_OLDEST = 17

# Their axes became an input in opset 18.
_REDUCTIONS = frozenset(
    f"Reduce{each}" for each in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)

# New attributes of opset 18 whose default is the behavior of opset 17.
_DEFAULTS = {("Resize", "antialias"): 0, ("Resize", "keep_aspect_ratio_policy"): b"stretch"}


def _lowered(model: Any) -> Any:
    """Rewrite a network of opset 18 in opset 17.

    Anything without a counterpart stays unchanged, so that ONNX's checker refuses it.
    """
    import onnx

    constants = {each.name: each for each in model.graph.initializer}
    sizes = {each.name: each.type.tensor_type.shape.dim for each in _values(model.graph)}
    for node in model.graph.node:
        if node.op_type in _REDUCTIONS and len(node.input) > 1 and node.input[1] in constants:
            _drop(node, "noop_with_empty_axes")
            axes = onnx.numpy_helper.to_array(constants[node.input[1]]).tolist()
            node.attribute.append(onnx.helper.make_attribute("axes", axes))
            del node.input[1:]
        if node.op_type == "Split" and _is_even(node, sizes.get(node.input[0])):
            _drop(node, "num_outputs")
        for attribute in list(node.attribute):
            default = _DEFAULTS.get((node.op_type, attribute.name))
            if default is not None and onnx.helper.get_attribute_value(attribute) == default:
                node.attribute.remove(attribute)
    _forget_unused(model.graph)
    for opset in model.opset_import:
        if not opset.domain:
            opset.version = _OLDEST
    return model


def _values(graph: Any) -> Iterator[Any]:
    yield from (*graph.input, *graph.output, *graph.value_info)


def _drop(node: Any, name: str) -> None:
    for attribute in list(node.attribute):
        if attribute.name == name:
            node.attribute.remove(attribute)


def _is_even(node: Any, shape: Any) -> bool:
    """Return whether a split gives equal parts; opset 17 supports no other split into a number of parts."""
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    return shape is not None and len(shape) > 0 and shape[axis].dim_value % len(node.output) == 0


def _forget_unused(graph: Any) -> None:
    """Remove unused constants, which were axes."""
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for constant in [each for each in graph.initializer if each.name not in used]:
        graph.initializer.remove(constant)
