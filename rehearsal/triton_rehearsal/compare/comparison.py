"""The outcome of `fleet compare`, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from triton_models.base.tables import Column, table
from triton_rehearsal.compare.measurement import Measurement
from triton_rehearsal.hosting.model_figures import percentile

_NO_DECIMALS = 100  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of `fleet compare`."""

    where: str
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


def _usual(model: Measurement) -> float:
    return percentile(model.latencies_s, 50)


def _number(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.{0 if milliseconds >= _NO_DECIMALS else 1}f}"
