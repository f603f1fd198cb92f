"""Pages about a load test and a plan: plots over time, in one file without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from triton_models.base.encoding import Array

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 220, 64, 24, 10
TICKS = 4
"""The size of a plot, its margins, and its most ticks."""

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
class Line:
    """A line of a plot."""

    label: str
    color: str
    values: Array


def document(title: str, parts: Sequence[str]) -> str:
    """Return a page as HTML."""
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
            f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
            *parts,
            "</body></html>",
        ]
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{escape(each)}</th>" for each in titles)
    body = ("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return "\n".join([f'<div class="card"><table><tr>{head}</tr>', *body, "</table></div>"])


def plot(title: str, lines: Sequence[Line], width: float, *, unit: str, across: str = "s") -> str:
    """Return a plot of lines.

    Args:
        title: Its title.
        lines: The lines, with as many values each; NaN leaves a gap.
        width: The distance between values.
        unit: The unit of values.
        across: The unit of the distance.
    """
    known = np.concatenate([each.values for each in lines])
    highest = float(np.nanmax(known, initial=0.0))
    step = tick(highest or 1.0, TICKS)
    top = step * max(1, math.ceil(highest / step))
    count = len(lines[0].values)
    length = count * width

    def x(place: float) -> float:
        return LEFT + (WIDTH - LEFT) * place / length

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    name = escape(title)
    parts = [f'<h2>{name}</h2><div class="card">']
    parts.append(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">')
    for number in range(round(top / step) + 1):
        at = y(number * step)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>')
        label = f"{number * step:,g}{unit}"
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    between = tick(length, 2 * TICKS)
    for number in range(int(length / between) + 1):
        at, label = x(number * between), f"{number * between:,g} {across}"
        anchor = "end" if at > WIDTH - LEFT / 2 else "middle"  # the last one stays inside
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{label}</text>')
    for each in lines:
        placed = [(x((index + 0.5) * width), value) for index, value in enumerate(each.values.tolist())]
        for points in _runs(placed):
            path = " ".join(f"{at:.1f},{y(value):.1f}" for at, value in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{each.color}" stroke-width="1.5"/>')
    legend = "".join(
        f'<span><b style="color: {each.color}">&#8212;</b> {each.label}</span>' for each in lines
    )
    below = f'<p class="legend quiet">{legend}</p>' if len(lines) > 1 else ""
    return "".join([*parts, f"</svg>{below}</div>"])


def _runs(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield the points between gaps; a point alone is a short line."""
    run: list[tuple[float, float]] = []
    for at, value in [*points, (0.0, math.nan)]:
        if not math.isnan(value):
            run.append((at, value))
        elif run:
            yield run if len(run) > 1 else [run[0], (run[0][0] + 1, run[0][1])]
            run = []


def tick(highest: float, count: int) -> float:
    """Return a round distance of ticks, for at most so many of them."""
    power = 10.0 ** math.floor(math.log10(highest / count))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power * count >= highest * _ROUNDED)
