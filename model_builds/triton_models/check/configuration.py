"""Checks of a single config.pbtxt: everything that Triton's core refuses regardless of other models.

They follow ValidateModelConfig, ValidateIOShape, ValidateModelInput, ValidateModelOutput, ValidateBatchIO,
NormalizeInstanceGroup and ValidateInstanceGroup of Triton core (src/model_config_utils.cc; release 24.10,
compared with main of 2026-06-09; read 2026-11-21).

Schedulers, with sequences, their controls and states, the response cache and warm-up, follow
Get...SequenceControlProperties (the same file), SequenceBatchScheduler::Create and GenerateInitialStateData
(src/sequence_batch_scheduler/), GenerateWarmupData (src/backend_model_instance.cc) and
InferenceRequest::Normalize and ValidateBytesInputs (src/infer_request.cc). Of data files, only the strings of
warm-ups are read.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

from triton_models.artifact.pbtxt import ModelConfig, schema
from triton_models.artifact.targets import plan_profiles
from triton_models.base.checks import Check
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend import MODEL_FILES, PLATFORM_BACKENDS
from triton_models.check.subject import Findings, Model, rule, type_name
from triton_models.check.target import ENDPOINTS, LET_COMPLETE, MULTI_MODEL_ENDPOINT
from triton_models.declare.tensors import ELEMENT_BYTES

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

_SCHEDULERS = "2026-11-21: Triton core 24.10, src/model_config_utils.cc and sequence_batch_scheduler.cc"
PREFERRED_BATCH_SIZE = rule("preferred-batch-size", _SCHEDULERS)
PRIORITY_LEVELS = rule("priority-levels", _SCHEDULERS)
PRESERVE_ORDERING = rule("preserve-ordering", _SCHEDULERS)
RESPONSE_CACHE = rule("response-cache", _SCHEDULERS)
SLOT_UTILIZATION = rule("slot-utilization", _SCHEDULERS)
CONTROL_INPUT = rule("control-input", _SCHEDULERS)
CONTROL_VALUES = rule("control-values", _SCHEDULERS)
STATE = rule("state", _SCHEDULERS)
CUSTOM_BATCHING = rule("custom-batching", _SCHEDULERS)
WARM_UP = rule(
    "warm-up", "2026-11-21: Triton core 24.10, src/backend_model_instance.cc and src/infer_request.cc"
)

# They refuse a batch above max_batch_size: "max allowed is" in onnxruntime.cc, tensorrt.cc, libtorch.cc and
# tensorflow.cc of their repositories, read 2026-11-21.
_WITH_PLATFORMS = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})
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

_CORRELATION_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
_PAIR = 2
_Value = TypeVar("_Value")
_LENGTH_BYTES, _PIECE = 4, 1 << 16


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
    _check_schedulers(report, model, config)


def _check_backend(report: Findings, model: Model, config: ModelConfig) -> None:
    backend, platform, filename = model.backend, config.platform, config.default_model_filename
    if backend.name in _WITH_PLATFORMS and PLATFORM_BACKENDS.get(backend.platform) != backend.name:
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
    for name, count in _repeated(tensor.name for tensor in counted if tensor.name):
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
    fix = ""
    if not shape and not (_dims_count(dims) == 1 and config.max_batch_size != 0):
        fix = "remove reshape; only one element, in a model with batches, may have an empty one"
    elif shape and _trunks(dims) != _trunks(shape):
        fix = "remove reshape, or keep the number of elements, between variable sizes as well"
    if fix:
        what = f"{called} has dims {dims} and the reshape {shape}"
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
                for name, count in _repeated(entry.target_name):
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
    count, largest = model.target.gpu_count, max(gpus, default=-1)
    if count is None and model.target.endpoint == MULTI_MODEL_ENDPOINT:
        count = _MULTI_MODEL_GPUS
    if count is not None and (largest >= count or (kind == "KIND_GPU" and not count)):
        what = f"gpus {gpus}" if largest >= count else "KIND_GPU"
        has = f"{count} GPU{'s' * (count != 1)}" if count else "no GPU"
        fix = f"use gpus from 0 to {count - 1}, or remove gpus" if count else "remove kind and gpus"
        report(INSTANCE_GPU, f"{what} on instances with {has}", at=at, fix=fix)
    wrong = [profile for profile in profiles if _index(profile) is None]
    # Without a backend, another rule reports it.
    if profiles and model.backend.name and model.backend.platform != "tensorrt_plan":
        what = f"profile {profiles} for the backend {model.backend.name!r}"
        report(INSTANCE_PROFILE, what, at=f"{at}: profile", fix="remove profile, which is only for TensorRT")
    elif wrong:
        fix = "use the profile's number, 0 or more, such as profile: [ '0' ]"
        report(INSTANCE_PROFILE, f"profile {wrong[0]!r}", at=f"{at}: profile", fix=fix)
    last = max((index for index in map(_index, profiles) if index is not None), default=-1)
    for path in model.paths(model.backend.filename):
        count = plan_profiles(model.record, path)
        if count is not None and last >= count:
            fix = f"use profiles from 0 to {count - 1}, or compile more"
            report(INSTANCE_PROFILE, f"profile {last} of a plan with {count}", at=f"{at}: profile", fix=fix)


def _repeated(values: Iterable[_Value]) -> Iterator[tuple[_Value, int]]:
    """Yield the values that are not unique, and how often they are there."""
    return ((value, count) for value, count in Counter(values).items() if count > 1)


def _invalid(sizes: Iterable[int]) -> list[int]:
    return [size for size in sizes if size < 1 and size != _VARIABLE]


def _dims_count(dims: Sequence[int]) -> int:
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


def _index(profile: str) -> int | None:
    match = _INDEX.match(profile)
    return int(match[1]) if match is not None and 0 <= int(match[1]) <= _MAX_INDEX else None


# Schedulers


def _check_schedulers(report: Findings, model: Model, config: ModelConfig) -> None:
    if config.HasField("dynamic_batching"):
        _check_dynamic(report, config, config.dynamic_batching)
    if config.HasField("sequence_batching"):
        _check_sequences(report, model, config, config.sequence_batching)
    decoupled = config.model_transaction_policy.decoupled
    if config.response_cache.enable and (decoupled or config.HasField("sequence_batching")):
        what = f"response_cache for a model with {'decoupled responses' if decoupled else 'sequences'}"
        report(RESPONSE_CACHE, what, at="response_cache", fix="remove response_cache")
    passive = config.instance_group and all(group.passive for group in config.instance_group)
    if not model.is_ensemble and not passive:  # passive models run no warm-up
        for sample in config.model_warmup:
            if sample.batch_size:
                _check_warm_up(report, model, config, f"model_warmup {sample.name!r}", sample)


def _check_dynamic(report: Findings, config: ModelConfig, batching: Any) -> None:
    _check_preferred(report, config, "dynamic_batching", batching.preferred_batch_size)
    levels = batching.priority_levels
    default = batching.default_priority_level
    policies = batching.priority_queue_policy
    if levels and not 1 <= default <= levels:
        what = f"default_priority_level {default} of {levels} priority_levels"
        fix = f"set the level of requests without a priority, from 1 to {levels}"
        report(PRIORITY_LEVELS, what, at="dynamic_batching: default_priority_level", fix=fix)
    for level in sorted(policies) if levels else ():
        if not 1 <= level <= levels:
            what = f"a policy for priority {level} of {levels}"
            fix = f"use a key from 1 to {levels}, or raise priority_levels"
            report(PRIORITY_LEVELS, what, at="dynamic_batching: priority_queue_policy", fix=fix)
    delay = schema().ModelQueuePolicy.TimeoutAction.DELAY
    delays = any(
        policy.default_timeout_microseconds and policy.timeout_action == delay
        for policy in (batching.default_queue_policy, *policies.values())
    )
    if batching.preserve_ordering and (delays or levels > 1):
        what = f"preserve_ordering with {'timeout_action DELAY' if delays else 'several priority levels'}"
        report(PRESERVE_ORDERING, what, at="dynamic_batching: preserve_ordering", fix="remove one of the two")


def _check_preferred(report: Findings, config: ModelConfig, part: str, sizes: Sequence[int]) -> None:
    wrong = [size for size in sizes if not 0 < size <= max(config.max_batch_size, 0)]
    if wrong:
        what = f"preferred_batch_size {wrong} with max_batch_size {config.max_batch_size}"
        fix = "use sizes from 1 to max_batch_size, or raise max_batch_size"
        report(PREFERRED_BATCH_SIZE, what, at=part, fix=fix)


def _check_sequences(report: Findings, model: Model, config: ModelConfig, batching: Any) -> None:
    _check_preferred(report, config, "sequence_batching.oldest", batching.oldest.preferred_batch_size)
    share = batching.direct.minimum_slot_utilization
    if share < 0.0 or share > 1.0:  # false for "nan", which Triton accepts
        what, fix = f"minimum_slot_utilization: {share:g}", "write a share of the slots, from 0 to 1"
        report(SLOT_UTILIZATION, what, at="sequence_batching: direct", fix=fix)
    name = "TRITON_BATCH_STRATEGY_PATH"
    if name in config.parameters:
        fix = "remove one of the two; a batching library is only for dynamic_batching"
        report(CUSTOM_BATCHING, f"{name} with sequence_batching", at=f"parameters: {name}", fix=fix)
    at = "sequence_batching: control_input"
    for name, count in Counter(entry.name for entry in batching.control_input).items():
        if count > 1 or not name:
            what = f"{count} control tensors called {name!r}" if name else "a control tensor without a name"
            fix = "name the tensor that the model reads; two controls need two tensors"
            report(CONTROL_INPUT, what, at=at, fix=fix)
    controls = [(entry.name, control) for entry in batching.control_input for control in entry.control]
    for kind, count in _repeated(control.kind for _, control in controls):
        report(CONTROL_INPUT, f"{_kind(kind)} {count} times", at=at, fix="keep one of them")
    for name, control in controls:
        _check_control(report, f"{at} {name!r}", control)
    _check_states(report, model, batching.state)


def _check_states(report: Findings, model: Model, states: Sequence[Any]) -> None:
    started: set[str] = set()
    at = "sequence_batching: state"
    for entry in states:
        wrong = ["it has several initial_state"] if len(entry.initial_state) > 1 else []
        if len(entry.initial_state) == 1:
            (initial,) = entry.initial_state
            wrong = _wrong_initial_state(entry, initial)
            wrong += ["it has an initial_state twice"] if entry.input_name in started else []
            started.add(entry.input_name)
            _check_file(report, STATE, model, at, initial, field="data_file", folder="initial_state")
        for what in wrong:
            fix = "correct the initial_state, or remove it to start from zeros"
            report(STATE, f"state {entry.input_name!r}: {what}", at=at, fix=fix)


def _check_control(report: Findings, at: str, control: Any) -> None:
    kind, fields = _kind(control.kind), [name for name in _VALUES if len(getattr(control, name))]
    values = list(getattr(control, fields[0])) if len(fields) == 1 else []
    if kind == "CONTROL_SEQUENCE_CORRID":
        data_type = type_name(control.data_type)
        if fields or data_type not in _CORRELATION_TYPES:
            what = f"{kind} with {fields[0]}" if fields else f"{kind} of {data_type}"
            fix = f"write data_type: one of {', '.join(_CORRELATION_TYPES)}, without other values"
            report(CONTROL_VALUES, what, at=at, fix=fix)
    elif len(values) != _PAIR and not kind.isdigit():  # Triton ignores controls of unknown kinds
        has = f"{fields[0]}: {values}" if values else " and ".join(fields) or "no values"
        fix = f"write two values, for false and true, such as {fields[0] if values else _VALUES[1]}: [ 0, 1 ]"
        report(CONTROL_VALUES, f"{kind} with {has}", at=at, fix=fix)


def _check_warm_up(report: Findings, model: Model, config: ModelConfig, at: str, sample: Any) -> None:
    for name in sorted(sample.inputs):
        tensor = sample.inputs[name]
        if _dims_count(list(tensor.dims)) == -1:
            what = f"input {name!r} has the dims {list(tensor.dims)}"
            report(WARM_UP, what, at=at, fix="write a number for every size of the warm-up request")
        elif tensor.WhichOneof("input_data_type") is None:
            fix = "add zero_data: true, random_data: true or input_data_file"
            report(WARM_UP, f"input {name!r} has no data", at=at, fix=fix)
        else:
            _check_file(report, WARM_UP, model, at, tensor, field="input_data_file", folder="warmup")
            names = {own.name for own in config.input}
            if type_name(tensor.data_type) == "TYPE_STRING" and name in names:
                _check_strings(report, model, at, tensor)
    if config.input or not model.completes:
        _check_warm_up_inputs(report, model, at, config.input, sample.inputs)
    largest = max(config.max_batch_size, 1)
    if model.backend.name in _WITH_PLATFORMS and sample.batch_size > largest:
        what = f"batch_size {sample.batch_size} with max_batch_size {config.max_batch_size}"
        report(WARM_UP, what, at=at, fix=f"lower the batch_size of the warm-up to {largest} or less")


def _check_warm_up_inputs(
    report: Findings, model: Model, at: str, inputs: Sequence[Any], sample: Mapping[str, Any]
) -> None:
    known = {tensor.name: tensor for tensor in reversed(inputs)}  # the first of a name counts
    names = sorted(name for name in sample if name in known)
    required = [tensor.name for tensor in inputs if not tensor.optional]
    missing = sorted({name for name in required if name not in sample})
    if len(names) < len(required) and missing:
        report(WARM_UP, f"it lacks the inputs {', '.join(map(repr, missing))}", at=at, fix="add them")
    elif len(names) < len(required) and model.target.endpoint is None:
        # On an endpoint, "tensor-twice" reports it; a plain server only refuses it in a warm-up.
        what = f"{len(names)} of {len(required)} inputs, because several inputs of the model have the same "
        report(WARM_UP, f"{what}name", at=at, fix="list each input of the model once")
    for name in names:
        own, tensor = sample[name], known[name]
        if tensor.data_type and own.data_type != tensor.data_type:
            fix = f"write {type_name(tensor.data_type)}, the type of the input"
            report(WARM_UP, f"input {name!r} is {type_name(own.data_type)}", at=at, fix=fix)
        if tensor.dims and not (_VARIABLE in own.dims or _fits(own.dims, tensor.dims)):
            fix = f"write dims that fit {list(tensor.dims)}, without the batch dimension"
            report(WARM_UP, f"input {name!r} has the dims {list(own.dims)}", at=at, fix=fix)


def _wrong_initial_state(entry: Any, initial: Any) -> list[str]:
    dims, declared = list(initial.dims), list(entry.dims)
    fits = _fits(dims, declared) and _VARIABLE not in dims
    wrong = {
        "its initial_state has another data_type": initial.data_type != entry.data_type,
        "its initial_state has no name": not initial.name,
        f"its dims are {declared} and its initial_state's {dims}": not fits,
        "its initial_state has no zero_data or data_file": initial.WhichOneof("state_data") is None,
    }
    return [what for what, is_wrong in wrong.items() if is_wrong]


def _check_file(
    report: Findings, rule: Check, model: Model, at: str, tensor: Any, *, field: str, folder: str
) -> None:
    """Check that a tensor's data file, in a folder of the model directory, exists and is long enough."""
    name, files = getattr(tensor, field), model.layout.files
    path = model.inside(name if name.startswith("/") else posixpath.join(folder, name))
    if not tensor.HasField(field) or path is None:
        return  # outside the layout
    data_type = type_name(tensor.data_type)
    element = 0 if data_type == "TYPE_STRING" else ELEMENT_BYTES.get(data_type, 0)
    least = _dims_count(list(tensor.dims)) * element
    if path not in files:
        siblings = f"{posixpath.dirname(path)}/"
        near = [posixpath.basename(file) for file in files if file.startswith(siblings)]
        fix = did_you_mean(name, near, otherwise=f"put it into the folder {folder}/ of the model")
        report(rule, f"there is no file {name!r}", at=at, fix=fix)
    elif files[path] < least:
        fix = f"write the tensor's raw bytes to it: at least {least}, for the data_type and the dims"
        report(rule, f"{name!r} has {files[path]} bytes", at=at, fix=fix)


def _check_strings(report: Findings, model: Model, at: str, tensor: Any) -> None:
    """Check that a file has as many strings as a warm-up needs, each after its length."""
    name, expected = tensor.input_data_file, _dims_count(list(tensor.dims))
    path = model.inside(posixpath.join("warmup", name)) if name and not name.startswith("/") else None
    if path is None or path not in model.layout.files:
        return
    with suppress(OSError), model.layout.opened(path) as content:
        count, rest = _strings(content, expected)
        if count != expected or rest:
            has = f"more than {expected}" if count > expected else str(count)
            what = f"{name!r} has {has} strings for the dims {list(tensor.dims)}"
            what += f", and {rest}" if rest else ""
            fix = f"write {expected} strings to it, each after its length as 4 bytes, the lowest first: "
            fix += 'len(text).to_bytes(4, "little") + text'
            report(WARM_UP, what, at=at, fix=fix)


def _strings(content: IO[bytes], most: int) -> tuple[int, str]:
    """Return the number of strings up to one more than a number, and what is wrong with the last one."""
    count = 0
    while head := content.read(_LENGTH_BYTES):
        if len(head) < _LENGTH_BYTES:
            return count, f"{len(head)} bytes after them"
        count, left = count + 1, int.from_bytes(head, "little")
        if count > most:
            return count, ""
        while left:
            piece = content.read(min(left, _PIECE))
            if not piece:
                return count, f"the last one is {left} bytes shorter than its length"
            left -= len(piece)
    return count, ""


def _fits(dims: Sequence[int], declared: Sequence[int]) -> bool:
    return len(dims) == len(declared) and all(
        size in {_VARIABLE, own} for own, size in zip(dims, declared, strict=True)
    )


def _kind(kind: int) -> str:
    kinds: ModelConfig = schema().ModelSequenceBatching.Control.Kind.DESCRIPTOR.values_by_number
    return str(kinds[kind].name) if kind in kinds else str(kind)
