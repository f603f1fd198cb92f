"""Measurements of models side by side: size, cold start, latency and throughput.

One run measures all models, with one request of each in turn, so that other load on the machine affects all
of them alike. Only the ratios are valid beyond the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from triton_models.base.errors import FleetError
from triton_models.deliver.verify.verify import own_function, reference_of
from triton_models.spec import Example, ModelDefinition
from triton_rehearsal.hosting.model_figures import percentile

BLOCKS = 4
"""Number of blocks in which concurrent callers invoke each model."""

Ask = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """The first answer of a model on a new server. Times in seconds.

    Attributes:
        total_s: Time from the request to the answer.
        unpack_s: The part for download and unpacking; None if only the platform knows it.
        load_s: The part for the load in Triton with its warm-up; None if only the platform knows it.
    """

    total_s: float
    unpack_s: float | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of one model. Times in seconds.

    Attributes:
        name: The requested name, such as "resnet50:torchscript".
        backends: The backends of the model's parts.
        size: The size of the artifact in bytes.
        cold: Each cold start.
        latencies_s: The latency of each sequential request.
        throughput: Requests per second with concurrent callers.
        difference: The largest difference from the reference; None without a reference.
        allowed: The largest difference that the declaration accepts.
    """

    name: str
    backends: tuple[str, ...]
    size: int
    cold: tuple[ColdStart, ...]
    latencies_s: tuple[float, ...] = ()
    throughput: float = 0.0
    difference: float | None = None
    allowed: float | None = None

    @property
    def right(self) -> bool:
        """True if its answer matches its source's."""
        return self.difference is None or self.allowed is None or self.difference <= self.allowed

    @property
    def cold_s(self) -> float:
        """The median cold start."""
        return median(each.total_s for each in self.cold)

    def as_dict(self) -> dict[str, Any]:
        """Return the measurement as JSON-ready data, with times in milliseconds."""
        parts = {
            "unpack_ms": [each.unpack_s for each in self.cold],
            "load_ms": [each.load_s for each in self.cold],
        }
        return {
            "name": self.name,
            "backends": list(self.backends),
            "artifact_bytes": self.size,
            "cold_start_ms": _ms(self.cold_s),
            "cold_starts_ms": [_ms(each.total_s) for each in self.cold],
            **{
                name: _ms(median(known)) if (known := [each for each in values if each is not None]) else None
                for name, values in parts.items()
            },
            "first_warm_ms": _ms(self.latencies_s[0]),
            **{f"p{share}_ms": _ms(percentile(self.latencies_s, share)) for share in (50, 95, 99)},
            "requests_per_second": round(self.throughput, 2),
            "difference": self.difference,
            "allowed_difference": self.allowed,
        }


def first_example(build: ModelDefinition) -> Example:
    """Return the first example of a declaration.

    Raises:
        FleetError: It has no example, or examples() fails.
    """
    called = f"examples() of {build.name!r}"
    for example in own_function(called, lambda: list(build.examples())):
        return example
    raise FleetError.of(
        what=f"{called} returns no example",
        where="the declaration",
        why="the first one is sent and measured",
        fix="add an Example to examples()",
        rule="no-example",
    )


def reference_answer(build: ModelDefinition, example: Example) -> Mapping[str, Any]:
    """Return the reference's answer; empty without a reference.

    Raises:
        FleetError: The reference fails.
    """
    found = reference_of(build, example)
    if isinstance(found, tuple):
        raise FleetError(found)
    return found or {}


def measure(
    models: Sequence[Measurement], ask: Mapping[str, Ask], *, requests: int, concurrency: int
) -> tuple[Measurement, ...]:
    """Measure latency and throughput of loaded models.

    Args:
        models: The measurements so far.
        ask: A function per model that sends one request, by the model's name.
        requests: Number of requests per model.
        concurrency: Number of concurrent callers, for the throughput.
    """
    latencies = interleaved(ask, requests)
    rates = throughputs(ask, concurrency=concurrency, requests=requests)
    return tuple(
        replace(model, latencies_s=tuple(latencies[model.name]), throughput=rates[model.name])
        for model in models
    )


def interleaved(ask: Mapping[str, Ask], rounds: int) -> dict[str, list[float]]:
    """Return the duration in seconds of each model's requests. Each round has one request per model."""
    taken: dict[str, list[float]] = {name: [] for name in ask}
    for number in range(rounds):
        for name in rotated(list(ask), number):
            start = time.perf_counter()
            ask[name]()
            taken[name].append(time.perf_counter() - start)
    return taken


def throughputs(ask: Mapping[str, Ask], *, concurrency: int, requests: int) -> dict[str, float]:
    """Return requests per second of each model, measured in blocks, one model after the other."""
    size = max(concurrency, math.ceil(requests / BLOCKS))
    taken = dict.fromkeys(ask, 0.0)
    with ThreadPoolExecutor(concurrency) as pool:
        for number in range(BLOCKS):
            for name in rotated(list(ask), number):
                start = time.perf_counter()
                for answer in [pool.submit(ask[name]) for _ in range(size)]:
                    answer.result()
                taken[name] += time.perf_counter() - start
    return {name: BLOCKS * size / seconds for name, seconds in taken.items()}


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names rotated by a number, so that each is first in turn."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)
