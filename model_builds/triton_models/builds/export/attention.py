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
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import onnx_signature
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import accepted_by
from triton_models.builds.export.compared import difference, run, session
from triton_models.builds.export.drawn import Drawn, plain_requests
from triton_models.builds.export.onnx import serialise
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import DynamicDim, ShapeRange, Tensor

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
    import onnx

    try:
        network = onnx.load(str(path))
        if not any(node.op_type == "IsNaN" for node in network.graph.node):
            return 0
        simple, count = _simplify(network)
        if count and equal(path, simple, requests_of(network, path, model)):
            path.write_bytes(serialise(simple))
            return count
    except Exception as error:  # noqa: BLE001  of two libraries, for a network that can be served as it is
        message = str(error).partition("\n")[0]
        sys.stderr.write(
            f"note: the attentions of {model.name} stay as exported: {type(error).__name__}: {message}\n"
        )
    return 0


def requests_of(network: Any, path: Path, model: PyTorchNetwork | OnnxFile) -> list[Tensors]:
    """Return drawn requests, and texts of several tokens, of which each mask hides some."""
    inputs, accepted = onnx_signature(path).inputs, accepted_by(network)
    several = Drawn(model=_of_several_tokens(model), inputs=inputs, accepted=accepted, sizes=(_LENGTH,))
    tables = {name: each.table for name, each in accepted.items() if each.table}
    texts = several.request(0, batch=2)
    return [*plain_requests(inputs, model, accepted), *_padded(texts, tables), _last(texts)]


def whole_numbers(request: Tensors) -> list[str]:
    """Return the inputs that have a whole number for each token of each text."""
    return [name for name, each in request.items() if each.ndim == _TOKENS and each.dtype.kind in "iub"]


def _of_several_tokens(model: PyTorchNetwork | OnnxFile) -> PyTorchNetwork | OnnxFile:
    """Return the model with every open size at 8, or as close as its range is."""

    def one_size(size: Any) -> Any:
        if not isinstance(size, DynamicDim):
            return size
        length = min(max(_LENGTH, size.min), size.max)
        return replace(size, min=length, opt=length, max=length)

    if isinstance(model, OnnxFile):
        profile = {}
        for name, span in model.profile.items():
            shape = tuple(min(max(_LENGTH, low), high) for low, high in zip(span.min, span.max, strict=True))
            profile[name] = ShapeRange(min=shape, opt=shape, max=shape)
        return replace(model, profile=profile)
    tensors = [
        replace(each, dims=[one_size(size) for size in each.dims]) if isinstance(each, Tensor) else each
        for each in model.inputs
    ]
    return replace(model, inputs=tensors)


def _padded(texts: Tensors, tables: Mapping[str, int]) -> Iterator[Tensors]:
    """Yield texts in which one input of whole numbers at a time has zeros, and the others have none.

    So answers say which of them is the mask, although tokens, too, are usually zero where it is. The zeros
    of the first text are at its end, those of the others are holes.
    """
    import numpy as np

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
    sessions = session(str(path)), session(rewritten)
    answers = (tuple(run(each, inputs) for each in sessions) for inputs in requests)
    return all(difference(*pair, scaled=True)[1] <= EQUAL for pair in answers)


def _simplify(network: Any) -> tuple[Any, int]:
    """Return the network with plain attentions, and how many of them have been rewritten."""
    import onnx_ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    model = onnx_ir.from_proto(network)
    softmaxes = [node for node in model.graph if node.op_type == "Softmax"]
    count = sum(_unguard(node) for node in softmaxes)
    for node in softmaxes:
        _scale_scores(node)
    return onnx_ir.to_proto(RemoveUnusedNodesPass()(model).model), count


def _unguard(softmax: Any) -> bool:
    """Remove the guard of a softmax whose scores can be made finite."""
    import onnx_ir

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
    import numpy as np
    import onnx_ir

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
    import onnx_ir

    if name not in graph.initializers:
        tensor = onnx_ir.tensor(numbers, name=name)
        shape, kind = onnx_ir.Shape(numbers.shape), onnx_ir.TensorType(tensor.dtype)
        graph.register_initializer(onnx_ir.Value(name=name, shape=shape, type=kind, const_value=tensor))
    return graph.initializers[name]


def _is_finite(value: Any) -> bool:
    import numpy as np
    import onnx_ir

    tensor = onnx_ir.convenience.get_const_tensor(value)
    return tensor is not None and tensor.dtype.is_floating_point() and bool(np.isfinite(tensor.numpy()).all())


def _constant(value: Any) -> float | None:
    """Return the one number of a constant."""
    import onnx_ir

    tensor = onnx_ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().reshape(-1)[0]) if tensor is not None and tensor.size == 1 else None


def _scale_scores(softmax: Any) -> None:
    """Scale the scores instead of queries and keys, and transpose the keys at once."""
    import numpy as np
    import onnx_ir

    scores = softmax.inputs[0]
    while (node := scores.producer()) is not None and node.op_type in {"Add", "Where"}:
        scores = next((each for each in node.inputs if _is_product(each)), node.inputs[-1])
    product = scores.producer()
    if product is None or product.op_type != "MatMul" or scores.dtype is None:
        return
    if len(scores.uses()) != 1 or scores.is_graph_output():
        return
    (query, by_query), (keys, by_keys) = (_unscaled(each) for each in product.inputs)
    plain = _transposed(keys)
    if plain is None:
        return
    scale = by_query * by_keys
    nodes = [onnx_ir.node("Transpose", [plain[0]], {"perm": plain[1]})]
    nodes.append(onnx_ir.node("MatMul", [query, nodes[0].outputs[0]]))
    if not math.isclose(scale, 1.0):
        factor = _constant_in(product.graph, f"{scores.name}:scale", np.array(scale, scores.dtype.numpy()))
        nodes.append(onnx_ir.node("Mul", [nodes[1].outputs[0], factor]))
    for number, node in enumerate(nodes):
        node.outputs[0].name = f"{scores.name}:{number}"
    product.graph.insert_before(product, nodes)
    nodes[-1].outputs[0].dtype, nodes[-1].outputs[0].shape = scores.dtype, scores.shape
    onnx_ir.convenience.replace_all_uses_with(scores, nodes[-1].outputs[0])


def _is_product(value: Any) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "MatMul"


def _unscaled(value: Any) -> tuple[Any, float]:
    """Return a value without a constant that multiplies it, and that constant."""
    node = value.producer()
    if node is not None and node.op_type == "Mul":
        for place in (0, 1):
            if (factor := _constant(node.inputs[place])) is not None:
                return node.inputs[1 - place], factor
    return value, 1.0


def _transposed(keys: Any) -> tuple[Any, list[int]] | None:
    """Return what Reshape, Transpose and Reshape transpose, and the permutation that does it at once."""
    steps = [keys.producer()]  # from the last to the first
    for _ in range(3):
        if steps[-1] is None or not steps[-1].inputs:
            return None
        steps.append(steps[-1].inputs[0].producer())
    if steps[-1] is None or [step.op_type for step in steps] != ["Reshape", "Transpose"] * 2:
        return None
    if [_permutation(step) for step in steps[1::2]] != [[0, 2, 1], [0, 2, 1, 3]]:
        return None
    return steps[-1].inputs[0], [0, 2, 3, 1]


def _permutation(transpose: Any) -> list[int]:
    return list(transpose.attributes["perm"].as_ints()) if "perm" in transpose.attributes else []
