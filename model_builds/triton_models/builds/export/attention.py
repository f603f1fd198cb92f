"""Attention in the pattern that runtimes fuse: product, scale, mask, softmax, product.

PyTorch 2.13's exporter adds three things to it. After the softmax, IsNaN and Where replace the NaN of a row
that sees no token. Keys are transposed by two Reshapes and a Transpose, with shapes computed at run time. And
queries and keys are scaled each, instead of the scores. Runtimes look for the plain pattern: ONNX Runtime
needed a new one for the guard (pull request 27458), and TensorRT's fused kernel ran after such a rewrite
(issue 3620 of NVIDIA/TensorRT).

The exporter's own masks hide tokens with the least finite number, so their guard does nothing. A mask of -inf
becomes -10000 here, the mask of ONNX Runtime's Attention, which FP16 can hold: then a row that sees no token
sees all of them. A mask of a request always has a token; where rows still see none, as in a decoder with
padding on the left, answers to drawn requests differ, and the network stays as exported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from triton_models.artifact.networks import onnx_signature
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import accepted_by
from triton_models.builds.export.answers import Answers, first_line, largest, run, session
from triton_models.builds.export.drawn import Drawn
from triton_models.builds.export.onnx import serialise
from triton_models.declare.models import Network, PyTorchNetwork

HIDDEN = -10_000.0
"""What a mask adds to the scores of tokens that do not count."""

EQUAL = 1e-3
"""The largest difference of answers, as a part of the largest, up to which a rewritten network is equal."""

_FIRST_INPUT = frozenset({"Cast", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose"})
_FIRST_INPUT |= {"Unsqueeze"}
_FINITE = frozenset({"Div", "Gemm", "MatMul", "Mul"})
_TOKENS = 2  # dimensions of a mask: texts and tokens
_LENGTH = 8  # so many tokens show what a mask hides


def simplify_attention(path: Path, model: PyTorchNetwork) -> int:
    """Rewrite the attentions of a network in place, if its answers to drawn inputs stay equal.

    A network that ONNX Runtime fails for stays as it is.

    Returns:
        How many attentions are rewritten.
    """
    try:
        network = onnx.load(str(path))
        if not any(node.op_type == "IsNaN" for node in network.graph.node):
            return 0
        simple, count = _simplify(network)
        if count and equal(path, simple, requests_of(network, path, model)):
            path.write_bytes(serialise(simple))
            return count
    except Exception as error:  # noqa: BLE001  of two libraries, for a network that can be served as it is
        message = f"{type(error).__name__}: {first_line(error)}"
        sys.stderr.write(f"note: the attentions of {model.name} stay as exported: {message}\n")
    return 0


def requests_of(network: Any, path: Path, model: Network) -> list[Tensors]:
    """Return drawn requests, and texts of several tokens, of which each mask hides some."""
    inputs, accepted = onnx_signature(path).inputs, accepted_by(network)
    drawing = Drawn(model=model, inputs=inputs, accepted=accepted)
    tables = {name: known.table for name, known in accepted.items() if known.table}
    texts = drawing.request(0, batch=2, sizes=drawing.sizes_near(_LENGTH))
    plain = [drawing.request(number, batch=2) for number in (0, 1)]
    return [*plain, *_padded(texts, tables), _last(texts)]


def whole_numbers(request: Tensors) -> list[str]:
    """Return the inputs that have a whole number for each token of each text."""
    tensors = request.items()
    return [name for name, value in tensors if value.ndim == _TOKENS and value.dtype.kind in "iub"]


def _padded(texts: Tensors, tables: Mapping[str, int]) -> Iterator[Tensors]:
    """Yield texts in which one input of whole numbers at a time has zeros, and the others have none.

    So answers say which of them is the mask, although tokens, too, are usually zero where it is. The zeros
    of the first text are at its end, those of the others are holes.
    """
    random = np.random.default_rng(seed=0)
    full = dict(texts)
    for name in whole_numbers(texts):
        value, table = texts[name], tables.get(name, 0)
        drawn = random.integers(1, table, value.shape) if table > 1 else np.where(value == 0, 1, value)
        full[name] = (drawn if table != 1 else 0 * value).astype(value.dtype)
    for name in whole_numbers(texts):
        hidden: Any = np.zeros(full[name].shape, bool)
        hidden[0, hidden.shape[1] // 2 :] = True
        hidden[1:, ::3] = True
        yield {**full, name: np.where(hidden, 0, full[name]).astype(full[name].dtype)}


def _last(texts: Tensors) -> Tensors:
    """Return texts of which each input of whole numbers has the last but not the first token."""
    last = dict(texts)
    for name in whole_numbers(texts):
        if texts[name].shape[1] > 1:
            last[name] = texts[name].copy()
            last[name][:, 0], last[name][:, -1] = 0, 1
    return last


def equal(path: Path, rewritten: Any, requests: list[Tensors]) -> bool:
    """Return whether a rewritten network gives the answers of the file to all requests."""
    before, after = session(str(path)), session(rewritten)
    return all(_are_close(run(before, inputs), run(after, inputs)) for inputs in requests)


def _are_close(exact: Answers, others: Answers) -> bool:
    """Return whether there are answers, and they are equal; NaN equals nothing."""
    pairs = [(value, others[name]) for name, value in exact.items()]
    return bool(pairs) and all(
        largest(other - value) <= EQUAL * max(1.0, largest(value)) for value, other in pairs
    )


def _simplify(network: Any) -> tuple[Any, int]:
    """Return the network with plain attentions, and how many of them have been rewritten."""
    model = onnx_ir.from_proto(network)
    softmaxes = [node for node in model.graph if node.op_type == "Softmax"]
    count = sum(_unguard(node) for node in softmaxes)
    for node in softmaxes:
        _scale_scores(node)
    return onnx_ir.to_proto(RemoveUnusedNodesPass()(model).model), count


def _unguard(softmax: Any) -> bool:
    """Remove the guard of a softmax whose scores can be made finite."""
    (value,) = softmax.outputs
    users = [use.node for use in value.uses()]
    guard = next((node for node in users if node.op_type == "IsNaN"), None)
    where = next((node for node in users if node.op_type == "Where"), None)
    if guard is None or where is None or len(users) != 2 or where.inputs[0] is not guard.outputs[0]:  # noqa: PLR2004
        return False
    if where.outputs[0].is_graph_output() or where.inputs[2] is not value or _constant(where.inputs[1]) != 0:
        return False
    if not _bound(softmax.inputs[0]):
        return False
    onnx_ir.convenience.replace_all_uses_with(where.outputs[0], value)
    return True


def _bound(value: Any) -> bool:
    """Make the scores or the mask that a value holds finite, by new constants in place of -inf."""
    node = value.producer()
    if value.const_value is not None or (node is not None and node.op_type == "Constant"):
        return _is_finite(value)
    if node is None:
        return False
    if node.op_type in _FINITE:
        return True
    if node.op_type in {"Add", "Where"}:
        places = (1, 2) if node.op_type == "Where" else (0, 1)
        return all(bound_input(node, place) for place in places)
    return node.op_type in _FIRST_INPUT and bound_input(node, 0)


def bound_input(node: Any, place: int) -> bool:
    """Make an input of a node finite, as a mask; return False if that cannot be done."""
    value = node.inputs[place]
    tensor = onnx_ir.convenience.get_const_tensor(value)
    if tensor is None or _is_finite(value):
        return _bound(value)
    numbers = tensor.numpy()
    if np.isnan(numbers).any() or (numbers == np.inf).any():
        return False
    finite = np.where(np.isinf(numbers), numbers.dtype.type(HIDDEN), numbers)
    node.replace_input_with(place, _constant_in(node.graph, f"{value.name}:finite", finite))
    return True


def _constant_in(graph: Any, name: str, numbers: Any) -> Any:
    """Return a constant of a graph, and add it if the graph does not have it."""
    if name not in graph.initializers:
        tensor = onnx_ir.tensor(numbers, name=name)
        shape, kind = onnx_ir.Shape(numbers.shape), onnx_ir.TensorType(tensor.dtype)
        graph.register_initializer(onnx_ir.Value(name=name, shape=shape, type=kind, const_value=tensor))
    return graph.initializers[name]


def _is_finite(value: Any) -> bool:
    tensor = onnx_ir.convenience.get_const_tensor(value)
    return tensor is not None and tensor.dtype.is_floating_point() and bool(np.isfinite(tensor.numpy()).all())


def _constant(value: Any) -> float | None:
    tensor = onnx_ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().reshape(-1)[0]) if tensor is not None and tensor.size == 1 else None


def _scale_scores(softmax: Any) -> None:
    """Scale the scores instead of queries and keys, and transpose the keys at once."""
    scores = softmax.inputs[0]
    while _operator(scores) in {"Add", "Where"}:
        node = scores.producer()
        products = [value for value in node.inputs if _operator(value) == "MatMul"]
        scores = products[0] if products else node.inputs[-1]
    product = scores.producer()
    if _operator(scores) != "MatMul" or scores.dtype is None:
        return
    if len(scores.uses()) != 1 or scores.is_graph_output():
        return
    (query, by_query), (keys, by_keys) = map(_unscaled, product.inputs)
    plain = _transposed(keys)
    if plain is None:
        return
    scale = by_query * by_keys
    nodes = [onnx_ir.node("Transpose", [plain], {"perm": [0, 2, 3, 1]})]
    nodes.append(onnx_ir.node("MatMul", [query, nodes[0].outputs[0]]))
    if not math.isclose(scale, 1.0):
        factor = _constant_in(product.graph, f"{scores.name}:scale", np.array(scale, scores.dtype.numpy()))
        nodes.append(onnx_ir.node("Mul", [nodes[1].outputs[0], factor]))
    for number, node in enumerate(nodes):
        node.outputs[0].name = f"{scores.name}:{number}"
    product.graph.insert_before(product, nodes)
    nodes[-1].outputs[0].dtype, nodes[-1].outputs[0].shape = scores.dtype, scores.shape
    onnx_ir.convenience.replace_all_uses_with(scores, nodes[-1].outputs[0])


def _operator(value: Any) -> str:
    """Return the operator that computes a value; empty for inputs and weights."""
    node = value.producer()
    return "" if node is None else str(node.op_type)


def _unscaled(value: Any) -> tuple[Any, float]:
    """Return a value without a constant that multiplies it, and that constant."""
    if _operator(value) == "Mul":
        for one, other in (value.producer().inputs, reversed(value.producer().inputs)):
            if (factor := _constant(one)) is not None:
                return other, factor
    return value, 1.0


def _transposed(keys: Any) -> Any:
    """Return keys before Transpose, Reshape, Transpose and Reshape, which together are [0, 2, 3, 1]."""
    for kind, order in zip(["Reshape", "Transpose"] * 2, [None, [0, 2, 1], None, [0, 2, 1, 3]], strict=True):
        if _operator(keys) != kind:
            return None
        node = keys.producer()
        if order and ("perm" not in node.attributes or [*node.attributes["perm"].as_ints()] != order):
            return None
        keys = node.inputs[0]
    return keys
