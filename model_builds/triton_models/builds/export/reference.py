"""The reference of a PyTorch network: the network itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triton_models.declare.declaration import Tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray


def network_reference(network: Callable[[], Any], *, outputs: Sequence[str]) -> Callable[[Tensors], Tensors]:
    """Return the reference of a network: its own answers in PyTorch, on the CPU.

    ```python
    network_reference(network, outputs=["SCORES"])
    ```

    Args:
        network: The function that returns the network, as `PyTorchNetwork.network`. It is called once.
        outputs: Names for its return values, in order. The tensors of a request are its arguments, in order.
    """
    return functools.partial(_answer, network, tuple(outputs))


def _answer(network: Callable[[], Any], outputs: Sequence[str], inputs: Tensors) -> dict[str, NDArray[Any]]:
    import torch

    with torch.inference_mode():
        answer = _made(network)(*(torch.from_numpy(value) for value in inputs.values()))
    values = answer.values() if isinstance(answer, Mapping) else answer
    answers = list(values) if not isinstance(values, torch.Tensor) else [values]
    return {name: each.numpy() for name, each in zip(outputs, answers, strict=True)}


@functools.cache
def _made(network: Callable[[], Any]) -> Any:
    return network().eval()
