"""Export of PyTorch networks to one frozen TorchScript file; equal networks give equal bytes.

TorchScript is deprecated, but PyTorch 2.13 still writes it. The file has format version 3, the oldest that
PyTorch writes, and LibTorch of every release reads it (caffe2/serialize/versions.h of 2.13.0, read on
2026-11-21). If an older LibTorch lacks an operator, the model does not load and the server's log names it.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triton_models.artifact.networks import Signature
from triton_models.builds.export.observed import Observed, examples_of
from triton_models.declare.tensors import Tensor

if TYPE_CHECKING:
    import torch

# The numbers that PyTorch appends to repeated class names; they count the exports of this process.
_MANGLED = re.compile(rb"___torch_mangle_(\d+)")
_SOURCE_LINES = ".debug_pkl"
_IDENTITY = ".data/serialization_id"
_ON_THE_CPU = b'torch.device("cpu")'

# Operators for which the server decides whether cuDNN may use TF32; a traced convolution, aten::_convolution,
# fixes the choice. Source: native_functions.yaml and native/Convolution.cpp of PyTorch 2.13, read 2026-11-22.
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
    """Export a network and determine its outputs, which a TorchScript file does not describe.

    Args:
        module: The network; it is set to evaluation mode. Its `forward` takes the inputs in order.
        path: The file to write.
        name: The model's name, for errors.
        inputs: The inputs, without the batch dimension.
        outputs: The names of its outputs, in order.
        batches: True if a batch dimension comes first.
        how: "trace" records the operators that one example runs; "script" compiles the Python code, with its
            branches and loops.
        cpu: True if the model is served without a GPU.
        tf32: True if cuDNN may use TF32.
        cudnn: True if it is served with cuDNN.

    Returns:
        The inputs as declared, and the outputs as observed for examples of different sizes.

    Raises:
        FleetError: The network cannot be exported this way, does not return these outputs, answers
            differently once exported, or would create tensors on the CPU or use TF32 against its declaration.
    """
    import torch

    network = Observed(
        name=name,
        inputs=inputs,
        outputs=outputs,
        rule="torchscript-export",
        instead='export it with LibTorch(export="script")',
    )
    examples = list(examples_of(inputs, batches=batches))
    module = module.eval()
    switched = torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32)  # a trace records the flag
    with warnings.catch_warnings(), torch.no_grad(), switched:
        warnings.simplefilter("ignore")  # of deprecation; errors of a trace are detected below
        exported = _export(module, examples[0], how, network)
        answers = network.answers(module, exported, examples)
        buffer = io.BytesIO()
        torch.jit.save(exported, buffer)
    content = _without_traces_of_the_machine(buffer.getvalue())
    if not cpu:
        _refuse_fixed_device(content, network)
        if cudnn and not tf32:
            _refuse_tf32(exported.graph, network)
    path.write_bytes(content)
    return network.signature(answers, batches=batches)


def _export(module: torch.nn.Module, example: Sequence[torch.Tensor], how: str, network: Observed) -> Any:
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
        raise network.bad(
            f"it cannot be exported as TorchScript ({how}): {reason}",
            fix=f"fix the network's forward(), or export it with {_other(how)}",
        ) from error


def _other(how: str) -> str:
    return 'LibTorch(export="script")' if how == "trace" else 'LibTorch(export="trace")'


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


def _refuse_fixed_device(content: bytes, network: Observed) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        codes = [archive.read(each) for each in archive.namelist() if each.endswith(".py")]
    if any(_ON_THE_CPU in code for code in codes):
        raise network.bad(
            "the exported network always creates tensors on the CPU",
            fix='write torch.zeros_like(x) or x.new_zeros(...), or export it with LibTorch(export="script")',
        )


def _refuse_tf32(graph: Any, network: Observed) -> None:
    found = [kind for kind in _ASK_THE_SERVER if graph.findAllNodes(kind)]
    if found:
        raise network.bad(
            f"it must use FP32, but the server may choose TF32 for {', '.join(found)}",
            fix='export it with LibTorch(export="trace"), or declare tf32=True with a tolerance for "tf32"; '
            "or cudnn=False",
        )
