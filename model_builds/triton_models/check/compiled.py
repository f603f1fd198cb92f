"""Checks of networks that PyTorch compiled with AOTInductor, which the platform torch_aoti serves.

They follow README.md and src/pt2/model_instance_state.cc of pytorch_backend, r26.03 to r26.05, and
AutoCompleteBackendFields of Triton core 24.10, tried on the bundled server; read 2026-11-24.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator

from triton_models.artifact.compiled_head import CompiledHead, read_compiled
from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.config.pbtxt import ModelConfig, schema
from triton_models.facts.releases import COMPILED_NETWORKS_SINCE

_OF_ARCHIVES = 1 << 29  # maximum bytes of a packed file to check, because it is read into memory

PLATFORM = "torch_aoti"
"""The platform of compiled networks."""

FILE = "model.pt2"
"""The file that the backend opens if the configuration names no other."""

_SOURCE = "2026-11-24: pytorch_backend r26.03 to r26.05, README.md and src/pt2; Triton core 24.10"


def aoti_release(subject: Subject) -> Iterator[Problem]:
    """Check that the release serves compiled networks."""
    release = subject.target.release
    for model, _ in _compiled(subject):
        if release is not None and release.name < COMPILED_NETWORKS_SINCE:
            yield subject.refuse(
                model,
                "platform",
                f"the platform {PLATFORM} with release {release.name}",
                expected=f"release {COMPILED_NETWORKS_SINCE} or newer",
                why="the server refuses this platform of the pytorch backend",
                fix="serve it with a newer release, or export the network as TorchScript or ONNX",
            )


def aoti_batches(subject: Subject) -> Iterator[Problem]:
    """Check that no compiled network has batches or sequences."""
    for model, config in _compiled(subject):
        if config.max_batch_size > 1:
            yield subject.refuse(
                model,
                "max_batch_size",
                f"max_batch_size {config.max_batch_size} of a compiled network",
                expected="0, or 1",
                why="the backend has no support for batches of compiled networks yet",
                fix="write 0, and the batch as the first of the dims, as -1",
            )
        if config.HasField("sequence_batching"):
            yield subject.refuse(
                model,
                "sequence_batching",
                "sequence_batching of a compiled network",
                expected="a stateless model",
                why="the backend refuses it: not supported yet",
                fix="remove it, or export the network as TorchScript or ONNX",
            )


def aoti_target(subject: Subject) -> Iterator[Problem]:
    """Check that a compiled network was compiled for the machine that serves it."""
    target = subject.target
    if subject.portable:
        return
    for model, config in _compiled(subject):
        for path, head in _heads(subject, model):
            where, needed = subject.layout.place(path), head.compute_capability
            if head.device == "cuda" and target.gpu_count == 0:
                yield _problem(where, "a GPU", "a CPU", "compile it on a CPU: AotInductor() does, with --cpu")
            elif target.gpu and needed and needed != target.gpu.compute_capability:
                serves = f"{target.gpu.name}, compute capability {target.gpu.compute_capability}"
                yield _problem(where, f"compute capability {needed}", serves, "compile it on that GPU")
            elif target.gpu and head.device == "cpu" and not _on_cpu(config):
                yield _problem(where, "a CPU", target.gpu.name, "use KIND_CPU instances, or compile it there")


def _compiled(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    return (each for each in subject.served() if each[0].backend.platform == PLATFORM)


def _heads(subject: Subject, model: Model) -> Iterator[tuple[str, CompiledHead]]:
    for version in model.available_versions():
        path = posixpath.join(model.path, str(version), model.backend.filename or FILE)
        head = _read(subject, path) if path in subject.layout.files else None
        if head is not None:
            yield path, head


def _read(subject: Subject, path: str) -> CompiledHead | None:
    source = subject.layout.sources.get(path)
    if source is not None:
        return read_compiled(source)
    if subject.layout.files[path] > _OF_ARCHIVES:
        return None
    with subject.layout.opened(path) as content:
        return read_compiled(io.BytesIO(content.read()))


def _on_cpu(config: ModelConfig) -> bool:
    groups = config.instance_group
    return bool(groups) and all(each.kind == schema().ModelInstanceGroup.KIND_CPU for each in groups)


def _problem(where: str, compiled_for: str, served_by: str, fix: str) -> Problem:
    return Problem(
        what=f"a network compiled for {compiled_for}",
        where=where,
        expected=f"one compiled for {served_by}",
        why="the backend runs its machine code as it is",
        fix=fix,
    )


CHECKS = (
    ArtifactCheck(id="aoti-release", source=_SOURCE, find=aoti_release),
    ArtifactCheck(id="aoti-batches", source=_SOURCE, find=aoti_batches),
    ArtifactCheck(id="aoti-target", source=_SOURCE, find=aoti_target),
)
