"""Checks of schedulers: batching, sequences with their controls and states, the response cache, and warm-up.

They follow ValidateModelConfig and Get...SequenceControlProperties (src/model_config_utils.cc),
SequenceBatchScheduler::Create and GenerateInitialStateData (src/sequence_batch_scheduler/),
GenerateWarmupData (src/backend_model_instance.cc) and InferenceRequest::Normalize (src/infer_request.cc) of
Triton core, release 24.10, read 2026-11-21. The content of data files is not checked.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from triton_models.artifact.pbtxt import ModelConfig, schema
from triton_models.base.checks import Check
from triton_models.base.suggest import did_you_mean
from triton_models.check.configuration import dims_count
from triton_models.check.report import Findings, rule
from triton_models.check.subject import Model, type_name
from triton_models.declare.tensors import ELEMENT_BYTES

_SOURCE = "2026-11-21: Triton core 24.10, src/model_config_utils.cc and sequence_batch_scheduler.cc"
PREFERRED_BATCH_SIZE = rule("preferred-batch-size", _SOURCE)
PRIORITY_LEVELS = rule("priority-levels", _SOURCE)
PRESERVE_ORDERING = rule("preserve-ordering", _SOURCE)
RESPONSE_CACHE = rule("response-cache", _SOURCE)
SLOT_UTILIZATION = rule("slot-utilization", _SOURCE)
CONTROL_INPUT = rule("control-input", _SOURCE)
CONTROL_VALUES = rule("control-values", _SOURCE)
STATE = rule("state", _SOURCE)
CUSTOM_BATCHING = rule("custom-batching", _SOURCE)
WARM_UP = rule(
    "warm-up", "2026-11-21: Triton core 24.10, src/backend_model_instance.cc and src/infer_request.cc"
)

_CORRELATION_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
_PAIR = 2
_VARIABLE = -1

# These backends refuse to run a batch above max_batch_size: "max allowed is" in onnxruntime.cc, tensorrt.cc,
# libtorch.cc and tensorflow.cc of their repositories, read 2026-11-21.
_LIMIT_BATCHES = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what is wrong in a model's schedulers, cache and warm-up."""
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
    for kind, count in Counter(control.kind for _, control in controls).items():
        if count > 1:
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
    kind, given = _kind(control.kind), [each for each in _VALUES if len(getattr(control, each))]
    values = list(getattr(control, given[0])) if len(given) == 1 else []
    if kind == "CONTROL_SEQUENCE_CORRID":
        data_type = type_name(control.data_type)
        if given or data_type not in _CORRELATION_TYPES:
            what = f"{kind} with {given[0]}" if given else f"{kind} of {data_type}"
            fix = f"write data_type: one of {', '.join(_CORRELATION_TYPES)}, without other values"
            report(CONTROL_VALUES, what, at=at, fix=fix)
    elif len(values) != _PAIR and not kind.isdigit():  # Triton ignores controls of unknown kinds
        named = f"{given[0]}: {values}" if values else " and ".join(given) or "no values"
        fix = f"write two values, for false and true, such as {given[0] if values else _VALUES[1]}: [ 0, 1 ]"
        report(CONTROL_VALUES, f"{kind} with {named}", at=at, fix=fix)


def _check_warm_up(report: Findings, model: Model, config: ModelConfig, at: str, sample: Any) -> None:
    for name in sorted(sample.inputs):
        tensor = sample.inputs[name]
        if dims_count(list(tensor.dims)) == -1:
            what = f"input {name!r} has the dims {list(tensor.dims)}"
            report(WARM_UP, what, at=at, fix="write a number for every size of the warm-up request")
        elif tensor.WhichOneof("input_data_type") is None:
            fix = "add zero_data: true, random_data: true or input_data_file"
            report(WARM_UP, f"input {name!r} has no data", at=at, fix=fix)
        else:
            _check_file(report, WARM_UP, model, at, tensor, field="input_data_file", folder="warmup")
    if config.input or not model.completes:
        _check_warm_up_inputs(report, model, at, config.input, sample.inputs)
    largest = max(config.max_batch_size, 1)
    if model.backend.name in _LIMIT_BATCHES and sample.batch_size > largest:
        what = f"batch_size {sample.batch_size} with max_batch_size {config.max_batch_size}"
        report(WARM_UP, what, at=at, fix=f"lower the batch_size of the warm-up to {largest} or less")


def _check_warm_up_inputs(
    report: Findings, model: Model, at: str, inputs: Sequence[Any], sample: Mapping[str, Any]
) -> None:
    known = {tensor.name: tensor for tensor in reversed(inputs)}  # the first of a name counts
    given = sorted(name for name in sample if name in known)
    required = [tensor.name for tensor in inputs if not tensor.optional]
    missing = sorted({name for name in required if name not in sample})
    if len(given) < len(required) and missing:
        report(WARM_UP, f"it lacks the inputs {', '.join(map(repr, missing))}", at=at, fix="add them")
    elif len(given) < len(required) and model.target.endpoint is None:
        # On an endpoint, "tensor-twice" reports it; a plain server only refuses it in a warm-up.
        what = (
            f"{len(given)} of {len(required)} inputs, because several inputs of the model have the same name"
        )
        report(WARM_UP, what, at=at, fix="list each input of the model once")
    for name in given:
        own, tensor = sample[name], known[name]
        if tensor.data_type and own.data_type != tensor.data_type:
            fix = f"write {type_name(tensor.data_type)}, the type of the input"
            report(WARM_UP, f"input {name!r} is {type_name(own.data_type)}", at=at, fix=fix)
        if tensor.dims and not (_VARIABLE in own.dims or _fits(own.dims, tensor.dims)):
            fix = f"write dims that fit {list(tensor.dims)}, without the batch dimension"
            report(WARM_UP, f"input {name!r} has the dims {list(own.dims)}", at=at, fix=fix)


def _wrong_initial_state(entry: Any, initial: Any) -> list[str]:
    dims, declared = list(initial.dims), list(entry.dims)
    wrong = {
        "its initial_state has another data_type": initial.data_type != entry.data_type,
        "its initial_state has no name": not initial.name,
        f"its dims are {declared} and its initial_state's {dims}": not _fits(dims, declared)
        or _VARIABLE in dims,
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
    bytes_each = 0 if data_type == "TYPE_STRING" else ELEMENT_BYTES.get(data_type, 0)
    least = dims_count(list(tensor.dims)) * bytes_each
    if path not in files:
        siblings = f"{posixpath.dirname(path)}/"
        near = [posixpath.basename(each) for each in files if each.startswith(siblings)]
        fix = did_you_mean(name, near, otherwise=f"put it into the folder {folder}/ of the model")
        report(rule, f"there is no file {name!r}", at=at, fix=fix)
    elif files[path] < least:
        fix = f"write the tensor's raw bytes to it: at least {least}, for the data_type and the dims"
        report(rule, f"{name!r} has {files[path]} bytes", at=at, fix=fix)


def _fits(dims: Sequence[int], declared: Sequence[int]) -> bool:
    return len(dims) == len(declared) and all(
        size in {_VARIABLE, own} for own, size in zip(dims, declared, strict=True)
    )


def _kind(kind: int) -> str:
    kinds: ModelConfig = schema().ModelSequenceBatching.Control.Kind.DESCRIPTOR.values_by_number
    return str(kinds[kind].name) if kind in kinds else str(kind)
