"""FP16 for ONNX Runtime: converting a network, and comparing its answers with those in FP32 on the CPU.

On a CPU, ONNX Runtime computes a network in FP16 in FP32, without rounding what one operator hands to the
next (1.31.1, tried 2026-11-26: a product of 1e6 stays finite). So the comparison rounds explicitly, which is
close to what tensor cores do. Inputs and outputs keep their types: requests do not depend on the precision.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes.common import TopologicalSortPass

from triton_models.artifact.networks import side_files
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import (
    ML_DOMAIN,
    UNKNOWN,
    inferred_graph,
    nodes_of,
    only_indexes,
    values_of,
    without_weights,
)
from triton_models.builds.export.answers import first_line, largest, run, run_file, session
from triton_models.builds.export.compared import Comparison
from triton_models.builds.export.layers import CONVOLUTIONS, LARGEST, PRODUCTS, Layers
from triton_models.builds.export.norms import guarded, spelled_out_norms
from triton_models.builds.export.onnx import check_onnx, serialise
from triton_models.facts.releases import Release

_HALF, _SINGLE = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear"})
_MASKED = 1e30  # attention adds such values to those that it ignores
_TO_FP32, _TO_FP16 = "_cast_to_fp32", "_cast_to_fp16"  # ends of the names that the conversion gives casts
_INPUT, _OUTPUT = "graph_input_cast", "graph_output_cast"  # and their beginnings

_THREE_FACTORS = frozenset({"Attention", "Einsum", "GRU", "LSTM", "MultiHeadAttention", "RNN"})
_WITHOUT_ARITHMETIC = frozenset({"Cast", "Constant", "Identity", "Shape", "Size"})

# The CUDA provider has these for float and not for float16: OperatorKernels.md of ONNX Runtime 1.21.0 and of
# its main branch, read 2026-11-28. In FP16 they would run on the CPU, with copies both ways.
_FLOAT_ONLY = ("GridSample", "IsInf", "EyeLike")
# Of values that are in FP16, these make no others.
_KEEPS_ROUNDED = frozenset(
    {
        *("Concat", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool", "Relu", "Reshape"),
        *("Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)
# ONNX Runtime makes one operator of a sum and the normalization behind it, which sums in half precision
# before ONNX Runtime 1.25, unless its strict mode is on (issue 29034 and pull request 28682 of onnxruntime).
_NORMS = (
    *("LayerNormalization", "SkipLayerNormalization"),
    *("SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"),
)


def halve(  # noqa: PLR0911  one for each reason
    path: Path, comparison: Comparison, *, allowed: float, release: Release, write: bool = True
) -> str:
    """Convert a network to FP16 in place, if its answers stay within the tolerance of its source's.

    Args:
        path: The file in FP32. It is replaced by a file that ONNX and ONNX Runtime have accepted.
        comparison: The answers of the source.
        allowed: The tolerance.
        release: The release that serves the file.
        write: False leaves the file as it is, for a plan. TensorRT may compute any operator of it in FP16.

    Returns:
        What keeps the network in FP32, with the layer that is responsible; empty if it is now in FP16.
    """
    if any(side_files(path)):
        return "its weights are larger than a file that can be converted"
    network = onnx.load(str(path))
    if is_half(network) and not is_quantized(network):
        return ""
    if refusal := next(_refusals(network, comparison, of_plan=not write), ""):
        return refusal
    staged = path.with_name("model.fp16.onnx")
    try:
        half = to_fp16(network, exact_norms=norm_modes(network, release)[1], of_plan=not write)
        rounding = _rounding(half)
        if difference := comparison.differs(run_file(rounding), allowed):
            layer = _layer(network, rounding, difference.request)
            return f"{difference}" + (f"; the most is lost in {layer}" if layer else "")
        if not is_half(half):
            return "FP16 cannot hold the small values with which all of it computes"
        staged.write_bytes(serialise(half))
        check_onnx(staged)
        if (structure := _structure(half)) not in _LOADED:
            _load_as_a_server(staged)
            _LOADED.add(structure)
        if write:
            staged.replace(path)
    except Exception as error:  # noqa: BLE001  whatever ONNX and ONNX Runtime raise
        return f"it cannot be converted, or run on the CPU: {first_line(error)}"
    finally:
        staged.unlink(missing_ok=True)
    return ""


_LOADED = set[bytes]()
"""The structures that have loaded: members of a family share theirs, and loading takes a process."""


def _structure(network: Any) -> bytes:
    """Return what distinguishes two networks, but for the numbers of their weights."""
    light = without_weights(network)
    for tensor in light.graph.initializer:
        if tensor.data_type in {_HALF, _SINGLE}:
            tensor.ClearField("raw_data")
            del tensor.float_data[:], tensor.int32_data[:]
    return hashlib.sha256(light.SerializeToString(deterministic=True)).digest()


_LOAD = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


def _load_as_a_server(path: Path) -> None:
    """Load a file with a server's optimizations: what they fuse must have one type.

    The process is another one, because they may end it: ONNX Runtime 1.23 and 1.31 have a segmentation fault
    for some attentions with a mask in FP16 (tried 2026-11-28).

    Raises:
        RuntimeError: It does not load.
    """
    command = [sys.executable, "-c", _LOAD, str(path)]
    load = subprocess.run(command, capture_output=True, text=True, check=False)
    if load.returncode:
        message = load.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(message or f"ONNX Runtime ends with signal {-load.returncode}")


def is_half(network: Any) -> bool:
    """Return whether a network computes in FP16: some of its products, or without products what else it has.

    An input or a constant in FP16 that is cast is none of that.
    """
    nodes = list(_computing(network))
    products = [types for node, types in nodes if node.op_type in PRODUCTS]
    return any(_HALF in types for types in products or [types for _, types in nodes])


def is_mixed(network: Any) -> bool:
    """Return whether a network has products in FP32, and no convolution in FP16."""
    products = [(node.op_type, types) for node, types in _computing(network) if node.op_type in PRODUCTS]
    convolves = any(_HALF in types for name, types in products if name in CONVOLUTIONS)
    return not convolves and any(_SINGLE in types and _HALF not in types for _, types in products)


def _computing(network: Any) -> Iterator[tuple[Any, set[int]]]:
    """Yield the operators that do more than cast, with the types of their inputs as far as they are known."""
    graph, nodes = inferred_graph(network), list(nodes_of(network))
    attributes = [(node, attribute) for node in nodes for attribute in node.attribute]
    types = {node.output[0]: value.t.data_type for node, value in attributes if value.name == "value"}
    for part in (graph, *(inner for _, value in attributes for inner in (value.g, *value.graphs))):
        types |= {weight.name: weight.data_type for weight in part.initializer}
    types = _types_of(graph) | types
    for node in nodes:
        if node.op_type not in _WITHOUT_ARITHMETIC:
            yield node, {types[name] for name in node.input if name in types}


def _types_of(graph: Any) -> dict[str, int]:
    types = {name: value.type.tensor_type.elem_type for name, value in values_of(graph).items()}
    return types | {weight.name: weight.data_type for weight in graph.initializer}


def is_quantized(network: Any) -> bool:
    """Return whether a network is quantized."""
    return any(node.op_type in _QUANTIZED for node in network.graph.node)


def _refusals(network: Any, comparison: Comparison, *, of_plan: bool) -> Iterator[str]:
    """Yield why FP16 is wrong for a network, whatever the answers to some inputs are."""
    if is_quantized(network):
        yield "it is quantized"
    if ml := next((node for node in nodes_of(network) if node.domain == ML_DOMAIN), None):
        yield f"it has {ml.op_type}, an operator of {ML_DOMAIN}: these compute in FP32 only"
    if comparison.why_not:
        yield f"it cannot be compared: {comparison.why_not}"
    drawing = comparison.drawing
    unknown = [
        repr(tensor.name)
        for tensor in drawing.inputs
        if tensor.name not in drawing.ranges
        and tensor.data_type != "TYPE_BOOL"
        and not only_indexes(network, tensor.name)
    ]
    if unknown:
        yield f"{UNKNOWN} {', '.join(unknown)} {'gets' if len(unknown) == 1 else 'get'}"
    yield from _refusals_of_layers(network, of_plan=of_plan)
    for name, span in drawing.ranges.items():
        if (reach := max(abs(span.low), abs(span.high))) > LARGEST:
            yield f"input {name!r} reaches {reach:g}, FP16 {LARGEST:g}"


def _refusals_of_layers(network: Any, *, of_plan: bool) -> Iterator[str]:
    layers = Layers(network, inferred=inferred_graph(network))
    if not layers.reach:
        yield "it has no layers with weights, which alone are faster in FP16"
    for name, reach in layers.reach.items():
        if reach > LARGEST:
            yield f"its weight {name!r} reaches {reach:g}, FP16 {LARGEST:g}"
    if of_plan and (grows := next(layers.grows(), "")):
        yield f"it computes {grows} of its inputs before its first layer, which TensorRT may do in FP16"


def norm_modes(network: Any, release: Release) -> tuple[bool, bool]:
    """Return whether normalizations need ONNX Runtime's strict mode, or FP32, so that they sum in FP32.

    The strict mode is a CUDA option, which the backend passes since 24.06. It needs equal shapes of the two
    values whose sum is normalized (skip_layer_norm.cc of ONNX Runtime, read 2026-11-28).
    """
    sums = {node.output[0]: node for node in network.graph.node if node.op_type == "Add"}
    pairs: list[Sequence[str]] = []
    for node in network.graph.node:
        if node.op_type.startswith("Skip"):
            pairs.append(node.input[:2])
        elif node.op_type in _NORMS and node.input[0] in sums:
            pairs.append(sums[node.input[0]].input)
    pairs += [sums[norm.value].input for norm in spelled_out_norms(network) if norm.value in sums]
    if not pairs:
        return False, False
    inferred = inferred_graph(network)
    values = values_of(inferred).items()
    shapes = {name: _sizes(value) for name, value in values if value.type.tensor_type.HasField("shape")}
    shapes |= {weight.name: list(weight.dims) for weight in inferred.initializer}
    strict = release.switches_tf32 and all(
        _is_bias(pair, shapes, sums) or _equal_shapes(shapes.get(pair[0]), shapes.get(pair[1]))
        for pair in pairs
    )
    return strict, not strict


def _equal_shapes(one: Any, two: Any) -> bool:
    return one is not None and one == two and None not in one


def _is_bias(pair: Sequence[str], shapes: Any, sums: Any) -> bool:
    """Return whether a sum adds one value per feature, to a value that is no unequal sum itself."""
    for bias, value in (pair, reversed(pair)):
        if len(shapes.get(bias) or (0, 0)) == 1:
            before = sums.get(value)
            return before is None or _equal_shapes(*(shapes.get(name) for name in before.input))
    return False


def _sizes(value: Any) -> list[int | str | None]:
    dims = value.type.tensor_type.shape.dim
    return [size.dim_param or (size.dim_value if size.HasField("dim_value") else None) for size in dims]


def to_fp16(network: Any, *, exact_norms: bool = False, of_plan: bool = False) -> Any:
    """Return a network whose layers have FP16 weights and arithmetic, and all between two of them.

    TensorRT may compute any operator of a plan in FP16.
    """
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16  # type: ignore[import-untyped]

    copied, inferred = deepcopy(network), inferred_graph(network)
    for field in ("node", "value_info", "output"):
        copied.graph.ClearField(field)
        getattr(copied.graph, field).extend(getattr(inferred, field))
    blocked = [*DEFAULT_OP_BLOCK_LIST, *_FLOAT_ONLY, *(_NORMS if exact_norms else ())]
    exact = [*(_norms_of_sums(copied) if exact_norms else ())]
    exact += [] if of_plan else [*Layers(copied, inferred=inferred).outside, *guarded(copied)]
    nodes = _named(copied, exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are rounded to the largest and the least of FP16
        half = convert_float_to_float16(
            copied, keep_io_types=True, disable_shape_infer=True, op_block_list=blocked, node_block_list=nodes
        )
    _join_casts(half)
    # It appends its casts, and a valid file has every node after those that it needs.
    return onnx_ir.to_proto(TopologicalSortPass()(onnx_ir.from_proto(half)).model)


def _norms_of_sums(network: Any) -> Iterator[Any]:
    """Yield the operators of normalizations of sums.

    The sum is among them: where a cast is between, ONNX Runtime fuses what follows to an operator of two
    types, and cannot load it.
    """
    sums = {node.output[0]: node for node in network.graph.node if node.op_type == "Add"}
    for norm in spelled_out_norms(network):
        if norm.value in sums:
            yield from (sums[norm.value], *norm.nodes)


def _named(network: Any, exact: Iterable[Any]) -> list[str]:
    """Give operators that stay in FP32 names, and constants of their own; return the names.

    The conversion rounds what Constant operators hold, such as 1e-12, and what operators in FP16 read, too.
    """
    graph, nodes = network.graph, {id(node): node for node in exact}
    for number, node in enumerate(nodes.values()):
        node.name = f"exact:{number}"
    names = {node.name for node in nodes.values()}
    rounded = {name for node in nodes_of(network) if node.name not in names for name in node.input}
    made = {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    constants = made | {weight.name: weight for weight in graph.initializer if weight.name in rounded}
    constants = {name: tensor for name, tensor in constants.items() if tensor.data_type == _SINGLE}
    own: dict[str, Any] = {}
    for node in nodes.values():
        for place, name in enumerate(node.input):
            if name in constants:
                node.input[place] = f"{name}:exact"
                own[node.input[place]] = constants[name]
    for name, tensor in own.items():
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = name
    return [*names]


def _join_casts(half: Any) -> None:
    """Make one cast of those of a value, and none between operators, inputs and outputs in FP32.

    The conversion adds a cast for each operator in FP32 that reads a value, with the same name.
    """
    graph = half.graph
    casts = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
    weights = {weight.name for weight in graph.initializer if weight.data_type == _SINGLE}
    for node in graph.node:
        for place, name in enumerate(node.input):
            rounded = name if node.name.startswith(_OUTPUT) else casts.get(name, "")
            if name not in {rounded, f"{rounded}{_TO_FP32}"}:
                continue
            if rounded in weights:
                node.input[place] = rounded
            elif casts.get(rounded) == f"{rounded}{_TO_FP16}" or rounded.startswith(_INPUT):
                node.input[place] = casts[rounded]
    outputs = {value.name for value in graph.output}
    for end in (_TO_FP32, _TO_FP16):
        used = {name for node in nodes_of(half) for name in node.input} | outputs
        kept: dict[Any, Any] = {}
        for place, node in enumerate(graph.node):
            is_cast = node.name.endswith(f"{end}_node") or node.name.startswith(_INPUT)
            if not is_cast or node.output[0] in used:
                kept[node.output[0] if is_cast else place] = node
        _replace(graph.node, kept.values())
    infos = {info.name: info for info in graph.value_info if info.name not in weights}
    _replace(graph.value_info, infos.values())


def _replace(field: Any, messages: Iterable[Any]) -> None:
    """Replace all messages of a repeated field, which may be among the new ones."""
    copies = list(messages)
    del field[:]
    field.extend(copies)


def _rounding(half: Any) -> Any:
    """Return a network in FP16 as one in FP32 that rounds its weights, and each result, to FP16.

    Next to convolutions in FP16, products in FP32 compute in TF32: see `OnnxRuntime.configure_gpu`.
    """
    types, in_tf32 = _types_of(inferred_graph(half)), not is_mixed(half)
    single = deepcopy(half)
    del single.graph.value_info[:]
    constants = [value.t for node in single.graph.node for value in node.attribute if value.HasField("t")]
    for tensor in (*single.graph.initializer, *constants):
        if tensor.data_type == _HALF:
            exact = onnx.numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(exact, tensor.name))
    nodes: list[Any] = []
    for node in single.graph.node:
        result_type = next((types[name] for name in node.input if name in types), 0)
        read = {types[name] for name in node.input if name in types}
        if in_tf32 and node.op_type in PRODUCTS and _SINGLE in read and _HALF not in read:
            nodes += _rounded_to_tf32(node, number=len(nodes))
        nodes.append(node)
        for attribute in node.attribute:
            if attribute.name in {"to", "dtype"}:
                result_type = attribute.i  # also of the casts of inputs
                attribute.i = _SINGLE if result_type == _HALF else result_type
        for place, name in enumerate(node.output):
            if types.setdefault(name, result_type) != _HALF or node.op_type in _KEEPS_ROUNDED:
                continue
            node.output[place] = f"{name}:exact"
            rounded = f"{name}:rounded"
            nodes.append(onnx.helper.make_node("Cast", [node.output[place]], [rounded], to=_HALF))
            nodes.append(onnx.helper.make_node("Cast", [rounded], [name], to=_SINGLE))
    _replace(single.graph.node, nodes)
    return single


def _rounded_to_tf32(product: Any, *, number: int) -> Iterator[Any]:
    """Yield what rounds the factors of a product to the 10 bits of TF32, by Veltkamp's way of splitting."""
    make, own = onnx.helper.make_node, f"tf32:{number}"
    split = onnx.numpy_helper.from_array(np.asarray(2.0**13 + 1, np.float32))
    yield make("Constant", [], [f"{own}:split"], value=split)
    for place, name in enumerate(product.input[: 3 if product.op_type in _THREE_FACTORS else 2]):
        if not name:
            continue
        product.input[place] = f"{own}:{place}"
        yield make("Mul", [name, f"{own}:split"], [f"{own}:{place}:larger"])
        yield make("Sub", [f"{own}:{place}:larger", name], [f"{own}:{place}:rest"])
        yield make("Sub", [f"{own}:{place}:larger", f"{own}:{place}:rest"], [f"{own}:{place}"])


def _layer(network: Any, half: Any, inputs: Tensors) -> str:
    """Return the first layer whose values FP16 cannot hold, or the one that adds the largest error."""
    exact, rounded = (run(session(_answering_all(one)), inputs) for one in (network, half))
    errors: dict[str, float] = {}
    worst, added = "", -1.0
    for node in network.graph.node:
        for name in exact.keys() & rounded.keys() & set(node.output):
            counts = np.abs(exact[name]) < _MASKED
            values, others = exact[name][counts], rounded[name][counts]
            layer = f"{node.op_type} {node.name or name}"
            if not np.isfinite(others).all():
                return f"{layer}, whose values reach {largest(values):.2g}"
            errors[name] = largest(others - values) / (largest(values) or 1.0)
            own = errors[name] - max((errors.get(source, 0.0) for source in node.input), default=0.0)
            if own > added:
                worst, added = layer, own
    return worst


def _answering_all(network: Any) -> Any:
    """Return a network whose outputs are all its values."""
    all_of, outputs = deepcopy(network), {value.name for value in network.graph.output}
    values = [name for node in network.graph.node for name in node.output if name and name not in outputs]
    all_of.graph.output.extend(onnx.ValueInfoProto(name=name) for name in values)
    return all_of
