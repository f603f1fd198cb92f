"""The outcome of `fleet compare`, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_rehearsal.compare.measurement import Measurement, percentile

_TEXT_COLUMNS = 2
_NO_DECIMALS = 100  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of `fleet compare`.

    Attributes:
        where: The server or endpoint.
        notes: The limits of the numbers.
        requests: Number of requests per model.
        concurrency: Number of concurrent callers.
        models: Every model, in the requested order; ratios are to the first.
    """

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
        yield from table(self._rows())
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

    def _rows(self) -> Iterator[Sequence[str]]:
        yield (
            "model",
            "runs in",
            "MB",
            "cold",
            "x",
            "unpack",
            "load",
            "1st",
            "p50",
            "x",
            "p95",
            "p99",
            "req/s",
        )
        first = self.models[0]
        for model in self.models:
            shown = model.as_dict()
            yield (
                model.name,
                ", ".join(model.backends),
                f"{model.size / 1e6:.1f}",
                _number(shown["cold_start_ms"]),
                f"{model.cold_s / first.cold_s:.2f}",
                _number(shown["unpack_ms"]),
                _number(shown["load_ms"]),
                _number(shown["first_warm_ms"]),
                _number(shown["p50_ms"]),
                f"{_usual(model) / _usual(first):.2f}",
                _number(shown["p95_ms"]),
                _number(shown["p99_ms"]),
                f"{model.throughput:.1f}",
            )


def table(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield rows in columns: strings left-aligned, numbers right-aligned."""
    given = list(rows)
    widths = [max(map(len, column)) for column in zip(*given, strict=True)]
    for row in given:
        cells = [
            text.ljust(width) if number < _TEXT_COLUMNS else text.rjust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _usual(model: Measurement) -> float:
    return percentile(model.latencies_s, 50)


def _number(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.{0 if milliseconds >= _NO_DECIMALS else 1}f}"
