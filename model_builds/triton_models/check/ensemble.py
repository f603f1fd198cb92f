"""Checks of an ensemble: its steps, and the tensors that flow between them.

They follow ValidateEnsembleSchedulingConfig (src/model_config_utils.cc), ValidateEnsembleConfig
(src/ensemble_scheduler/ensemble_utils.cc), CheckNode and CircularDependencyCheck
(src/model_repository_manager/model_repository_manager.cc) of Triton core, release 24.10, read 2026-11-21.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.pbtxt import CONFIG_FILE, ModelConfig
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import Findings, Model, Subject, rule, type_name
from triton_models.check.target import MULTI_MODEL_ENDPOINT

_SOURCE = (
    "2026-11-21: Triton core 24.10, src/model_config_utils.cc, ensemble_scheduler/, model_repository_manager/"
)
ENSEMBLE_FIELDS = rule("ensemble-fields", _SOURCE)
STEP_FIELDS = rule("step-fields", _SOURCE)
STEP_MODEL = rule("step-model", _SOURCE)
STEP_VERSION = rule("step-version", _SOURCE)
ENSEMBLE_CYCLE = rule("ensemble-cycle", _SOURCE)
DECOUPLED_INPUTS = rule("decoupled-inputs", _SOURCE)
STEP_TENSOR = rule("step-tensor", _SOURCE)
STEP_INPUT = rule("step-input", _SOURCE)
STEP_BATCH_SIZE = rule("step-batch-size", _SOURCE)
TENSOR_TYPE_MISMATCH = rule("tensor-type-mismatch", _SOURCE)
TENSOR_SHAPE_MISMATCH = rule("tensor-shape-mismatch", _SOURCE)
TENSOR_WRITTEN_TWICE = rule("tensor-written-twice", _SOURCE)
TENSOR_UNCONNECTED = rule("tensor-unconnected", _SOURCE)

_REFUSED = "Triton refuses the ensemble"
_ANY_VERSION = -1


def check_artifact(report: Findings, subject: Subject) -> None:
    """Report what is wrong in the ensembles of an artifact."""
    ensembles = [(model, config) for model, config in subject.parsed() if model.is_ensemble]
    if not ensembles:
        return
    by_folder = {model.folder: model for model in subject.models}
    folders = {*by_folder, *subject.unconfigured()}
    configs = {model.folder: config for model, config in subject.parsed()}
    names = {
        model.folder: [step.model_name for step in config.ensemble_scheduling.step]
        for model, config in ensembles
    }
    for model, config in ensembles:
        own = report.of(model)
        _check_fields(own, model, config)
        _check_tensors(own, config)
        cycle = _way_back(model.folder, names)
        if len(cycle) > 1:
            what = f"the ensembles {' -> '.join([*cycle, model.folder])} form a cycle"
            fix, why = "remove one of them from another's steps", "Triton refuses every ensemble of the cycle"
            own(ENSEMBLE_CYCLE, what, at="ensemble_scheduling", fix=fix, why=why)
        # Multi-model endpoints do not support decoupled models.
        if subject.target.endpoint != MULTI_MODEL_ENDPOINT:
            for tensor in _follow_streams(config, configs, seen=(model.folder,))[0]:
                what = f"tensor {tensor!r} combines tensors of different decoupled models"
                fix = "combine them in a model that calls the others"
                why = "Triton cannot match their responses"
                own(DECOUPLED_INPUTS, what, at=f"tensor {tensor!r}", fix=fix, why=why)
        uses: list[_Use] = []
        for number, step in enumerate(config.ensemble_scheduling.step):
            at, step_config = f"step {number}", configs.get(step.model_name)
            _check_step(own, model.folder, at, step, folders)
            if step_config is not None and step.model_name != model.folder:
                _check_step_model(own, config, at, step, by_folder[step.model_name])
                uses += _step_uses(step, step_config)
        _check_uses(own, _own_uses(model, config), uses)


def _check_fields(report: Findings, model: Model, config: ModelConfig) -> None:
    has_backend = bool(config.backend or model.backend.name)
    unwanted = {
        "backend": config.platform == "ensemble" and has_backend,
        "instance_group": bool(config.instance_group),
        "optimization": config.HasField("optimization"),
        "model_warmup": bool(config.model_warmup),
    }
    if any(unwanted.values()):
        fields = ", ".join(name for name, present in unwanted.items() if present)
        fix = "remove them, or move them to its composing models"
        report(ENSEMBLE_FIELDS, f"the ensemble {model.folder!r} has {fields}", fix=fix, why=_REFUSED)
    undetected = model.target.endpoint == MULTI_MODEL_ENDPOINT and not model.looks_like_ensemble
    if config.HasField("ensemble_scheduling") and config.platform != "ensemble" and not undetected:
        what = f"ensemble_scheduling with platform {config.platform!r}"
        fix = 'write platform: "ensemble" and remove backend'
        report(ENSEMBLE_FIELDS, what, at="platform", fix=fix, why=_REFUSED)
    # "ensemble" alone is probably the name of a custom backend.
    custom = config.backend == "ensemble" and not config.HasField("ensemble_scheduling")
    if not custom and not config.ensemble_scheduling.step:
        what, fix = f"the ensemble {model.folder!r} has no step", "add a step per composing model"
        report(ENSEMBLE_FIELDS, what, at="ensemble_scheduling", fix=fix, why=_REFUSED)


def _check_step(report: Findings, ensemble: str, at: str, step: Any, folders: Set[str]) -> None:
    missing = [name for name in ("model_name", "input_map", "output_map") if not getattr(step, name)]
    if missing:
        what = f"{at} ({step.model_name or 'no name'}) has no {', '.join(missing)}"
        report(STEP_FIELDS, what, at=at, fix="add them", why=_REFUSED)
    name = step.model_name
    if name and (name == ensemble or name not in folders):
        what, add = f"the ensemble {name!r} runs itself", "name another model"
        if name != ensemble:
            what = f"the composing model {name!r} is not in the artifact"
            add = f"add a folder {name}/ next to {ensemble}/"
        unused = folders - report.subject.step_names() - {ensemble}
        fix = did_you_mean(name, sorted(unused), otherwise=f"{add}, or remove the step")
        why = "Triton refuses the ensemble, and models loaded before stay in GPU memory"
        report(STEP_MODEL, what, at=at, fix=fix, why=why)


def _check_step_model(report: Findings, ensemble: ModelConfig, at: str, step: Any, model: Model) -> None:
    config: ModelConfig = model.config
    file, versions = f"{step.model_name}/{CONFIG_FILE}", model.available_versions()
    if versions and step.model_version not in {_ANY_VERSION, *versions}:
        what = f"version {step.model_version} of {step.model_name!r} is not loaded"
        fix = f"write model_version: -1 for the newest, or one of {', '.join(map(str, versions))}"
        why = "Triton refuses the ensemble; a step without model_version runs version 0"
        report(STEP_VERSION, what, at=f"{at}: model_version", fix=fix, why=why)
    for part, mapped, tensors in (
        ("input", step.input_map, config.input),
        ("output", step.output_map, config.output),
    ):
        names = [tensor.name for tensor in tensors]
        for name in sorted(mapped):
            if part == "output" and names.count(name) > 1:
                what = f"{step.model_name!r} lists the output {name!r} {names.count(name)} times"
                report(STEP_TENSOR, what, at=f"{at}, {part}_map", fix=f"list it once in {file}", why=_REFUSED)
            if name not in names and not _may_get_more(model, names):
                what = f"{step.model_name!r} has no {part} {name!r}"
                otherwise = f"use a name from {file}: {', '.join(names) or 'there is none'}"
                fix = did_you_mean(name, names, otherwise=otherwise)
                report(STEP_TENSOR, what, at=f"{at}, {part}_map", fix=fix, why=_REFUSED)
    for tensor in config.input:
        if not tensor.optional and tensor.name not in step.input_map:
            what = f"input {tensor.name!r} of {step.model_name!r} is not fed by any tensor"
            fix = "map it to a tensor of the ensemble, or make it optional in the composing model"
            report(STEP_INPUT, what, at=f"{at}, input_map", fix=fix, why=_REFUSED)
    if 0 < config.max_batch_size < ensemble.max_batch_size:
        largest = ensemble.max_batch_size
        what = f"{step.model_name!r} accepts batches of {config.max_batch_size}, not {largest}"
        fix = f"lower the ensemble's max_batch_size, or raise the step's to {largest}"
        report(STEP_BATCH_SIZE, what, at=at, fix=fix, why=_REFUSED)


def _check_tensors(report: Findings, config: ModelConfig) -> None:
    all_written = Counter(
        name for step in config.ensemble_scheduling.step for name in step.output_map.values()
    )
    for tensor, count in sorted(all_written.items()):
        if count > 1:
            what, fix = f"tensor {tensor!r} is written {count} times", "map each output to a different tensor"
            report(TENSOR_WRITTEN_TWICE, what, at=f"tensor {tensor!r}", fix=fix, why=_REFUSED)
    steps = _mapped_steps(config)
    inputs = {tensor.name for tensor in config.input}
    outputs = {tensor.name for tensor in config.output}
    read = {tensor for step in steps for tensor in step.input_map.values()}
    written = {tensor for step in steps for tensor in step.output_map.values()}
    ready = inputs.union(*(step.output_map.values() for step in _runnable(steps, inputs)))
    faults = {
        "is an input of the ensemble that no step reads": inputs - read - written,
        "is an output of the ensemble that no step can write": outputs - (ready & (read | written)),
        "is read by a step but cannot be written before it": read - ready - outputs,
        "is written by a step but never read": (written & ready) - read - outputs,
    }
    for fault, tensors in faults.items() if steps else ():
        for tensor in sorted(tensors):
            fix = "map an input or output of a step to it, or remove it"
            what = f"tensor {tensor!r} {fault}"
            report(TENSOR_UNCONNECTED, what, at=f"tensor {tensor!r}", fix=fix, why=_REFUSED)


def _check_uses(report: Findings, own: Iterable[_Use], by_steps: Iterable[_Use]) -> None:
    first: dict[str, _Use] = {}
    for use in own:
        first.setdefault(use.tensor, use)
    for use in by_steps:
        other, at = first.setdefault(use.tensor, use), f"tensor {use.tensor!r}"
        if other.data_type != use.data_type and other.data_type and use.data_type:
            types = type_name(other.data_type), type_name(use.data_type)
            what = f"{at} is {types[0]} in {other.user} and {types[1]} in {use.user}"
            report(TENSOR_TYPE_MISMATCH, what, at=at, fix="make the data types equal", why=_REFUSED)
        if not (_match(other.dims, use.dims) or _match(other.full_dims, use.full_dims)):
            what = f"is {list(other.full_dims)} in {other.user} and {list(use.full_dims)} in {use.user}"
            what = f"{at} {what}, batch dimension included"
            fix = "make the shapes equal, or a size -1, which matches any"
            report(TENSOR_SHAPE_MISMATCH, what, at=at, fix=fix, why=_REFUSED)


def _may_get_more(model: Model, listed: Sequence[str]) -> bool:
    """Return True if the backend of a composing model may add tensors to the listed ones."""
    return model.completes and not model.is_ensemble and (not listed or model.backend.adds_tensors)


def _mapped_steps(config: ModelConfig) -> list[Any]:
    return [step for step in config.ensemble_scheduling.step if step.input_map and step.output_map]


def _runnable(steps: list[Any], names: Iterable[str]) -> Iterator[Any]:
    """Yield the steps in an order in which they can run, if tensors with these names have values."""
    ready, waiting = set(names), steps
    while runnable := [step for step in waiting if ready.issuperset(step.input_map.values())]:
        yield from runnable
        waiting = [step for step in waiting if step not in runnable]
        ready.update(tensor for step in runnable for tensor in step.output_map.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    tensor: str
    user: str
    data_type: int
    dims: tuple[int, ...]
    batching: bool

    @property
    def full_dims(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batching else self.dims


def _own_uses(model: Model, config: ModelConfig) -> Iterator[_Use]:
    for tensor in (*config.input, *config.output):
        if tensor.dims:  # otherwise another rule reports it
            dims = tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims
            yield _use(tensor, tensor.name, f"the ensemble {model.folder!r}", dims, config)


def _step_uses(step: Any, config: ModelConfig) -> Iterator[_Use]:
    for mapped, tensors in ((step.input_map, config.input), (step.output_map, config.output)):
        for tensor in tensors:
            if tensor.name in mapped and tensor.dims:  # without dims, only the backend knows them
                yield _use(tensor, mapped[tensor.name], repr(step.model_name), tensor.dims, config)


def _use(tensor: Any, name: str, user: str, dims: Sequence[int], config: ModelConfig) -> _Use:
    batching = config.max_batch_size > 0
    return _Use(tensor=name, user=user, data_type=tensor.data_type, dims=tuple(dims), batching=batching)


def _way_back(start: str, steps: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest path from an ensemble to itself; empty if there is none."""
    ways, seen = deque([[start]]), set()
    while ways:
        way = ways.popleft()
        for name in steps.get(way[-1], ()):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _follow_streams(
    config: ModelConfig, configs: Mapping[str, ModelConfig], *, seen: tuple[str, ...]
) -> tuple[list[str], bool]:
    """Number the streams of responses, and follow the tensors as they get values.

    Returns the tensors that mix the streams of different decoupled models, and True if there is a stream.
    """
    labels = {tensor.name: 0 for tensor in config.input}
    conflicts: list[str] = []
    streams = 0
    for step in _runnable(_mapped_steps(config), labels):
        sources = {labels[name] for name in step.input_map.values()}
        if len(sources) > 1:
            conflicts.extend(sorted(step.output_map.values()))
        label = min(sources)
        if _is_decoupled(step.model_name, configs, seen=seen):
            streams += 1
            label = streams
        for name in step.output_map.values():
            labels.setdefault(name, label)
    written = [tensor.name for tensor in config.output if tensor.name in labels]
    if len({labels[name] for name in written}) > 1:
        conflicts.extend(written)
    return list(dict.fromkeys(conflicts)), streams > 0


def _is_decoupled(name: str, configs: Mapping[str, ModelConfig], *, seen: tuple[str, ...]) -> bool:
    config = configs.get(name)
    if config is None or name in seen:
        return False
    if config.HasField("ensemble_scheduling"):
        return _follow_streams(config, configs, seen=(*seen, name))[1]
    return bool(config.model_transaction_policy.decoupled)


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))
