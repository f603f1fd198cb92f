"""Checks of an ensemble: its steps, and the tensors that flow between them.

They follow ValidateEnsembleSchedulingConfig (src/model_config_utils.cc), ValidateEnsembleConfig
(src/ensemble_scheduler/ensemble_utils.cc), CheckNode and CircularDependencyCheck
(src/model_repository_manager/model_repository_manager.cc) of Triton core, release 24.10, read 2026-11-21.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.check.target import MULTI_MODEL_ENDPOINT
from triton_models.config.pbtxt import CONFIG_FILE, ModelConfig

_SOURCE = (
    "2026-11-21: Triton core 24.10, src/model_config_utils.cc, ensemble_scheduler/, model_repository_manager/"
)

_ANY_VERSION = -1


def ensemble_fields(subject: Subject) -> Iterator[Problem]:
    """Check that an ensemble has steps, and no fields of a model with a backend."""
    for model, config in _ensembles(subject):
        unwanted = [
            name
            for name, present in (
                ("backend", config.platform == "ensemble" and bool(config.backend or model.backend.name)),
                ("instance_group", bool(config.instance_group)),
                ("optimization", config.HasField("optimization")),
                ("model_warmup", bool(config.model_warmup)),
            )
            if present
        ]
        if unwanted:
            yield Problem(
                what=f"the ensemble {model.folder!r} has {', '.join(unwanted)}",
                where=subject.place(model),
                expected="these fields only in its composing models",
                why="Triton refuses the ensemble",
                fix="move or remove them",
            )
        undetected = subject.target.endpoint == MULTI_MODEL_ENDPOINT and not model.looks_like_ensemble
        if config.HasField("ensemble_scheduling") and config.platform != "ensemble" and not undetected:
            yield subject.refuse(
                model,
                "platform",
                f"ensemble_scheduling with platform {config.platform!r}",
                expected='platform: "ensemble"',
                fix='write platform: "ensemble" and remove backend',
            )
        if config.backend == "ensemble" and not config.HasField("ensemble_scheduling"):
            continue  # probably the name of a custom backend
        if not config.ensemble_scheduling.step:
            yield Problem(
                what=f"the ensemble {model.folder!r} has no step",
                where=subject.place(model, "ensemble_scheduling"),
                expected="one step per composing model",
                why="Triton refuses the ensemble",
                fix="add the steps",
            )


def step_fields(subject: Subject) -> Iterator[Problem]:
    """Check that every step names its model, its inputs and its outputs."""
    for model, config in _ensembles(subject):
        for number, step in enumerate(config.ensemble_scheduling.step):
            missing = [name for name in ("model_name", "input_map", "output_map") if not getattr(step, name)]
            if missing:
                yield Problem(
                    what=f"step {number} ({step.model_name or 'no name'}) has no {', '.join(missing)}",
                    where=subject.place(model, f"step {number}"),
                    expected="model_name, input_map and output_map",
                    why="Triton refuses the ensemble",
                    fix="add them",
                )


def step_model(subject: Subject) -> Iterator[Problem]:
    """Check that every step's model is in the artifact."""
    folders = [*(model.folder for model in subject.models), *subject.unconfigured()]
    for model, config in _ensembles(subject):
        available = [folder for folder in folders if folder != model.folder]
        steps = config.ensemble_scheduling.step
        unused = set(available).difference(step.model_name for step in steps)
        for number, step in enumerate(steps):
            if not step.model_name or step.model_name in available:
                continue
            itself = step.model_name == model.folder
            otherwise = "name another model" if itself else "add the model"
            yield Problem(
                what=f"the ensemble {model.folder!r} runs itself"
                if itself
                else f"the composing model {step.model_name!r} is not in the artifact",
                where=subject.place(model, f"step {number}"),
                expected="the name of a composing model"
                if itself
                else f"a folder {step.model_name}/ next to {model.folder}/",
                why="Triton refuses the ensemble, and models loaded before stay in GPU memory",
                fix=did_you_mean(
                    step.model_name, sorted(unused), otherwise=f"{otherwise}, or remove the step"
                ),
            )


def step_version(subject: Subject) -> Iterator[Problem]:
    """Check that every step runs a version that is loaded."""
    available = {model.folder: model.available_versions() for model in subject.models}
    for model, config in _ensembles(subject):
        for number, step in enumerate(config.ensemble_scheduling.step):
            versions = available.get(step.model_name, ())
            if versions and step.model_version != _ANY_VERSION and step.model_version not in versions:
                yield Problem(
                    what=f"version {step.model_version} of {step.model_name!r} is not loaded",
                    where=subject.place(model, f"step {number}: model_version"),
                    expected=f"-1 for the newest, or one of {', '.join(map(str, versions))}",
                    why="Triton refuses the ensemble; a step without model_version runs version 0",
                    fix="write model_version: -1",
                )


def cycle(subject: Subject) -> Iterator[Problem]:
    """Check that no ensemble runs itself, directly or through others."""
    steps = {
        model.folder: [step.model_name for step in config.ensemble_scheduling.step]
        for model, config in _ensembles(subject)
    }
    for model, _ in _ensembles(subject):
        through = _way_back(model.folder, steps)
        if len(through) > 1:
            yield Problem(
                what=f"the ensembles {' -> '.join([*through, model.folder])} form a cycle",
                where=subject.place(model, "ensemble_scheduling"),
                expected="steps that lead to models with a backend",
                why="Triton refuses every ensemble of the cycle",
                fix="remove one of them from another's steps",
            )


def decoupled_inputs(subject: Subject) -> Iterator[Problem]:
    """Check that a step's inputs come from a single stream of responses."""
    if subject.target.endpoint == MULTI_MODEL_ENDPOINT:
        return  # these endpoints do not support decoupled models
    configs = {model.folder: config for model, config in subject.parsed()}
    for model, config in _ensembles(subject):
        labels = _stream_labels(config, configs, seen=(model.folder,))
        for tensor in labels.conflicts:
            yield Problem(
                what=f"tensor {tensor!r} combines tensors of different decoupled models",
                where=subject.place(model, f"tensor {tensor!r}"),
                expected="inputs from at most one decoupled step",
                why="Triton cannot match their responses",
                fix="combine them in a model that calls the others",
            )


def step_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor that a step maps exists in its model."""
    for model, number, step, other, config in _steps(subject):
        for part, mapped, tensors in (
            ("input", step.input_map, config.input),
            ("output", step.output_map, config.output),
        ):
            names = [tensor.name for tensor in tensors]
            for name in sorted(mapped):
                if part == "output" and names.count(name) > 1:
                    yield Problem(
                        what=f"{step.model_name!r} lists the output {name!r} {names.count(name)} times",
                        where=subject.place(model, f"step {number}, output_map"),
                        expected="each output of a composing model once",
                        why="Triton refuses the ensemble",
                        fix=f"list it once in {step.model_name}/{CONFIG_FILE}",
                    )
                if name not in names and not _may_get_more(other, names):
                    yield Problem(
                        what=f"{step.model_name!r} has no {part} {name!r}",
                        where=subject.place(model, f"step {number}, {part}_map"),
                        expected=f"one of {', '.join(names)} as key" if names else f"an existing {part}",
                        why="Triton refuses the ensemble",
                        fix=did_you_mean(
                            name, names, otherwise=f"use a name from {step.model_name}/{CONFIG_FILE}"
                        ),
                    )


def step_input(subject: Subject) -> Iterator[Problem]:
    """Check that every input that a step's model requires is mapped."""
    for model, number, step, _, config in _steps(subject):
        for tensor in config.input:
            if not tensor.optional and tensor.name not in step.input_map:
                yield Problem(
                    what=f"input {tensor.name!r} of {step.model_name!r} is not fed by any tensor",
                    where=subject.place(model, f"step {number}, input_map"),
                    expected=f"an input_map entry with key {tensor.name!r}",
                    why="Triton refuses the ensemble",
                    fix="map it to a tensor of the ensemble, or make it optional in the composing model",
                )


def step_batch_size(subject: Subject) -> Iterator[Problem]:
    """Check that every step's model accepts the ensemble's largest batch."""
    for model, number, step, _, config in _steps(subject):
        largest = model.config.max_batch_size if model.config is not None else 0
        if 0 < config.max_batch_size < largest:
            yield Problem(
                what=f"{step.model_name!r} accepts batches of {config.max_batch_size}, not {largest}",
                where=subject.place(model, f"step {number}"),
                expected=f"max_batch_size of at least {largest}, or 0, in {step.model_name}/{CONFIG_FILE}",
                why="Triton refuses the ensemble",
                fix="lower the ensemble's max_batch_size or raise the step's",
            )


def tensor_type(subject: Subject) -> Iterator[Problem]:
    """Check that producer and consumers of a tensor agree on its data type."""
    for model, first, other in _pairs(subject):
        if first.data_type != other.data_type and first.data_type and other.data_type:
            yield Problem(
                what=f"tensor {first.tensor!r} is {type_name(first.data_type)} in {first.user} "
                f"and {type_name(other.data_type)} in {other.user}",
                where=subject.place(model, f"tensor {first.tensor!r}"),
                expected="one data type",
                why="Triton refuses the ensemble",
                fix="make the data types equal",
            )


def tensor_shape(subject: Subject) -> Iterator[Problem]:
    """Check that producer and consumers of a tensor can agree on its shape."""
    for model, first, other in _pairs(subject):
        if not (_match(first.dims, other.dims) or _match(first.full_dims, other.full_dims)):
            yield Problem(
                what=f"tensor {first.tensor!r} is {list(first.full_dims)} in {first.user} "
                f"and {list(other.full_dims)} in {other.user}, batch dimension included",
                where=subject.place(model, f"tensor {first.tensor!r}"),
                expected="equal sizes, where -1 matches any",
                why="Triton refuses the ensemble",
                fix="make the shapes equal, or a size -1",
            )


def tensor_writers(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor is written by a single step."""
    for model, config in _ensembles(subject):
        steps = config.ensemble_scheduling.step
        written = Counter(tensor for step in steps for tensor in step.output_map.values())
        for tensor, count in sorted(written.items()):
            if count > 1:
                yield Problem(
                    what=f"tensor {tensor!r} is written {count} times",
                    where=subject.place(model, f"tensor {tensor!r}"),
                    expected="one output_map entry per tensor",
                    why="Triton refuses the ensemble",
                    fix="map each output to a different tensor",
                )


def tensor_unconnected(subject: Subject) -> Iterator[Problem]:
    """Check that every tensor comes from an input or a step, and goes to a step or an output."""
    for model, config in _ensembles(subject):
        steps = [step for step in config.ensemble_scheduling.step if step.input_map and step.output_map]
        if not steps:
            continue
        inputs = {tensor.name for tensor in config.input}
        outputs = {tensor.name for tensor in config.output}
        mapped = {
            name for step in steps for part in (step.input_map, step.output_map) for name in part.values()
        }
        read = {tensor for step in steps for tensor in step.input_map.values()}
        written = {tensor for step in steps for tensor in step.output_map.values()}
        ready = _ready(steps, inputs)
        faults = (
            (
                inputs - read - written,
                "is an input of the ensemble that no step reads",
                "read it in a step, or remove it",
            ),
            (
                outputs - (ready & mapped),
                "is an output of the ensemble that no step can write",
                "map a step's output to it",
            ),
            (
                (read - ready) - outputs,
                "is read by a step but cannot be written before it",
                "map an earlier step's output to it",
            ),
            (
                (written & ready) - read - outputs,
                "is written by a step but never read",
                "remove it from output_map",
            ),
        )
        for tensors, what, fix in faults:
            for tensor in sorted(tensors):
                yield Problem(
                    what=f"tensor {tensor!r} {what}",
                    where=subject.place(model, f"tensor {tensor!r}"),
                    expected="tensors that connect the inputs with the outputs",
                    why="Triton refuses the ensemble",
                    fix=fix,
                )


def _may_get_more(model: Model, listed: Sequence[str]) -> bool:
    """Return True if the backend of a composing model may add tensors to the listed ones."""
    return model.completes and not model.is_ensemble and (not listed or model.backend.adds_tensors)


def _ensembles(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    for model in subject.ensembles:
        if model.config is not None:
            yield model, model.config


def _steps(subject: Subject) -> Iterator[tuple[Model, int, Any, Model, ModelConfig]]:
    """Yield every step with its ensemble, number, model and the model's configuration, if all are known."""
    by_folder = {model.folder: (model, config) for model, config in subject.parsed()}
    for model, config in _ensembles(subject):
        for number, step in enumerate(config.ensemble_scheduling.step):
            if step.model_name in by_folder and step.model_name != model.folder:
                yield model, number, step, *by_folder[step.model_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """The use of an ensemble's tensor by one model."""

    tensor: str
    user: str
    data_type: int
    dims: tuple[int, ...]
    batching: bool

    @property
    def full_dims(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batching else self.dims


def _pairs(subject: Subject) -> Iterator[tuple[Model, _Use, _Use]]:
    """Yield each tensor's first use with every other; the ensemble's own comes first, then those of steps."""
    uses = _step_uses(subject)
    for model, config in _ensembles(subject):
        first = {use.tensor: use for use in reversed(list(_own_uses(model, config)))}
        for use in uses.get(model.folder, ()):
            if use.tensor in first:
                yield model, first[use.tensor], use
            else:
                first[use.tensor] = use


def _own_uses(model: Model, config: ModelConfig) -> Iterator[_Use]:
    for tensor in (*config.input, *config.output):
        if not tensor.dims:
            continue  # another check reports it
        yield _Use(
            tensor=tensor.name,
            user=f"the ensemble {model.folder!r}",
            data_type=tensor.data_type,
            dims=tuple(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims),
            batching=config.max_batch_size > 0,
        )


def _step_uses(subject: Subject) -> dict[str, list[_Use]]:
    """Return the uses of tensors by the steps, by the ensemble's folder."""
    found: dict[str, list[_Use]] = {}
    for model, _, step, _, config in _steps(subject):
        uses = found.setdefault(model.folder, [])
        for mapped, tensors in ((step.input_map, config.input), (step.output_map, config.output)):
            for tensor in tensors:
                if tensor.name in mapped and tensor.dims:  # without dims, only the backend knows them
                    uses.append(
                        _Use(
                            tensor=mapped[tensor.name],
                            user=repr(step.model_name),
                            data_type=tensor.data_type,
                            dims=tuple(tensor.dims),
                            batching=config.max_batch_size > 0,
                        )
                    )
    return found


def _way_back(start: str, steps: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest path from an ensemble to itself; empty if there is none."""
    ways = deque([[start]])
    seen = set()
    while ways:
        way = ways.popleft()
        for name in steps.get(way[-1], ()):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Streams:
    """The tensors of an ensemble that mix the responses of different decoupled models."""

    conflicts: tuple[str, ...]
    decoupled: bool


def _stream_labels(
    config: ModelConfig, configs: Mapping[str, ModelConfig], *, seen: tuple[str, ...]
) -> _Streams:
    """Find conflicts by numbering the streams of responses, and following the tensors as they get values."""
    labels = {tensor.name: 0 for tensor in config.input}
    waiting = [step for step in config.ensemble_scheduling.step if step.input_map and step.output_map]
    conflicts: list[str] = []
    streams = 0
    while runnable := [step for step in waiting if all(name in labels for name in step.input_map.values())]:
        for step in runnable:
            waiting.remove(step)
            sources = {labels[name] for name in step.input_map.values()}
            if len(sources) > 1:
                conflicts.extend(sorted(step.output_map.values()))
            label = min(sources)
            if _is_decoupled(step.model_name, configs, seen=seen):
                streams += 1
                label = streams
            for name in step.output_map.values():
                labels.setdefault(name, label)
    outputs = {labels[tensor.name] for tensor in config.output if tensor.name in labels}
    if len(outputs) > 1:
        conflicts.extend(tensor.name for tensor in config.output if tensor.name in labels)
    return _Streams(conflicts=tuple(dict.fromkeys(conflicts)), decoupled=streams > 0)


def _is_decoupled(name: str, configs: Mapping[str, ModelConfig], *, seen: tuple[str, ...]) -> bool:
    config = configs.get(name)
    if config is None or name in seen:
        return False
    if config.HasField("ensemble_scheduling"):
        return _stream_labels(config, configs, seen=(*seen, name)).decoupled
    return bool(config.model_transaction_policy.decoupled)


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))


def _ready(steps: list[Any], inputs: set[str]) -> set[str]:
    """Return the tensors that have a value when no further step can run."""
    ready = set(inputs)
    waiting = list(steps)
    while True:
        runnable = [step for step in waiting if ready.issuperset(step.input_map.values())]
        if not runnable:
            return ready
        waiting = [step for step in waiting if step not in runnable]
        ready.update(tensor for step in runnable for tensor in step.output_map.values())


CHECKS = (
    ArtifactCheck(id="ensemble-fields", source=_SOURCE, find=ensemble_fields),
    ArtifactCheck(id="step-fields", source=_SOURCE, find=step_fields),
    ArtifactCheck(id="step-model", source=_SOURCE, find=step_model),
    ArtifactCheck(id="step-version", source=_SOURCE, find=step_version),
    ArtifactCheck(id="ensemble-cycle", source=_SOURCE, find=cycle),
    ArtifactCheck(id="decoupled-inputs", source=_SOURCE, find=decoupled_inputs),
    ArtifactCheck(id="step-tensor", source=_SOURCE, find=step_tensor),
    ArtifactCheck(id="step-input", source=_SOURCE, find=step_input),
    ArtifactCheck(id="step-batch-size", source=_SOURCE, find=step_batch_size),
    ArtifactCheck(id="tensor-type-mismatch", source=_SOURCE, find=tensor_type),
    ArtifactCheck(id="tensor-shape-mismatch", source=_SOURCE, find=tensor_shape),
    ArtifactCheck(id="tensor-written-twice", source=_SOURCE, find=tensor_writers),
    ArtifactCheck(id="tensor-unconnected", source=_SOURCE, find=tensor_unconnected),
)
