"""The floor of a network: the least time that its arithmetic and its bytes need on a GPU.

Its bytes are the weights, the inputs and outputs, and the values between fused groups. A group is a product
or a convolution by weights, with all that is computed by element around it, and attention between its
products. Nothing is faster, except where a GPU's cache holds these values for a small batch.

Three times the floor is a good result for large batches. In FP16, TensorRT's ResNet-50 on a V100 took 2.5
times its arithmetic at 128 images; ONNX Runtime on an H200, at 32 rows, 2.5 times for RoBERTa with 512
tokens, 2.8 for BERT and 10.9 for ResNet-50 (docs/measured/h200.json). What is far above has a reason: kernels
that are too small for the GPU, values that are written and read between operators, or precision.
"""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from triton_models.artifact.networks import Signature, onnx_signature
from triton_models.base.checks import Check
from triton_models.builds.derived import largest_sizes, usual_sizes
from triton_models.check.live_values import FLOAT_BYTES, SMALL, LiveValues, live_values, open_shapes
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import Network, OnnxFile, PyTorchNetwork
from triton_models.declare.network_inputs import with_inputs_of_examples
from triton_models.facts.gpu_peaks import Peaks
from triton_models.facts.tensorrt import Precision

NETWORK_COST = Check(id="network-cost", source="the shapes of ONNX's operators, onnx 1.23")

Shape: TypeAlias = Sequence[int]
Shapes: TypeAlias = Callable[[str], Shape]
Sizes: TypeAlias = Literal["usual", "largest"]

# Bytes of a number in the network's arithmetic. Inputs and outputs keep their types.
_BYTES: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCost:
    """What one batch of a network costs, whatever computes it.

    Attributes:
        operations: Those of its matrix products and convolutions; a multiplication and an addition are two.
        weights: The numbers in the weights that it reads: of a table of embeddings, the rows.
        between: The floating-point numbers between its operators, each written once and read once. A runtime
            that fuses operators moves fewer.
        groups: The numbers among them that stay if all operators are fused that can be.
        ends: The bytes of its inputs and outputs.
        uncounted: The operators whose arithmetic has no rule here, with their number. Their bytes count.
        live: The values between its operators that are alive at once; None if that is unknown.
    """

    batch: int
    operations: float
    weights: int
    between: int
    groups: int
    ends: int
    uncounted: Mapping[str, int]
    live: LiveValues | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        counts = {name: getattr(self, name) for name in ("batch", "weights", "between", "groups", "ends")}
        return {
            **counts,
            "operations": int(self.operations),
            **({"uncounted": dict(self.uncounted)} if self.uncounted else {}),
            **({} if self.live is None else self.live.as_dict()),
        }

    def floor(self, peaks: Peaks, precision: Precision) -> Floor:
        """Return the floor on a GPU in a precision."""
        moved = self.weights * _BYTES[precision] + self.ends
        return Floor(
            batch=self.batch,
            arithmetic_s=self.operations / peaks.per_second[precision],
            bytes_s=(moved + 2 * self.groups * _BYTES[precision]) / peaks.bandwidth,
            unfused_s=(moved + 2 * self.between * _BYTES[precision]) / peaks.bandwidth,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least time of a batch on a GPU, in seconds: of its arithmetic, and to move its bytes.

    Weights and inputs are read once, and outputs written; values between fused groups are written and read.
    Without fusion, which is no part of the floor, so are all values.
    """

    batch: int
    arithmetic_s: float
    bytes_s: float
    unfused_s: float

    @property
    def least_s(self) -> float:
        """The floor."""
        return max(self.arithmetic_s, self.bytes_s)

    @property
    def larger(self) -> str:
        """What takes longer: "arithmetic" or "bytes"."""
        return "arithmetic" if self.arithmetic_s >= self.bytes_s else "bytes"

    @property
    def rows_per_second(self) -> float:
        """The greatest throughput in batches of this size."""
        return self.batch / self.least_s


BATCHES = (1, 8, 32)
"""The batches of a network's floor, up to its largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFloor:
    """The floors of one network on one GPU, by what batches of several sizes cost."""

    model: str
    precision: Precision
    costs: Sequence[NetworkCost]
    floors: Sequence[Floor]


def costs_of(
    path: Path,
    model: Network,
    declaration: ModelDefinition,
    *,
    batches: Sequence[int] = BATCHES,
    sizes: Sizes = "usual",
) -> list[NetworkCost]:
    """Return what batches of a network cost whose ONNX file exists, up to its largest.

    Open dimensions have the sizes that the declaration calls usual or largest, or those of its first example.

    Raises:
        FleetError: The shapes of the network cannot be derived.
    """
    return [
        network_cost(path, shapes, batch=batch)
        for batch, shapes in _batches(model, declaration, onnx_signature(path), batches, sizes)
    ]


def floors_of(
    declaration: ModelDefinition, peaks: Peaks, *, batches: Sequence[int] = BATCHES
) -> list[NetworkFloor]:
    """Return the floors of a declaration's networks: those of PyTorch, exported here, and ONNX files.

    Other models have none: Python, DALI, forests and TensorFlow's graphs.

    Raises:
        FleetError: The shapes of a network cannot be derived.
        Exception: The declaration's own code failed, or a network cannot be exported.
    """
    networks = []
    for model in declaration.models:
        if not isinstance(model, (PyTorchNetwork, OnnxFile)):
            continue
        with tempfile.TemporaryDirectory(prefix="fleet-floor-") as folder:
            path = _as_onnx(model, declaration, Path(folder))
            costs = costs_of(path, model, declaration, batches=batches)
        precision = declaration.precision(model)
        floors = [cost.floor(peaks, precision) for cost in costs]
        networks.append(NetworkFloor(model=model.name, precision=precision, costs=costs, floors=floors))
    return networks


def _as_onnx(model: Network, declaration: ModelDefinition, folder: Path) -> Path:
    from triton_models.builds.export.onnx import copy_onnx, export_network
    from triton_models.builds.export.weights import fetch

    path = folder / model.name / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    if isinstance(model, PyTorchNetwork):
        complete = model if model.inputs else with_inputs_of_examples(model, declaration)
        export_network(model.network(), complete, path)
    elif weights := model.weights or declaration.weights:
        copy_onnx(fetch(weights), path)
    return path


def _batches(
    model: Network, declaration: ModelDefinition, signature: Signature, batches: Sequence[int], of: Sizes
) -> Iterator[tuple[int, dict[str, Shape]]]:
    """Yield each batch size, with the shapes of the inputs."""
    usual = usual_sizes(model) if of == "usual" else largest_sizes(model)
    example = next(iter(declaration.examples()), None)
    first = example.first if example else {}
    skipped = 1 if model.max_batch_size else 0
    for batch in [each for each in batches if each <= max(1, model.max_batch_size)]:
        shapes: dict[str, Shape] = {}
        for tensor in signature.inputs:
            known = usual.get(tensor.name)
            if known is None and tensor.name in first:
                known = first[tensor.name].shape[skipped:]
            sizes = [
                size if isinstance(size, int) else known[axis] if known else 0
                for axis, size in enumerate((tensor.dims or ())[skipped:])
            ]
            if min(sizes, default=1) < 1:
                raise _unknown(tensor.name, Path(model.name) / "1" / "model.onnx")
            shapes[tensor.name] = [batch, *sizes] if skipped else sizes
        yield batch, shapes


def network_cost(path: Path, shapes: Mapping[str, Shape], *, batch: int = 1) -> NetworkCost:
    """Count the arithmetic and the bytes of one batch of an ONNX network, from the shapes of its inputs.

    Raises:
        FleetError: The shape of a value cannot be derived, because it depends on the data.
    """
    graph = _with_shapes(path, shapes)
    known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    constants = {each.name: tuple(each.dims) for each in graph.initializer}
    inputs = {each.name for each in graph.input} & set(shapes)
    ends = inputs | {each.name for each in graph.output}

    def shape(name: str) -> Shape:
        dims = constants[name] if name in constants else _dims(known.get(name))
        if dims is None:
            raise _unknown(name, path)
        return dims

    operations, uncounted = 0.0, Counter[str]()
    for node in graph.node:
        rules, moving = (_RULES, _ONLY_BYTES) if node.domain in _STANDARD else (_FUSED, _FUSED_BYTES)
        for name in node.output if rules is _FUSED else ():
            if name and not _type(known.get(name)):
                raise _unknown(name, path)
        if node.op_type in rules:
            operations += rules[node.op_type](node, shape)
        elif node.op_type not in moving:
            uncounted[node.op_type] += 1
    made = {name for node in graph.node for name in node.output if name}
    weights = [each.name for each in graph.input if each.name not in inputs]
    weights += [each.name for each in graph.initializer if each.data_type in FLOAT_BYTES]
    return NetworkCost(
        batch=batch,
        operations=operations,
        weights=sum(_numbers_read(each, graph, shape) for each in weights),
        between=sum(math.prod(shape(each)) for each in made - ends if _type(known.get(each)) in FLOAT_BYTES),
        groups=sum(math.prod(shape(each)) for each in _group_outputs(graph, {*constants, *weights}, ends)),
        ends=sum(math.prod(shape(each)) * _width(known[each]) for each in ends),
        uncounted=MappingProxyType(dict(sorted(uncounted.items()))),
        live=live_values(graph, inputs),
    )


def _group_outputs(graph: Any, weights: set[str], ends: set[str]) -> list[str]:
    """Return the outputs of products by weights, except those that end as outputs of the network."""
    users = defaultdict[str, list[Any]](list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    constant, products = {*weights}, list[str]()
    for node in graph.node:
        if all(name in constant for name in node.input if name):
            constant.update(node.output)
        elif node.op_type in _products(node) and any(name in constant for name in node.input[1:] if name):
            products.append(node.output[0])
    return [name for name in products if not _ends(name, users, ends)]


def _products(node: Any) -> Mapping[str, Any]:
    return _RULES if node.domain in _STANDARD else _FUSED


def _ends(name: str, users: Mapping[str, list[Any]], ends: set[str]) -> bool:
    """Return whether a value only becomes an output of the network, within its own group."""
    while name not in ends:
        after = users.get(name, [])
        if len(after) != 1 or after[0].op_type in _products(after[0]):
            return False
        name = after[0].output[0]
    return True


def _with_shapes(path: Path, shapes: Mapping[str, Shape]) -> Any:
    """Return the graph with the shape of every value; its larger weights are inputs, without their data."""
    import onnx
    import onnx_ir
    from onnxscript import optimizer

    from triton_models.builds.export.onnx import quiet

    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    for value in graph.input:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, list(shapes[value.name])))
    open_shapes(graph)
    with quiet():
        optimizer.inline(ir_model := onnx_ir.from_proto(model))
        optimizer.fold_constants(
            ir_model, onnx_shape_inference=True, input_size_limit=SMALL, output_size_limit=4 * SMALL
        )
        optimizer.remove_unused_nodes(ir_model)
    inferred = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(ir_model), data_prop=True)
    if all(node.domain in _STANDARD for node in inferred.graph.node):
        return inferred.graph
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference  # type: ignore[import-untyped]

    # Not its infer_shapes, which writes a file into the working directory where a shape stays unknown.
    inference = SymbolicShapeInference((1 << 31) - 1, auto_merge=True, guess_output_rank=False, verbose=0)
    with contextlib.suppress(Exception):  # of an operator that it does not know
        inference._preprocess(inferred)
        while inference.run_:
            inference._infer_impl()
        inference._update_output_from_vi()
    return inference.out_mp_.graph


def _dims(value: Any) -> Shape | None:
    if value is None or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def _type(value: Any) -> int:
    return 0 if value is None else int(value.type.tensor_type.elem_type)


def _numbers_read(weight: str, graph: Any, shape: Shapes) -> int:
    """Return how many numbers of a weight are read: of a table, at most the rows that are looked up."""
    users = [node for node in graph.node if weight in node.input]
    size = math.prod(shape(weight))
    if all(node.op_type in _READS_ROWS and node.input[0] == weight for node in users):
        return min(size, sum(math.prod(shape(node.output[0])) for node in users))
    return size


def _width(value: Any) -> int:
    import onnx

    return int(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize)


def _unknown(name: str, path: Path) -> Exception:
    return NETWORK_COST.error(
        what=f"the shape of {name!r} cannot be derived",
        where=f"the network {path.parent.parent.name!r}",
        why="its arithmetic and its bytes follow from the shapes of its values",
        fix="give every open size a DynamicDim with opt=, or a profile; a network whose sizes depend on its "
        "data, or on operators that neither ONNX nor ONNX Runtime has, has no floor",
    )


def _attribute(node: Any, name: str, otherwise: Any) -> Any:
    import onnx

    found = (onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name)
    return next(found, otherwise)


def _product(node: Any, shape: Shapes) -> float:
    inner = shape(node.input[0])[-2 if _attribute(node, "transA", 0) else -1]
    return 2.0 * math.prod(shape(node.output[0])) * inner


def _convolution(node: Any, shape: Shapes, *, transposed: bool = False) -> float:
    places = shape(node.input[0]) if transposed else shape(node.output[0])
    return 2.0 * math.prod(places) * math.prod(shape(node.input[1])[1:])


def _einsum(node: Any, shape: Shapes) -> float:
    terms = _attribute(node, "equation", b"").decode().replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, name in zip(terms, node.input, strict=True):
        sizes |= dict(zip(term, shape(name), strict=False))
    return 2.0 * math.prod(sizes.values())


def _recurrent(node: Any, shape: Shapes) -> float:
    steps, rows = shape(node.input[0])[:2]
    return 2.0 * steps * rows * (math.prod(shape(node.input[1])) + math.prod(shape(node.input[2])))


def _attention(node: Any, shape: Shapes) -> float:
    """Return those of the scores and of the mixed values."""
    query, keys = shape(node.input[0]), shape(node.input[1])
    return 4.0 * math.prod(query) * keys[-2]


_RULES: Mapping[str, Callable[[Any, Shapes], float]] = MappingProxyType(
    {
        **dict.fromkeys(("MatMul", "MatMulInteger", "Gemm"), _product),
        **dict.fromkeys(("Conv", "ConvInteger"), _convolution),
        "ConvTranspose": functools.partial(_convolution, transposed=True),
        "Einsum": _einsum,
        **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
        "Attention": _attention,
    }
)

_STANDARD = frozenset({"", "ai.onnx"})


def _fused_attention(node: Any, shape: Shapes) -> float:
    """Return those of the projections, the scores and the mixed values."""
    rows, weights, tokens = shape(node.input[0])[:-1], shape(node.input[1]), shape(node.input[0])[-2]
    return 2.0 * math.prod(rows) * math.prod(weights) + 4.0 * math.prod(shape(node.output[0])) * tokens


# Operators of ONNX Runtime, com.microsoft.
_FUSED: Mapping[str, Callable[[Any, Shapes], float]] = MappingProxyType(
    {"Attention": _fused_attention, "FusedMatMul": _product, "FusedGemm": _product, "FusedConv": _convolution}
)
_FUSED_BYTES = frozenset(
    {"BiasGelu", "EmbedLayerNormalization", "FastGelu", "Gelu", "QuickGelu", "SkipLayerNormalization"}
)

_READS_ROWS = frozenset({"Gather", "GatherElements", "GatherND"})

# Operators that compute less than they move: by element, along an axis, or not at all.
_ONLY_BYTES_TEXT = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast CastLike Ceil
Celu Clip Compress Concat Constant ConstantOfShape Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout
DynamicQuantizeLinear Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gelu
GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish Hardmax
Identity InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
LpNormalization LpPool Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or
PRelu Pad Pow QuantizeLinear RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
Round ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign
SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze
Upsample Where Xor
"""
_ONLY_BYTES = frozenset(_ONLY_BYTES_TEXT.split())
