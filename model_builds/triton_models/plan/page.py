"""The page about a plan: what each fleet costs and how many requests wait, and the cheapest one over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from triton_models.base.page import BOTTOM, HEIGHT, LEFT, TICKS, TOP, WIDTH, Line, document, plot, table, tick
from triton_models.plan.planning import Outcome, Plan
from triton_models.plan.result import figures

_POINTS = 240
_MOST_WAITING = 0.1  # of the curve: what waits more is not what anybody wants
_LEAST_WAITING = 1e-4  # at the top of its axis
_RADIUS, _MARGIN = 4, 36


def page(plan: Plan) -> str:
    """Return the page about a plan as HTML."""
    parts = [f"<p>{len(plan.models):,} models, {escape(plan.traffic)}.</p>"]
    shown = [each for each in (plan.best, *plan.others, plan.fewer, plan.pinned, plan.today) if each]
    parts += [*_table(shown, plan), *_curve(plan)]
    if plan.best is not None:
        parts += _timeline(plan.best)
        parts += _doubts(plan)
    return document(f"Plan: {plan.best.fleet}" if plan.best else "Plan: no fleet meets the limits", parts)


def _table(shown: Sequence[Outcome], plan: Plan) -> Iterator[str]:
    notes = {id(plan.best): "the cheapest", id(plan.fewer): "one instance fewer", id(plan.today): "today"}
    yield "<h2>Fleets</h2>"
    rows = []
    for each in shown:
        pinned = f"{each.fleet.pinned:,} models pinned" if each.fleet.pinned else ""
        rows.append([str(each.fleet), *figures(each).values(), notes.get(id(each), pinned) or each.cause])
    yield table(["", "USD a month", "wait", "p50", "p99", ""], rows)


def _doubts(plan: Plan) -> Iterator[str]:
    yield "<h2>What it rests on, and what it would do otherwise</h2>"
    rows = [
        [f"{doubt.belief}: {what}", *list(figures(found).values())[1:], found.cause]
        for doubt in plan.doubts
        for what, found in doubt.outcomes.items()
    ]
    yield table(["if", "wait", "p50", "p99", ""], rows)


def _curve(plan: Plan) -> Iterator[str]:
    """Yield the plot of all fleets: their cost, and the share of requests that wait."""
    known = [
        each for each in plan.tried if not each.cause and not each.gave_up and each.waiting <= _MOST_WAITING
    ]
    if not known:
        return
    dear, slow = max(each.usd_per_month for each in known), max(each.waiting for each in known)
    slow = max(slow, plan.limits.waiting, _LEAST_WAITING)
    across, up = tick(dear, 2 * TICKS), tick(slow, TICKS)
    right, top = across * math.ceil(dear / across), up * math.ceil(slow / up)

    def x(usd: float) -> float:
        return LEFT + (WIDTH - LEFT - _MARGIN) * usd / right

    def y(waiting: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - waiting / top)

    title = "Requests that wait for a load, by the cost of a month"
    parts = [f'<h2>{title}</h2><div class="card">']
    parts.append(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">')
    for number in range(round(top / up) + 1):
        at = y(number * up)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{100 * number * up:.3g} %</text>'
        )
    for number in range(round(right / across) + 1):
        usd = number * across
        parts.append(f'<text x="{x(usd):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{usd:,g} USD</text>')
    for each in sorted(known, key=lambda each: each is plan.best):
        color = "var(--accent)" if each.meets(plan.limits) else "var(--bad)"
        about = f"{each.fleet}: {each.usd_per_month:,.0f} USD a month, {each.waiting:.2%} wait"
        place = f'cx="{x(each.usd_per_month):.1f}" cy="{y(each.waiting):.1f}"'
        circle = f'<circle {place} r="{_RADIUS}" fill="{color}"><title>{escape(about)}</title></circle>'
        parts.append(circle)
    legend = "".join(
        f'<span><b style="color: {color}">&#9679;</b> {label}</span>'
        for color, label in (("var(--accent)", "meets the limits"), ("var(--bad)", "does not"))
    )
    yield "".join([*parts, f'</svg><p class="legend quiet">{legend}</p></div>'])


def _timeline(best: Outcome) -> Iterator[str]:
    """Yield the plots of the cheapest fleet over time."""
    minutes = best.minutes[:-1]  # the requests can end within the last one
    if not minutes:
        return
    width = math.ceil(len(minutes) / _POINTS)
    asked = np.array([each.asked for each in minutes])
    waited = np.array([each.waited for each in minutes]).clip(0)
    instances = np.array([each.instances for each in minutes])
    edges = np.arange(0, len(minutes), width)
    of = np.add.reduceat(asked, edges)
    shares = 100 * np.add.reduceat(waited, edges) / np.maximum(of, 1)
    length = np.diff([*edges, len(minutes)])
    hours = width / 60
    for title, values, unit in (
        ("Requests per second", of / length / 60, ""),
        ("Requests that wait for a load", shares, " %"),
        ("Instances", np.maximum.reduceat(instances, edges), ""),
    ):
        line = Line(label=title.lower(), color="var(--accent)", values=np.asarray(values, float))
        yield plot(title, [line], hours, unit=unit, across="h")
