"""Checks of a single config.pbtxt: everything that Triton's core refuses regardless of other models.

They follow ValidateModelConfig, ValidateIOShape, ValidateModelInput, ValidateModelOutput and ValidateBatchIO
of Triton core (src/model_config_utils.cc; release 24.10, compared with main of 2026-06-09; read 2026-11-21).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend import MODEL_FILES, PLATFORM_BACKENDS
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.check.target import ENDPOINTS, LET_COMPLETE
from triton_models.config.pbtxt import ModelConfig, schema

_SOURCE = "2026-11-21: Triton core 24.10, src/model_config_utils.cc"

_CHECKED_PAIRS = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})
_VARIABLE = -1
_IMAGE_DIMS = 3

# Backends that refuse a repeated output, even if it is equal: InitializeExecuteOutputBinding of
# tensorrt_backend (src/instance_state.cc) and AutofillOutputsConfig of dali_backend
# (src/config_tools/config_tools.cc), which uses outputs by position; r25.09, read 2026-11-22.
_EACH_OUTPUT_ONCE = frozenset({"dali", "tensorrt"})


def model_name(subject: Subject) -> Iterator[Problem]:
    """Check that a model has the name of its directory."""
    # A multi-model endpoint renames the model, so that AWS's examples have any name.
    endpoint = "; for an endpoint that names the models itself: --endpoint-kind multi-model"
    hint = endpoint if subject.target.endpoint is None and len(subject.models) == 1 else ""
    for model, config in subject.parsed():
        own = subject.is_renamed(model) or not model.path or not config.name
        if own or config.name == model.folder:
            continue
        yield subject.refuse(
            model,
            "name",
            f"the model in folder {model.folder!r} has the name {config.name!r}",
            expected=f"name: {model.folder!r}, or no name",
            why='Triton refuses the model, and ensembles with it: "not available or ambiguous"',
            fix="make folder and name equal, or remove the name" + hint,
        )


def backend_missing(subject: Subject) -> Iterator[Problem]:
    """Check that the backend of a model is known, and matches the platform."""
    for model, config in subject.parsed():
        backend = model.backend
        if backend.platform == "ensemble" or model.is_ensemble:
            continue
        if not backend.name:
            yield _no_backend(subject, model, config)
        elif backend.name in _CHECKED_PAIRS and PLATFORM_BACKENDS.get(backend.platform) != backend.name:
            known = [platform for platform, name in PLATFORM_BACKENDS.items() if name == backend.name]
            yield subject.refuse(
                model,
                "platform",
                f"platform {backend.platform!r} with backend {backend.name!r}",
                expected=f"one of {', '.join(known)} for that backend",
                why="Triton refuses the pair",
                fix=f"write platform: {known[0]!r}" if backend.name == "tensorflow" else "remove platform",
            )


def max_batch_size(subject: Subject) -> Iterator[Problem]:
    """Check that the batch size is not negative."""
    for model, config in subject.having("max_batch_size"):
        if config.max_batch_size < 0:
            yield subject.refuse(
                model,
                "max_batch_size",
                f"max_batch_size: {config.max_batch_size}",
                expected="0 for a model without a batch dimension, otherwise the largest batch",
                fix="set it to 0 or more",
            )


def tensors_missing(subject: Subject) -> Iterator[Problem]:
    """Check that inputs and outputs are listed."""
    if subject.target.auto_complete:
        return
    for model, config in subject.parsed():
        for part, tensors in (("input", config.input), ("output", config.output)):
            if not tensors:
                yield subject.refuse(
                    model,
                    part,
                    f"{model.folder!r} lists no {part}",
                    expected=f"every {part} with name, data_type and dims",
                    why="by default, this library's endpoints do not complete configurations",
                    fix=f"add the {part}s; or {LET_COMPLETE}",
                )


def tensor_twice(subject: Subject) -> Iterator[Problem]:
    """Check that names of inputs are unique, and that outputs with the same name are equal."""
    for model, config in subject.parsed():
        for part, tensors in (("input", config.input), ("output", config.output)):
            repeatable = part == "output" and model.backend.name not in _EACH_OUTPUT_ONCE
            counted = _distinct(tensors) if repeatable else tensors
            for name, count in Counter(tensor.name for tensor in counted).items():
                if count > 1 and name:
                    yield subject.refuse(
                        model,
                        part,
                        f"{count} {part}s called {name!r}",
                        expected="a unique name",
                        why="Triton keeps only one of them",
                        fix="use the tensor's name in the model",
                    )


def tensor_name(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor has a name."""
    for model, part, tensor in _tensors(subject):
        if not tensor.name:
            yield subject.refuse(
                model,
                part,
                f"an {part} without a name",
                expected="the tensor's name in the model",
                fix="use the tensor's name in the model",
            )


def tensor_type(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor has a data type."""
    for model, part, tensor in _tensors(subject):
        if tensor.name and not tensor.data_type and not model.completes:
            yield subject.refuse(
                model,
                f"{part} {tensor.name!r}",
                f"{part} {tensor.name!r} has no data_type",
                expected="a line such as data_type: TYPE_FP32",
                fix="add the data type",
            )


def tensor_dims(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor has a valid shape."""
    for model, part, tensor in _tensors(subject):
        wrong = [size for size in (*tensor.dims, *tensor.reshape.shape) if size < 1 and size != _VARIABLE]
        if wrong or not (tensor.dims or model.completes):
            yield subject.refuse(
                model,
                f"{part} {tensor.name!r}",
                f"{part} {tensor.name!r} has a size of {wrong[0]}"
                if wrong
                else f"{part} {tensor.name!r} has no dims",
                expected="sizes of at least 1, or -1 for a variable one, without the batch dimension",
                fix="write the shape of one item, such as dims: [ -1 ]",
            )


def tensor_format(subject: Subject) -> Iterator[Problem]:
    """Check that images and tensors with a special memory layout have three dimensions."""
    for model, part, tensor in _tensors(subject):
        if not tensor.dims or len(tensor.dims) == _IMAGE_DIMS:
            continue
        image = part == "input" and tensor.format in {
            schema().ModelInput.FORMAT_NHWC,
            schema().ModelInput.FORMAT_NCHW,
        }
        if image or tensor.is_non_linear_format_io:
            said = "format" if image else "is_non_linear_format_io"
            given = f"format {schema().ModelInput.Format.Name(tensor.format)}" if image else said
            yield subject.refuse(
                model,
                f"{part} {tensor.name!r}: {said}",
                f"{part} {tensor.name!r} has {given} and {len(tensor.dims)} dims, {list(tensor.dims)}",
                expected="three dims, without the batch dimension",
                fix=f"write all three sizes, or remove {said}",
            )


def tensor_tensorrt(subject: Subject) -> Iterator[Problem]:
    """Check that shape tensors and special memory layouts are only used with TensorRT."""
    for model, part, tensor in _tensors(subject):
        if model.backend.platform == "tensorrt_plan" or not (model.backend.name or model.is_ensemble):
            continue
        of = "an ensemble" if model.is_ensemble else f"a model of {model.backend.name!r}"
        for said in ("is_shape_tensor", "is_non_linear_format_io"):
            if getattr(tensor, said):
                yield subject.refuse(
                    model,
                    f"{part} {tensor.name!r}: {said}",
                    f"{said} in {of}",
                    expected="this field only with the TensorRT backend",
                    fix=f"remove {said}",
                )


def reshape(subject: Subject) -> Iterator[Problem]:
    """Check that a reshape keeps the number of elements before, between and after variable sizes."""
    for model, part, tensor in _tensors(subject):
        if not tensor.HasField("reshape") or not tensor.dims:
            continue
        dims, shape = list(tensor.dims), list(tensor.reshape.shape)
        if any(size < 1 and size != _VARIABLE for size in (*dims, *shape)):
            continue
        batched = model.config is not None and model.config.max_batch_size != 0
        if (not shape and (dims_count(dims) != 1 or not batched)) or (
            shape and _trunks(dims) != _trunks(shape)
        ):
            yield subject.refuse(
                model,
                f"{part} {tensor.name!r}: reshape",
                f"{part} {tensor.name!r} has dims {dims} and the reshape {shape}",
                expected="the same number of elements, and the same between variable sizes"
                if shape
                else "an empty reshape only for one element, in a model with batches",
                fix="make the products of the sizes equal, or remove reshape",
            )


def batch_tensors(subject: Subject) -> Iterator[Problem]:
    """Check that batch inputs and outputs name existing tensors."""
    for model, config in subject.having("batch_input", "batch_output"):
        complete = not model.completes
        for number, entry in enumerate(config.batch_input):
            yield from _batch_input(subject, model, config, number, entry, complete=complete)
        for number, entry in enumerate(config.batch_output):
            yield from _batch_output(subject, model, config, number, entry, complete=complete)


def _no_backend(subject: Subject, model: Model, config: ModelConfig) -> Problem:
    """Return the problem of a model without a backend. Like Triton's core, look at files last."""
    platform, filename = config.platform, config.default_model_filename
    what = f"neither backend nor platform for {model.folder!r}"
    why = "Triton cannot derive the backend from the files in the version folder"
    fix = "name the backend"
    if platform:
        what = f"platform {platform!r} does not name a backend"
        why = "Triton refuses an unknown platform"
        known = f'write backend: "{platform}"' if platform in MODEL_FILES else fix
        otherwise = f"remove platform, and {known}"
        fix = (
            otherwise
            if platform in MODEL_FILES
            else did_you_mean(platform, PLATFORM_BACKENDS, otherwise=otherwise)
        )
    elif filename:
        why = f"Triton cannot derive the backend from the name {filename!r} in default_model_filename"
    return subject.refuse(model, "", what, expected='a line such as backend: "onnxruntime"', why=why, fix=fix)


def _distinct(tensors: Sequence[Any]) -> list[Any]:
    """Return the tensors without repetitions of equal ones."""
    return [tensor for number, tensor in enumerate(tensors) if tensor not in tensors[:number]]


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


def _batch_input(
    subject: Subject, model: Model, config: ModelConfig, number: int, entry: Any, *, complete: bool
) -> Iterator[Problem]:
    where = f"batch_input {number}"
    yield from _kind(subject, model, "batch_input", number, entry, kinds=schema().BatchInput.Kind)
    if len(entry.source_input) != 1:
        yield subject.refuse(
            model,
            where,
            f"a batch_input with {len(entry.source_input)} source_input",
            expected="one source_input",
            fix="name the input that it is computed from",
        )
    if type_name(entry.data_type) not in {"TYPE_INT32", "TYPE_FP32"}:
        yield subject.refuse(
            model,
            where,
            f"a batch_input of {type_name(entry.data_type)}",
            expected="data_type: TYPE_INT32 or TYPE_FP32",
            fix="use one of the two",
        )
    yield from _unknown(
        subject, model, where, entry.source_input, tensors=config.input, part="input", complete=complete
    )


def _batch_output(
    subject: Subject, model: Model, config: ModelConfig, number: int, entry: Any, *, complete: bool
) -> Iterator[Problem]:
    where = f"batch_output {number}"
    yield from _kind(subject, model, "batch_output", number, entry, kinds=schema().BatchOutput.Kind)
    if len(entry.source_input) != 1:
        yield subject.refuse(
            model,
            where,
            f"a batch_output with {len(entry.source_input)} source_input",
            expected="one source_input",
            fix="name the input whose shape it follows",
        )
    for name, count in Counter(entry.target_name).items():
        if count > 1:
            yield subject.refuse(
                model,
                where,
                f"target_name {name!r} {count} times",
                expected="every target once",
                fix="name it once",
            )
    yield from _unknown(
        subject, model, where, entry.source_input, tensors=config.input, part="input", complete=complete
    )
    yield from _unknown(
        subject, model, where, entry.target_name, tensors=config.output, part="output", complete=complete
    )


def _kind(
    subject: Subject, model: Model, part: str, number: int, entry: Any, *, kinds: Any
) -> Iterator[Problem]:
    if entry.kind not in kinds.values():
        yield subject.refuse(
            model,
            f"{part} {number}: kind",
            f"a {part} of the unknown kind {entry.kind}",
            expected=f"one of {', '.join(kinds.keys())}",
            fix="name one of them",
        )


def _unknown(
    subject: Subject,
    model: Model,
    where: str,
    names: Sequence[str],
    *,
    tensors: Sequence[Any],
    part: str,
    complete: bool,
) -> Iterator[Problem]:
    known = {tensor.name for tensor in tensors}
    for name in dict.fromkeys(names):
        if name not in known and (complete or known):
            yield subject.refuse(
                model,
                where,
                f"there is no {part} {name!r}",
                expected=f"one of {', '.join(sorted(known)) or 'the ' + part + 's, of which there are none'}",
                fix=f"name an {part} of the model",
            )


def _tensors(subject: Subject) -> Iterator[tuple[Model, str, Any]]:
    for model, config in subject.parsed():
        tensors: ModelConfig
        for part, tensors in (("input", config.input), ("output", config.output)):
            for tensor in tensors:
                yield model, part, tensor


CHECKS = (
    ArtifactCheck(id="composing-name", source=_SOURCE, find=model_name),
    ArtifactCheck(id="backend-missing", source=_SOURCE, find=backend_missing),
    ArtifactCheck(id="max-batch-size", source=_SOURCE, find=max_batch_size),
    ArtifactCheck(id="tensors-missing", source=_SOURCE, find=tensors_missing, endpoints=ENDPOINTS),
    ArtifactCheck(id="tensor-name", source=_SOURCE, find=tensor_name),
    ArtifactCheck(id="tensor-twice", source=_SOURCE, find=tensor_twice, endpoints=ENDPOINTS),
    ArtifactCheck(id="tensor-type", source=_SOURCE, find=tensor_type),
    ArtifactCheck(id="tensor-dims", source=_SOURCE, find=tensor_dims),
    ArtifactCheck(id="tensor-format", source=_SOURCE, find=tensor_format),
    ArtifactCheck(id="tensor-tensorrt", source=_SOURCE, find=tensor_tensorrt),
    ArtifactCheck(id="reshape", source=_SOURCE, find=reshape),
    ArtifactCheck(id="batch-tensors", source=_SOURCE, find=batch_tensors),
)
