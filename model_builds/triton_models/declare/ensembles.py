"""The inputs and outputs of an ensemble, derived from those of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import Mistake
from triton_models.declare.models import Ensemble, EnsembleStep, steps_of
from triton_models.declare.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """The inputs and outputs of a model.

    Attributes:
        outputs: Its outputs. If the data type is empty, only the name is known.
        batches: True if its tensors have a batch dimension, which is not part of their shapes.
    """

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    batches: bool


@dataclass(kw_only=True)
class Connected:
    """An ensemble whose steps are connected by name.

    Attributes:
        inputs: The tensors that no step produces.
        steps: Its steps, each with a mapping for every tensor.
    """

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    steps: list[EnsembleStep] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)


def connect(ensemble: Ensemble, models: Mapping[str, Interface]) -> Connected:
    """Connect the steps of an ensemble.

    Args:
        ensemble: The ensemble; each of its steps must be one of the models.
        models: The inputs and outputs of each model, by name.
    """
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
        yield _mistake(
            ensemble,
            f"{takers} {one.name!r} of {ensemble.name!r} differently: "
            f"{one.full_type} {list(one.sizes)} and {other.full_type} {list(other.sizes)}",
            fix="use one Tensor for both, or map them to different names",
        )


def _mixed_batches(ensemble: Ensemble, models: Mapping[str, Interface]) -> Iterator[Mistake]:
    names = [step.model_name for step in steps_of(ensemble)]
    if len({models[name].batches for name in names}) > 1:
        without = [name for name in names if not models[name].batches]
        yield _mistake(
            ensemble,
            f"{', '.join(without)} of {ensemble.name!r} has no batch dimension, unlike other steps",
            fix="set max_batch_size above 0 in all steps, or to 0 in all",
        )


def _missing_outputs(ensemble: Ensemble, made: Mapping[str, Tensor]) -> Iterator[Mistake]:
    for name in ensemble.outputs:
        if name not in made:
            yield Mistake(
                "outputs",
                f"{ensemble.name!r} has the output {name!r}, which no step produces",
                fix=did_you_mean(name, made, otherwise=f"remove it, or use one of {', '.join(made)}"),
                owner=ensemble,
            )


def _mistake(ensemble: Ensemble, what: str, *, fix: str) -> Mistake:
    return Mistake("steps", what, fix=fix, owner=ensemble)
