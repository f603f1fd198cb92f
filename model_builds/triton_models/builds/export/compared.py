"""Running ONNX networks on the CPU, to compare their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import NetworkTensor
from triton_models.base.encoding import Tensors
from triton_models.builds.derived import usual_sizes
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import NUMPY_TYPES

if TYPE_CHECKING:
    import numpy as np

_ROWS = 2


def drawn(inputs: Sequence[NetworkTensor], model: PyTorchNetwork | OnnxFile) -> Tensors:
    """Return inputs from the normal distribution; integers are 0 or 1, valid as tokens, masks and types.

    The first of each row is 1, so that no mask hides everything.
    """
    import numpy as np

    random, sizes = np.random.default_rng(seed=0), usual_sizes(model)
    found = {}
    for tensor in inputs:
        usual = [*([_ROWS] if model.max_batch_size else ()), *sizes.get(tensor.name, ())]
        shape = [
            size if isinstance(size, int) else next(iter(usual[axis : axis + 1]), _ROWS)
            for axis, size in enumerate(tensor.dims or ())
        ]
        dtype = np.dtype(NUMPY_TYPES.get(tensor.data_type.removeprefix("TYPE_"), "object"))
        first = np.arange(shape[-1] if shape else 1) == 0
        values = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape) | first
        found[tensor.name] = np.reshape(values, shape).astype(dtype)
    return found


def session(network: Any) -> Any:
    """Return a network of onnx, loaded as it is."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    # Optimizations would remove roundings.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(network.SerializeToString(), options, providers=providers)


def run(session: Any, inputs: Tensors) -> dict[str, np.ndarray]:
    """Return the numbers among the outputs, as FP32."""
    import numpy as np

    names = [each.name for each in session.get_outputs()]
    wanted = {each.name for each in session.get_inputs()}
    answers = session.run(names, {name: value for name, value in inputs.items() if name in wanted})
    return {
        name: value.astype(np.float32)
        for name, value in zip(names, answers, strict=True)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    }


def largest(value: np.ndarray) -> float:
    """Return the largest absolute value of an array, which may be empty."""
    import numpy as np

    return float(np.abs(value).max(initial=0))


def difference(
    exact: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], *, scaled: bool
) -> tuple[str, float]:
    """Return the output with the largest difference, and that difference.

    If scaled, the difference of a large output is a part of its largest element.
    """
    found = {}
    for name, value in exact.items():
        scale = max(1.0, largest(value)) if scaled else 1.0
        found[name] = largest(other[name] - value) / scale
    return max(found.items(), key=lambda each: (each[1] != each[1], each[1]))
