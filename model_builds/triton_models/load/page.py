"""The page about a run: its figures, and plots over its time, in one file without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from triton_models.base.encoding import Array
from triton_models.base.page import Line, document, plot, table
from triton_models.load.generator import ANSWERED, Run
from triton_models.load.result import TITLES, Loaded, cells

_POINTS = 240
_MODELS = 100


def page(run: Run, result: Loaded) -> str:
    """Return the page about a run as HTML."""
    return document(f"Load on {result.target}", [*_summary(result), *_plots(run, result), *_models(result)])


def _summary(result: Loaded) -> Iterator[str]:
    failed = sum(result.errors.values())
    yield (
        f"<p>{result.requests:,} requests in {result.seconds:,.1f} s, "
        f"{result.answered_per_second:,.1f} answers per second, {failed:,} errors.</p>"
    )
    if result.generator.limit:
        why = escape(result.generator.limit)
        yield f'<p class="failed">The generator was the limit: {why}. There are no figures of the target.</p>'
    else:
        yield "<h2>From the intended moment to the answer</h2>"
        yield table(TITLES, cells([("warm", result.warm), ("before a first answer", result.first)]))
    if result.errors:
        kinds = sorted(result.errors.items(), key=lambda each: -each[1])
        yield "<h2>Errors</h2>"
        yield table(["kind", "requests"], [(kind, f"{count:,}") for kind, count in kinds])
    slip, seed = result.generator, "" if result.seed is None else f" Seed {result.seed}."
    yield (
        f'<p class="quiet">The generator sent 99 % at most {slip.slip_p99 * 1e3:.1f} ms late, the latest '
        f"{slip.slip_largest * 1e3:.1f} ms, with {slip.cpu:.0%} of a core.{seed}</p>"
    )


def _plots(run: Run, result: Loaded) -> Iterator[str]:
    if not result.seconds:
        return
    count = max(1, min(_POINTS, math.ceil(result.seconds)))
    width = result.seconds / count
    edges = np.linspace(0, result.seconds, count + 1)
    answered = run.kind == ANSWERED
    happened = {
        "sent": ("var(--quiet)", run.schedule.at),
        "answered": ("var(--accent)", run.done[answered]),
        "errors": ("var(--bad)", run.done[run.kind > ANSWERED]),
    }
    rates = [
        Line(label=label, color=color, values=np.histogram(at, edges)[0] / width)
        for label, (color, at) in happened.items()
        if len(at)
    ]
    yield plot("Requests per second", rates, width, unit="")
    if result.generator.limit:
        return
    at = run.schedule.at[answered]
    bucket = np.minimum((at / width).astype(int), count - 1)
    shares = {"p50": ("var(--accent)", 50), "p99": ("var(--second)", 99), "largest": ("var(--bad)", 100)}
    times = [
        Line(
            label=label, color=color, values=_percentiles(run.done[answered] - at, bucket, count, share) * 1e3
        )
        for label, (color, share) in shares.items()
    ]
    yield plot("From the intended moment to the answer", times, width, unit=" ms")


def _percentiles(times: Array, bucket: Array, buckets: int, share: float) -> Array:
    """Return a percentile of the times in each bucket; NaN for an empty one."""
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    found = np.full(buckets, np.nan)
    for index in range(buckets):
        part = times[order[ends[index] : ends[index + 1]]]
        if len(part):
            found[index] = np.percentile(part, share, method="inverted_cdf")
    return found


def _models(result: Loaded) -> Iterator[str]:
    if len(result.models) < 2 or result.generator.limit:  # noqa: PLR2004  the only one has its figures above
        return
    shown = sorted(result.models, key=lambda each: -each.requests)[:_MODELS]
    yield "<h2>Models</h2>"
    yield table(TITLES, cells([(each.model, each.warm or each.first) for each in shown]))
    if len(shown) < len(result.models):
        yield f'<p class="quiet">and {len(result.models) - len(shown):,} more, in result.json</p>'
