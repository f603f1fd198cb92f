"""Export of PyTorch networks as TorchScript.

The file does not describe its outputs, so running the network determines them, and the export is compared
with it on examples of every size.

Equal networks give equal bytes. TorchScript is deprecated, but PyTorch 2.13 still writes it. The file has
format version 3, the oldest that PyTorch writes, and LibTorch of every release reads it
(caffe2/serialize/versions.h of 2.13.0, read on 2026-11-21). If an older LibTorch lacks an operator, the model
does not load and the server's log names it.
"""

from __future__ import annotations

import io
import linecache
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triton_models.artifact.networks import NetworkTensor, Signature, read_script
from triton_models.base.encoding import Tensors
from triton_models.base.errors import FleetError
from triton_models.builds.export.traced import accepted_tensors
from triton_models.check.backend_rules.libtorch import unknown_operators
from triton_models.declare.tensors import NUMPY_TYPES, Between, DynamicDim, Tensor, larger_sizes

if TYPE_CHECKING:
    import torch

BATCH = "batch"

# The tolerance between the exported and the original network on sizes other than the exported ones. Rounding
# differences are far below it, errors from a wrong size far above.
_TOLERANCE = 1e-3

# Source: ConvertTorchTypeToDataType of pytorch_backend (src/libtorch_utils.cc, main of 2026-05-13), read on
# 2026-11-21. Triton lacks the types that are missing here, such as complex64.
_TYPES = {
    name: f"TYPE_{own}" for own, name in NUMPY_TYPES.items() if own not in {"UINT16", "UINT32", "UINT64"}
}

# The numbers that PyTorch appends to repeated class names; they count the exports of this process.
_MANGLED = re.compile(rb"___torch_mangle_(\d+)")
_SOURCE_LINES = ".debug_pkl"
_IDENTITY = ".data/serialization_id"
_OR_ONNX = "or serve it with backend=OnnxRuntime()"
_PACKS = "torch/nn/utils/rnn.py"  # has a branch for lengths in a list, which it puts on the CPU

# Operators for which the server decides whether cuDNN may use TF32; a traced convolution, aten::_convolution,
# fixes the choice. Source: native_functions.yaml and native/Convolution.cpp of PyTorch 2.13, read 2026-11-22.
_TRACED_FOR_CUDNN = (
    *(f"aten::conv{each}d" for each in (1, 2, 3)),
    *(f"aten::conv_transpose{each}d" for each in (1, 2, 3)),
    "aten::convolution",
    *(f"aten::{each}" for each in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
)

_REFUSALS = (AssertionError, LookupError, RuntimeError, ValueError)
"""What forward() raises for values; other exceptions are of mistakes in it."""


def export_torchscript(
    module: torch.nn.Module,
    path: Path,
    *,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[str],
    batches: bool,
    how: Literal["trace", "script"] = "trace",
    cpu: bool = False,
    tf32: bool = False,
    cudnn: bool = True,
    written: Sequence[Tensors] = (),
    ranges: Mapping[str, Between] | None = None,
) -> Signature:
    """Export a network and determine its outputs, which a TorchScript file does not describe.

    "trace" records the operators that one example runs; "script" compiles the Python code, with its branches
    and loops.

    Returns:
        The inputs as declared, and the outputs as observed for examples of different sizes.
    """
    import torch

    network = _Observed(name=name, inputs=inputs, outputs=outputs, how=how)
    module = module.eval()
    examples = list(network.examples(module, batches=batches, written=written, ranges=ranges))
    if kept := _kept_between_calls(module, examples[0]):
        raise network.bad(
            f"it keeps {kept} from one call to the next, so that answers depend on earlier requests",
            fix="make it anew in forward(), or take it as an input and return it",
        )
    switched = torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32)  # a trace records the flag
    with warnings.catch_warnings(), torch.no_grad(), switched:
        warnings.simplefilter("ignore")  # of deprecation; errors of a trace are detected below
        exported = _export(module, examples[0], network)
        answers = network.answers(module, exported, examples)
        buffer = io.BytesIO()
        try:
            torch.jit.save(exported, buffer)
        except RuntimeError as error:
            message = f"it cannot be saved as TorchScript: {_first_line(error)}"
            raise network.bad(message, fix=f"compute it with PyTorch's own operators, {_OR_ONNX}") from error
    content = _without_traces_of_the_machine(buffer.getvalue())
    if unknown := unknown_operators(read_script(io.BytesIO(content)).operators):
        what = f"it calls {', '.join(unknown)}, which neither PyTorch nor torchvision has"
        raise network.bad(what, fix="compute it with PyTorch's own operators")
    if not cpu:
        _refuse_fixed_device(exported.graph, network)
        if cudnn and not tf32:
            found = [kind for kind in _TRACED_FOR_CUDNN if exported.graph.findAllNodes(kind)]
            fix = 'declare tf32=True with a tolerance for "tf32", or cudnn=False'
            traced = all("conv" in kind for kind in found)
            network.refuse_tf32(found, fix=network.fix(fix, other="trace") if traced else fix)
    path.write_bytes(content)
    return network.signature(answers, batches=batches)


def _export(module: torch.nn.Module, example: Sequence[torch.Tensor], network: _Observed) -> Any:
    import torch

    from triton_models.builds.export.decisions import trace

    try:
        if network.how == "script":
            return torch.jit.freeze(torch.jit.script(module))
        exported, lines = trace(module, example)
        for file, line in lines:
            raise network.bad(
                f"its trace would keep what one example decides: {Path(file).name}:{line} hands values of "
                f"inputs to Python, in `{linecache.getline(file, line).strip()}`",
                fix=network.fix("compute it with tensors, such as torch.where"),
            )
        return torch.jit.freeze(exported)
    except (RuntimeError, torch.jit.frontend.NotSupportedError, TypeError, ValueError) as error:
        other = "script" if network.how == "trace" else "trace"
        raise network.bad(
            f"it cannot be exported as TorchScript ({network.how}): {_first_line(error)}",
            fix=f"{network.fix('fix the network, such as its forward()', other=other)}, {_OR_ONNX}",
        ) from error


def _kept_between_calls(module: torch.nn.Module, example: Sequence[torch.Tensor]) -> str:
    """Return the attribute that a call changes, and with it the next answer to the same inputs."""
    import torch

    def answer() -> list[torch.Tensor]:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # what is random is no state
            return _copies(module(*(tensor.clone() for tensor in example)))

    if _same(answer(), answer()):
        return ""
    before = dict(_state(module))
    answer()
    after = dict(_state(module))
    names = before.keys() | after.keys()
    changed = [name for name in names if not _same(before.get(name, []), after.get(name, []))]
    return min(changed, default="")


def _state(module: torch.nn.Module) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield the attributes and buffers of all modules that have tensors."""
    for owner, part in module.named_modules():
        values = {**vars(part), **dict(part.named_buffers(recurse=False))}
        for name in values.keys() - {"_buffers", "_modules", "_parameters"}:
            if tensors := _copies(values[name]):
                yield f"{owner}.{name}".lstrip("."), tensors


def _copies(value: Any) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return [leaf.detach().clone() for leaf in leaves if leaf.layout == torch.strided and leaf.is_cpu]


def _same(ones: Sequence[torch.Tensor], twos: Sequence[torch.Tensor]) -> bool:
    import numpy as np
    import torch

    def numbers(tensor: torch.Tensor) -> Any:
        return (tensor.dequantize() if tensor.is_quantized else tensor).to(torch.complex128).numpy()

    return len(ones) == len(twos) and all(
        one.dtype == two.dtype and np.array_equal(numbers(one), numbers(two), equal_nan=True)
        for one, two in zip(ones, twos, strict=True)
    )


def _without_traces_of_the_machine(content: bytes) -> bytes:
    """Return the archive without source paths, and with classes numbered from 0."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    kept = {file: data for file, data in files.items() if not file.endswith((_SOURCE_LINES, _IDENTITY))}
    # Tensors are not text, and stay unchanged.
    texts = [each.encode() for each in kept] + [data for file, data in kept.items() if _is_text(file)]
    numbers = sorted({int(number) for text in texts for number in _MANGLED.findall(text)})
    counted = {number: position for position, number in enumerate(numbers)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file, data in kept.items():
            entry = zipfile.ZipInfo(_counted(file.encode(), counted).decode())  # dated 1980, not compressed
            archive.writestr(entry, _counted(data, counted) if _is_text(file) else data)
    return out.getvalue()


def _is_text(file: str) -> bool:
    """Return whether a file is code or a pickle; pickles have class names on separate lines."""
    return file.endswith((".py", ".pkl"))


def _counted(text: bytes, counted: Mapping[int, int]) -> bytes:
    return _MANGLED.sub(lambda match: b"___torch_mangle_%d" % counted[int(match[1])], text)


def _refuse_fixed_device(graph: Any, network: _Observed) -> None:
    """Refuse tensors on the CPU, but for the lengths that pack_padded_sequence wants there, also on a GPU."""
    import torch

    outputs = [constant.output() for constant in graph.findAllNodes("prim::Constant")]
    devices = [one for one in outputs if isinstance(one.type(), torch.DeviceObjType)]
    users = [use.user for one in devices if one.toIValue().type == "cpu" for use in one.uses()]
    if graph.findAllNodes("aten::_pack_padded_sequence"):
        users = [user for user in users if user.kind() != "aten::to" and _PACKS not in user.sourceRange()]
    if users:
        raise network.bad(
            "the exported network always creates tensors on the CPU",
            fix=network.fix("write x.new_zeros(n), x.new_ones(n).cumsum(0) - 1 for a range, or use a buffer"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """A network that is exported and compared with its export."""

    name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[str]
    how: Literal["trace", "script"]

    def fix(self, change: str, *, other: str = "script") -> str:
        """Return a change of the network, and the other export unless it is the declared one."""
        return change if self.how == other else f'{change}, or export it with LibTorch(export="{other}")'

    def answers(
        self,
        network: Callable[..., Any],
        exported: Callable[..., Any],
        examples: Sequence[Sequence[torch.Tensor]],
    ) -> list[list[torch.Tensor]]:
        """Return the network's answers to examples, for which the export must answer alike.

        An export may fix sizes that are computed from its first example.
        """
        import torch

        answers = [self._tensors(network(*example)) for example in examples]
        for example, answer in zip(examples, answers, strict=True):
            try:
                own = self._tensors(exported(*example))
            except RuntimeError as error:
                message = str(error).strip().splitlines()[-1]
                raise self.bad(
                    f"the exported network fails where the network does not: {message}",
                    fix=self.fix("compute only with tensors"),
                ) from error
            for output, one, other in zip(self.outputs, own, answer, strict=True):
                if one.shape != other.shape or not torch.allclose(
                    one.double(), other.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
                ):
                    if _is_random(network, example):
                        break  # the comparison with its source says so
                    raise self.bad(
                        f"the exported network gives another {output!r} for an input of another size",
                        fix=self.fix("compute sizes only from tensors"),
                    )
        return answers

    def examples(
        self,
        network: torch.nn.Module,
        *,
        batches: bool,
        written: Sequence[Tensors],
        ranges: Mapping[str, Between] | None,
    ) -> Iterator[list[torch.Tensor]]:
        """Yield an example to trace with, then one with another batch size, then one with other open sizes.

        Raises:
            FleetError: The user wrote none, and the network refuses all that the build makes up.
        """
        import torch

        larger = [replace(tensor, dims=[_larger(size) for size in tensor.dims]) for tensor in self.inputs]
        try:
            first, other = (
                list(accepted_tensors(network, of, batches=batches, written=written, ranges=ranges).values())
                for of in (self.inputs, larger)
            )
        except _REFUSALS as error:
            larger_size = larger_sizes(self.inputs)
            if written and not larger_size:
                raise
            message = f"{_first_line(error)} ({type(error).__name__})"
            example = "" if written else "write a request that it answers in examples()"
            ways = filter(None, [larger_size, example, "fix its forward()"])
            raise self.bad(
                f"it refuses the inputs that the build makes up: {message}", fix="; or ".join(ways)
            ) from error
        yield first
        if batches:
            yield [torch.cat([tensor, tensor[:1]]) for tensor in first]
        if any(isinstance(size, DynamicDim) for tensor in self.inputs for size in tensor.dims):
            yield other

    def signature(self, answers: Sequence[Sequence[torch.Tensor]], *, batches: bool) -> Signature:
        """Return the inputs as declared, and the outputs as observed for examples of different sizes."""
        return Signature(
            inputs=[_declared(tensor, batches=batches) for tensor in self.inputs],
            outputs=[
                _seen(output, [answer[index] for answer in answers], batches=batches)
                for index, output in enumerate(self.outputs)
            ],
        )

    def refuse_tf32(self, found: Sequence[str], *, fix: str) -> None:
        """Refuse operators for which the server decides whether cuDNN may use TF32."""
        if found:
            what = f"it must use FP32, but the server may choose TF32 for {', '.join(found)}"
            raise self.bad(what, fix=fix)

    def bad(self, what: str, *, fix: str) -> FleetError:
        """Return the error of a network that cannot be served this way."""
        return FleetError.of(
            what=what,
            where=f"the network of {self.name!r}",
            why="the server would refuse the model, or answer differently from the network",
            fix=fix,
            rule="torchscript-export",
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


def _is_random(network: Callable[..., Any], example: Sequence[torch.Tensor]) -> bool:
    """Return whether two answers of a network to one example differ."""
    import torch
    from torch.utils._pytree import tree_leaves

    one, two = (tree_leaves(network(*example)) for _ in range(2))
    return not all(
        torch.allclose(a.double(), b.double(), equal_nan=True) for a, b in zip(one, two, strict=True)
    )


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


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
