"""Rules about an ensemble: its steps, and the tensors that flow between them.

They follow ValidateEnsembleSchedulingConfig (src/model_config_utils.cc) and ValidateEnsembleConfig
(src/ensemble_scheduler/ensemble_utils.cc) of Triton core, read 2026-11-21.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triton_models.config import CONFIG_FILE, ModelConfig, schema
from triton_models.errors import Problem
from triton_models.rules.subject import Model, Rule, Subject
from triton_models.suggest import did_you_mean


def ensemble_fields(subject: Subject) -> Iterator[Problem]:
    """An ensemble has steps, and nothing that belongs to a model with a backend."""
    for model, config in _ensembles(subject):
        unwanted = [
            name
            for name, present in (
                ("backend", config.platform == "ensemble" and bool(config.backend)),
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
                expected="those only in its composing models",
                why="Triton refuses the ensemble",
                fix="move or remove them",
            )
        if not config.ensemble_scheduling.step:
            yield Problem(
                what=f"the ensemble {model.folder!r} has no step",
                where=subject.place(model, "ensemble_scheduling"),
                expected="a step for each composing model",
                why="Triton refuses the ensemble",
                fix="add the steps",
            )


def step_fields(subject: Subject) -> Iterator[Problem]:
    """Every step names its model, its inputs and its outputs."""
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
    """Every step's model is in the artifact."""
    folders = [*(model.folder for model in subject.models), *subject.unconfigured()]
    for model, config in _ensembles(subject):
        available = [folder for folder in folders if folder != model.folder]
        for number, step in enumerate(config.ensemble_scheduling.step):
            if step.model_name and step.model_name not in available:
                yield Problem(
                    what=f"the composing model {step.model_name!r} is not in the artifact",
                    where=subject.place(model, f"step {number}"),
                    expected=f"a folder {step.model_name}/ beside {model.folder}/",
                    why="the load fails, and what was loaded before it failed stays in GPU memory",
                    fix=did_you_mean(
                        step.model_name, available, otherwise="add the model, or remove the step"
                    ),
                )


def step_tensor(subject: Subject) -> Iterator[Problem]:
    """Every tensor that a step maps exists in its model."""
    for model, number, step, config in _steps(subject):
        for part, mapped, tensors in (
            ("input", step.input_map, config.input),
            ("output", step.output_map, config.output),
        ):
            names = [tensor.name for tensor in tensors]
            for name in sorted(mapped):
                if names and name not in names:
                    yield Problem(
                        what=f"{step.model_name!r} has no {part} {name!r}",
                        where=subject.place(model, f"step {number}, {part}_map"),
                        expected=f"one of {', '.join(names)} as key",
                        why="Triton refuses the ensemble",
                        fix=did_you_mean(
                            name, names, otherwise=f"use a name from {step.model_name}/{CONFIG_FILE}"
                        ),
                    )


def step_input(subject: Subject) -> Iterator[Problem]:
    """Every input that a step's model requires is mapped."""
    for model, number, step, config in _steps(subject):
        for tensor in config.input:
            if not tensor.optional and tensor.name not in step.input_map:
                yield Problem(
                    what=f"input {tensor.name!r} of {step.model_name!r} is fed by nothing",
                    where=subject.place(model, f"step {number}, input_map"),
                    expected=f"an entry with key {tensor.name!r}",
                    why="Triton refuses the ensemble",
                    fix="map it to a tensor of the ensemble, or make it optional in the composing model",
                )


def step_batch_size(subject: Subject) -> Iterator[Problem]:
    """Every step's model takes the ensemble's largest batch."""
    for model, number, step, config in _steps(subject):
        largest = model.config.max_batch_size if model.config is not None else 0
        if 0 < config.max_batch_size < largest:
            yield Problem(
                what=f"{step.model_name!r} takes batches of {config.max_batch_size}, not {largest}",
                where=subject.place(model, f"step {number}"),
                expected=f"max_batch_size of at least {largest}, or 0, in {step.model_name}/{CONFIG_FILE}",
                why="Triton refuses the ensemble",
                fix="lower the ensemble's max_batch_size or raise the step's",
            )


def tensor_type(subject: Subject) -> Iterator[Problem]:
    """Producer and consumers of a tensor agree on its data type."""
    for model, first, other in _pairs(subject):
        if first.data_type != other.data_type:
            types = schema().DataType
            yield Problem(
                what=f"tensor {first.tensor!r} is {types.Name(first.data_type)} in {first.user} "
                f"and {types.Name(other.data_type)} in {other.user}",
                where=subject.place(model, f"tensor {first.tensor!r}"),
                expected="one data type",
                why="Triton refuses the ensemble",
                fix="make the data types equal",
            )


def tensor_shape(subject: Subject) -> Iterator[Problem]:
    """Producer and consumers of a tensor can agree on its shape."""
    for model, first, other in _pairs(subject):
        if not (_match(first.dims, other.dims) or _match(first.full_dims, other.full_dims)):
            yield Problem(
                what=f"tensor {first.tensor!r} is {list(first.full_dims)} in {first.user} "
                f"and {list(other.full_dims)} in {other.user}, batch dimension included",
                where=subject.place(model, f"tensor {first.tensor!r}"),
                expected="the same sizes, where -1 matches any",
                why="Triton refuses the ensemble",
                fix="make the shapes equal, or a size -1",
            )


def tensor_writers(subject: Subject) -> Iterator[Problem]:
    """Every tensor is written by one step."""
    for model, config in _ensembles(subject):
        steps = config.ensemble_scheduling.step
        written = Counter(tensor for step in steps for tensor in step.output_map.values())
        for tensor, count in sorted(written.items()):
            if count > 1:
                yield Problem(
                    what=f"tensor {tensor!r} is written {count} times",
                    where=subject.place(model, f"tensor {tensor!r}"),
                    expected="one output_map entry for each tensor",
                    why="Triton refuses the ensemble",
                    fix="give each output a tensor of its own",
                )


def tensor_unconnected(subject: Subject) -> Iterator[Problem]:
    """Every tensor comes from an input or a step, and goes to a step or an output."""
    for model, config in _ensembles(subject):
        steps = [step for step in config.ensemble_scheduling.step if step.input_map and step.output_map]
        if not steps:
            continue
        inputs = {tensor.name for tensor in config.input}
        outputs = {tensor.name for tensor in config.output}
        read = {tensor for step in steps for tensor in step.input_map.values()}
        written = {tensor for step in steps for tensor in step.output_map.values()}
        ready = _ready(steps, inputs)
        faults = (
            (
                inputs - read - written,
                "is an input of the ensemble that no step reads",
                "read it, or drop it",
            ),
            (
                outputs - ready,
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
                "is written by a step and read by nothing",
                "leave it out of output_map",
            ),
        )
        for tensors, what, fix in faults:
            for tensor in sorted(tensors):
                yield Problem(
                    what=f"tensor {tensor!r} {what}",
                    where=subject.place(model, f"tensor {tensor!r}"),
                    expected="tensors that connect the inputs with the outputs, step by step",
                    why="Triton refuses the ensemble",
                    fix=fix,
                )


def _ensembles(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    for model, config in subject.parsed():
        if model.is_ensemble:
            yield model, config


def _steps(subject: Subject) -> Iterator[tuple[Model, int, Any, ModelConfig]]:
    """Every step with its ensemble, its number and its model's configuration, where that could be parsed."""
    by_folder = {model.folder: config for model, config in subject.parsed()}
    for model, config in _ensembles(subject):
        for number, step in enumerate(config.ensemble_scheduling.step):
            if step.model_name in by_folder and step.model_name != model.folder:
                yield model, number, step, by_folder[step.model_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """What one model says about a tensor of the ensemble."""

    tensor: str
    user: str
    data_type: int
    dims: tuple[int, ...]
    batching: bool

    @property
    def full_dims(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batching else self.dims


def _pairs(subject: Subject) -> Iterator[tuple[Model, _Use, _Use]]:
    """Each tensor's first use with every other: the ensemble's own word first, then the steps in order."""
    for model, config in _ensembles(subject):
        first: dict[str, _Use] = {}
        for use in (*_own_uses(model, config), *_step_uses(subject, model)):
            if use.tensor in first:
                yield model, first[use.tensor], use
            else:
                first[use.tensor] = use


def _own_uses(model: Model, config: ModelConfig) -> Iterator[_Use]:
    for tensor in (*config.input, *config.output):
        yield _Use(
            tensor=tensor.name,
            user=f"the ensemble {model.folder!r}",
            data_type=tensor.data_type,
            dims=tuple(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims),
            batching=config.max_batch_size > 0,
        )


def _step_uses(subject: Subject, ensemble: Model) -> Iterator[_Use]:
    for model, _, step, config in _steps(subject):
        if model is not ensemble:
            continue
        for mapped, tensors in ((step.input_map, config.input), (step.output_map, config.output)):
            for tensor in tensors:
                if tensor.name in mapped:
                    yield _Use(
                        tensor=mapped[tensor.name],
                        user=repr(step.model_name),
                        data_type=tensor.data_type,
                        dims=tuple(tensor.dims),
                        batching=config.max_batch_size > 0,
                    )


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))


def _ready(steps: list[Any], inputs: set[str]) -> set[str]:
    """The tensors that have a value once no further step can run."""
    ready = set(inputs)
    waiting = list(steps)
    while True:
        runnable = [step for step in waiting if ready.issuperset(step.input_map.values())]
        if not runnable:
            return ready
        waiting = [step for step in waiting if step not in runnable]
        ready.update(tensor for step in runnable for tensor in step.output_map.values())


RULES = (
    Rule(id="ensemble-fields", find=ensemble_fields),
    Rule(id="step-fields", find=step_fields),
    Rule(id="step-model", find=step_model),
    Rule(id="step-tensor", find=step_tensor),
    Rule(id="step-input", find=step_input),
    Rule(id="step-batch-size", find=step_batch_size),
    Rule(id="tensor-type-mismatch", find=tensor_type),
    Rule(id="tensor-shape-mismatch", find=tensor_shape),
    Rule(id="tensor-written-twice", find=tensor_writers),
    Rule(id="tensor-unconnected", find=tensor_unconnected),
)
