"""What a network answers, on the CPU: a file in ONNX Runtime, or a module in PyTorch."""

from __future__ import annotations

import contextlib
import copy
import functools
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from triton_models.base.encoding import Tensors

if TYPE_CHECKING:
    import torch

Answers: TypeAlias = Mapping[str, np.ndarray]
Run: TypeAlias = Callable[[Tensors], Answers]

_LONGEST_S = 120.0
_TOO_LONG = "it has not answered after {:g} s"
_SMALL_NETWORK = 50_000_000  # weights
LARGER_ROUNDINGS = 4  # from this draw on: those of a sum of many numbers, or of Winograd's convolutions
_CAST_LIKE = 15  # the first operators of ONNX with CastLike
_RANKS = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "TopK"})
EXACT_WHOLE = 1 << 20  # whole numbers below do not move: they may be categories


def session(network: Any, *, optimized: bool = False) -> Any:
    """Return a network of onnx, or of a path, loaded as it is, or with the optimizations of a server."""
    import onnxruntime  # type: ignore[import-untyped]

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    # Optimizations would remove roundings.
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    content = network if isinstance(network, str) else network.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _with_exact_sigmoid(network: Any) -> Any:
    """Return a network that ranks scores with Exp for Sigmoid, as a GPU computes it.

    On a CPU, ONNX Runtime's Sigmoid is off by up to 1e-7, whatever the score, and low scores change places
    (1.31.1, tried on 2026-11-29).
    """
    import onnx

    if isinstance(network, str):
        loaded = onnx.load(network, load_external_data=False)
        if any(weight.data_location == onnx.TensorProto.EXTERNAL for weight in loaded.graph.initializer):
            return network
        exact = _with_exact_sigmoid(loaded)
        return network if exact is loaded else exact
    kinds = {node.op_type for node in network.graph.node}
    versions = [opset.version for opset in network.opset_import if not opset.domain]
    if "Sigmoid" not in kinds or kinds.isdisjoint(_RANKS) or max(versions, default=0) < _CAST_LIKE:
        return network
    exact, make = copy.deepcopy(network), onnx.helper.make_node
    del exact.graph.node[:]
    for node in network.graph.node:
        if node.op_type != "Sigmoid" or node.domain:
            exact.graph.node.append(node)
            continue
        name, own = node.output[0], [f"{node.output[0]}/by_exp:{step}" for step in range(5)]
        exact.graph.node.extend(
            [
                make("Constant", [], [own[2]], value_float=1.0),
                make("Neg", [node.input[0]], [own[0]]),
                make("Exp", [own[0]], [own[1]]),
                make("CastLike", [own[2], own[1]], [own[3]]),
                make("Add", [own[1], own[3]], [own[4]]),
                make("Reciprocal", [own[4]], [name]),
            ]
        )
    return exact


def answers_of(session: Any, inputs: Tensors) -> dict[str, np.ndarray]:
    """Return all tensors among the outputs, in their own types.

    Raises:
        Exception: Whatever ONNX Runtime raises; also after two minutes, because a network may loop forever.
    """
    import onnxruntime

    names = [output.name for output in session.get_outputs()]
    known = {tensor.name for tensor in session.get_inputs()}
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    stop = threading.Timer(_LONGEST_S, lambda: setattr(options, "terminate", True))
    stop.daemon = True
    stop.start()
    try:
        feed = {name: _texts(inputs[name]) for name in inputs if name in known}
        answers = session.run(names, feed, options)
    except Exception as error:
        if options.terminate:
            raise TimeoutError(_TOO_LONG.format(_LONGEST_S)) from error
        raise
    finally:
        stop.cancel()
    return {name: value for name, value in zip(names, answers, strict=True) if isinstance(value, np.ndarray)}


def _texts(tensor: np.ndarray) -> np.ndarray:
    """Return a tensor with strings for bytes, of which ONNX Runtime would take Python's spelling."""
    if tensor.dtype.kind != "O":
        return tensor
    text = np.frompyfunc(
        lambda one: one.decode(errors="replace") if isinstance(one, bytes) else str(one), 1, 1
    )
    return np.asarray(text(tensor), object)


def run(session: Any, inputs: Tensors) -> dict[str, np.ndarray]:
    """Return the numbers among the outputs, as FP32."""
    answers = answers_of(session, inputs).items()
    return {name: value.astype(np.float32) for name, value in answers if value.dtype.kind in "fiub"}


def run_file(network: Any, *, optimized: bool = False) -> Run:
    """Return a function that answers requests with a session of a network; see `session`."""
    return functools.partial(answers_of, session(_with_exact_sigmoid(network), optimized=optimized))


def run_module(network: torch.nn.Module, names: Sequence[str], outputs: Sequence[str]) -> Run:
    """Return what answers requests with a PyTorch network, in evaluation mode and in FP32."""
    network.eval()
    return ModuleRun(network=network, names=names, outputs=outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRun:
    """Answers requests with a PyTorch network on the CPU."""

    network: torch.nn.Module
    names: Sequence[str]
    outputs: Sequence[str]

    def __call__(self, inputs: Tensors) -> Answers:
        """Return the answers in FP32."""
        return run_torch(self.network, self.names, self.outputs, threads=threads_of(self.network))(inputs)

    def answer_within(self, inputs: Tensors, most: float) -> float:
        """Return the bytes that operators return, with 1024 more for each, so that loops count, too.

        Raises:
            Exception: They are more than `most`, or whatever the network raises.
        """
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        total = 0.0

        class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(  # type: ignore[no-untyped-def]
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ):
                nonlocal total
                answer = func(*args, **(kwargs or {}))
                total += 1024 + sum(getattr(leaf, "nbytes", 0) for leaf in tree_leaves(answer))
                if total > most:
                    raise MemoryError
                return answer

        with Count():  # type: ignore[no-untyped-call]
            self(inputs)
        return total

    def rounded(self, inputs: Tensors, *, draw: int, exact: np.ndarray) -> Answers:
        """Return the answers in FP64; with a draw in FP32, where what operators read moves by its last bit.

        Small whole numbers are exact, and those in `exact`. So are tensors that an operator changes, or
        returns a view of.

        Raises:
            Exception: The network fixes types, or whatever else it raises.
        """
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_map

        random = torch.Generator().manual_seed(draw)
        ids = torch.from_numpy(exact.astype(np.float32))
        bit = 2.0 ** (-22 if draw < LARGER_ROUNDINGS else -18)

        def move(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
                return torch.float64 if value is torch.float32 and not draw else value
            if not draw:
                return value.double()
            moved = value * (1 + (torch.rand(value.shape, generator=random) - 0.5) * bit)
            stays = (value == value.round()) & (value.abs() < EXACT_WHOLE)
            return torch.where(stays | torch.isin(value, ids) if len(ids) else stays, value, moved)

        class Rounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(  # type: ignore[no-untyped-def]
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ):
                if not any(result.alias_info for result in func._schema.returns):
                    args, kwargs = tree_map(move, (args, kwargs))
                return func(*args, **(kwargs or {}))

        network = self.network if draw else copy.deepcopy(self.network).double()

        def answer(*tensors: torch.Tensor) -> Any:
            wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
            with Rounded():  # type: ignore[no-untyped-call]
                return network(*(tensors if draw else wide))

        return run_torch(answer, self.names, self.outputs)(inputs)


def threads_of(network: torch.nn.Module) -> int:
    """Return the threads to run a network with; 0 for as many as there are cores.

    For ResNet-50, a second thread of PyTorch spends as much time on waiting as on computing.
    """
    return 1 if sum(weight.numel() for weight in network.parameters()) <= _SMALL_NETWORK else 0


def run_torch(
    network: Callable[..., Any], names: Sequence[str], outputs: Sequence[str], *, threads: int = 0
) -> Run:
    """Return a function that answers requests with anything that takes and returns tensors of PyTorch.

    It raises a TimeoutError after two minutes in Python code, because a network may loop forever.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    def answer(inputs: Tensors) -> Answers:
        tensors = [torch.from_numpy(np.array(inputs[name])) for name in names]
        before = torch.get_num_threads()
        torch.set_num_threads(threads or before)
        try:
            with torch.no_grad(), _limited(_LONGEST_S):
                leaves = [
                    value for value in tree_leaves(network(*tensors)) if isinstance(value, torch.Tensor)
                ]
        finally:
            torch.set_num_threads(before)
        wide = (value.float() if value.dtype == torch.bfloat16 else value for value in leaves)
        return {name: value.detach().cpu().numpy() for name, value in zip(outputs, wide, strict=False)}

    return answer


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in Python code that runs longer, where the system has such signals."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(_TOO_LONG.format(seconds))

    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def largest(value: np.ndarray) -> float:
    """Return the largest absolute value of an array, which may be empty."""
    return float(np.abs(value).max(initial=0))


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
