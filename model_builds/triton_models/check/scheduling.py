"""Checks of schedulers: dynamic and sequence batching, controls and states, and the response cache.

They follow ValidateModelConfig and Get...SequenceControlProperties of Triton core
(src/model_config_utils.cc) and SequenceBatchScheduler::Create and GenerateInitialStateData
(src/sequence_batch_scheduler/sequence_batch_scheduler.cc), release 24.10, read 2026-11-21.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator
from typing import Any

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.configuration import dims_count
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig, schema
from triton_models.declare.tensors import ELEMENT_BYTES

_SOURCE = "2026-11-21: Triton core 24.10, src/model_config_utils.cc and sequence_batch_scheduler.cc"

_CORRELATION_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
_PAIR = 2
_NO_SIZE = -1


def preferred_batch_size(subject: Subject) -> Iterator[Problem]:
    """Check that the model accepts batches of the preferred sizes."""
    for model, config in subject.having("dynamic_batching", "sequence_batching"):
        preferred = {
            "dynamic_batching": config.dynamic_batching.preferred_batch_size,
            "sequence_batching.oldest": config.sequence_batching.oldest.preferred_batch_size,
        }
        for part, sizes in preferred.items():
            wrong = [size for size in sizes if not 0 < size <= max(config.max_batch_size, 0)]
            if wrong:
                yield subject.refuse(
                    model,
                    part,
                    f"preferred_batch_size {wrong} with max_batch_size {config.max_batch_size}",
                    expected="every preferred size from 1 to max_batch_size",
                    fix="raise max_batch_size, or remove the size",
                )


def priority_levels(subject: Subject) -> Iterator[Problem]:
    """Check that priorities in the configuration exist."""
    for model, config in subject.having("dynamic_batching"):
        batching = config.dynamic_batching
        levels = batching.priority_levels
        if not levels:
            continue
        if not 1 <= batching.default_priority_level <= levels:
            yield subject.refuse(
                model,
                "dynamic_batching: default_priority_level",
                f"default_priority_level {batching.default_priority_level} of {levels} priority_levels",
                expected=f"a level from 1 to {levels}",
                fix="set the level of requests without a priority",
            )
        for level in sorted(batching.priority_queue_policy):
            if not 1 <= level <= levels:
                yield subject.refuse(
                    model,
                    "dynamic_batching: priority_queue_policy",
                    f"a policy for priority {level} of {levels}",
                    expected=f"a level from 1 to {levels}",
                    fix="correct the key, or raise priority_levels",
                )


def preserve_ordering(subject: Subject) -> Iterator[Problem]:
    """Check that a scheduler that keeps the order of requests does not prioritize or delay them."""
    for model, config in subject.having("dynamic_batching"):
        batching = config.dynamic_batching
        if not batching.preserve_ordering:
            continue
        policies = (batching.default_queue_policy, *batching.priority_queue_policy.values())
        delays = any(
            policy.default_timeout_microseconds
            and policy.timeout_action == schema().ModelQueuePolicy.TimeoutAction.DELAY
            for policy in policies
        )
        if batching.priority_levels > 1 or delays:
            yield subject.refuse(
                model,
                "dynamic_batching: preserve_ordering",
                f"preserve_ordering with {'timeout_action DELAY' if delays else 'several priority levels'}",
                expected="one priority level, and no queue policy that delays requests",
                fix="remove one of the two",
            )


def response_cache(subject: Subject) -> Iterator[Problem]:
    """Check that only models with one independent response per request are cached."""
    for model, config in subject.having("response_cache"):
        if not config.response_cache.enable:
            continue
        decoupled = config.model_transaction_policy.decoupled
        if config.HasField("sequence_batching") or decoupled:
            yield subject.refuse(
                model,
                "response_cache",
                f"response_cache for a model with {'decoupled responses' if decoupled else 'sequences'}",
                expected="the cache only for models with one independent response per request",
                fix="remove response_cache",
            )


def slot_utilization(subject: Subject) -> Iterator[Problem]:
    """Check that the minimum slot utilization is from 0 to 1."""
    for model, config in subject.having("sequence_batching"):
        share = config.sequence_batching.direct.minimum_slot_utilization
        if share < 0.0 or share > 1.0:  # false for "nan", which Triton accepts
            yield subject.refuse(
                model,
                "sequence_batching: direct",
                f"minimum_slot_utilization: {share:g}",
                expected="a number from 0 to 1",
                fix="set it to a share of the slots",
            )


def control_input(subject: Subject) -> Iterator[Problem]:
    """Check that names of control tensors are unique, and that every kind of control has one tensor."""
    for model, config in subject.having("sequence_batching"):
        controls = config.sequence_batching.control_input
        kinds = Counter(control.kind for entry in controls for control in entry.control)
        names = Counter(entry.name for entry in controls)
        for name, count in names.items():
            if count > 1 or not name:
                yield subject.refuse(
                    model,
                    "sequence_batching: control_input",
                    f"{count} control tensors called {name!r}" if name else "a control tensor without a name",
                    expected="a different name for each control tensor",
                    fix="name the tensor that the model reads; two controls need two tensors",
                )
        for kind, count in kinds.items():
            if count > 1:
                yield subject.refuse(
                    model,
                    "sequence_batching: control_input",
                    f"{_kind(kind)} {count} times",
                    expected="each kind of control once",
                    fix="keep one of them",
                )


def control_values(subject: Subject) -> Iterator[Problem]:
    """Check that a control has values, or a data type if it is the correlation id."""
    for model, config in subject.having("sequence_batching"):
        for entry in config.sequence_batching.control_input:
            for control in entry.control:
                yield from _control(subject, model, entry.name, control)


def state(subject: Subject) -> Iterator[Problem]:
    """Check that a state's initial tensor has the type and shape of the state."""
    for model, config in subject.having("sequence_batching"):
        started: set[str] = set()
        for entry in config.sequence_batching.state:
            yield from _state(subject, model, entry)
            if len(entry.initial_state) == 1:
                if entry.input_name in started:
                    yield _bad_state(
                        subject, model, entry, "it has an initial_state twice", "each state once"
                    )
                started.add(entry.input_name)


def custom_batching(subject: Subject) -> Iterator[Problem]:
    """Check that sequence batching has no custom batching strategy."""
    for model, config in subject.having("sequence_batching"):
        name = "TRITON_BATCH_STRATEGY_PATH"
        if config.HasField("sequence_batching") and name in config.parameters:
            yield subject.refuse(
                model,
                f"parameters: {name}",
                f"{name} with sequence_batching",
                expected="a batching library only with dynamic_batching",
                fix="remove one of the two",
            )


def _control(subject: Subject, model: Model, name: str, control: Any) -> Iterator[Problem]:
    where = f"sequence_batching: control_input {name!r}"
    given = [values for values in _VALUES if len(getattr(control, values))]
    kind = _kind(control.kind)
    if kind == "CONTROL_SEQUENCE_CORRID":
        if given or type_name(control.data_type) not in _CORRELATION_TYPES:
            yield subject.refuse(
                model,
                where,
                f"{kind} with {given[0]}" if given else f"{kind} of {type_name(control.data_type)}",
                expected=f"data_type: one of {', '.join(_CORRELATION_TYPES)}, without false and true values",
                fix="set the data type of the correlation id",
            )
    elif len(given) != 1 or len(getattr(control, given[0])) != _PAIR:
        if kind.isdigit():
            return  # Triton ignores controls of unknown kinds
        values = list(getattr(control, given[0])) if len(given) == 1 else []
        count = f"{len(values)} value{'s' * (len(values) != 1)}"
        yield subject.refuse(
            model,
            where,
            f"{kind} with {count} of {given[0]}: {values}"
            if values
            else f"{kind} with {' and '.join(given) or 'no values'}",
            expected=f"one of {', '.join(_VALUES)}, with two values, for false and for true",
            fix=f"write two values, such as {given[0]}: [ 0, 1 ]"
            if values
            else "write a line such as fp32_false_true: [ 0, 1 ]",
        )


def _state(subject: Subject, model: Model, entry: Any) -> Iterator[Problem]:
    if len(entry.initial_state) > 1:
        yield _bad_state(subject, model, entry, "it has several initial_state", "at most one")
    if len(entry.initial_state) != 1:
        return
    initial = entry.initial_state[0]
    if initial.data_type != entry.data_type:
        yield _bad_state(subject, model, entry, "its initial_state has another type", "one data_type")
    if not initial.name:
        yield _bad_state(subject, model, entry, "its initial_state has no name", "a name, for messages")
    if not _dims_fit(list(initial.dims), list(entry.dims)):
        yield _bad_state(
            subject,
            model,
            entry,
            f"its dims are {list(entry.dims)} and its initial_state's {list(initial.dims)}",
            "the same dims, without variable sizes in initial_state",
        )
    choice = initial.WhichOneof("state_data")
    if choice is None:
        yield _bad_state(
            subject, model, entry, "its initial_state has no data", "zero_data: true, or data_file"
        )
    elif choice == "data_file":
        least = 0 if type_name(initial.data_type) == "TYPE_STRING" else least_bytes(initial)
        yield from data_file(
            subject, model, "initial_state", initial.data_file, least=least, where="sequence_batching: state"
        )


def least_bytes(tensor: Any) -> int:
    """Return the smallest file, in bytes, that fills a tensor with a data_type and dims."""
    return dims_count(list(tensor.dims)) * ELEMENT_BYTES.get(type_name(tensor.data_type), 0)


def data_file(
    subject: Subject, model: Model, folder: str, name: str, *, least: int, where: str
) -> Iterator[Problem]:
    """Yield a problem if a data file of a model directory is missing or too short.

    Args:
        subject: The subject of the check.
        model: The model that names the file.
        folder: The folder of the model directory that contains the file.
        name: The name of the file in the configuration.
        least: The number of bytes that Triton reads from it.
        where: The part of the configuration that names the file.
    """
    path = subject.inside(model, name if name.startswith("/") else posixpath.join(folder, name))
    if path is None:
        return  # outside the layout
    if path not in subject.layout.files:
        near = [
            posixpath.basename(p) for p in subject.layout.files if p.startswith(f"{posixpath.dirname(path)}/")
        ]
        yield subject.refuse(
            model,
            where,
            f"there is no file {name!r}",
            expected=f"{path}",
            fix=did_you_mean(name, near, otherwise=f"put it into the folder {folder}/ of the model"),
        )
    elif subject.layout.files[path] < least:
        yield subject.refuse(
            model,
            where,
            f"{name!r} has {subject.layout.files[path]} bytes",
            expected=f"at least {least} bytes, for the data_type and the dims",
            fix="write the tensor's raw bytes to it",
        )


def _dims_fit(initial: list[int], declared: list[int]) -> bool:
    return len(initial) == len(declared) and all(
        own != _NO_SIZE and size in {_NO_SIZE, own} for own, size in zip(initial, declared, strict=True)
    )


def _bad_state(subject: Subject, model: Model, entry: Any, what: str, expected: str) -> Problem:
    return subject.refuse(
        model,
        "sequence_batching: state",
        f"state {entry.input_name!r}: {what}",
        expected=expected,
        fix="correct the initial_state, or remove it to start from zeros",
    )


def _kind(kind: int) -> str:
    kinds: ModelConfig = schema().ModelSequenceBatching.Control.Kind.DESCRIPTOR.values_by_number
    return str(kinds[kind].name) if kind in kinds else str(kind)


CHECKS = (
    ArtifactCheck(id="preferred-batch-size", source=_SOURCE, find=preferred_batch_size),
    ArtifactCheck(id="priority-levels", source=_SOURCE, find=priority_levels),
    ArtifactCheck(id="preserve-ordering", source=_SOURCE, find=preserve_ordering),
    ArtifactCheck(id="response-cache", source=_SOURCE, find=response_cache),
    ArtifactCheck(id="slot-utilization", source=_SOURCE, find=slot_utilization),
    ArtifactCheck(id="control-input", source=_SOURCE, find=control_input),
    ArtifactCheck(id="control-values", source=_SOURCE, find=control_values),
    ArtifactCheck(id="state", source=_SOURCE, find=state),
    ArtifactCheck(id="custom-batching", source=_SOURCE, find=custom_batching),
)
