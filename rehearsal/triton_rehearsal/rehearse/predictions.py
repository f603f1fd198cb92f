"""Predictions of served models, compared with those of their source frameworks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from triton_models.base.answers import is_text, largest_difference
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Array, Tensors
from triton_models.base.errors import FleetError, Problem
from triton_models.client import Client
from triton_models.deliver.verify.comparing import answered, shown
from triton_models.deliver.verify.verify import reference_of
from triton_models.spec import Example, ModelDefinition

NO_EXAMPLES = Check(id="no-examples", source=FROM_ARGUMENTS)

_VALUES_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One example, served and compared."""

    model: str
    artifact: str
    example: str
    cold_ms: float | None = None  # of the first call, with download and load if it is the model's first
    warm_ms: float | None = None  # of the same call when repeated
    output: str = ""  # the shape of the declared output and its first values, as served
    reference: str = "none"  # the first values of the source framework
    difference: float | None = None  # the largest; infinite if shapes differ, None without a reference
    tolerance: float = 0.0
    problems: tuple[Problem, ...] = ()  # why the endpoint did not answer
    no_reference: tuple[Problem, ...] = ()  # why the declared reference has no answer here
    no_request: tuple[Problem, ...] = ()  # why no request was sent
    generated: bool = False  # a tool made the example up
    precision: str = ""  # of the artifact, if known

    @property
    def passed(self) -> bool:
        """True if the endpoint answered, with the reference's values if a reference is declared."""
        if self.problems or self.no_reference or self.no_request:
            return False
        return self.difference is None or self.difference <= self.tolerance


def predict(build: ModelDefinition, client: Client, *, on_gpu: bool = False) -> Iterator[Prediction]:
    """Serve every example of a model twice and yield the comparison with the reference.

    The first example that the endpoint does not answer is the last one. A model without examples gets no
    request, and fails.

    On a GPU, plans may compute in less than FP32, for which the declaration allows more.
    """
    allowed = build.widest(on_gpu=on_gpu) if build.reference else 0.0
    examples = build.examples()
    if not examples:
        problem = NO_EXAMPLES.problem(
            what=f"{build.name} has no examples, so it got no request",
            where=f"examples in the build.py of {build.name!r}",
            fix="add an Example with real inputs; for an adopted directory, remove the model's folder and "
            "give recorded requests: `fleet adopt DIR --requests FILE`",
        )
        yield Prediction(model=build.name, artifact="", example="none", no_request=(problem,))
    for example in examples:
        try:
            yield _predict_one(build, client, example, allowed)
        except FleetError as error:
            yield Prediction(
                model=build.name,
                artifact="",
                example=example.name,
                generated=example.generated,
                problems=error.problems,
            )
            return


def import_frameworks(build: ModelDefinition) -> threading.Thread:
    """Start a thread that computes a reference, which imports its frameworks; join it before `predict`.

    Importing them takes seconds, in which this process otherwise waits for the build.
    """

    def compute() -> None:
        with suppress(Exception):  # `predict` reports it
            reference_of(build, next(iter(build.examples())))

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    return thread


def _predict_one(build: ModelDefinition, client: Client, example: Example, allowed: float) -> Prediction:
    found = reference_of(build, example)
    missing = found if isinstance(found, tuple) else ()
    expected = None if found is None or isinstance(found, tuple) else found[build.output]
    request = build.as_sent(example)
    _, cold_ms = _timed(client, build.name, request)
    served, warm_ms = _timed(client, build.name, request)
    output = served[build.output]
    return Prediction(
        model=build.name,
        artifact=client.target_model(build.name),
        example=example.name,
        cold_ms=cold_ms,
        warm_ms=warm_ms,
        output=f"{list(output.shape)} {_first_values(output)}",
        reference="none" if expected is None else _first_values(expected),
        difference=None if expected is None else largest_difference(output, expected),
        tolerance=allowed,
        no_reference=missing,
        generated=example.generated,
    )


def _timed(client: Client, model: str, example: Example) -> tuple[Tensors, float]:
    start = time.perf_counter()
    served = answered(
        example, lambda inputs, parameters: client.infer(model=model, inputs=inputs, parameters=parameters)
    )
    return served, (time.perf_counter() - start) * 1e3


def _first_values(tensor: Array) -> str:
    values = tensor.ravel()
    more = "…" if values.size > _VALUES_SHOWN else ""
    first = values[:_VALUES_SHOWN]
    return " ".join(shown(value) if is_text(tensor) else f"{value:.4f}" for value in first) + more
