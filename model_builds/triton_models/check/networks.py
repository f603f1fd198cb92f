"""Checks of network files: an ONNX or TorchScript file must match its configuration and be loadable.

They follow ValidateInputs, ValidateOutputs and CompareDimsSupported of onnxruntime_backend
(src/onnxruntime.cc and src/onnxruntime_utils.cc, r25.09) and of pytorch_backend (src/libtorch.cc, r25.09),
read 2026-11-22. Unreadable files are left to the backend, and TorchScript files in archives are not checked.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact.onnx_head import OnnxHead, read_onnx_file, read_onnx_head
from triton_models.artifact.script_head import read_forward
from triton_models.artifact.signature import NetworkTensor
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig

_SOURCE = "2026-11-22: onnxruntime_backend and pytorch_backend r25.09, src/onnxruntime.cc and src/libtorch.cc"

_DEFAULT = {"onnxruntime": "model.onnx", "pytorch": "model.pt"}
_OF_ARCHIVES = 1 << 29  # maximum bytes of a packed file to check, because it is read into memory
_KEPT = 8  # number of cached heads, because several checks need them
_COMPARED = "the backend compares them, and refuses the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The file of a network, with the configuration that serves it."""

    subject: Subject
    model: Model
    config: ModelConfig
    path: str

    @property
    def place(self) -> str:
        """The name of the file for messages."""
        return self.subject.layout.place(self.path)

    def refuse(self, part: str, what: str, *, expected: str, fix: str, why: str = _COMPARED) -> Problem:
        """Return a problem with a part of the configuration."""
        return self.subject.refuse(self.model, part, what, expected=expected, why=why, fix=fix)


def onnx_version(subject: Subject) -> Iterator[Problem]:
    """Check that the release's ONNX Runtime can read an ONNX file's format and operators."""
    release = subject.target.release
    if release is None:
        return
    reads = f"the limit of ONNX Runtime {release.onnxruntime} in release {release.name}"
    for file, head in _onnx(subject):
        for what, given, most, fix in (
            ("IR version", head.ir_version, release.onnx_ir_version, "set its ir_version to {}, and save it"),
            ("opset", head.opset, release.onnx_opset, "export it again with opset_version={}"),
        ):
            if given > most:
                yield Problem(
                    what=f"an ONNX file with {what} {given}",
                    where=file.place,
                    expected=f"at most {most}, {reads}",
                    why="ONNX Runtime refuses the file, and the model does not load",
                    fix=f"{fix.format(most)}; or serve it with a newer release",
                )


def onnx_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that a configuration has the tensors of its ONNX file."""
    for file, head in _onnx(subject):
        inputs = head.signature.inputs
        yield from _compared(file, "input", inputs, head.constants)
        yield from _compared(file, "output", head.signature.outputs)
        fed = {each.name for each in file.config.input} | _fed_by_triton(file.config)
        for tensor in inputs if file.config.input else ():
            if tensor.name not in fed:
                yield file.refuse(
                    "input",
                    f"the network's input {tensor.name!r} is missing",
                    expected=f"every input of {file.path}: {', '.join(each.name for each in inputs)}",
                    fix="add it",
                )


def torchscript_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that a configuration has as many tensors as a TorchScript file's forward()."""
    for file in _files(subject, "pytorch"):
        source = subject.layout.sources.get(file.path)
        if source is None or file.model.backend.platform != "pytorch_libtorch":
            continue
        forward = read_forward(source)
        given = len(file.config.input) + len(_fed_by_triton(file.config))
        if forward and forward.inputs is not None and file.config.input and given != len(forward.inputs):
            yield file.refuse(
                "input",
                f"{given} inputs for forward({', '.join(forward.inputs)})",
                expected=f"{len(forward.inputs)}, one for each argument",
                fix="list the arguments of forward(), in order",
            )
        if forward and forward.outputs is not None and len(file.config.output) > forward.outputs:
            yield file.refuse(
                "output",
                f"{len(file.config.output)} outputs for a forward() that returns {forward.outputs}",
                expected=f"at most {forward.outputs}",
                why="every request fails: the network has no such output",
                fix="list the outputs of forward()",
            )


def _compared(
    file: _File, side: str, tensors: Sequence[NetworkTensor], constants: frozenset[str] = frozenset()
) -> Iterator[Problem]:
    """Yield the differences between the inputs or outputs of a configuration and of its ONNX file."""
    by_name = {each.name: each for each in tensors}
    filled = {name for each in file.config.batch_output for name in each.target_name}
    batches = file.config.max_batch_size > 0
    for each in getattr(file.config, side):
        own, part = by_name.get(each.name), f"{side} {each.name!r}"
        if own is None:
            if each.name not in constants:
                yield file.refuse(
                    part,
                    f"{file.path} has no {side} {each.name!r}",
                    expected=f"one of {', '.join(by_name)}",
                    fix=did_you_mean(each.name, list(by_name), otherwise="use one of these names"),
                )
            continue
        if each.data_type and type_name(each.data_type) != own.data_type:
            yield file.refuse(
                part,
                f"{part} is {type_name(each.data_type)}",
                expected=f"{own.data_type}, as in {file.path}",
                fix=f"write data_type: {own.data_type}",
            )
        if each.name not in filled and not _fits(each, own, batches=batches):
            yield file.refuse(
                part,
                f"dims of {part} are {list(_dims(each))}",
                expected=f"{_shown(own)} in {file.path}{', whose first size is the batch' * batches}",
                fix="write the sizes of the file, with -1 for variable ones",
            )


def _onnx(subject: Subject) -> Iterator[tuple[_File, OnnxHead]]:
    for file in _files(subject, "onnxruntime"):
        head = _read(subject, file.path)
        if head is not None:
            yield file, head


def _files(subject: Subject, backend: str) -> Iterator[_File]:
    """Yield the files that a backend opens, for every version that is served."""
    for model, config in subject.served():
        if model.backend.name != backend:
            continue
        for version in model.available_versions():
            path = posixpath.join(model.path, str(version), model.backend.filename or _DEFAULT[backend])
            if path in subject.layout.files:
                yield _File(subject=subject, model=model, config=config, path=path)


def _read(subject: Subject, path: str) -> OnnxHead | None:
    source = subject.layout.sources.get(path)
    try:
        if source is not None:
            status = source.stat()
            return _read_file(source, status.st_size, status.st_mtime_ns)
        if subject.layout.files[path] <= _OF_ARCHIVES:
            with subject.layout.opened(path) as content:
                return read_onnx_head(content.read())
    except OSError:
        pass
    return None


@functools.lru_cache(_KEPT)
def _read_file(path: Path, *_: int) -> OnnxHead | None:
    """Return the head of a file; size and modification time are only keys of the cache."""
    return read_onnx_file(path)


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
    if not own.dims or (hasattr(declared, "allow_ragged_batch") and declared.allow_ragged_batch):
        return True
    sizes = [-1, *_dims(declared)] if batches else list(_dims(declared))
    return len(sizes) == len(own.dims) and all(
        size == has for size, has in zip(sizes, own.dims, strict=True) if isinstance(has, int)
    )


def _dims(tensor: Any) -> Sequence[int]:
    """Return the shape that the network gets: after the reshape, if there is one."""
    return tuple(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims)


def _shown(tensor: NetworkTensor) -> str:
    return f"[{', '.join(str(size) if isinstance(size, int) else '-1' for size in tensor.dims or ())}]"


CHECKS = (
    ArtifactCheck(id="onnx-version", source=_SOURCE, find=onnx_version),
    ArtifactCheck(id="onnx-tensor", source=_SOURCE, find=onnx_tensor),
    ArtifactCheck(id="torchscript-tensor", source=_SOURCE, find=torchscript_tensor),
)
