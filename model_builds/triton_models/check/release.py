"""Checks for a known release and GPU: models that a server of that release cannot load.

Removed backends: the release notes of 25.03. Fields: protobuf/model_config.proto in each branch of
triton-inference-server/common. Label files outside a model: src/model.cc of Triton core, branch r26.02.
All read 2026-11-21. For the rest, see `releases`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from triton_models.artifact.built_for import built_gpus, plan_runs_on
from triton_models.artifact.built_for import plan_gpu as compiled_on
from triton_models.artifact.plan_header import HEADER_BYTES, read_plan_header
from triton_models.base.errors import Problem
from triton_models.check.compiled import FILE, PLATFORM
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.releases import RELEASES, REMOVED_BACKENDS, Release

_SOURCE = "2026-11-21: NVIDIA's release notes, model_config.proto of each branch, core/src/model.cc of r26.02"

# The first release that knows a field. Older releases refuse the entire file.
NEW_FIELDS: Mapping[str, str] = MappingProxyType(
    {"model_metrics": "24.11", "ensemble_scheduling.max_inflight_requests": "25.11"}
)
_LABELS_STAY_INSIDE = "26.02"

# TensorRT 10 is the first whose plans have INT64 inputs and outputs (server issue 7307).
_INT64_TENSORRT = 10


def backend_removed(subject: Subject) -> Iterator[Problem]:
    """Check that the release has the backend."""
    release = subject.target.release
    for model, _ in subject.served():
        removed = REMOVED_BACKENDS.get(model.backend.name)
        if release is not None and removed is not None and release.name >= removed:
            yield subject.refuse(
                model,
                "backend",
                f"the backend {model.backend.name!r} with release {release.name}",
                expected=f"a release before {removed}, or another backend",
                why=f"release {removed} removed the backend",
                fix="export the model to ONNX and run it with onnxruntime or tensorrt",
            )


def new_field(subject: Subject) -> Iterator[Problem]:
    """Check that the release knows every field."""
    release = subject.target.release
    if release is None:
        return
    for model, config in subject.parsed():
        for field, since in NEW_FIELDS.items():
            if release.name < since and _is_set(config, field):
                yield subject.refuse(
                    model,
                    field,
                    f"{field} with release {release.name}",
                    expected=f"this field only in release {since} or newer",
                    why="the release refuses unknown fields",
                    fix="remove it, or serve with a newer release",
                )


def label_outside(subject: Subject) -> Iterator[Problem]:
    """Check that label files are in the model's directory."""
    for model, config in subject.parsed():
        for output in config.output:
            if refuses_outside(subject.target.release, output.label_filename):
                yield subject.refuse(
                    model,
                    f"output {output.name!r}: label_filename",
                    f"{output.label_filename!r} is outside the model's directory",
                    expected="a file inside it",
                    fix="move the file into the model's directory, and change its path",
                )


def refuses_outside(release: Release | None, label_filename: str) -> bool:
    """Return True if a release refuses a label file because of its path, even if the file exists."""
    if release is None or release.name < _LABELS_STAY_INSIDE:
        return False
    top = posixpath.normpath(label_filename or ".").split("/")[0]
    return label_filename.startswith("/") or top == ".."


def plan_version(subject: Subject) -> Iterator[Problem]:
    """Check that the release's TensorRT loads every plan."""
    release = subject.target.release
    if release is None:
        return
    for model, config in subject.served():
        for path in _plans(model, config):
            header = read_plan_header(subject.layout.beginning(path, HEADER_BYTES) or b"")
            if header is not None and not header.loads_in(release.tensorrt):
                yield Problem(
                    what=f"a plan of TensorRT {header.tensorrt}",
                    where=subject.layout.place(path),
                    expected=f"TensorRT {release.tensorrt}, the version in release {release.name}",
                    why="a plan loads only in the TensorRT version that compiled it",
                    fix=f"compile it again with release {release.name}, or serve it with the release that it "
                    "was built for",
                )


def plan_gpu(subject: Subject) -> Iterator[Problem]:
    """Check that the plan for a GPU was compiled for it.

    TensorRT refuses a plan of another compute capability. With the same one, it warns, and the plan may be
    slower or fail. A build must opt in, with hardware "sameComputeCapability" or "ampere+".
    """
    gpu = subject.target.gpu
    if gpu is None or not built_gpus(subject.record):
        return
    for model, config in subject.served():
        for path in _plans(model, config, gpu):
            built = compiled_on(subject.record, path) or " or ".join(built_gpus(subject.record))
            if path not in subject.layout.files or built == gpu.name:
                continue
            other = GPUS.get(built)
            same = other is not None and other.compute_capability == gpu.compute_capability
            if not plan_runs_on(subject.record, path, gpu):
                yield Problem(
                    what=f"a plan compiled on {built}",
                    where=subject.layout.place(path),
                    expected=f"a plan for {gpu.name}, compute capability {gpu.compute_capability}",
                    why="TensorRT warns about plans of another GPU: they may be slower, or fail"
                    if same
                    else "TensorRT refuses a plan of another compute capability",
                    fix=f"build it again: `fleet build NAME --gpu {gpu.name}`",
                )


def plan_missing(subject: Subject) -> Iterator[Problem]:
    """Check that an artifact for several GPUs has a plan for the serving GPU."""
    gpus, gpu = built_gpus(subject.record), subject.target.gpu
    if gpu is None or len(gpus) <= 1 or gpu.name in gpus:
        return
    for model, config in subject.served():
        if config.cc_model_filenames and not any(
            path in subject.layout.files for path in _plans(model, config, gpu)
        ):
            yield subject.refuse(
                model,
                "cc_model_filenames",
                f"plans for {', '.join(gpus)}",
                expected=f"also one for {gpu.name}, compute capability {gpu.compute_capability}",
                why="Triton opens the file for the GPU's compute capability, which does not exist",
                fix=f"add it: `fleet build NAME --gpu {gpu.name}`, then `fleet merge`",
            )


def gpu_removed(subject: Subject) -> Iterator[Problem]:
    """Check that the release's TensorRT supports the GPU."""
    release, gpu = subject.target.release, subject.target.gpu
    if (
        release is None
        or gpu is None
        or _number(gpu.compute_capability) >= _number(release.min_compute_capability)
    ):
        return
    for model, _ in subject.served():
        if model.backend.name == "tensorrt":
            yield subject.refuse(
                model,
                "backend",
                f"a plan for {gpu.name}, compute capability {gpu.compute_capability}, in {release.name}",
                expected=f"a GPU of compute capability {release.min_compute_capability} or newer",
                why=f"TensorRT {release.tensorrt} no longer supports that generation",
                fix=f"compile and serve the plan with release {_newest_for(gpu)}, or with {release.name} on "
                "a newer GPU",
            )


def plan_int64(subject: Subject) -> Iterator[Problem]:
    """Check that plans of an old TensorRT have no INT64 tensors."""
    release = subject.target.release
    if release is None or _number(release.tensorrt)[0] >= _INT64_TENSORRT:
        return
    for model, part, tensor in _plan_tensors(subject):
        if type_name(tensor.data_type) == "TYPE_INT64":
            yield subject.refuse(
                model,
                f"{part} {tensor.name!r}",
                f"{part} {tensor.name!r} is TYPE_INT64 with {_tensorrt(release)}",
                expected="TYPE_INT32: this TensorRT converts 64-bit integers of an ONNX file to 32-bit ones",
                fix="write data_type: TYPE_INT32, or compile the plan again with release 24.05 or newer",
            )


def _newest_for(gpu: Gpu) -> str:
    """Return the newest release whose TensorRT supports a GPU."""
    fits = [
        release.name
        for release in RELEASES.values()
        if _number(gpu.compute_capability) >= _number(release.min_compute_capability)
    ]
    return fits[-1]


def _plans(model: Model, config: ModelConfig, gpu: Gpu | None = None) -> Iterator[str]:
    """Yield the paths of a model's plans or compiled networks: all of them, or only the one for a GPU."""
    if model.backend.name != "tensorrt" and model.backend.platform != PLATFORM:
        return
    by_capability = config.cc_model_filenames
    usual = model.backend.filename or FILE
    names = [usual, *by_capability.values()]
    if gpu is not None:
        names = [by_capability.get(gpu.compute_capability) or usual]
    for version in model.available_versions():
        for name in dict.fromkeys(names):
            yield posixpath.join(model.path, str(version), name)


def _plan_tensors(subject: Subject) -> Iterator[tuple[Model, str, Any]]:
    for model, config in subject.served():
        if model.backend.name == "tensorrt":
            yield from ((model, "input", tensor) for tensor in config.input)
            yield from ((model, "output", tensor) for tensor in config.output)


def _is_set(config: ModelConfig, field: str) -> bool:
    *messages, last = field.split(".")
    for name in messages:
        config = getattr(config, name)
    found = config.DESCRIPTOR.fields_by_name.get(last)
    if found is None:
        return False
    return bool(config.HasField(last) if found.has_presence else getattr(config, last))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _tensorrt(release: Release) -> str:
    return f"TensorRT {release.tensorrt} of release {release.name}"


CHECKS = (
    ArtifactCheck(id="backend-removed", source=_SOURCE, find=backend_removed),
    ArtifactCheck(id="new-field", source=_SOURCE, find=new_field),
    ArtifactCheck(id="label-outside", source=_SOURCE, find=label_outside),
    ArtifactCheck(id="plan-version", source=_SOURCE, find=plan_version),
    ArtifactCheck(id="plan-gpu", source=_SOURCE, find=plan_gpu),
    ArtifactCheck(id="plan-missing", source=_SOURCE, find=plan_missing),
    ArtifactCheck(id="gpu-removed", source=_SOURCE, find=gpu_removed),
    ArtifactCheck(id="plan-int64", source=_SOURCE, find=plan_int64),
)
