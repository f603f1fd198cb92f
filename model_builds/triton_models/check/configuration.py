"""Checks of a single config.pbtxt: everything that Triton's core refuses regardless of other models.

They follow ValidateModelConfig, ValidateIOShape, ValidateModelInput, ValidateModelOutput, ValidateBatchIO,
NormalizeInstanceGroup and ValidateInstanceGroup of Triton core (src/model_config_utils.cc; release 24.10,
compared with main of 2026-06-09; read 2026-11-21).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from triton_models.artifact.pbtxt import ModelConfig, schema
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend import MODEL_FILES, PLATFORM_BACKENDS
from triton_models.check.report import Findings, rule
from triton_models.check.subject import Model, type_name
from triton_models.check.target import ENDPOINTS, LET_COMPLETE, MULTI_MODEL_ENDPOINT

_SOURCE = "2026-11-21: Triton core 24.10, src/model_config_utils.cc"
COMPOSING_NAME = rule("composing-name", _SOURCE)
BACKEND_MISSING = rule("backend-missing", _SOURCE)
MAX_BATCH_SIZE = rule("max-batch-size", _SOURCE)
TENSORS_MISSING = rule("tensors-missing", _SOURCE, endpoints=ENDPOINTS)
TENSOR_NAME = rule("tensor-name", _SOURCE)
TENSOR_TWICE = rule("tensor-twice", _SOURCE, endpoints=ENDPOINTS)
TENSOR_TYPE = rule("tensor-type", _SOURCE)
TENSOR_DIMS = rule("tensor-dims", _SOURCE)
TENSOR_FORMAT = rule("tensor-format", _SOURCE)
TENSOR_TENSORRT = rule("tensor-tensorrt", _SOURCE)
RESHAPE = rule("reshape", _SOURCE)
BATCH_TENSORS = rule("batch-tensors", _SOURCE)
INSTANCE_KIND = rule("instance-kind", _SOURCE)
INSTANCE_GPU = rule("instance-gpu", _SOURCE)
INSTANCE_PROFILE = rule("instance-profile", _SOURCE)

_CHECKED_PAIRS = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})
_VARIABLE = -1
_IMAGE_DIMS = 3
_BATCH_INPUT_TYPES = ("TYPE_INT32", "TYPE_FP32")

# Backends that refuse a repeated output, even if it is equal: InitializeExecuteOutputBinding of
# tensorrt_backend (src/instance_state.cc) and AutofillOutputsConfig of dali_backend
# (src/config_tools/config_tools.cc), which uses outputs by position; r25.09, read 2026-11-22.
_EACH_OUTPUT_ONCE = frozenset({"dali", "tensorrt"})

# Like std::stoi, which reads a leading number and ignores the rest.
_INDEX = re.compile(r"\s*([+-]?[0-9]+)")
_MAX_INDEX = 2**31 - 1

# The types that AWS lists for multi-model endpoints have one; the constructs refuse others
# (`multi-model-one-gpu`).
# https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html, read 2026-11-21.
_MULTI_MODEL_GPUS = 1


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what is wrong in a configuration by itself."""
    subject = report.subject
    if model.path and config.name not in {"", model.folder} and not subject.is_renamed(model):
        # A multi-model endpoint renames the model, so that AWS's examples have any name.
        alone = subject.target.endpoint is None and len(subject.models) == 1
        hint = "; for an endpoint that names the models itself: --endpoint-kind multi-model" if alone else ""
        what = f"the model in folder {model.folder!r} has the name {config.name!r}"
        fix = "make folder and name equal, or remove the name" + hint
        why = 'Triton refuses the model, and ensembles with it: "not available or ambiguous"'
        report(COMPOSING_NAME, what, at="name", fix=fix, why=why)
    if config.max_batch_size < 0:
        fix = "write the largest batch, or 0 for a model without a batch dimension"
        report(MAX_BATCH_SIZE, f"max_batch_size: {config.max_batch_size}", at="max_batch_size", fix=fix)
    for part, tensors in (("input", config.input), ("output", config.output)):
        _check_names(report, model, part, tensors)
        for tensor in tensors:
            _check_tensor(report, model, part, tensor)
            if tensor.HasField("reshape"):
                _check_reshape(report, config, f"{part} {tensor.name!r}", tensor)
    _check_batch_tensors(report, model, config)
    if not model.is_ensemble:
        if model.backend.platform != "ensemble":
            _check_backend(report, model, config)
        for number, group in enumerate(config.instance_group):
            _check_instances(report, model, f"instance_group {number}", group)


def _check_backend(report: Findings, model: Model, config: ModelConfig) -> None:
    backend, platform, filename = model.backend, config.platform, config.default_model_filename
    if backend.name in _CHECKED_PAIRS and PLATFORM_BACKENDS.get(backend.platform) != backend.name:
        what = f"platform {backend.platform!r} with backend {backend.name!r}"
        known = [repr(platform) for platform, name in PLATFORM_BACKENDS.items() if name == backend.name]
        fix = f"write platform: {' or '.join(known)}" if backend.name == "tensorflow" else "remove platform"
        report(BACKEND_MISSING, what, at="platform", fix=fix, why="Triton refuses the pair")
    if backend.name:
        return
    what = f"neither backend nor platform for {model.folder!r}"
    why = "Triton cannot derive the backend from the files in the version folder"
    fix = 'add a line such as backend: "onnxruntime"'
    if platform:
        what, why = f"platform {platform!r} does not name a backend", "Triton refuses an unknown platform"
        if platform in MODEL_FILES:
            fix = f'remove platform, and write backend: "{platform}"'
        else:
            fix = did_you_mean(platform, PLATFORM_BACKENDS, otherwise=f"remove platform, and {fix}")
    elif filename:
        why = f"Triton cannot derive the backend from the name {filename!r} in default_model_filename"
    report(BACKEND_MISSING, what, fix=fix, why=why)


def _check_names(report: Findings, model: Model, part: str, tensors: Sequence[Any]) -> None:
    if not tensors and not model.target.auto_complete:
        what = f"{model.folder!r} lists no {part}"
        fix = f"add every {part} with name, data_type and dims; or {LET_COMPLETE}"
        why = "by default, this library's endpoints do not complete configurations"
        report(TENSORS_MISSING, what, at=part, fix=fix, why=why)
    counted = list(tensors)
    if part == "output" and model.backend.name not in _EACH_OUTPUT_ONCE:
        counted = [tensor for number, tensor in enumerate(tensors) if tensor not in tensors[:number]]
    for name, count in Counter(tensor.name for tensor in counted if tensor.name).items():
        if count > 1:
            what, fix = f"{count} {part}s called {name!r}", "use the names in the model, which are unique"
            report(TENSOR_TWICE, what, at=part, fix=fix, why="Triton keeps only one of them")


def _check_tensor(report: Findings, model: Model, part: str, tensor: Any) -> None:
    called, dims = f"{part} {tensor.name!r}", list(tensor.dims)
    if not tensor.name:
        report(TENSOR_NAME, f"an {part} without a name", at=part, fix="use the tensor's name in the model")
    elif not tensor.data_type and not model.completes:
        fix = "add the data type, such as data_type: TYPE_FP32"
        report(TENSOR_TYPE, f"{called} has no data_type", at=called, fix=fix)
    wrong = _invalid([*dims, *tensor.reshape.shape])
    if wrong or not (dims or model.completes):
        what = f"{called} has a size of {wrong[0]}" if wrong else f"{called} has no dims"
        fix = "write the sizes of one item without the batch: 1 or more, or -1 for a variable one"
        report(TENSOR_DIMS, what, at=called, fix=fix)
    formats = schema().ModelInput
    image = part == "input" and tensor.format in {formats.FORMAT_NHWC, formats.FORMAT_NCHW}
    if dims and len(dims) != _IMAGE_DIMS and (image or tensor.is_non_linear_format_io):
        field = "format" if image else "is_non_linear_format_io"
        given = f"format {formats.Format.Name(tensor.format)}" if image else field
        what = f"{called} has {given} and {len(dims)} dims, {dims}"
        fix = f"write three sizes, without the batch dimension, or remove {field}"
        report(TENSOR_FORMAT, what, at=f"{called}: {field}", fix=fix)
    backend = model.backend
    if backend.platform != "tensorrt_plan" and (backend.name or model.is_ensemble):
        of = "an ensemble" if model.is_ensemble else f"a model of {backend.name!r}"
        for field in ("is_shape_tensor", "is_non_linear_format_io"):
            if getattr(tensor, field):
                fix = f"remove {field}, which is only for TensorRT"
                report(TENSOR_TENSORRT, f"{field} in {of}", at=f"{called}: {field}", fix=fix)


def _check_reshape(report: Findings, config: ModelConfig, called: str, tensor: Any) -> None:
    dims, shape = list(tensor.dims), list(tensor.reshape.shape)
    if not dims or _invalid([*dims, *shape]):
        return
    what, scalar = f"{called} has dims {dims} and the reshape {shape}", dims_count(dims) == 1
    if not shape and not (scalar and config.max_batch_size != 0):
        fix = "remove reshape; only one element, in a model with batches, may have an empty one"
        report(RESHAPE, what, at=f"{called}: reshape", fix=fix)
    elif shape and _trunks(dims) != _trunks(shape):
        fix = "remove reshape, or keep the number of elements, between variable sizes as well"
        report(RESHAPE, what, at=f"{called}: reshape", fix=fix)


def _check_batch_tensors(report: Findings, model: Model, config: ModelConfig) -> None:
    kinds = {"batch_input": schema().BatchInput.Kind, "batch_output": schema().BatchOutput.Kind}
    for part, kind in kinds.items():
        for number, entry in enumerate(getattr(config, part)):
            at, sources = f"{part} {number}", entry.source_input
            if entry.kind not in kind.values():
                what = f"a {part} of the unknown kind {entry.kind}"
                fix = f"use one of {', '.join(kind.keys())}"
                report(BATCH_TENSORS, what, at=f"{at}: kind", fix=fix)
            if len(sources) != 1:
                what = f"a {part} with {len(sources)} source_input"
                report(BATCH_TENSORS, what, at=at, fix="name one input as source_input")
            _check_known(report, model, at, "input", names=sources, tensors=config.input)
            if part == "batch_input" and type_name(entry.data_type) not in _BATCH_INPUT_TYPES:
                what, fix = f"a batch_input of {type_name(entry.data_type)}", " or ".join(_BATCH_INPUT_TYPES)
                report(BATCH_TENSORS, what, at=at, fix=f"use {fix}")
            if part == "batch_output":
                for name, count in Counter(entry.target_name).items():
                    if count > 1:
                        what = f"target_name {name!r} {count} times"
                        report(BATCH_TENSORS, what, at=at, fix="name each target once")
                _check_known(report, model, at, "output", names=entry.target_name, tensors=config.output)


def _check_known(
    report: Findings, model: Model, at: str, part: str, *, names: Iterable[str], tensors: Iterable[Any]
) -> None:
    """Report names of tensors that the model lacks, unless the backend may still add them."""
    known = {tensor.name for tensor in tensors}
    for name in dict.fromkeys(names) if known or not model.completes else ():
        if name not in known:
            fix = f"name an {part} of the model: {', '.join(sorted(known)) or 'there is none'}"
            report(BATCH_TENSORS, f"there is no {part} {name!r}", at=at, fix=fix)


def _check_instances(report: Findings, model: Model, at: str, group: Any) -> None:
    kinds, gpus, profiles = schema().ModelInstanceGroup.Kind, list(group.gpus), list(group.profile)
    kind = kinds.Name(group.kind) if group.kind in kinds.values() else ""
    if not kind:
        fix = f"remove kind, so that the server chooses, or use one of {', '.join(kinds.keys())}"
        report(INSTANCE_KIND, f"an instance_group of the kind {group.kind}", at=at, fix=fix)
    elif gpus and kind in {"KIND_CPU", "KIND_MODEL"}:
        report(INSTANCE_KIND, f"{kind} with gpus {gpus}", at=at, fix="remove gpus, or use KIND_GPU")
    elif any(gpu < 0 for gpu in gpus):
        fix = "use numbers of 0 or more, or remove gpus: the server then uses every GPU"
        report(INSTANCE_KIND, f"gpus {gpus}", at=at, fix=fix)
    count = model.target.gpu_count
    if count is None and model.target.endpoint == MULTI_MODEL_ENDPOINT:
        count = _MULTI_MODEL_GPUS
    if count is not None and (max(gpus, default=-1) >= count or (kind == "KIND_GPU" and not count)):
        given = f"gpus {gpus}" if max(gpus, default=-1) >= count else "KIND_GPU"
        has = f"{count} GPU{'s' * (count != 1)}" if count else "no GPU"
        fix = f"use gpus from 0 to {count - 1}, or remove gpus" if count else "remove kind and gpus"
        report(INSTANCE_GPU, f"{given} on instances with {has}", at=at, fix=fix)
    wrong = [profile for profile in profiles if not _is_index(profile)]
    # Without a backend, another rule reports it.
    if profiles and model.backend.name and model.backend.platform != "tensorrt_plan":
        what = f"profile {profiles} for the backend {model.backend.name!r}"
        report(INSTANCE_PROFILE, what, at=f"{at}: profile", fix="remove profile, which is only for TensorRT")
    elif wrong:
        fix = "use the profile's number, 0 or more, such as profile: [ '0' ]"
        report(INSTANCE_PROFILE, f"profile {wrong[0]!r}", at=f"{at}: profile", fix=fix)


def _invalid(sizes: Iterable[int]) -> list[int]:
    return [size for size in sizes if size < 1 and size != _VARIABLE]


def dims_count(dims: Sequence[int]) -> int:
    """Return the number of elements as Triton counts them: -1 if a size is variable, 0 without dims."""
    return -1 if _VARIABLE in dims else math.prod(dims) if dims else 0


def _trunks(dims: Sequence[int]) -> list[int]:
    """Return the numbers of elements before, between and after variable sizes."""
    counts = [1]
    for size in dims:
        if size == _VARIABLE:
            counts.append(1)
        else:
            counts[-1] *= size
    return counts


def _is_index(profile: str) -> bool:
    match = _INDEX.match(profile)
    return match is not None and 0 <= int(match[1]) <= _MAX_INDEX
