"""The page about a run: its figures, and plots over its time, in one file without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.load.generator import ANSWERED, Run
from triton_models.load.result import Latencies, Loaded, in_units

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

_POINTS = 240
_MODELS = 100
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 900, 220, 64, 24, 10
_TICKS = 4
_ROUNDED = 0.999

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# The look of the rehearsal's page.
_STYLE = """
:root {
  --paper: #ffffff; --ground: #f5f6f7; --ink: #1b1f24; --quiet: #59626d; --line: #dfe3e7;
  --accent: #0b62a8; --second: #b86e00; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #1a1e23; --ground: #121519; --ink: #e8eaed; --quiet: #a3adb8; --line: #333a42;
    --accent: #6fb4f0; --second: #f0b45c; --bad: #ff9b92;
  }
}
body {
  margin: 0 auto; padding: 24px clamp(12px, 2.5vw, 32px) 48px; max-width: 1100px;
  background: var(--ground); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
h1 { font-size: 22px; line-height: 1.25; margin: 0; font-weight: 650; }
h2 { font-size: 16px; margin: 32px 0 8px; font-weight: 650; }
p { margin: 4px 0 0; } .quiet { color: var(--quiet); } .failed { color: var(--bad); font-weight: 600; }
.card {
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 12px 14px;
  overflow-x: auto;
}
table { border-collapse: collapse; }
th, td { text-align: right; padding: 2px 14px; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { color: var(--quiet); font-weight: 500; border-bottom: 1px solid var(--line); }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--quiet); }
.legend span { margin-right: 14px; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    label: str
    color: str
    values: Array


def page(run: Run, result: Loaded) -> str:
    """Return the page about a run as HTML."""
    title = f"Load on {result.target}"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
            f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
            *_summary(result),
            *_plots(run, result),
            *_models(result),
            "</body></html>",
        ]
    )


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
        yield from _table([("warm", result.warm), ("before a first answer", result.first)])
    if result.errors:
        yield "<h2>Errors</h2><div class='card'><table><tr><th>kind</th><th>requests</th></tr>"
        for kind, count in sorted(result.errors.items(), key=lambda each: -each[1]):
            yield f"<tr><td>{escape(kind)}</td><td>{count:,}</td></tr>"
        yield "</table></div>"
    slip, seed = result.generator, "" if result.seed is None else f" Seed {result.seed}."
    yield (
        f'<p class="quiet">The generator sent 99 % at most {slip.slip_p99 * 1e3:.1f} ms late, the latest '
        f"{slip.slip_largest * 1e3:.1f} ms, with {slip.cpu:.0%} of a core.{seed}</p>"
    )


def _plots(run: Run, result: Loaded) -> Iterator[str]:
    import numpy as np

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
        _Line(label=label, color=color, values=np.histogram(at, edges)[0] / width)
        for label, (color, at) in happened.items()
        if len(at)
    ]
    yield _plot("Requests per second", rates, width, unit="")
    if result.generator.limit:
        return
    at = run.schedule.at[answered]
    bucket = np.minimum((at / width).astype(int), count - 1)
    shares = {"p50": ("var(--accent)", 50), "p99": ("var(--second)", 99), "largest": ("var(--bad)", 100)}
    times = [
        _Line(
            label=label, color=color, values=_percentiles(run.done[answered] - at, bucket, count, share) * 1e3
        )
        for label, (color, share) in shares.items()
    ]
    yield _plot("From the intended moment to the answer", times, width, unit=" ms")


def _percentiles(times: Array, bucket: Array, buckets: int, share: float) -> Array:
    """Return a percentile of the times in each bucket; NaN for an empty one."""
    import numpy as np

    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    found = np.full(buckets, np.nan)
    for index in range(buckets):
        part = times[order[ends[index] : ends[index + 1]]]
        if len(part):
            found[index] = np.percentile(part, share, method="inverted_cdf")
    return found


def _plot(title: str, lines: Sequence[_Line], width_s: float, *, unit: str) -> str:
    import numpy as np

    known = np.concatenate([each.values for each in lines])
    highest = float(np.nanmax(known, initial=0.0))
    step = _tick(highest or 1.0, _TICKS)
    top = step * max(1, math.ceil(highest / step))
    count = len(lines[0].values)
    whole_s = count * width_s

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT) * second / whole_s

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)

    name = escape(title)
    parts = [f'<h2>{name}</h2><div class="card">']
    parts.append(f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">')
    for number in range(round(top / step) + 1):
        at = y(number * step)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>')
        label = f"{number * step:,g}{unit}"
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    between = _tick(whole_s, 2 * _TICKS)
    for number in range(int(whole_s / between) + 1):
        second = number * between
        parts.append(f'<text x="{x(second):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{second:,g} s</text>')
    for each in lines:
        placed = [(x((index + 0.5) * width_s), value) for index, value in enumerate(each.values.tolist())]
        for points in _runs(placed):
            path = " ".join(f"{at:.1f},{y(value):.1f}" for at, value in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{each.color}" stroke-width="1.5"/>')
    legend = "".join(
        f'<span><b style="color: {each.color}">&#8212;</b> {each.label}</span>' for each in lines
    )
    return "".join([*parts, f'</svg><p class="legend quiet">{legend}</p></div>'])


def _runs(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield the points between gaps; a point alone is a short line."""
    run: list[tuple[float, float]] = []
    for at, value in [*points, (0.0, math.nan)]:
        if not math.isnan(value):
            run.append((at, value))
        elif run:
            yield run if len(run) > 1 else [run[0], (run[0][0] + 1, run[0][1])]
            run = []


def _tick(highest: float, count: int) -> float:
    """Return a round distance of ticks, for at most so many of them."""
    power = 10.0 ** math.floor(math.log10(highest / count))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power * count >= highest * _ROUNDED)


def _models(result: Loaded) -> Iterator[str]:
    if len(result.models) < 2 or result.generator.limit:  # noqa: PLR2004  the only one has its figures above
        return
    shown = sorted(result.models, key=lambda each: -each.requests)[:_MODELS]
    yield "<h2>Models</h2>"
    yield from _table([(each.model, each.warm or each.first) for each in shown])
    if len(shown) < len(result.models):
        yield f'<p class="quiet">and {len(result.models) - len(shown):,} more, in result.json</p>'


def _table(rows: Sequence[tuple[str, Latencies | None]]) -> Iterator[str]:
    titles = "".join(f"<th>{each}</th>" for each in ("", "requests", "p50", "p90", "p99", "p99.9", "largest"))
    yield f'<div class="card"><table><tr>{titles}</tr>'
    for name, found in rows:
        if found is not None:
            times = (found.p50, found.p90, found.p99, found.p999, found.largest)
            cells = [escape(name), f"{found.count:,}", *map(in_units, times)]
            yield "<tr>" + "".join(f"<td>{each}</td>" for each in cells) + "</tr>"
    yield "</table></div>"
