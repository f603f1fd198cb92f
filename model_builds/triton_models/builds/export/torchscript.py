"""PyTorch to TorchScript: one frozen file, the same bytes for the same network.

PyTorch calls it deprecated, and 2.13 still writes it. The file's format is version 3, the oldest that PyTorch
writes, which LibTorch of every release reads (caffe2/serialize/versions.h of 2.13.0, read on 2026-11-21). An
older LibTorch may lack an operator: such a model does not load, and the server's log names it.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triton_models.artifact.signature import NetworkTensor, Signature
from triton_models.base.errors import FleetError
from triton_models.builds.export.onnx import example_tensors
from triton_models.declare.tensors import OpenSize, Tensor

if TYPE_CHECKING:
    import torch

BATCH = "batch"

# How far the traced network may be from the original on other sizes than those it was traced with: what a
# frozen network rounds differently is far below, what a wrong size does is far above.
_TOLERANCE = 1e-3

# Numbers that PyTorch adds to the names of classes it has seen before: they count this process's exports.
_MANGLED = re.compile(rb"___torch_mangle_(\d+)")
_SOURCE_LINES = ".debug_pkl"
_IDENTITY = ".data/serialization_id"
_ON_THE_CPU = b'torch.device("cpu")'

# Operators that ask the server whether cuDNN may use TF32; a traced convolution is aten::_convolution, which
# holds the answer. Source: native_functions.yaml and native/Convolution.cpp of PyTorch 2.13, read 2026-11-22.
_ASK_THE_SERVER = (
    *(f"aten::conv{each}d" for each in (1, 2, 3)),
    *(f"aten::conv_transpose{each}d" for each in (1, 2, 3)),
    "aten::convolution",
    *(f"aten::{each}" for each in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
)


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
) -> Signature:
    """Export a network and find out what it answers: a TorchScript file does not say.

    Args:
        module: The network; it is put into evaluation mode. Its `forward` takes the inputs in their order.
        path: The file to write.
        name: The model's name, for errors.
        inputs: The inputs, without the batch dimension.
        outputs: Names of what it returns, in order.
        batches: Whether a batch dimension comes first.
        how: "trace" records the operators that one example runs; "script" compiles the Python code, with its
            branches and loops.
        cpu: The model is served without a GPU.
        tf32: cuDNN may use TF32.
        cudnn: It is served with cuDNN.

    Returns:
        The inputs as declared, and the outputs as they were seen for examples of different sizes.

    Raises:
        FleetError: The network cannot be exported like that, returns something else than these outputs,
            answers otherwise once it is exported, or would on a GPU make tensors on the CPU or use TF32 where
            it must not.
    """
    import torch

    examples = list(_examples(inputs, batches=batches))
    module = module.eval()
    switched = torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32)  # a trace notes it
    with warnings.catch_warnings(), torch.no_grad(), switched:
        warnings.simplefilter("ignore")  # of deprecation; what a trace gets wrong is found below
        exported = _export(module, examples[0], how, name)
        answers = [_tensors(module(*example), outputs, name) for example in examples]
        for example, answer in zip(examples, answers, strict=True):
            _compare(_tensors(exported(*example), outputs, name), answer, outputs, name)
        buffer = io.BytesIO()
        torch.jit.save(exported, buffer)
    content = _without_traces_of_the_machine(buffer.getvalue())
    if not cpu:
        _refuse_fixed_device(content, name)
        if cudnn and not tf32:
            _refuse_tf32(exported.graph, name)
    path.write_bytes(content)
    return Signature(
        inputs=[_declared(tensor, batches=batches) for tensor in inputs],
        outputs=[
            _seen(output, [answer[index] for answer in answers], batches=batches)
            for index, output in enumerate(outputs)
        ],
    )


def _examples(inputs: Sequence[Tensor], *, batches: bool) -> Iterator[list[torch.Tensor]]:
    """Inputs to trace with, then one of another batch, then one of other open sizes."""
    import torch

    first = list(example_tensors(inputs, batches=batches).values())
    yield first
    if batches:
        yield [torch.cat([each, each[:1]]) for each in first]
    if any(isinstance(size, OpenSize) for tensor in inputs for size in tensor.dims):
        larger = [replace(tensor, dims=[_larger(size) for size in tensor.dims]) for tensor in inputs]
        yield list(example_tensors(larger, batches=batches).values())


def _larger(size: int | OpenSize) -> int:
    return min(max(size.min, 2) + 1, size.max) if isinstance(size, OpenSize) else size


def _export(module: torch.nn.Module, example: Sequence[torch.Tensor], how: str, name: str) -> Any:
    import torch

    try:
        if how == "script":
            exported = torch.jit.script(module)
        else:
            exported = torch.jit.trace(module, tuple(example), check_trace=False)  # type: ignore[no-untyped-call]
        return torch.jit.freeze(exported)
    except (RuntimeError, torch.jit.frontend.NotSupportedError, TypeError) as error:
        reason = next(
            (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
        )
        raise _bad(
            name,
            f"it cannot be exported as TorchScript ({how}): {reason}",
            expected="tensors in, a tensor or a tuple of tensors out, and operators that TorchScript has",
            fix=f"fix the network's forward(), or export it with {_other(how)}",
        ) from error


def _other(how: str) -> str:
    return 'LibTorch(export="script")' if how == "trace" else 'LibTorch(export="trace")'


def _tensors(answer: Any, outputs: Sequence[str], name: str) -> list[torch.Tensor]:
    import torch

    given = list(answer) if isinstance(answer, tuple | list) else [answer]
    if len(given) == len(outputs) and all(isinstance(each, torch.Tensor) for each in given):
        return given
    kinds = ", ".join("a tensor" if isinstance(each, torch.Tensor) else type(each).__name__ for each in given)
    raise _bad(
        name,
        f"forward() returns {kinds}, and {len(outputs)} outputs are declared: {', '.join(outputs)}",
        expected="a tensor, or a tuple with one tensor for each output",
        fix="return the tensors, in the order of the outputs",
    )


def _compare(
    exported: Sequence[torch.Tensor],
    original: Sequence[torch.Tensor],
    outputs: Sequence[str],
    name: str,
) -> None:
    """A trace keeps the sizes that the Python code computed from its example: other sizes tell."""
    import torch

    for output, one, other in zip(outputs, exported, original, strict=True):
        if one.shape != other.shape or not torch.allclose(
            one.double(), other.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
        ):
            raise _bad(
                name,
                f"once exported, {output!r} is another than the network's, for an input of another size",
                expected="the same answer for every size",
                fix='export it with LibTorch(export="script"), or compute sizes from the tensors alone',
            )


def _without_traces_of_the_machine(content: bytes) -> bytes:
    """The archive without the paths of source lines, and with its classes counted from 0."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    kept = {file: data for file, data in files.items() if not file.endswith((_SOURCE_LINES, _IDENTITY))}
    # Tensors are left alone: their bytes are no text.
    texts = [each.encode() for each in kept] + [data for file, data in kept.items() if _is_text(file)]
    numbers = sorted({int(number) for text in texts for number in _MANGLED.findall(text)})
    counted = {number: position for position, number in enumerate(numbers)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file, data in kept.items():
            entry = zipfile.ZipInfo(_counted(file.encode(), counted).decode())  # of 1980, and not compressed
            archive.writestr(entry, _counted(data, counted) if _is_text(file) else data)
    return out.getvalue()


def _is_text(file: str) -> bool:
    """Code, and pickles: class names stand in those on lines of their own, so their length may change."""
    return file.endswith((".py", ".pkl"))


def _counted(text: bytes, counted: Mapping[int, int]) -> bytes:
    return _MANGLED.sub(lambda match: b"___torch_mangle_%d" % counted[int(match[1])], text)


def _refuse_fixed_device(content: bytes, name: str) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        codes = [archive.read(each) for each in archive.namelist() if each.endswith(".py")]
    if any(_ON_THE_CPU in code for code in codes):
        raise _bad(
            name,
            "the exported network makes tensors on the CPU, wherever it runs itself",
            expected="tensors that are made where the inputs are",
            fix='write torch.zeros_like(x) or x.new_zeros(...), or export it with LibTorch(export="script")',
        )


def _refuse_tf32(graph: Any, name: str) -> None:
    found = [kind for kind in _ASK_THE_SERVER if graph.findAllNodes(kind)]
    if found:
        raise _bad(
            name,
            f"it is to calculate in FP32, and the server decides on TF32 for {', '.join(found)}",
            expected="convolutions of a trace, which hold the answer",
            fix='export it with LibTorch(export="trace"); or declare tf32=True, with a tolerance for "tf32"; '
            "or cudnn=False",
        )


def _declared(tensor: Tensor, *, batches: bool) -> NetworkTensor:
    sizes = [size.name if isinstance(size, OpenSize) else size for size in tensor.dims]
    return NetworkTensor(
        name=tensor.name, data_type=tensor.full_type, dims=[BATCH, *sizes] if batches else sizes
    )


def _seen(output: str, answers: Sequence[torch.Tensor], *, batches: bool) -> NetworkTensor:
    """An output whose open sizes are those that were not equal every time."""
    own = str(answers[0].dtype).removeprefix("torch.")
    if len({answer.dim() for answer in answers}) > 1:
        return NetworkTensor(name=output, data_type=_TYPES.get(own, own), dims=None)
    columns = zip(*(answer.shape for answer in answers), strict=True)
    dims: list[int | str | None] = [sizes[0] if len(set(sizes)) == 1 else None for sizes in columns]
    if batches and dims and [answer.shape[0] for answer in answers[:2]] == [2, 3]:
        dims[0] = BATCH
    return NetworkTensor(name=output, data_type=_TYPES.get(own, own), dims=dims)


# Source: ConvertTorchTypeToDataType of pytorch_backend (src/libtorch_utils.cc, main of 2026-05-13), read on
# 2026-11-21. What is missing here, such as complex64, Triton has no type for.
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


def _bad(name: str, what: str, *, expected: str, fix: str) -> FleetError:
    return FleetError.of(
        what=what,
        where=f"the network of {name!r}",
        expected=expected,
        why="the server would refuse the model, or answer otherwise than the network does",
        fix=fix,
        rule="torchscript-export",
    )
