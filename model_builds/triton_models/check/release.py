"""Checks for a known release, image and GPU: models that a server of that release cannot load.

Removed backends: the release notes of 25.03. Fields: protobuf/model_config.proto in each branch of
triton-inference-server/common. Label files outside a model: src/model.cc of Triton core, branch r26.02.
All read 2026-11-21. Backends and agents: GetBackendLibraryProperties (src/backend_model.cc) and CreateAgent
(src/repo_agent.cc) of Triton core r25.09, read 2026-11-22. For the rest, see `releases`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from triton_models.artifact.networks import HEADER_BYTES, read_plan_header
from triton_models.artifact.pbtxt import ModelConfig
from triton_models.artifact.targets import built_gpu, plan_runs_on
from triton_models.artifact.targets import plan_gpu as compiled_on
from triton_models.base.suggest import CLOSER, close_to, did_you_mean
from triton_models.check.subject import REFUSED, Findings, Model, rule, tensors_of, type_name
from triton_models.facts.image_contents import BACKEND_LIBRARIES, NAME_ADDED, REPOSITORY_AGENTS, backends
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.releases import RELEASES, REMOVED_BACKENDS, Release
from triton_models.facts.tensorrt import FIRST_WITH_INT64, major

_SOURCE = "2026-11-21: NVIDIA's release notes, model_config.proto of each branch, core/src/model.cc of r26.02"
_IMAGE = "2026-11-22: Triton core r25.09, src/backend_model.cc and src/repo_agent.cc"
BACKEND_UNKNOWN = rule("backend-unknown", _IMAGE)
RUNTIME = rule("runtime", _IMAGE)
REPOSITORY_AGENT = rule("repository-agent", _IMAGE)
BACKEND_REMOVED = rule("backend-removed", _SOURCE)
NEW_FIELD = rule("new-field", _SOURCE)
LABEL_OUTSIDE = rule("label-outside", _SOURCE)
PLAN_VERSION = rule("plan-version", _SOURCE)
PLAN_GPU = rule("plan-gpu", _SOURCE)
GPU_REMOVED = rule("gpu-removed", _SOURCE)
PLAN_INT64 = rule("plan-int64", _SOURCE)

# The first release that knows a field. Older releases refuse the entire file.
NEW_FIELDS: Mapping[str, str] = {
    "model_metrics": "24.11",
    "ensemble_scheduling.max_inflight_requests": "25.11",
}
_LABELS_STAY_INSIDE = "26.02"
# README.md of pytorch_backend, "AOT Inductor Support (Beta)", main of 2026-05-13, read 2026-11-24.
_AOTI_PLATFORM, _AOTI_SINCE = "torch_aoti", "26.03"

_PYTHON_LIBRARY = "model.py"


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what the release, the image or the GPU lacks for a model."""
    release = model.target.release
    for field, since in NEW_FIELDS.items():
        if release is not None and release.name < since and _is_set(config, field):
            what = f"{field} with release {release.name}"
            fix = f"remove it, or serve with release {since} or newer"
            report(NEW_FIELD, what, at=field, fix=fix, why="the release refuses unknown fields")
    if release is not None and release.name < _AOTI_SINCE and config.platform == _AOTI_PLATFORM:
        what = f"the platform {config.platform!r} with release {release.name}"
        fix = f"serve it with release {_AOTI_SINCE} or newer, or export the network as TorchScript or ONNX"
        report(NEW_FIELD, what, at="platform", fix=fix, why="the release refuses this platform")
    for output in config.output:
        if refuses_outside(release, output.label_filename):
            what = f"{output.label_filename!r} is outside the model's directory"
            fix = "move the file into the model's directory, and change its path"
            report(LABEL_OUTSIDE, what, at=f"output {output.name!r}: label_filename", fix=fix)
    if config.HasField("model_repository_agents"):
        _check_agents(report, model, [agent.name for agent in config.model_repository_agents.agents])
    if not model.is_ensemble:
        _check_backend(report, model, config)
        if model.backend.name == "tensorrt":
            _check_tensorrt(report, model, config)
            _check_plans(report, model, config)


def _check_backend(report: Findings, model: Model, config: ModelConfig) -> None:
    target, name = model.target, model.backend.name
    libraries, removed = BACKEND_LIBRARIES.get(name, ()), REMOVED_BACKENDS.get(name)
    known = backends(target.release, cpu=target.gpu_count == 0)
    brings = _brings_library(model, config)
    if config.runtime and libraries and config.runtime not in libraries and not brings:
        otherwise = f"remove runtime, or use {' or '.join(libraries)}"
        fix = did_you_mean(config.runtime, libraries, otherwise=otherwise)
        report(RUNTIME, f"runtime {config.runtime!r} for the backend {name!r}", at="runtime", fix=fix)
    if target.release is not None and removed is not None and target.release.name >= removed:
        what = f"the backend {name!r} with release {target.release.name}"
        why = f"release {removed} removed it"
        fix = "export the model to ONNX and run it with onnxruntime or tensorrt, or use an older release"
        report(BACKEND_REMOVED, what, at="backend", fix=fix, why=why)
    if not name or name in known | model.image_adds or removed is not None or brings:
        return
    # A plain server may have a custom backend.
    if target.endpoint is not None or close_to(name, known, cutoff=CLOSER):
        cpus = " for CPUs" if libraries else ""
        of = f"the image of release {target.release.name}" if target.release else "every image"
        otherwise = (
            f"use one of {', '.join(sorted(known))}; if a custom image has it, name it in {NAME_ADDED}, or "
        )
        otherwise += f"put libtriton_{name}.so into the model"
        fix = did_you_mean(name, known, otherwise=otherwise)
        why = "the model does not load: unable to find backend library"
        what = f"the backend {name!r}, which {of}{cpus} lacks"
        report(BACKEND_UNKNOWN, what, at="backend", fix=fix, why=why)


def _check_agents(report: Findings, model: Model, names: list[str]) -> None:
    known = REPOSITORY_AGENTS | model.image_adds
    absent = [name for name in names if name not in known]
    if absent or not names:
        what = f"the agent {absent[0]!r}" if absent else "model_repository_agents without an agent"
        fix = (
            f"name an agent that the server has, such as {' or '.join(sorted(known))}, or remove "
            f"model_repository_agents; if a custom image has it, name it in {NAME_ADDED}"
        )
        why = REFUSED if names else "it crashes the server"
        what = what if all(names) else "an agent without a name"
        report(REPOSITORY_AGENT, what, at="model_repository_agents", fix=fix, why=why)


def refuses_outside(release: Release | None, label_filename: str) -> bool:
    """Return True if a release refuses a label file because of its path, even if the file exists."""
    if release is None or release.name < _LABELS_STAY_INSIDE:
        return False
    top = posixpath.normpath(label_filename or ".").split("/")[0]
    return label_filename.startswith("/") or top == ".."


def _check_tensorrt(report: Findings, model: Model, config: ModelConfig) -> None:
    release, gpu = model.target.release, model.target.gpu
    if release and gpu and not _supports(release, gpu):
        newest = [each.name for each in RELEASES.values() if _supports(each, gpu)][-1]
        what = f"a plan for {gpu.name}, compute capability {gpu.compute_capability}, in {release.name}"
        fix = (
            f"use release {newest}, or a GPU of compute capability {release.min_compute_capability} or newer"
        )
        why = f"TensorRT {release.tensorrt} no longer supports that generation"
        report(GPU_REMOVED, what, at="backend", fix=fix, why=why)
    for part, tensor in tensors_of(config):
        old = release is not None and major(release) < FIRST_WITH_INT64
        if release and old and type_name(tensor.data_type) == "TYPE_INT64":
            called = f"{part} {tensor.name!r}"
            what = f"{called} is TYPE_INT64 with TensorRT {release.tensorrt} of release {release.name}"
            fix = "write TYPE_INT32, to which it converts an ONNX file's, or compile for 24.05 or newer"
            report(PLAN_INT64, what, at=called, fix=fix)


def _check_plans(report: Findings, model: Model, config: ModelConfig) -> None:
    """Check that the plans were compiled for the release, and for the GPU.

    TensorRT refuses a plan of another compute capability. With the same one, it warns, and the plan may be
    slower or fail. A build must opt in, with hardware "sameComputeCapability" or "ampere+".
    """
    release, gpu = model.target.release, model.target.gpu
    by_capability, usual = config.cc_model_filenames, model.backend.filename
    for path in model.paths(*dict.fromkeys((usual, *by_capability.values()))) if release else ():
        header = read_plan_header(model.layout.beginning(path, HEADER_BYTES) or b"")
        if release and header is not None and not header.loads_in(release.tensorrt):
            has = f"release {release.name}, which has TensorRT {release.tensorrt}"
            fix = f"compile it again with {has}, or serve it with the release that it was built for"
            why = "a plan loads only in the TensorRT version that compiled it"
            report.file(path)(PLAN_VERSION, f"a plan of TensorRT {header.tensorrt}", fix=fix, why=why)
    if gpu is None or built_gpu(model.record) is None:
        return
    for path in model.paths(by_capability.get(gpu.compute_capability) or usual):
        built = compiled_on(model.record, path)
        if built != gpu.name and not plan_runs_on(model.record, path, gpu):
            other = GPUS.get(built or "")
            same = other is not None and other.compute_capability == gpu.compute_capability
            warned = "TensorRT warns about plans of another GPU: they may be slower, or fail"
            refused = "TensorRT refuses a plan of another compute capability"
            fix = f"build it for {gpu.name}, {gpu.compute_capability}: `fleet build NAME --gpu {gpu.name}`"
            why = warned if same else refused
            report.file(path)(PLAN_GPU, f"a plan compiled on {built}", fix=fix, why=why)


def _brings_library(model: Model, config: ModelConfig) -> bool:
    """Return True if the backend's library is in the model, which is impossible for backends in Python."""
    name = config.runtime or f"libtriton_{model.backend.name}.so"
    top = posixpath.join(model.path, name)
    return name != _PYTHON_LIBRARY and (top in model.layout.files or any(model.paths(name)))


def _supports(release: Release, gpu: Gpu) -> bool:
    return float(gpu.compute_capability) >= float(release.min_compute_capability)


def _is_set(config: ModelConfig, field: str) -> bool:
    *messages, last = field.split(".")
    for name in messages:
        config = getattr(config, name)
    found = config.DESCRIPTOR.fields_by_name.get(last)
    if found is None:
        return False
    return bool(config.HasField(last) if found.has_presence else getattr(config, last))
