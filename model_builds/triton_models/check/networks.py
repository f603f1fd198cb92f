"""Checks of network files: they must match their configuration, and be loadable.

The rules of ONNX Runtime's backend are in `backend_rules.onnxruntime`, and those for TorchScript in
`backend_rules.libtorch`. Unreadable files are left to the backend.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import (
    OnnxHead,
    ScriptCode,
    read_onnx_file,
    read_onnx_head,
    read_script,
    unscripted,
)
from triton_models.artifact.pbtxt import ModelConfig, as_json
from triton_models.check.backend_rules import onnxruntime
from triton_models.check.backend_rules.libtorch import (
    Script,
    load_refusals,
    request_failures,
    unknown_operators,
)
from triton_models.check.backend_rules.libtorch_devices import mixed_devices
from triton_models.check.layout import is_lfs_pointer
from triton_models.check.onnx_network import (
    MOST_BYTES,
    ONNX_OUTPUTS,
    RefusedError,
    missing_locale,
    network_of_file,
    newer_versions,
    refusal_of,
)
from triton_models.check.subject import Findings, Model, is_on_cpu, rule, tensors_of
from triton_models.facts.dali import version_numbers

_SOURCE = "2026-11-22: onnxruntime_backend r25.09, src/onnxruntime.cc"
ONNX_VERSION = rule("onnx-version", _SOURCE)
_RULES = "2026-11-28: onnxruntime_backend r24.03 to r26.05, src/onnxruntime.cc"
ONNX_TENSOR = rule("onnx-tensor", _RULES)
ONNX_FILE = rule("onnx-file", "2026-11-28: tried with ONNX Runtime 1.31")
ONNX_SIDE_FILE = rule("onnx-side-file", "2026-11-28: tried with ONNX Runtime 1.23 and 1.31")
_LIBTORCH = "2026-11-28: pytorch_backend r24.03 to r26.05, triton_models.check.backend_rules.libtorch"
TORCHSCRIPT_TENSOR = rule("torchscript-tensor", _LIBTORCH)
TORCHSCRIPT_FILE = rule("torchscript-file", _LIBTORCH)

_OF_ARCHIVES = 1 << 29  # maximum bytes of a packed file to check, because it is read into memory
_COMPARED = "the backend compares them, and refuses the model"
_FAILS = "the model loads, and every request fails"

# The first ONNX Runtime that refuses a side file outside of the folder of the ONNX file (tried 2026-11-28).
_CONFINED_SINCE = (1, 24)

NO_FILE = "the model does not load"
NO_VERSION = "ONNX Runtime refuses the file, and the model does not load"
_AGAIN = "export the network again"
_VALUED = frozenset({"int32_false_true", "fp32_false_true", "bool_false_true", "data_type"})


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what a model's network file contradicts."""
    if model.is_ensemble:
        return
    if model.backend.name == "onnxruntime":
        filename = model.backend.filename or "model.onnx"
        for path in model.paths(filename, f"{filename}/model.onnx"):
            if not is_lfs_pointer(model.layout, path):
                _check_onnx(report, model, config, path)
    elif model.backend.platform == "pytorch_libtorch" and config.runtime != "model.py":
        for path in model.paths(model.backend.filename or "model.pt"):
            if not is_lfs_pointer(model.layout, path):
                _check_script(report, model, config, path)


def _check_onnx(report: Findings, model: Model, config: ModelConfig, path: str) -> None:
    source = _file(model, path)
    try:
        if isinstance(source, Path):
            head = read_onnx_file(source)
        else:
            head = read_onnx_head(source.getvalue()) if source else None
    except OSError:
        return
    if head is None:
        # ONNX Runtime reads a file called .ort in its own format.
        if source is not None and not path.endswith(".ort"):
            is_empty = not model.layout.files[path]
            what = f"{posixpath.basename(path)} is {'empty' if is_empty else 'not an ONNX file, or cut'}"
            report.file(path)(ONNX_FILE, what, fix=f"copy it again, or {_AGAIN}", why=NO_FILE)
        return
    what, fix = missing_locale(head)
    if what:
        report.file(path)(ONNX_FILE, what, fix=fix, why="ONNX Runtime says: Failed to construct locale")
        return
    is_new = _check_versions(report.file(path), head)
    if _check_side_files(report.file(path), model, path, head):
        try:
            _check_network(report, model, config, path, head)
        except RefusedError as error:
            if not is_new:
                _check_refused(report.file(path), model, config, str(error))


def _check_refused(report: Findings, model: Model, config: ModelConfig, said: str) -> None:
    """Report what ONNX Runtime refuses, unless the server's may know more operators than the one here."""
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    on_gpu = model.target.gpu_count != 0 and not is_on_cpu(config)
    what, fix = refusal_of(
        said,
        release=model.target.release,
        has_library=bool(config.model_operations.op_library_filename),
        has_plugins=on_gpu and any(accelerator.name == "tensorrt" for accelerator in accelerators),
    )
    if what:
        report(ONNX_FILE, what, fix=fix, why=NO_FILE)


def _check_versions(report: Findings, head: OnnxHead) -> bool:
    """Report versions that the release does not read; return True if there are some."""
    release = report.subject.target.release
    newer = list(newer_versions(head, release)) if release else []
    for what, fix in newer:
        report(ONNX_VERSION, what, fix=fix, why=NO_VERSION)
    return bool(newer)


def _check_side_files(report: Findings, model: Model, path: str, head: OnnxHead) -> bool:
    """Report weights in other files that ONNX Runtime cannot read; return True if there are none."""
    release, folder = report.subject.target.release, posixpath.dirname(path)
    is_strict = release is not None and version_numbers(release.onnxruntime) >= _CONFINED_SINCE
    mistakes: dict[str, tuple[str, str]] = {}
    for data in head.side_data:
        found = posixpath.normpath(posixpath.join(folder, data.location))
        inside = found.startswith(f"{folder}/")
        has, needs = model.layout.files.get(found), data.size if data.size is not None else data.stated or 0
        if not data.location:
            mistake = "without a name", "export it again, with all weights in one file"
        elif data.location.startswith("/") or (is_strict and not inside):
            mistake = f"outside of {folder}", f"copy it to {folder}, and save the network with its name alone"
        elif has is None:
            mistake = "which does not exist", f"add it to {folder}, or save the network as one file"
        elif None not in {data.stated, data.size} and data.stated != data.size:
            what = f"with {data.stated} bytes for the weight {data.weight!r} of {data.size} bytes"
            mistake = what, "export the network again"
        elif data.offset + needs > has:
            what = f"of {has} bytes, of which it needs {data.offset + needs}"
            mistake = what, "copy it again: it is cut, or belongs to another network"
        else:
            continue
        mistakes.setdefault(data.location, mistake)
    for location, (what, fix) in mistakes.items():
        why = "ONNX Runtime cannot read the weights, and the model does not load"
        report(ONNX_SIDE_FILE, f"weights in {location!r}, {what}", fix=fix, why=why)
    return not mistakes


def _check_network(report: Findings, model: Model, config: ModelConfig, path: str, head: OnnxHead) -> None:
    """Report what the backend and ONNX Runtime refuse."""
    document = as_json(config)
    network = network_of_file(
        head,
        _content(model, path, head),
        level=config.optimization.graph.level,
        recorded=(model.record.get(ONNX_OUTPUTS) or {}).get(model.folder),
    )
    name = config.name or model.folder
    # Reported by "tensors-missing", "tensor-name", "tensor-type", "tensor-dims" and "control-values".
    reported = {f"{side} {tensor.name!r}" for side, tensor in _incomplete(config, completes=model.completes)}
    if not (config.input or model.target.auto_complete or model.target.endpoint is None):
        reported.add("input")
    refusals = onnxruntime.refusals(document, network, model=name, completes=model.completes)
    refusals, prefix = [refusal for refusal in refusals if refusal.at not in reported], "the backend says"
    if not refusals:
        refusals, prefix = [*onnxruntime.request_refusals(document, network)], "every request fails"
    for refusal in refusals:
        why = f"{prefix}: {refusal.message}"
        report(ONNX_TENSOR, refusal.what, at=refusal.at, fix=refusal.fix, why=why)


def _incomplete(config: ModelConfig, *, completes: bool) -> Iterator[tuple[str, Any]]:
    """Yield tensors without a name, type, dims or values, or with a size of 0, after their kind."""
    for side, tensor in tensors_of(config):
        if 0 in tensor.dims or not tensor.name or not (completes or (tensor.dims and tensor.data_type)):
            yield side, tensor
    for entry in config.sequence_batching.control_input:
        if not any(_VALUED & {field.name for field, _ in control.ListFields()} for control in entry.control):
            yield "control_input", entry


def _content(model: Model, path: str, head: OnnxHead) -> Path | bytes | None:
    """Return a file to load for the sizes of its outputs; None if it is too large, or has parts elsewhere."""
    folder = posixpath.dirname(path)
    files = [path, *(posixpath.normpath(posixpath.join(folder, name)) for name in head.side_files)]
    if sum(model.layout.files.get(name, 0) for name in files) > MOST_BYTES:
        return None
    source = _file(model, path)
    return source.getvalue() if isinstance(source, io.BytesIO) else source


def _check_script(report: Findings, model: Model, config: ModelConfig, path: str) -> None:
    file = _file(model, path)
    if file is None:
        return
    content = unscripted(file)
    if content:
        why = "PyTorch finds no constants.pkl or code in it, and the model does not load"
        fix = "save torch.jit.script(network) or torch.jit.trace(network, example) with torch.jit.save(); "
        fix += "LibTorch() does, for a network and its weights"
        report.file(path)(TORCHSCRIPT_FILE, f"a file of {content}, not of TorchScript", fix=fix, why=why)
    code = read_script(file)
    if unknown := unknown_operators(code.operators):
        what = f"its code calls {', '.join(unknown)}, which neither PyTorch nor torchvision has"
        fix = "compute it with PyTorch's own operators, and export it again"
        why = f"the model does not load: Unknown builtin op: {unknown[0]}"
        report.file(path)(TORCHSCRIPT_FILE, what, fix=fix, why=why)
    forward = code.forward
    if forward is None or model.text is None:  # without a configuration, config-missing says it
        return
    if _is_on_gpu(model, config):
        _check_devices(report.file(path), code)
    script = Script(arguments=dict(forward.arguments), returns=forward.returns)
    document = {**as_json(config), "name": config.name or model.folder}
    refusals, why = load_refusals(document, script), _COMPARED
    if not refusals:
        refusals, why = request_failures(document, script), _FAILS
    for refusal in refusals:
        if refusal.at != "output" or config.output:  # otherwise pytorch-output says it
            report(TORCHSCRIPT_TENSOR, refusal.what, at=refusal.at, fix=refusal.fix, why=why)


def _check_devices(report: Findings, code: ScriptCode) -> None:
    if operator := mixed_devices(code.network, code.classes):
        what = f"its code creates tensors on the CPU, which {operator}() gets with those of the GPU"
        fix = "create them with device=x.device of an input x, and export it with torch.jit.script(); or "
        fix += "trace it on a GPU; or write instance_group [ { kind: KIND_CPU } ]"
        why = f"{_FAILS}: Expected all tensors to be on the same device"
        report(TORCHSCRIPT_FILE, what, fix=fix, why=why)


def _is_on_gpu(model: Model, config: ModelConfig) -> bool:
    """Return True for a model whose instances are known to be on a GPU."""
    kinds = {group.Kind.Name(group.kind) for group in config.instance_group}
    has_gpu = model.target.gpu is not None or "KIND_GPU" in kinds
    return has_gpu and model.target.gpu_count != 0 and not (is_on_cpu(config) or "KIND_MODEL" in kinds)


def _file(model: Model, path: str) -> Path | io.BytesIO | None:
    """Return a file, or its content if it is in an archive; None if that is too large."""
    if path in model.layout.sources:
        return model.layout.sources[path]
    if model.layout.files[path] > _OF_ARCHIVES:
        return None
    with model.layout.opened(path) as content:
        return io.BytesIO(content.read())
