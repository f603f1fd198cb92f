"""Operators of a network that only TensorRT plugins have."""

from __future__ import annotations

from pathlib import Path

from triton_models.base.errors import FleetError

_ONNX_RUNTIME = "com.microsoft"


def check_operators(onnx: Path) -> None:
    """Check that a network can be served without TensorRT: it has no operators of its own.

    Raises:
        FleetError: It has.
    """
    own = _own_operators(onnx)
    if not own:
        return
    raise FleetError.of(
        what=f"the network has operators of plugins: {', '.join(own)}",
        where=f"the network of {onnx.parent.parent.name!r}",
        expected="a build on a GPU, which compiles a plan with the plugins",
        why="without a GPU, ONNX Runtime would serve the network, and has no such operators",
        fix="build it with --gpu, or serve it elsewhere than in a rehearsal or a fleet without GPUs",
        rule="plan-plugin",
    )


def _own_operators(path: Path) -> list[str]:
    import onnx

    network = onnx.load(str(path), load_external_data=False)
    functions = {(each.domain, each.name) for each in network.functions}
    nodes = [*network.graph.node, *(node for each in network.functions for node in each.node)]
    return sorted(
        {
            node.op_type
            for node in nodes
            if not onnx.defs.has(node.op_type, node.domain)
            and (node.domain, node.op_type) not in functions
            and node.domain != _ONNX_RUNTIME
        }
    )
