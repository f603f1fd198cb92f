"""Models that use others: ensembles, whose tensors are those of their steps, and models that call others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import Mistake
from triton_models.declare.models import Ensemble, EnsembleStep, Model, PythonModel, steps_of
from triton_models.declare.tensors import Tensor
from triton_models.facts.containers import MAX_CALLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """The inputs and outputs of a model; an output without a type is only known by name.

    With batches, its tensors have a batch dimension that is not part of their shapes.
    """

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    batches: bool


@dataclass(kw_only=True)
class Connected:
    """An ensemble whose steps are connected by name. Its inputs are the tensors that no step produces."""

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    steps: list[EnsembleStep] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)


def connect(ensemble: Ensemble, models: Mapping[str, Interface]) -> Connected:
    """Connect the steps of an ensemble, whose interfaces are given by name."""
    connected = Connected()
    made: dict[str, Tensor] = {}
    taken: dict[str, Tensor] = {}
    for step in steps_of(ensemble):
        model = models[step.model_name]
        connected.mistakes += _unknown_tensors(ensemble, step, model)
        for tensor in model.outputs:
            name = step.outputs.get(tensor.name, tensor.name)
            if name in made:
                connected.mistakes.append(
                    _mistake(
                        ensemble,
                        f"two steps of {ensemble.name!r} produce {name!r}",
                        fix=f"map one: EnsembleStep(model_name={step.model_name!r}, "
                        f"outputs={{{tensor.name!r}: ...}})",
                    )
                )
            made[name] = _named(tensor, name)
        for tensor in model.inputs:
            name = step.inputs.get(tensor.name, tensor.name)
            if name in taken:
                connected.mistakes += _differences(ensemble, step, taken[name], _named(tensor, name))
            if name not in taken or -1 in taken[name].sizes:
                taken[name] = _named(tensor, name)
        connected.steps.append(_complete(step, model))
    for name in made.keys() & taken.keys():
        connected.mistakes += _differences(ensemble, None, made[name], taken[name])
    connected.mistakes += _mixed_batches(ensemble, models)
    connected.inputs = [tensor for name, tensor in taken.items() if name not in made]
    answered = ensemble.outputs or [name for name in made if name not in taken]
    connected.outputs = [made[name] for name in answered if name in made]
    connected.mistakes += _missing_outputs(ensemble, made)
    return connected


def _complete(step: EnsembleStep, model: Interface) -> EnsembleStep:
    return EnsembleStep(
        model_name=step.model_name,
        inputs={tensor.name: step.inputs.get(tensor.name, tensor.name) for tensor in model.inputs},
        outputs={tensor.name: step.outputs.get(tensor.name, tensor.name) for tensor in model.outputs},
    )


def _named(tensor: Tensor, name: str) -> Tensor:
    return Tensor(name, tensor.data_type, tensor.dims)


def _unknown_tensors(ensemble: Ensemble, step: EnsembleStep, model: Interface) -> Iterator[Mistake]:
    for kind, mapping, tensors in (
        ("input", step.inputs, model.inputs),
        ("output", step.outputs, model.outputs),
    ):
        known = [tensor.name for tensor in tensors]
        for name in mapping:
            if name not in known:
                what = f"{ensemble.name!r} maps the {kind} {name!r} of {step.model_name!r}"
                otherwise = f"remove it, or use one of {', '.join(known)}"
                yield _mistake(ensemble, what, fix=did_you_mean(name, known, otherwise=otherwise))


def _differences(
    ensemble: Ensemble, step: EnsembleStep | None, one: Tensor, other: Tensor
) -> Iterator[Mistake]:
    if not one.data_type or not other.data_type or [*one.mistakes(), *other.mistakes()]:
        return  # unknown, or reported separately
    fits = len(one.sizes) == len(other.sizes) and all(
        left == right or -1 in {left, right} for left, right in zip(one.sizes, other.sizes, strict=True)
    )
    if one.full_type != other.full_type or not fits:
        takers = f"another step and {step.model_name!r} take" if step else "a step returns and another takes"
        what = (
            f"{takers} {one.name!r} of {ensemble.name!r} differently: "
            f"{one.full_type} {list(one.sizes)} and {other.full_type} {list(other.sizes)}"
        )
        yield _mistake(ensemble, what, fix="use one Tensor for both, or map them to different names")


def _mixed_batches(ensemble: Ensemble, models: Mapping[str, Interface]) -> Iterator[Mistake]:
    names = [step.model_name for step in steps_of(ensemble)]
    if len({models[name].batches for name in names}) > 1:
        without = [name for name in names if not models[name].batches]
        what = f"{', '.join(without)} of {ensemble.name!r} has no batch dimension, unlike other steps"
        yield _mistake(ensemble, what, fix="set max_batch_size above 0 in all steps, or to 0 in all")


def _missing_outputs(ensemble: Ensemble, made: Mapping[str, Tensor]) -> Iterator[Mistake]:
    for name in ensemble.outputs:
        if name not in made:
            what = f"{ensemble.name!r} has the output {name!r}, which no step produces"
            fix = did_you_mean(name, made, otherwise=f"remove it, or use one of {', '.join(made)}")
            yield Mistake("outputs", what, fix=fix, owner=ensemble)


# Models that call others


def call_mistakes(models: Sequence[Model]) -> Iterator[Mistake]:
    """Yield the mistakes in which models call which."""
    callers = [model for model in models if isinstance(model, PythonModel) and model.calls]
    steps = {step.model_name for each in models if isinstance(each, Ensemble) for step in steps_of(each)}
    for caller in callers:
        for name in caller.calls:
            yield from _call(caller, name, models, steps)
        if caller.instances.count > 1:
            what = f"{caller.name!r} calls models, and has {caller.instances.count} instances"
            fix = "remove the count: each would unload the models that the others still call"
            yield _mistake(caller, what, fix=fix)
    calls = {caller.name: caller.calls for caller in callers}
    for caller in callers:
        if caller.name in _reached(caller.calls, calls):
            what = f"{caller.name!r} calls itself, directly or through {', '.join(caller.calls)}"
            fix = "remove one of the calls: none of the models could load before the others"
            yield _mistake(caller, what, fix=fix)
    if len(callers) > MAX_CALLERS:
        fix = f"call from at most {MAX_CALLERS}: each caller occupies a thread that loads models"
        yield _mistake(callers[-1], f"{len(callers)} models call others: {', '.join(calls)}", fix=fix)


def unused_models(models: Sequence[Model], top: str) -> list[str]:
    """Return the names of the models that a request to the top model never reaches.

    Empty if a step or a called model is unknown: that is reported first.
    """
    edges: dict[str, Sequence[str]] = {}
    for model in models:
        if isinstance(model, Ensemble):
            edges[model.name] = [step.model_name for step in steps_of(model)]
        elif isinstance(model, PythonModel):
            edges[model.name] = model.calls
    reached = _reached([top], edges)
    names = [model.name for model in models]
    return [name for name in names if name not in reached] if reached <= set(names) else []


def _call(caller: PythonModel, name: str, models: Sequence[Model], steps: set[str]) -> Iterator[Mistake]:
    others = [model.name for model in models if model.name != caller.name]
    if name != caller.name and name not in others:
        what = f"{caller.name!r} calls {name!r}"
        yield _mistake(caller, what, fix=did_you_mean(name, others, otherwise="declare that model too"))
    elif any(isinstance(model, Ensemble) and model.name == name for model in models):
        fix = "call its steps one after the other: SageMaker would load either of two ensembles"
        yield _mistake(caller, f"{caller.name!r} calls the ensemble {name!r}", fix=fix)
    elif name in steps:
        fix = "declare it again under another name: Triton unloads a called model with its caller"
        yield _mistake(caller, f"{caller.name!r} calls {name!r}, which is a step of an ensemble too", fix=fix)


def _reached(start: Sequence[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(edges.get(name, ()))
    return reached


def _mistake(owner: Ensemble | PythonModel, what: str, *, fix: str) -> Mistake:
    return Mistake("steps" if isinstance(owner, Ensemble) else "calls", what, fix=fix, owner=owner)
