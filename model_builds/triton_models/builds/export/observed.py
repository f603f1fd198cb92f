"""A network observed while it runs: examples of every size, and answers of its export compared with its own.

What PyTorch exports as TorchScript or compiles does not describe its outputs, so running it determines them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import NetworkTensor, Signature
from triton_models.base.errors import FleetError
from triton_models.builds.export.onnx import example_tensors
from triton_models.declare.tensors import DynamicDim, Tensor

if TYPE_CHECKING:
    import torch

BATCH = "batch"

# The tolerance between the exported and the original network on sizes other than the exported ones. Rounding
# differences are far below it, errors from a wrong size far above.
_TOLERANCE = 1e-3

# Source: ConvertTorchTypeToDataType of pytorch_backend (src/libtorch_utils.cc, main of 2026-05-13), read on
# 2026-11-21. Triton lacks the types that are missing here, such as complex64.
_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A network that is exported and compared with its export.

    Attributes:
        name: The model's name, for errors.
        inputs: The inputs, without the batch dimension.
        outputs: The names of its outputs, in order.
        rule: The rule of errors.
        instead: Another way to export it, for errors.
    """

    name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[str]
    rule: str
    instead: str

    def answers(
        self,
        network: Callable[..., Any],
        exported: Callable[..., Any],
        examples: Sequence[Sequence[torch.Tensor]],
    ) -> list[list[torch.Tensor]]:
        """Return the network's answers to examples, for which the export must answer alike.

        An export may fix sizes that are computed from its first example.

        Raises:
            FleetError: It answers differently, or not with one tensor per output.
        """
        import torch

        answers = [self._tensors(network(*example)) for example in examples]
        for example, answer in zip(examples, answers, strict=True):
            own = self._tensors(exported(*example))
            for output, one, other in zip(self.outputs, own, answer, strict=True):
                if one.shape != other.shape or not torch.allclose(
                    one.double(), other.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
                ):
                    raise self.bad(
                        f"the exported network gives another {output!r} for an input of another size",
                        fix=f"{self.instead}, or compute sizes only from tensors",
                    )
        return answers

    def signature(self, answers: Sequence[Sequence[torch.Tensor]], *, batches: bool) -> Signature:
        """Return the inputs as declared, and the outputs as observed for examples of different sizes."""
        return Signature(
            inputs=[_declared(tensor, batches=batches) for tensor in self.inputs],
            outputs=[
                _seen(output, [answer[index] for answer in answers], batches=batches)
                for index, output in enumerate(self.outputs)
            ],
        )

    def bad(self, what: str, *, fix: str) -> FleetError:
        """Return the error of a network that cannot be served this way."""
        return FleetError.of(
            what=what,
            where=f"the network of {self.name!r}",
            why="the server would refuse the model, or answer differently from the network",
            fix=fix,
            rule=self.rule,
        )

    def _tensors(self, answer: Any) -> list[torch.Tensor]:
        import torch

        given = list(answer) if isinstance(answer, tuple | list) else [answer]
        if len(given) == len(self.outputs) and all(isinstance(each, torch.Tensor) for each in given):
            return given
        kinds = ", ".join(
            "a tensor" if isinstance(each, torch.Tensor) else type(each).__name__ for each in given
        )
        raise self.bad(
            f"forward() returns {kinds}, and {len(self.outputs)} outputs are declared: "
            f"{', '.join(self.outputs)}",
            fix="return the tensors in the order of the outputs",
        )


def examples_of(inputs: Sequence[Tensor], *, batches: bool) -> Iterator[list[torch.Tensor]]:
    """Yield an example to trace with, then one with another batch size, then one with other open sizes."""
    import torch

    first = list(example_tensors(inputs, batches=batches).values())
    yield first
    if batches:
        yield [torch.cat([each, each[:1]]) for each in first]
    if any(isinstance(size, DynamicDim) for tensor in inputs for size in tensor.dims):
        larger = [replace(tensor, dims=[_larger(size) for size in tensor.dims]) for tensor in inputs]
        yield list(example_tensors(larger, batches=batches).values())


def _larger(size: int | DynamicDim) -> int:
    return min(max(size.min, 2) + 1, size.max) if isinstance(size, DynamicDim) else size


def _declared(tensor: Tensor, *, batches: bool) -> NetworkTensor:
    sizes = [size.name if isinstance(size, DynamicDim) else size for size in tensor.dims]
    return NetworkTensor(
        name=tensor.name, data_type=tensor.full_type, dims=[BATCH, *sizes] if batches else sizes
    )


def _seen(output: str, answers: Sequence[torch.Tensor], *, batches: bool) -> NetworkTensor:
    """Return an output; its open sizes are those that differed between the examples."""
    own = str(answers[0].dtype).removeprefix("torch.")
    if len({answer.dim() for answer in answers}) > 1:
        return NetworkTensor(name=output, data_type=_TYPES.get(own, own), dims=None)
    columns = zip(*(answer.shape for answer in answers), strict=True)
    dims: list[int | str | None] = [sizes[0] if len(set(sizes)) == 1 else None for sizes in columns]
    if batches and dims and [answer.shape[0] for answer in answers[:2]] == [2, 3]:
        dims[0] = BATCH
    return NetworkTensor(name=output, data_type=_TYPES.get(own, own), dims=dims)
