"""TorchScript networks with configurations, and what the PyTorch backend does with them, by its source."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple  # noqa: UP035  TorchScript knows these

import torch
from torch import Tensor


class Takes(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        return x, y


class TakesOne(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class TakesNumber(torch.nn.Module):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale


class TakesOptional(torch.nn.Module):
    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        return x if mask is None else x * mask


class TakesDictionary(torch.nn.Module):
    def forward(self, x: Dict[str, Tensor]) -> Tensor:  # noqa: UP006
        return x["a"] * 10 + x["b"]


class TakesNumberedTensors(torch.nn.Module):
    def forward(self, x: Dict[int, Tensor]) -> Tensor:  # noqa: UP006
        return x[0]


class TakesDictionaryOfLists(torch.nn.Module):
    def forward(self, x: Dict[str, List[Tensor]]) -> Tensor:  # noqa: UP006
        return x["a"][0]


class TakesTwoDictionaries(torch.nn.Module):
    def forward(self, x: Dict[str, Tensor], y: Dict[str, Tensor]) -> Tensor:  # noqa: UP006
        return x["a"] + y["b"]


class TakesDictionaryFirst(torch.nn.Module):
    def forward(self, x: Dict[str, Tensor], y: Tensor) -> Tensor:  # noqa: UP006
        return x["a"] + y


class TakesTensors(torch.nn.Module):
    def forward(self, x: List[Tensor]) -> Tensor:  # noqa: UP006
        return x[0]


class TakesStrings(torch.nn.Module):
    def forward(self, x: List[str]) -> List[str]:  # noqa: UP006
        return [each + "!" for each in x]


class TakesPair(torch.nn.Module):
    def forward(self, x: Tuple[Tensor, Tensor]) -> Tensor:  # noqa: UP006
        return x[0]


class TakesNumbers(torch.nn.Module):
    def forward(self, x: Tensor, sizes: List[int]) -> Tensor:  # noqa: UP006
        return x * sizes[0]


class GivesDictionary(torch.nn.Module):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:  # noqa: UP006
        return {"y": x}


class GivesList(torch.nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:  # noqa: UP006
        return [x, x]


class GivesNumber(torch.nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, int]:  # noqa: UP006
        return x, 1


@functools.cache
def script(network: type[torch.nn.Module]) -> bytes:
    content = io.BytesIO()
    torch.jit.save(torch.jit.script(network()), content)
    return content.getvalue()


@dataclass(frozen=True, kw_only=True)
class ScriptCase:
    """A network, its tensors as `name` or `name: TYPE [dims]`, and the backend's words; none if it serves."""

    network: type[torch.nn.Module]
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("y",)
    extra: str = "max_batch_size: 8"
    refused: str = ""
    failed: str = ""

    def config(self, extra: str = "") -> str:
        sides = (("input", self.inputs), ("output", self.outputs))
        rows = [f"{side} {{ {_tensor(each)} }}" for side, names in sides for each in names]
        return "\n".join(['backend: "pytorch"', self.extra, *rows, extra])

    def __str__(self) -> str:
        return f"{self.network.__name__}, {self.inputs}, {self.outputs}, {self.extra}"


def _tensor(text: str) -> str:
    name, _, rest = text.partition(": ")
    data_type, _, dims = (rest or "FP32 dims: [ 4 ]").partition(" ")
    return f'name: "{name}" data_type: TYPE_{data_type} {dims}'


CONTROL = "sequence_batching { control_input { name: %r control { kind: %s %s } } }"
START = "CONTROL_SEQUENCE_START", "int32_false_true: [ 0, 1 ]"
ID = "CONTROL_SEQUENCE_CORRID"


def sequence(name: str, kind: str, values: str) -> str:
    return f"max_batch_size: 8\n{CONTROL % (name, kind, values)}"


def state(name: str, output: str, data_type: str = "TYPE_FP32") -> str:
    row = f'input_name: "{name}" output_name: "{output}" data_type: {data_type} dims: [ 4 ]'
    return f"max_batch_size: 8\nsequence_batching {{ state {{ {row} }} }}"


ONLY = "Only a single input of type Dict(str, Tensor) or input(s) of type Tensor are supported."
BOTH = ("x", "y")
BATCHED_STRING = "STRING dims: [ 1 ] reshape { shape: [ ] }"

SERVED = (
    ScriptCase(network=Takes, inputs=("y", "x"), outputs=("A__1", "B__0")),
    ScriptCase(network=Takes, inputs=("A__1", "B__0"), outputs=BOTH),
    ScriptCase(network=Takes, inputs=("first", "second"), outputs=("only",)),
    ScriptCase(network=TakesOne, inputs=("X__",), outputs=("Y__0",)),
    ScriptCase(network=TakesDictionary, inputs=("b", "a")),
    ScriptCase(network=TakesStrings, inputs=(f"x: {BATCHED_STRING}",), outputs=(f"y: {BATCHED_STRING}",)),
    ScriptCase(
        network=TakesStrings,
        inputs=("x: STRING dims: [ -1 ]",),
        outputs=("y: STRING dims: [ -1 ]",),
        extra="max_batch_size: 0",
    ),
    ScriptCase(network=Takes, inputs=("x",), outputs=BOTH, extra=sequence("START__1", *START)),
    ScriptCase(network=Takes, inputs=("X__0",), outputs=("Y__0",), extra=state("S__1", "T__1")),
)

REFUSED = (
    ScriptCase(
        network=TakesNumber, inputs=("x", "scale"), refused=f"'float' was detected in the model. {ONLY}"
    ),
    ScriptCase(network=TakesNumber, refused="An input of type 'float' was detected"),
    ScriptCase(
        network=TakesOptional, inputs=("x", "mask"), refused="An input of type 'Tensor?' was detected"
    ),
    ScriptCase(network=TakesPair, refused="An input of type '(Tensor, Tensor)' was detected"),
    ScriptCase(
        network=TakesTwoDictionaries, inputs=BOTH, refused="Multiple inputs of kind DictType were detected."
    ),
    ScriptCase(network=TakesDictionaryFirst, inputs=BOTH, refused="type 'Dict(str, Tensor)' was detected"),
    ScriptCase(network=Takes, refused="configuration expects 1 inputs, model provides 2"),
    ScriptCase(network=TakesOne, inputs=BOTH, refused="configuration expects 2 inputs, model provides 1"),
    *(
        ScriptCase(
            network=TakesOne,
            inputs=(f"x: {kind} dims: [ 4 ]",),
            refused=f"unsupported datatype TYPE_{kind} for input 'x' for model 'net'",
        )
        for kind in ("BF16", "UINT16", "UINT32", "UINT64")
    ),
    ScriptCase(
        network=TakesOne,
        outputs=("y: UINT64 dims: [ 4 ]",),
        refused="unsupported datatype TYPE_UINT64 for output 'y' for model 'net'",
    ),
    ScriptCase(
        network=TakesStrings,
        inputs=("x: STRING dims: [ 1 ]",),
        outputs=(f"y: {BATCHED_STRING}",),
        refused="Triton only supports 1 dimensional List of String as input for 'x' for model 'net'",
    ),
    ScriptCase(
        network=TakesStrings,
        inputs=(f"x: {BATCHED_STRING}",),
        outputs=("y: STRING dims: [ -1 ]",),
        refused="Triton only supports 1 dimensional List of String as output for 'y' for model 'net'",
    ),
    ScriptCase(
        network=TakesStrings,
        inputs=("x: STRING dims: [ -1, 2 ]",),
        outputs=("y: STRING dims: [ -1 ]",),
        extra="max_batch_size: 0",
        refused="Triton only supports 1 dimensional List of String as input for 'x'",
    ),
    ScriptCase(
        network=Takes,
        extra=sequence("START", *START),
        refused="input 'START' does not follow <name>__<index> naming convention.",
    ),
    ScriptCase(
        network=Takes,
        extra=sequence("ID__1", ID, "data_type: TYPE_UINT64"),
        refused="input 'ID__1' type 'TYPE_UINT64' is not supported by PyTorch.",
    ),
    ScriptCase(
        network=Takes, outputs=("Y__0",), extra=state("S__1", "T__1"), refused="but not all inputs and"
    ),
    ScriptCase(
        network=Takes,
        inputs=("X__0",),
        outputs=("Y__0",),
        extra=state("state", "T__1"),
        refused="but state 'state' does not follow the <name>__<index> naming convention.",
    ),
)

FAILED = (
    ScriptCase(
        network=TakesOne,
        outputs=("OUTPUT__1",),
        failed="The output OUTPUT__1 in the model configuration refers to an output index which doesn't "
        "exist. This model has 1 outputs",
    ),
    ScriptCase(network=Takes, inputs=BOTH, outputs=("a", "b", "c"), failed="This model has 2 outputs"),
    ScriptCase(network=Takes, inputs=("X__0", "X__2"), failed="is an undefined Tensor"),
    ScriptCase(network=Takes, inputs=("X__1", "Y__1"), failed="is an undefined Tensor"),
    ScriptCase(network=GivesDictionary, failed="output must be of type Tensor, List[str] or Tuple"),
    ScriptCase(network=GivesNumber, failed="It should not be a List / Dictionary of Tensors or a Scalar"),
)

FAILED_BY_TYPE = (
    ScriptCase(network=GivesList, failed="must be of type Tensor or List[str], received List[Tensor]"),
    ScriptCase(network=TakesTensors, failed="Expected a value of type 'List[Tensor]' for argument 'x'"),
    ScriptCase(network=TakesNumbers, inputs=("x", "sizes"), failed="type 'List[int]' for argument 'sizes'"),
    ScriptCase(
        network=TakesStrings, outputs=(f"y: {BATCHED_STRING}",), failed="type 'List[str]' for argument 'x'"
    ),
    ScriptCase(network=TakesOne, inputs=(f"x: {BATCHED_STRING}",), failed="type 'Tensor' for argument 'x'"),
    ScriptCase(
        network=TakesOne, outputs=(f"y: {BATCHED_STRING}",), failed="datatype TYPE_INT32 for output 'y'"
    ),
    ScriptCase(network=TakesNumberedTensors, failed="type 'Dict[int, Tensor]' for argument 'x'"),
    ScriptCase(network=TakesDictionaryOfLists, failed="type 'Dict[str, List[Tensor]]' for argument 'x'"),
    ScriptCase(
        network=TakesDictionary,
        inputs=(f"a: {BATCHED_STRING}", "b"),
        failed="Expected Tensor but got GenericList",
    ),
)
