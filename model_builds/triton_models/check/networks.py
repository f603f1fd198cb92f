"""Checks of network files: they must match their configuration, and be loadable.

ONNX follows ValidateInputs, ValidateOutputs and CompareDimsSupported of onnxruntime_backend
(src/onnxruntime.cc and src/onnxruntime_utils.cc, r25.09), read 2026-11-22; TorchScript follows
`backend_rules.libtorch`. Unreadable files are left to the backend.

Networks that PyTorch compiled with AOTInductor, which the platform torch_aoti serves, follow README.md and
src/pt2/model_instance_state.cc of pytorch_backend, r26.03 to r26.05, and AutoCompleteBackendFields of Triton
core 24.10, tried on the bundled server; read 2026-11-24.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton_models.artifact.networks import (
    AOTI_FILE,
    AOTI_PLATFORM,
    CompiledHead,
    NetworkTensor,
    OnnxHead,
    read_compiled,
    read_forward,
    read_onnx_file,
    read_onnx_head,
    unscripted,
)
from triton_models.artifact.pbtxt import ModelConfig, as_json
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend_rules.libtorch import Script, load_refusals, request_failures
from triton_models.check.subject import Findings, Model, is_on_cpu, rule, type_name
from triton_models.facts.releases import COMPILED_NETWORKS_SINCE

_SOURCE = "2026-11-22: onnxruntime_backend r25.09, src/onnxruntime.cc"
_AOTI = "2026-11-24: pytorch_backend r26.03 to r26.05, README.md and src/pt2; Triton core 24.10"
ONNX_VERSION = rule("onnx-version", _SOURCE)
ONNX_TENSOR = rule("onnx-tensor", _SOURCE)
_LIBTORCH = "2026-11-28: pytorch_backend r24.03 to r26.05, triton_models.check.backend_rules.libtorch"
TORCHSCRIPT_TENSOR = rule("torchscript-tensor", _LIBTORCH)
TORCHSCRIPT_FILE = rule("torchscript-file", _LIBTORCH)
AOTI_RELEASE = rule("aoti-release", _AOTI)
AOTI_BATCHES = rule("aoti-batches", _AOTI)
AOTI_TARGET = rule("aoti-target", _AOTI)

_OF_ARCHIVES = 1 << 29  # maximum bytes of a packed file to check, because it is read into memory
_COMPARED = "the backend compares them, and refuses the model"
_FAILS = "the model loads, and every request fails"
_EXPORT = "export the network as TorchScript or ONNX"


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what a model's network file contradicts."""
    if model.is_ensemble:
        return
    if model.backend.name == "onnxruntime":
        for path, head in _onnx(model):
            _check_versions(report.file(path), head)
            sides = (("input", head.signature.inputs), ("output", head.signature.outputs))
            for side, tensors in sides:
                by_name = {each.name: each for each in tensors}
                _compare(report, config, path, side, tensors=by_name, constants=head.constants)
            _check_inputs(report, config, path, head)
    elif model.backend.platform == AOTI_PLATFORM:
        _check_compiled(report, model, config)
    elif model.backend.platform == "pytorch_libtorch" and config.runtime != "model.py":
        for path in model.paths(model.backend.filename or "model.pt"):
            _check_script(report, model, config, path)


def _check_versions(report: Findings, head: OnnxHead) -> None:
    release = report.subject.target.release
    if release is None:
        return
    for what, given, most, lower in (
        ("IR version", head.ir_version, release.onnx_ir_version, "set its ir_version to"),
        ("opset", head.opset, release.onnx_opset, "export it again with opset_version"),
    ):
        if given > most:
            newest = f"the newest for ONNX Runtime {release.onnxruntime} of release {release.name}"
            fix = f"{lower} {most}, {newest}; or serve it with a newer release"
            why = "ONNX Runtime refuses the file, and the model does not load"
            report(ONNX_VERSION, f"an ONNX file with {what} {given}", fix=fix, why=why)


def _check_inputs(report: Findings, config: ModelConfig, path: str, head: OnnxHead) -> None:
    needed = [each.name for each in head.signature.inputs]
    missing = set(needed) - {each.name for each in config.input} - _fed_by_triton(config)
    for name in needed if config.input else ():
        if name in missing:
            fix = f"list every input of {path}: {', '.join(needed)}"
            what = f"the network's input {name!r} is missing"
            report(ONNX_TENSOR, what, at="input", fix=fix, why=_COMPARED)


def _check_script(report: Findings, model: Model, config: ModelConfig, path: str) -> None:
    file = model.layout.sources.get(path) or _packed(model, path)
    content = unscripted(file) if file else ""
    if content:
        why = "PyTorch finds no constants.pkl or code in it, and the model does not load"
        fix = "save torch.jit.script(network) or torch.jit.trace(network, example) with torch.jit.save(); "
        fix += "LibTorch() does, for a network and its weights"
        report.file(path)(TORCHSCRIPT_FILE, f"a file that is {content}", fix=fix, why=why)
    forward = read_forward(file) if file else None
    if forward is None:
        return
    script = Script(arguments=dict(forward.arguments), returns=forward.returns)
    document = {**as_json(config), "name": config.name or model.folder}
    refusals = load_refusals(document, script)
    sides = [(refusals, _COMPARED), ([] if refusals else request_failures(document, script), _FAILS)]
    for refused, why in sides:
        for refusal in refused:
            if refusal.at != "output" or config.output:  # otherwise pytorch-output says it
                report(TORCHSCRIPT_TENSOR, refusal.what, at=refusal.at, fix=refusal.fix, why=why)


def _check_compiled(report: Findings, model: Model, config: ModelConfig) -> None:
    release, gpu = model.target.release, model.target.gpu
    if release is not None and release.name < COMPILED_NETWORKS_SINCE:
        what = f"the platform {AOTI_PLATFORM} with release {release.name}"
        fix = f"serve it with release {COMPILED_NETWORKS_SINCE} or newer, or {_EXPORT}"
        why = "the server refuses this platform of the pytorch backend"
        report(AOTI_RELEASE, what, at="platform", fix=fix, why=why)
    why = "the backend does not support it for compiled networks yet"
    if config.max_batch_size > 1:
        what = f"max_batch_size {config.max_batch_size} of a compiled network"
        fix = "write 0, and the batch as the first of the dims, as -1"
        report(AOTI_BATCHES, what, at="max_batch_size", fix=fix, why=why)
    if config.HasField("sequence_batching"):
        what, fix = "sequence_batching of a compiled network", f"remove it, or {_EXPORT}"
        report(AOTI_BATCHES, what, at="sequence_batching", fix=fix, why=why)
    for path, head in () if model.is_portable else _compiled_heads(model):
        compiled_for, fix = "a CPU", ""
        if head.device == "cuda" and model.target.gpu_count == 0:
            compiled_for, fix = "a GPU", "compile it on a CPU: AotInductor() does, with --cpu"
        elif gpu and head.compute_capability and head.compute_capability != gpu.compute_capability:
            compiled_for = f"compute capability {head.compute_capability}"
            fix = f"compile it on {gpu.name}, compute capability {gpu.compute_capability}"
        elif gpu and head.device == "cpu" and not is_on_cpu(config):
            fix = f"use KIND_CPU instances, or compile it on {gpu.name}"
        if fix:
            what, why = f"a network compiled for {compiled_for}", "the backend runs its machine code as it is"
            report.file(path)(AOTI_TARGET, what, fix=fix, why=why)


def _compare(
    report: Findings,
    config: ModelConfig,
    path: str,
    side: str,
    *,
    tensors: Mapping[str, NetworkTensor],
    constants: frozenset[str],
) -> None:
    filled = {name for each in config.batch_output for name in each.target_name}
    batches = config.max_batch_size > 0
    for each in getattr(config, side):
        own, part = tensors.get(each.name), f"{side} {each.name!r}"
        data_type = type_name(each.data_type)
        if own is None:
            if side == "output" or each.name not in constants:
                fix = did_you_mean(each.name, tensors, otherwise=f"use one of {', '.join(tensors)}")
                report(ONNX_TENSOR, f"{path} has no {part}", at=part, fix=fix, why=_COMPARED)
            continue
        if each.data_type and data_type != own.data_type:
            fix = f"write data_type: {own.data_type}, as in {path}"
            report(ONNX_TENSOR, f"{part} is {data_type}", at=part, fix=fix, why=_COMPARED)
        if each.name not in filled and not _fits(each, own, batches=batches):
            sizes = ", ".join(str(size) if isinstance(size, int) else "-1" for size in own.dims or ())
            fix = f"write the sizes in {path}, [{sizes}]{', without the first one, the batch' * batches}"
            report(ONNX_TENSOR, f"dims of {part} are {list(_dims(each))}", at=part, fix=fix, why=_COMPARED)


def _onnx(model: Model) -> Iterator[tuple[str, OnnxHead]]:
    for path in model.paths(model.backend.filename or "model.onnx"):
        head = _read_onnx(model, path)
        if head is not None:
            yield path, head


def _read_onnx(model: Model, path: str) -> OnnxHead | None:
    source = model.layout.sources.get(path)
    try:
        if source is not None:
            return read_onnx_file(source)
        content = _packed(model, path)
        return read_onnx_head(content.getvalue()) if content else None
    except OSError:
        return None


def _compiled_heads(model: Model) -> Iterator[tuple[str, CompiledHead]]:
    for path in model.paths(model.backend.filename or AOTI_FILE):
        file = model.layout.sources.get(path) or _packed(model, path)
        head = read_compiled(file) if file else None
        if head is not None:
            yield path, head


def _packed(model: Model, path: str) -> io.BytesIO | None:
    """Return the content of a file in an archive; None if it is too large."""
    if model.layout.files[path] > _OF_ARCHIVES:
        return None
    with model.layout.opened(path) as content:
        return io.BytesIO(content.read())


def _fed_by_triton(config: ModelConfig) -> set[str]:
    """Return the inputs of a network that are not part of requests."""
    sequences = config.sequence_batching
    return {
        *(name for each in config.batch_input for name in each.target_name),
        *(each.name for each in sequences.control_input),
        *(each.input_name for each in sequences.state),
    }


def _fits(declared: Any, own: NetworkTensor, *, batches: bool) -> bool:
    """Return True if the dims of a tensor fit the file's, whose variable sizes they may fix."""
    if not own.dims or getattr(declared, "allow_ragged_batch", False):
        return True
    sizes = [-1, *_dims(declared)] if batches else list(_dims(declared))
    return len(sizes) == len(own.dims) and all(
        size == has for size, has in zip(sizes, own.dims, strict=True) if isinstance(has, int)
    )


def _dims(tensor: Any) -> Sequence[int]:
    """Return the shape that the network gets: after the reshape, if there is one."""
    return tuple(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims)
