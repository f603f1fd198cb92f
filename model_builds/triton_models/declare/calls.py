"""Models that call other models of their declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import Mistake
from triton_models.declare.models import Ensemble, Model, PythonModel, steps_of
from triton_models.facts.load_threads import MAX_CALLERS


def call_mistakes(models: Sequence[Model]) -> Iterator[Mistake]:
    """Yield the mistakes in which models call which."""
    callers = [model for model in models if isinstance(model, PythonModel) and model.calls]
    steps = {step.model_name for each in models if isinstance(each, Ensemble) for step in steps_of(each)}
    for caller in callers:
        for name in caller.calls:
            yield from _call(caller, name, models, steps)
        if caller.instances.count > 1:
            yield _mistake(
                caller,
                f"{caller.name!r} calls models, and has {caller.instances.count} instances",
                fix="remove the count: each would unload the models that the others still call",
            )
    calls = {caller.name: caller.calls for caller in callers}
    for caller in callers:
        if caller.name in _reached(caller.calls, calls):
            yield _mistake(
                caller,
                f"{caller.name!r} calls itself, directly or through {', '.join(caller.calls)}",
                fix="remove one of the calls: none of the models could load before the others",
            )
    if len(callers) > MAX_CALLERS:
        yield _mistake(
            callers[-1],
            f"{len(callers)} models call others: {', '.join(calls)}",
            fix=f"call from at most {MAX_CALLERS}: each caller occupies a thread that loads models",
        )


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
        yield _mistake(
            caller,
            f"{caller.name!r} calls {name!r}",
            fix=did_you_mean(name, others, otherwise="declare that model too"),
        )
    elif any(isinstance(model, Ensemble) and model.name == name for model in models):
        yield _mistake(
            caller,
            f"{caller.name!r} calls the ensemble {name!r}",
            fix="call its steps one after the other: SageMaker would load either of two ensembles",
        )
    elif name in steps:
        yield _mistake(
            caller,
            f"{caller.name!r} calls {name!r}, which is a step of an ensemble too",
            fix="declare it again under another name: Triton unloads a called model with its caller",
        )


def _reached(start: Sequence[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(edges.get(name, ()))
    return reached


def _mistake(caller: PythonModel, what: str, *, fix: str) -> Mistake:
    return Mistake("calls", what, fix=fix, owner=caller)
