"""Fused attention for ONNX Runtime: an encoder's attention, normalization or activation as one operator.

These are the operators of ONNX Runtime's own transformer optimizer, which finds no attention in what
PyTorch's exporter writes now; onnxscript's does. It adds the mask to the scores, which ONNX Runtime before
1.20 refuses unless each head has a copy. The mask of the request replaces that sum.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import onnx_signature
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import accepted_by
from triton_models.builds.export.compared import difference, run, session
from triton_models.builds.export.drawn import plain_requests
from triton_models.builds.export.onnx import LARGEST_BYTES, serialise
from triton_models.declare.models import PyTorchNetwork

_DOMAIN = "com.microsoft"
_MASK, _SUM = 3, 5  # places of Attention's inputs
# Of ONNX Runtime 1.16, which the oldest release has, and newer.
_KNOWN = frozenset({"Attention", "SkipLayerNormalization", "BiasGelu", "Gelu", "FusedMatMul"})
_EQUAL = 1e-3
_TEXTS_AND_TOKENS = 2


def fuse(path: Path, model: PyTorchNetwork) -> int:
    """Fuse the attentions of a network in place, if all can be, and its answers to drawn inputs stay equal.

    A network that the rewriter or ONNX Runtime fails for stays as it is.

    Returns:
        How many attentions are fused.
    """
    try:
        return _fuse(path, model)
    except Exception as error:  # noqa: BLE001  of two libraries, for a network that can be served as it is
        said = str(error).partition("\n")[0]
        sys.stderr.write(
            f"note: the attentions of {model.name} are not fused: {type(error).__name__}: {said}\n"
        )
        return 0


def _fuse(path: Path, model: PyTorchNetwork) -> int:
    import onnx
    import onnx_ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    network = onnx.load(str(path))
    if not any(node.op_type == "Softmax" for node in network.graph.node):
        return 0
    rewritten, count = optimize_for_ort(onnx_ir.from_proto(network))
    fused = onnx_ir.to_proto(rewritten)
    own = {node.op_type for node in fused.graph.node if node.domain == _DOMAIN}
    attentions = [node for node in fused.graph.node if node.op_type == "Attention"]
    if not attentions or len(attentions) != count["sdpa"] or not own <= _KNOWN:
        return 0
    requests = plain_requests(onnx_signature(path).inputs, model, accepted_by(network))
    exact = session(network)
    answers = [run(exact, request) for request in requests]
    adds = any(len(each.input) > _SUM for each in attentions)
    for masked in (_masked(fused, mask) for mask in _may_be_masks(requests[0])) if adds else (fused,):
        finished = _finished(masked)
        other = session(finished)
        pairs = zip(answers, requests, strict=True)
        if all(difference(answer, run(other, each), scaled=True)[1] <= _EQUAL for answer, each in pairs):
            path.write_bytes(serialise(finished))
            return len(attentions)
    return 0


def _may_be_masks(requests: Tensors) -> list[str]:
    """Return the inputs that may be the mask of every attention: a number for each token of each text."""
    return [
        name for name, each in requests.items() if each.ndim == _TEXTS_AND_TOKENS and each.dtype.kind in "iub"
    ]


def _masked(fused: Any, mask: str) -> Any:
    """Return the network with an input as the mask of its attentions, not what they add to the scores."""
    import onnx

    masked = deepcopy(fused)
    for node in masked.graph.node:
        if node.op_type == "Attention":
            del node.input[_MASK:]
            node.input.append(f"{mask}:mask")
    cast = onnx.helper.make_node("Cast", [mask], [f"{mask}:mask"], to=onnx.TensorProto.INT32)
    masked.graph.node.insert(0, cast)
    return masked


def _finished(fused: Any) -> Any:
    """Return the network without what is unused, also of its operators, and with packed weights."""
    from onnxscript import optimizer

    finished = optimizer.optimize(fused, output_size_limit=LARGEST_BYTES)
    used = {name for node in finished.graph.node for name in node.input}
    used |= {each.name for each in finished.graph.output}
    for node in finished.graph.node:
        while len(node.output) > 1 and node.output[-1] not in used:
            node.output.pop()
    return finished
