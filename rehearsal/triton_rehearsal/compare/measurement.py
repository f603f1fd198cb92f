"""Measurements of models side by side: size, cold start, latency and throughput, and their comparison.

One run measures all models, with one request of each in turn, so that other load on the machine affects all
of them alike. Only the ratios are valid beyond the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from triton_models.base.errors import FleetError
from triton_models.base.tables import Column, table
from triton_models.deliver.verify.verify import own_function, reference_of
from triton_models.spec import Example, ModelDefinition
from triton_rehearsal.compare.floors import RequestFloor
from triton_rehearsal.hosting.model_figures import percentile

_BLOCKS = 4  # in which concurrent callers invoke each model
_NO_DECIMALS = 100  # milliseconds

Ask = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """The first answer of a model on a new server: the time from the request to it, and two parts of that.

    Where only the platform knows the parts, for unpacking and for the load with its warm-up, they are None.
    """

    total_s: float
    unpack_s: float | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of one model. Times in seconds."""

    name: str  # as requested, such as "resnet50:torchscript"
    backends: tuple[str, ...]
    size: int  # of the artifact, in bytes
    cold: tuple[ColdStart, ...]
    latencies_s: tuple[float, ...] = ()  # of sequential requests
    throughput: float = 0.0  # requests per second with concurrent callers
    floor: RequestFloor | None = None  # of one request on the GPU; None for a model without a network
    difference: float | None = None  # the largest from the reference; None without one
    allowed: float | None = None  # the largest difference that the declaration accepts

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
            **self._above_floor(),
            "difference": self.difference,
            "allowed_difference": self.allowed,
        }

    def _above_floor(self) -> dict[str, Any]:
        if self.floor is None:
            return {}
        return {
            "floor_ms": _fine(self.floor.seconds),
            "times_floor": round(_usual(self) / self.floor.seconds, 1),
            "larger": self.floor.larger,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of `fleet compare`."""

    where: str
    release: str | None = None  # of the server, if it is a deployed one
    driver: str | None = None  # of the GPU, if it is this machine's
    notes: tuple[str, ...]
    requests: int
    concurrency: int
    models: tuple[Measurement, ...]

    @property
    def exit_code(self) -> int:
        """1 if a model's answer differs from its source's, otherwise 0."""
        return 0 if all(model.right for model in self.models) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data, with ratios to the first model."""
        first = self.models[0]
        return {
            "served_by": self.where,
            "notes": list(self.notes),
            "requests": self.requests,
            "concurrency": self.concurrency,
            "models": [
                {
                    **model.as_dict(),
                    "cold_start_ratio": round(model.cold_s / first.cold_s, 3),
                    "p50_ratio": round(_usual(model) / _usual(first), 3),
                }
                for model in self.models
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table, with times in milliseconds, and of the notes."""
        yield f"served by {self.where}"
        yield ""
        yield from table(list(self._columns()))
        yield ""
        yield (
            f"Times in ms. Cold start: from the request to the first answer, median of "
            f"{len(self.models[0].cold)}. p50 to p99: {self.requests} requests in sequence. req/s: "
            f"{self.concurrency} concurrent callers. x: relative to the first row."
        )
        if gpus := {model.floor.gpu for model in self.models if model.floor}:
            yield (
                f"floor: the least time that the networks of one request need on {', '.join(gpus)}. The "
                "rest of p50 is the runtime, the other steps, the platform and the connection."
            )
        yield from self.notes
        for model in self.models:
            if not model.right:
                how = f"{model.difference:.2g} from its source, {model.allowed:.2g} allowed"
                yield f"{model.name} is wrong: {how}"

    def _columns(self) -> Iterator[Column]:
        first, models = self.models[0], self.models
        shown = [model.as_dict() for model in models]

        def times(title: str, key: str, *, rank: int = 0) -> Column:
            return Column(
                title=title, cells=[_number(each[f"{key}_ms"]) for each in shown], right=True, rank=rank
            )

        def ratios(ratio: Callable[[Measurement], float], *, rank: int) -> Column:
            cells = [f"{ratio(model) / ratio(first):.2f}" for model in models]
            return Column(title="x", cells=cells, right=True, rank=rank)

        sizes = [f"{model.size / 1e6:.1f}" for model in models]
        rates = [f"{model.throughput:.1f}" for model in models]
        yield Column(title="model", cells=[model.name for model in models])
        yield Column(title="runs in", cells=[", ".join(model.backends) for model in models], rank=2)
        yield Column(title="MB", cells=sizes, right=True, rank=1)
        yield times("cold", "cold_start")
        yield ratios(lambda model: model.cold_s, rank=3)
        yield times("unpack", "unpack", rank=6)
        yield times("load", "load", rank=5)
        yield times("1st", "first_warm", rank=7)
        yield times("p50", "p50")
        yield ratios(_usual, rank=1)
        yield times("p95", "p95", rank=4)
        yield times("p99", "p99", rank=1)
        yield Column(title="req/s", cells=rates, right=True)
        if any(model.floor for model in models):
            yield Column(title="floor", cells=[f"{each.get('floor_ms', '-')}" for each in shown], right=True)
            yield Column(
                title="x floor", cells=[f"{each.get('times_floor', '-')}" for each in shown], right=True
            )
            yield Column(title="by", cells=[each.get("larger", "-") for each in shown], rank=1)


def _usual(model: Measurement) -> float:
    return percentile(model.latencies_s, 50)


def _number(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.{0 if milliseconds >= _NO_DECIMALS else 1}f}"


def first_example(build: ModelDefinition) -> Example:
    """Return the first example of a declaration."""
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
    """Return the reference's answer; empty without a reference."""
    found = reference_of(build, example)
    if isinstance(found, tuple):
        raise FleetError(found)
    return found or {}


def measure(
    models: Sequence[Measurement], ask: Mapping[str, Ask], *, requests: int, concurrency: int
) -> tuple[Measurement, ...]:
    """Add latency and throughput to the measurements of loaded models."""
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
    size = max(concurrency, math.ceil(requests / _BLOCKS))
    taken = dict.fromkeys(ask, 0.0)
    with ThreadPoolExecutor(concurrency) as pool:
        for number in range(_BLOCKS):
            for name in rotated(list(ask), number):
                start = time.perf_counter()
                for answer in [pool.submit(ask[name]) for _ in range(size)]:
                    answer.result()
                taken[name] += time.perf_counter() - start
    return {name: _BLOCKS * size / seconds for name, seconds in taken.items()}


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names rotated by a number, so that each is first in turn."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def _fine(seconds: float) -> float:
    return float(f"{seconds * 1e3:.3g}")


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)
