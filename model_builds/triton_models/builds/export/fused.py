"""Fused attention for ONNX Runtime: an encoder's attention, normalization or activation as one operator.

These are the operators of ONNX Runtime's own transformer optimizer, which finds no attention in what
PyTorch's exporter writes now; onnxscript's does. It adds the mask to the scores, as attention_bias. From 1.22
on, CUDA's memory-efficient kernel takes that, for FP16 if the tokens are a multiple of 8, and then writes no
scores to memory (attention.cc of 1.21.0, read 2026-11-28; the older kernel reads a bias wrongly until pull
request 24017, in 1.22). Before 1.20, ONNX Runtime refuses a bias unless each head has a copy. So older
releases get the mask of the request in its place, with which CUDA uses no such kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from triton_models.builds.export.answers import first_line
from triton_models.builds.export.attention import bound_input, equal, requests_of, whole_numbers
from triton_models.builds.export.onnx import LARGEST_BYTES, serialise
from triton_models.builds.export.optimized import keep_constants, optimized
from triton_models.declare.models import PyTorchNetwork
from triton_models.facts.releases import Release

_DOMAIN = "com.microsoft"
_MASK, _BIAS = 3, 5  # places of Attention's inputs
# Of ONNX Runtime 1.16, which the oldest release has, and newer.
_KNOWN = frozenset({"Attention", "SkipLayerNormalization", "BiasGelu", "Gelu", "FusedMatMul"})
# Their results have the sizes of their input, and none of its values.
_SIZES = frozenset({"Shape", "Size"})


def fuse(path: Path, model: PyTorchNetwork, release: Release) -> int:
    """Fuse the attentions of a network in place, if all can be, and its answers to drawn inputs stay equal.

    The mask has the form that the kernels of the release take.

    A network that the rewriter or ONNX Runtime fails for stays as it is.

    Returns:
        How many attentions are fused.
    """
    try:
        return _fuse(path, model, release)
    except Exception as error:  # noqa: BLE001  of two libraries, for a network that can be served as it is
        message = f"{type(error).__name__}: {first_line(error)}"
        sys.stderr.write(f"note: the attentions of {model.name} are not fused: {message}\n")
        return 0


def _fuse(path: Path, model: PyTorchNetwork, release: Release) -> int:
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    network = onnx.load(str(path))
    if not any(node.op_type == "Softmax" for node in network.graph.node):
        return 0
    keep_constants()
    rewritten, count = optimize_for_ort(onnx_ir.from_proto(network))
    fused = onnx_ir.to_proto(rewritten)
    own = {node.op_type for node in fused.graph.node if node.domain == _DOMAIN}
    attentions = [node for node in fused.graph.node if node.op_type == "Attention"]
    if not attentions or len(attentions) != count["sdpa"] or not own <= _KNOWN:
        return 0
    requests = requests_of(network, path, model)
    for candidate in _candidates(rewritten, whole_numbers(requests[0]), release):
        finished = _finished(candidate)
        if equal(path, finished, requests):
            path.write_bytes(serialise(finished))
            return len(attentions)
    return 0


def fuse_normalizations(path: Path) -> int:
    """Fuse the root mean square normalizations of a network for ONNX Runtime, with the sums before them.

    Its attentions stay as they are: for one token, a fused attention would copy keys and values first.

    Returns:
        How many normalizations are fused.
    """
    from onnxscript.rewriter.ort_fusions.rms_normalization import fuse_rms_normalization
    from onnxscript.rewriter.ort_fusions.skip_normalization import fuse_skip_rms_normalization

    model = onnx_ir.load(path)
    count = int(fuse_rms_normalization(model))
    fuse_skip_rms_normalization(model)
    if count:
        path.write_bytes(serialise(_finished(onnx_ir.to_proto(model))))
    return count


def _candidates(rewritten: Any, texts: Sequence[str], release: Release) -> Iterator[Any]:
    """Yield the fused network with each form of its masks that may be right, the fastest first.

    In older releases, that is a mask of texts, the one input whose values decide what is added to the scores.
    """
    fused = onnx_ir.to_proto(rewritten)
    biased = [node for node in rewritten.graph if node.op_type == "Attention" and len(node.inputs) > _BIAS]
    if not biased:
        yield fused
        return
    if release.fuses_attention_bias and all(bound_input(node, _BIAS) for node in biased):
        yield onnx_ir.to_proto(rewritten)
    masks = {name for node in biased for name in _inputs_of(node.inputs[_BIAS])}
    if len(masks) == 1 and masks <= {*texts}:
        yield _masked(fused, *masks)


def _inputs_of(value: Any) -> set[str]:
    """Return the inputs of the network whose values decide a value."""
    waiting, known = [value], dict[int, Any]()
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in known:
            continue
        known[id(value)] = value
        node = value.producer()
        if node is not None and node.op_type not in _SIZES:
            waiting += node.inputs
    return {each.name for each in known.values() if each.is_graph_input()}


def _masked(fused: Any, mask: str) -> Any:
    """Return the network with an input as the mask of its attentions, not what they add to the scores."""
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
    finished = optimized(fused, output_size_limit=LARGEST_BYTES)
    used = {name for node in finished.graph.node for name in node.input}
    used |= {each.name for each in finished.graph.output}
    for node in finished.graph.node:
        while len(node.output) > 1 and node.output[-1] not in used:
            node.output.pop()
        node.output[1:] = [name if name in used else "" for name in node.output[1:]]
    return finished
