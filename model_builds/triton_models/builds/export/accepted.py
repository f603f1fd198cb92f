"""What a network's graph says about the values that its inputs get.

The build follows each input to the first operators that read it: a table limits its numbers, a scaler names
their usual size, an imputer knows missing values. Operators that only move values are passed.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

ML_DOMAIN = "ai.onnx.ml"
UNKNOWN = "nothing says which values"
"""Begins the reason that an input without a range keeps a network in FP32."""

_MOVES = frozenset(
    {
        *("Cast", "CastLike", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Slice"),
        *("Split", "Concat", "FeatureVectorizer", "Expand", "Clip", "Imputer", "Where", "StringNormalizer"),
        *("Sub", "Add", "Div", "Mul", "BatchNormalization", "Scaler", "Normalizer", "If", "Loop"),
        *("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod"),
    }
)
_PICKS = frozenset({"Gather", "GatherElements", "GatherND", "ArrayFeatureExtractor"})
"""Operators that pass on a part of their first input."""
_TREES = frozenset({"TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"})
_READS_FEATURES = frozenset(
    {
        *("Gemm", "MatMul", "Scaler", "BatchNormalization", "Normalizer", "Binarizer", "FeatureVectorizer"),
        *("LinearRegressor", "LinearClassifier", "SVMRegressor", "SVMClassifier", *_TREES),
    }
)
_SIZES = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Loop": (0,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Tile": (1,),
}
"""The inputs of operators that say how large an answer is, or how often a loop runs."""
_FLOATS = frozenset({1, 10, 11, 16})  # FLOAT, FLOAT16, DOUBLE and BFLOAT16 of onnx.TensorProto
_BOOL = 9
_COMPARES = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_RESHAPES = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_ARITHMETIC = frozenset({"Sub", "Add", "Div", "Mul"})
_HASHES = frozenset({"BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod"})
_BY_CONSTANTS = _ARITHMETIC | {"Gemm", "MatMul"}
_EMBEDDINGS = {0: 2, 1: 4}  # of EmbedLayerNormalization: the tables of tokens and of segments
_LOOKUPS = frozenset(
    {
        *("LabelEncoder", "CategoryMapper", "OneHotEncoder", "TfIdfVectorizer"),
        *("StringNormalizer", "DictVectorizer"),
    }
)
_WORDS = ("keys_strings", "cats_strings", "pool_strings", "string_vocabulary", "keys_tensor")
_NUMBERS = ("keys_int64s", "cats_int64s", "pool_int64s", "int64_vocabulary")
_VALUES = frozenset({"value", "value_float", "value_int", "value_floats", "value_ints"})
_FEW = 512
_LARGEST_ID = 2**53
_SMALL = 1024  # numbers of a constant that may be a shape

# Of PyTorch: functions that keep the values of a float tensor, or some of them; that look up places in a
# table, which may be the first argument; that answer nothing of the numbers; and that know NaN.
_KEEPS_VALUES = frozenset(
    {
        *("__getitem__", "chunk", "clone", "contiguous", "flatten", "float", "int", "long", "reshape"),
        *("select", "split", "squeeze", "t", "to", "transpose", "type", "unbind", "unsqueeze", "view"),
    }
)
_LOOKS_UP = frozenset({"embedding", "embedding_bag", "one_hot"})
_INDEXES = frozenset({"__getitem__", "gather", "index_select", "take", "take_along_dim"})
_IGNORES_NUMBERS = frozenset(
    {
        *("empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like"),
        *("rand_like", "randn_like", "zeros_like"),
    }
)
# That compare values with constants, or move them by one.
_FINDS = frozenset({"__contains__", "__eq__", "bucketize", "eq", "isin", "ne", "searchsorted"})
_FINDS_WHOLE = _FINDS | {"ge", "gt", "le", "lt", "sub", "__rsub__"}
_KNOWS_NAN = frozenset({"isnan", "nan_to_num", "isfinite", "nanmean", "nansum", "nanmedian"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The values of one input that a graph suggests.

    Attributes:
        table: The entries of the smallest table that it indexes.
        center: The values that the first operators subtract, per feature.
        scale: The values that they divide by, per feature.
        features: True if operators on rows of features read it: its values may be of any size.
        sizes: True if its numbers may say how large an answer is, or how often a loop runs.
        mask: True if the graph subtracts it from a constant, as masks are.
        missing: True if an operator knows NaN.
        numbers: The only whole numbers that a lookup knows.
        constants: Whole numbers with which the graph compares its own, such as ids.
        words: Strings that a lookup knows.
    """

    table: int | None = None
    center: np.ndarray | None = None
    scale: np.ndarray | None = None
    features: bool = False
    sizes: bool = False
    mask: bool = False
    missing: bool = False
    numbers: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def reach(self) -> float:
        """The largest usual value, three scales from the center; 0 if no operator says one."""
        center, scale = (0.0 if part is None else np.abs(part) for part in (self.center, self.scale))
        return float(np.max(center, initial=0.0) + 3 * np.max(scale, initial=0.0))


def nodes_of(network: Any) -> Iterator[Any]:
    """Yield all operators of a network, also those of its functions and of graphs inside operators."""
    waiting = [network.graph, *network.functions]
    while waiting:
        for node in waiting.pop().node:
            yield node
            for attribute in node.attribute:
                waiting.extend(([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs))


def inferred_graph(network: Any) -> Any:
    """Return the graph of a network with the shapes and types of its values, without its larger weights."""
    import onnx

    return onnx.shape_inference.infer_shapes(without_weights(network)).graph


def without_weights(network: Any) -> Any:
    """Return a network without the numbers of its larger weights, which may be shapes if they are small."""
    import onnx

    light = onnx.ModelProto(ir_version=network.ir_version, opset_import=network.opset_import)
    light.functions.extend(network.functions)
    for field_name in ("node", "input", "output", "value_info"):
        getattr(light.graph, field_name).extend(getattr(network.graph, field_name))
    for tensor in network.graph.initializer:
        if math.prod(tensor.dims) > _SMALL:
            light.graph.initializer.add(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        else:
            light.graph.initializer.append(tensor)
    return light


def values_of(graph: Any) -> dict[str, Any]:
    """Return what an inferred graph says about each of its values that are no weights, by name."""
    return {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}


def accepted_by(network: Any) -> dict[str, Accepted]:
    """Return what a network of onnx says about each of its inputs."""
    graph = _Graph.of(network)
    return {tensor.name: graph.follow(tensor.name) for tensor in network.graph.input}


def only_indexes(network: Any, name: str) -> bool:
    """Return whether an input is nothing but places in tables of one size, which are weights.

    It may also be compared with constants, as tokens are with that of padding.
    """
    graph, tables, waiting, seen = _Graph.of(network), set[int](), deque([name]), {name}
    while waiting:
        value = waiting.popleft()
        for node in graph.readers.get(value, ()):
            place, kind = list(node.input).index(value), node.op_type
            if kind in {"Gather", "EmbedLayerNormalization"} and (entries := graph.table(node, place)):
                tables.add(entries)
            elif kind in _RESHAPES and place == 0 and _attribute(node, "to", 7) not in {*_FLOATS, _BOOL}:
                waiting.extend(output for output in node.output if output not in seen)
                seen.update(node.output)
            elif kind != "Shape" and not (kind in _COMPARES and node.input[1 - place] in graph.constants):
                return False
    return len(tables) == 1


def accepted_by_module(
    network: torch.nn.Module, inputs: Mapping[str, torch.Tensor]
) -> tuple[dict[str, Accepted], float]:
    """Run a PyTorch network, and return what this says about each of its inputs, and its operations."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    accepted = {
        name: Accepted(features=value.is_floating_point() and value.ndim == 2)  # noqa: PLR2004  rows and features
        for name, value in inputs.items()
    }
    values = {id(value): (value, name) for name, value in inputs.items()}

    class Watch(TorchFunctionMode):
        def __torch_function__(  # type: ignore[no-untyped-def]
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ):
            answer = func(*args, **(kwargs or {}))
            function, arguments = getattr(func, "__name__", ""), [*args, *(kwargs or {}).values()]
            names = {values[id(leaf)][1] for leaf in tree_leaves(arguments) if id(leaf) in values}
            for name in names if function not in _IGNORES_NUMBERS else ():
                indexes = function in _INDEXES and id(arguments[0]) not in values
                accepted[name] = _read_call(function, arguments, accepted[name], indexes=indexes)
                own = [leaf for leaf in tree_leaves(arguments) if id(leaf) in values]
                constants = _constants_of(function, arguments, own, network)
                accepted[name] = replace(
                    accepted[name], constants=_joined(accepted[name].constants, constants)
                )
                for tensor in tree_leaves(answer) if not (indexes or function in _LOOKS_UP) else ():
                    if isinstance(tensor, torch.Tensor) and _may_index(tensor, function):
                        values[id(tensor)] = (tensor, name)
            return answer

    counter = FlopCounterMode(display=False)
    # Sizes that the network refuses are refused again, with a reason, when inputs are drawn.
    with contextlib.suppress(Exception), torch.no_grad(), counter, Watch():
        network(*inputs.values())
    return accepted, float(counter.get_total_flops())


def _may_index(value: torch.Tensor, function: str) -> bool:
    """Return whether values that a function of PyTorch answers may be places in a table."""
    import torch

    if value.is_floating_point():
        return function in _KEEPS_VALUES
    return value.dtype != torch.bool and not value.is_complex()


def _read_call(function: str, arguments: Sequence[Any], so_far: Accepted, *, indexes: bool) -> Accepted:
    """Return what a function of PyTorch adds about an input, which is among its arguments."""
    import torch

    entries = 0
    if function in {"embedding", "embedding_bag"}:
        entries = next((len(one) for one in arguments if _is_float(one)), 0)
    elif function == "one_hot" and isinstance(arguments[-1], int):
        entries = max(arguments[-1], 0)
    elif indexes:
        entries = next((len(one) for one in arguments[:1] if isinstance(one, torch.Tensor) and one.ndim), 0)
    if entries:
        return replace(so_far, table=min(entries, so_far.table or entries))
    return replace(so_far, missing=so_far.missing or function in _KNOWS_NAN)


def _constants_of(
    function: str, arguments: Sequence[Any], own: Sequence[Any], network: torch.nn.Module
) -> set[int]:
    """Return the whole numbers with which a function compares the values of an input.

    If it compares what is picked from a table, these are all numbers of the network's tables.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    floats = all(map(_is_float, own))
    if function not in (_FINDS if floats else _FINDS_WHOLE):
        return set()
    others = [leaf for leaf in tree_leaves(arguments) if not any(leaf is one for one in own)]
    buffers = list(network.buffers())
    kept = {id(part) for part in (*buffers, *network.parameters())}
    made = any(isinstance(other, torch.Tensor) and id(other) not in kept for other in others)
    tables = [buffer for buffer in buffers if made and not floats and not buffer.is_floating_point()]
    return set().union(*map(_whole_numbers, [*others, *tables]))


def _whole_numbers(value: Any) -> set[int]:
    """Return the whole numbers in a number or an array of Python, NumPy or PyTorch."""
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().float() if value.dtype == torch.bfloat16 else value.detach().cpu()
        value = value.numpy()
    is_number = isinstance(value, int | float | np.ndarray | np.generic)
    return set(whole_numbers(np.asarray(value))) if is_number else set()


def whole_numbers(values: np.ndarray) -> list[int]:
    """Return the whole numbers of an array, which are few and of all sizes; none of booleans."""
    if values.dtype.kind not in "iuf":
        return []
    with np.errstate(invalid="ignore"):
        whole = np.unique(values[(np.abs(values) < _LARGEST_ID) & (values == np.trunc(values))])
    places = np.linspace(0, whole.size - 1, min(whole.size, _FEW)).astype(int)
    return [int(number) for number in whole[places]]


def _joined(one: Iterable[int], two: Iterable[int]) -> tuple[int, ...]:
    """Return numbers, the largest first; none if all are usual for a mask, which says what counts."""
    joined = {*one, *two}
    return tuple(sorted(joined, key=abs, reverse=True)) if joined - {-1, 0, 1} else ()


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


@dataclass(slots=True)
class _Graph:
    constants: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    sizes: dict[str, Sequence[int]] = field(default_factory=dict)
    readers: dict[str, list[Any]] = field(default_factory=dict)
    makers: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Any) -> _Graph:
        from onnx import numpy_helper

        graph = cls()
        for tensor in network.graph.initializer:
            if not tensor.external_data:
                graph.constants[tensor.name] = functools.partial(numpy_helper.to_array, tensor)
            graph.sizes[tensor.name] = tuple(tensor.dims)
        for node in nodes_of(network):
            if node.op_type == "Constant" and (value := _constant(node)) is not None:
                graph.constants[node.output[0]] = functools.partial(np.asarray, value)
                graph.sizes[node.output[0]] = value.shape
            graph.makers.update(dict.fromkeys(node.output, node))
            for name in node.input:
                graph.readers.setdefault(name, []).append(node)
        return graph

    def follow(self, name: str) -> Accepted:
        """Collect what the operators behind an input say, up to those that compute something new."""
        accepted = Accepted()
        for node, value in self._walk(name, self._moves):
            accepted = self._read(node, value, accepted)
        knows = any(self._knows_missing(*step) for step in self._walk(name, lambda *_: True))
        sizes = any(_is_size(*step) for step in self._walk(name, _keeps_numbers))
        return replace(accepted, sizes=sizes, missing=accepted.missing or knows)

    def _walk(self, name: str, passes: Callable[[Any, str], bool]) -> Iterator[tuple[Any, str]]:
        """Yield operators with the value that they read, from a value on, through those that pass it on."""
        seen, waiting = {name}, deque([name])
        while waiting:
            value = waiting.popleft()
            for node in self.readers.get(value, ()):
                yield node, value
                if passes(node, value):
                    fresh = [output for output in node.output if output and output not in seen]
                    seen.update(fresh)
                    waiting.extend(fresh)

    def _knows_missing(self, node: Any, value: str) -> bool:
        """Return whether an operator asks for NaN; behind a softmax, this is about texts without a token."""
        maker = self.makers.get(value)
        return node.op_type == "IsNaN" and (maker is None or maker.op_type != "Softmax")

    def _moves(self, node: Any, value: str) -> bool:
        """Return whether the outputs of an operator are values of its input, maybe scaled by constants."""
        if node.op_type in _PICKS:
            return bool(value == node.input[0])
        mixes = node.op_type in _ARITHMETIC | _HASHES and not {*node.input} <= {value, *self.constants}
        return node.op_type in _MOVES and not mixes

    def _read(self, node: Any, value: str, known: Accepted) -> Accepted:
        place, kind = list(node.input).index(value), node.op_type
        entries = self.table(node, place)
        center, scale = self._scaling(node, place)
        numbers, words = _lookup(node)
        tracks = kind in _TREES and any(_attribute(node, "nodes_missing_value_tracks_true", ()))
        return replace(
            known,
            table=known.table if entries is None else min(entries, known.table or entries),
            center=center if known.center is None else known.center,
            scale=scale if known.scale is None else known.scale,
            features=known.features or kind in _READS_FEATURES,
            mask=known.mask or (kind == "Sub" and place == 1 and node.input[0] in self.constants),
            missing=known.missing or tracks or kind == "Imputer",
            numbers=known.numbers or numbers,
            constants=_joined(known.constants, () if entries else (*numbers, *self._compared(node, place))),
            words=known.words or words,
        )

    def table(self, node: Any, place: int) -> int | None:
        """Return the entries of the table that an operator indexes with a value."""
        axis, table = 0, ""
        if node.op_type == "Equal" and node.input[1 - place] in self.constants:  # one_hot of PyTorch
            values = self.constants[node.input[1 - place]]().ravel()
            return values.size if values.size > 1 and (values == np.arange(values.size)).all() else None
        if node.op_type in {"Gather", "GatherElements"} and place == 1:
            axis, table = _attribute(node, "axis", 0), node.input[0]
        elif node.op_type == "ArrayFeatureExtractor" and place == 1:
            axis, table = -1, node.input[0]
        elif node.op_type == "EmbedLayerNormalization" and place in _EMBEDDINGS:
            table = node.input[_EMBEDDINGS[place]]
        elif node.op_type == "OneHot" and place == 0 and node.input[1] in self.constants:
            return int(self.constants[node.input[1]]().ravel()[0])
        sizes = self.sizes.get(table)
        return sizes[axis] if sizes else None

    def _compared(self, node: Any, place: int) -> list[int]:
        """Return the whole numbers with which an operator compares a value, or moves whole numbers by."""
        import onnx

        kind = node.op_type
        if kind == "LabelEncoder":
            keys = _attribute(node, "keys_tensor", None)
            floats = np.array(_attribute(node, "keys_floats", ()))
            return whole_numbers(floats if keys is None else onnx.numpy_helper.to_array(keys))
        other = node.input[1 - place] if kind in _COMPARES | {"Sub"} else ""
        passed = _PICKS | _RESHAPES | {"Concat", "Expand", "Slice"}
        while other in self.makers and self.makers[other].op_type in passed:
            other = self.makers[other].input[0]
        values = self.constants[other]() if other in self.constants else np.zeros(0)
        return whole_numbers(values) if kind == "Equal" or values.dtype.kind in "iu" else []

    def _scaling(self, node: Any, place: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return what an operator subtracts from a value, and what it divides it by."""
        kind = node.op_type
        with np.errstate(all="ignore"):
            if kind == "Scaler":
                offset, factor = (np.array(_attribute(node, name, ())) for name in ("offset", "scale"))
                return (offset if offset.size else None), (_finite(1 / factor) if factor.size else None)
            if kind in _TREES:
                return _thresholds(node)
            if kind == "BatchNormalization" and place == 0 and (mean := self._numbers(node, 3)) is not None:
                variance = self._numbers(node, 4)
                return mean.ravel(), None if variance is None else _finite(np.sqrt(np.abs(variance.ravel())))
            constant = self._numbers(node, 1 - place) if place < 2 and kind in _BY_CONSTANTS else None  # noqa: PLR2004
            if constant is None:
                return None, None
            return _scaling_by(node, place, constant)

    def _numbers(self, node: Any, place: int) -> np.ndarray | None:
        name = node.input[place] if place < len(node.input) else ""
        values = self.constants[name]() if name in self.constants else None
        return values.astype(np.float64) if values is not None and values.dtype.kind in "fiu" else None


def _scaling_by(node: Any, place: int, constant: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return what an operator of a value and a constant subtracts, and what it divides by."""
    kind, flat = node.op_type, constant.ravel()
    if kind in {"Gemm", "MatMul"} and place == 0:
        if constant.ndim != 2:  # noqa: PLR2004
            return None, None
        weights = np.abs(constant.T if _attribute(node, "transB", 0) else constant)
        return None, _finite(1 / np.max(weights, axis=1, initial=1e-30))
    if not flat.size or kind in {"Gemm", "MatMul"}:
        return None, None
    if kind in {"Sub", "Add"}:
        return (flat if kind == "Sub" and place == 0 else -flat), None
    return None, _finite(flat if kind == "Div" else 1 / flat)


def _keeps_numbers(node: Any, value: str) -> bool:
    """Return whether the numbers of a value may still be a size behind an operator."""
    return node.op_type not in {"Shape", "Size"} and not (
        node.op_type in _PICKS and list(node.input).index(value) == 1
    )


def _is_size(node: Any, value: str) -> bool:
    return list(node.input).index(value) in _SIZES.get(node.op_type, ())


def _finite(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.nan_to_num(np.abs(values), nan=1.0, posinf=1e12), 1e-12, 1e12))


def _constant(node: Any) -> np.ndarray | None:
    import onnx

    values = [attribute for attribute in node.attribute if attribute.name in _VALUES]
    if not values:
        return None
    value = onnx.helper.get_attribute_value(values[0])
    return onnx.numpy_helper.to_array(value) if values[0].name == "value" else np.array(value)


def _attribute(node: Any, name: str, otherwise: Any) -> Any:
    import onnx

    values = [attribute for attribute in node.attribute if attribute.name == name]
    return onnx.helper.get_attribute_value(values[0]) if values else otherwise


def _thresholds(node: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the middle of each feature's thresholds, and half of their range."""
    features = np.array(_attribute(node, "nodes_featureids", ()), np.int64)
    values = np.array(_attribute(node, "nodes_values", ()), np.float64)
    branches = np.array([mode != b"LEAF" for mode in _attribute(node, "nodes_modes", ())])
    if not features.size or features.shape != values.shape or branches.shape != values.shape:
        return None, None
    count = int(features.max()) + 1
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, features[branches], values[branches])
    np.maximum.at(high, features[branches], values[branches])
    unused = ~np.isfinite(low)
    low[unused], high[unused] = 0, 1
    return (low + high) / 2, np.maximum((high - low) / 2, 1e-3 * np.maximum(np.abs(low), 1))


def _lookup(node: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the numbers and strings that an operator looks up."""
    numbers, words = (), ()
    for attribute in node.attribute if node.op_type in _LOOKUPS else ():
        if attribute.name in _NUMBERS:
            numbers = tuple(attribute.ints[:_FEW])
        elif attribute.name in _WORDS:
            texts = attribute.strings or attribute.t.string_data
            words = tuple(text.decode(errors="replace") for text in texts[:_FEW])
    return numbers, words
