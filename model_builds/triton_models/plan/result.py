"""A plan as lines, as data, and as settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact.profile import LEAST, LIKELY, MIB, MOST
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.tables import Column, in_units, output_width, table
from triton_models.check.fits import taken
from triton_models.facts.cost import HOURS_PER_MONTH
from triton_models.plan.planning import Outcome, Plan
from triton_models.plan.simulation import Tracking

WRITE = Check(id="plan-write", source=FROM_ARGUMENTS)

_MOST_LISTED = 5
_FIGURES = ("USD/month", "wait", "p50", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The result of `fleet plan`.

    Attributes:
        hot: The pinned models, if they have names.
        written: The file whose settings were changed, if one was.
        page: The page about it, if one was written.
    """

    plan: Plan
    hot: Sequence[str] = ()
    written: Path | None = None
    page: Path | None = None

    @property
    def exit_code(self) -> int:
        """0 if a fleet meets the limits, otherwise 1."""
        return 0 if self.plan.best else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        plan = self.plan
        return {
            "traffic": plan.traffic,
            "models": len(plan.models),
            "limits": {"waiting": plan.limits.waiting, "p99_s": plan.limits.p99_s},
            "best": _as_dict(plan.best),
            "settings": settings(plan.best, self.hot) if plan.best else None,
            "others": [_as_dict(each) for each in plan.others],
            "one_fewer": _as_dict(plan.fewer),
            "limit": plan.limit or None,
            "a_fifth_pinned": _as_dict(plan.pinned),
            "today": _as_dict(plan.today),
            "doubts": {
                doubt.belief: {what: _as_dict(found) for what, found in doubt.outcomes.items()}
                for doubt in plan.doubts
            },
            "waiting_by_mean_rates": plan.by_mean_rates,
        }

    def lines(self) -> Iterator[str]:
        """Yield the answer first, then its neighbors, the reason, and what it rests on."""
        plan = self.plan
        memory = sorted(each.memory.values for each in plan.models)[len(plan.models) // 2]
        yield f"{len(plan.models):,} models, {plan.traffic}."
        yield (
            f"A model takes about {memory[LIKELY] / MIB:,.0f} MiB of a GPU ({memory[LEAST] / MIB:,.0f} to "
            f"{memory[MOST] / MIB:,.0f}; {plan.models[0].memory.source})."
        )
        yield ""
        rows = [("the cheapest", plan.best)] if plan.best else []
        rows += [("" if each.meets(plan.limits) else "too slow", each) for each in plan.others[:_MOST_LISTED]]
        rows += [("one instance fewer", plan.fewer)] if plan.fewer else []
        rows += [(f"{plan.pinned.fleet.pinned} models pinned", plan.pinned)] if plan.pinned else []
        rows += [("today", plan.today)] if plan.today else []
        yield from _table(rows)
        yield ""
        if plan.best is None:
            yield self._not_met()
            return
        if plan.today is not None:
            yield _compared(plan.best, plan.today)
        yield from self._why(plan.best)
        yield ""
        yield "What it rests on, and what it would do otherwise:"
        cases = [
            (f"{each.belief}: {what}", found) for each in plan.doubts for what, found in each.outcomes.items()
        ]
        yield from _table(cases, title="if")
        yield ""
        yield f"By mean rates alone, {plan.by_mean_rates:.2%} of the requests would wait."
        yield "In cdk.json:" if self.written is None else f"Written to {self.written}:"
        for name, value in settings(plan.best, self.hot).items():
            yield f'  "{name}": {json.dumps(value)}'
        if plan.best.fleet.pinned and not self.hot:
            yield f'  "hot": the names of the {plan.best.fleet.pinned:,} most popular models'
        if self.page is not None:
            yield f"Page: {self.page}"

    def _not_met(self) -> str:
        limits, nearest = self.plan.limits, self.plan.others[0]
        asked = f"at most {limits.waiting:.2%} of the requests wait"
        if limits.p99_s is not None:
            asked += f" and p99 is at most {in_units(limits.p99_s)}"
        near = f"The nearest is {nearest.fleet}, where {self._broken(nearest)}."
        return f"No fleet of these types meets the limits: {asked}. {near}"

    def _broken(self, found: Outcome) -> str:
        """Return which limit a fleet misses."""
        if found.cause or found.waiting <= self.plan.limits.waiting:
            return found.cause or f"p99 is {in_units(found.p99_s)}"
        return f"{found.waiting:.2%} of the requests wait"

    def _limit(self) -> str:
        """Say why one instance fewer is not enough."""
        fewer = self.plan.fewer
        if fewer is None:
            return "Nothing limits: one instance is the minimum."
        if not self.plan.limit:
            return "Nothing limits: one instance fewer meets the limits too, and costs no less."
        broken = "its GPUs never rest" if fewer.meets(self.plan.limits) else self._broken(fewer)
        return f"The limit is {self.plan.limit}: with one instance fewer, {broken}."

    def _why(self, best: Outcome) -> Iterator[str]:
        plan, offer = self.plan, best.fleet.offer
        share = taken(plan.models, offer.room)
        held = int(len(plan.models) / share.fraction)
        memory = f"{offer.room.memory / MIB:,.0f} MiB of a GPU"
        room = f"An {offer.type.name} has room for {held:,} of these models ({memory})"
        if not best.unloads:
            yield f"{room}: all that are asked are loaded."
        else:
            together = held * best.fleet.most
            yield f"{room}, and all instances together for {together:,} of {len(plan.models):,}."
        price = offer.price
        origin = ", ".join(each for each in (price.region, price.source, price.dated) if each)
        yield f"Its price is {price.usd_per_hour:g} USD per hour ({origin})."
        yield f"{self._limit()} The GPUs are busy {best.busy:.0%} of the time."
        if plan.pinned is None and not best.fleet.pinned and len(plan.models) >= _MOST_LISTED:
            yield "With a fifth of the models pinned on each instance, no fleet meets the limits."
        waits = best.waited_by_model
        if waits is not None and best.unloads:
            most = [each for each in waits.argsort()[::-1][:_MOST_LISTED].tolist() if waits[each]]
            listed = ", ".join(f"{plan.models[each].name} ({waits[each]:,})" for each in most)
            yield f"Most requests that wait ask for {listed}."


def _compared(best: Outcome, today: Outcome) -> str:
    usd = today.fleet.least * today.fleet.offer.price.usd_per_hour * HOURS_PER_MONTH
    now, saved = f"Today, {today.fleet} cost {usd:,.0f} USD a month", usd - best.usd_per_month
    if today.cause:
        now = f"{now}, and {today.cause}"
    if saved <= 0:
        return f"{now}: the cheapest fleet that meets the limits costs {-saved:,.0f} more."
    return f"{now}: the plan saves {saved:,.0f} of them, {saved / usd:.0%}."


def settings(best: Outcome, hot: Sequence[str]) -> Mapping[str, Any]:
    """Return the settings of cdk.json for a fleet, and for its pinned models."""
    fleet = best.fleet
    found: dict[str, Any] = {
        "instance_type": fleet.offer.type.name,
        "min_capacity": fleet.least,
        "max_capacity": fleet.most,
    }
    tracking, gpus = fleet.tracking or Tracking(), fleet.offer.type.gpu_count
    if tracking.busy is not None:
        found["gpu_utilization_percent"] = round(100 * tracking.busy)
    if tracking.requests is not None:
        found["invocations_per_gpu_per_minute"] = math.ceil(tracking.requests / gpus)
    return {**found, "hot": list(hot)} if hot else found


def write(best: Outcome, hot: Sequence[str], path: Path) -> None:
    """Write the settings of a fleet into a cdk.json.

    Raises:
        FleetError: The file has no settings of this project.
    """
    try:
        document = json.loads(path.read_text())
        document["context"]["tritonFleet"].update(settings(best, hot))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WRITE.error(
            what=f"it has no settings in context.tritonFleet: {type(error).__name__}",
            where=str(path),
            fix="name the cdk.json of a fleet with --write",
        ) from None
    path.write_text(json.dumps(document, indent=2) + "\n")


def _as_dict(found: Outcome | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "instance_type": found.fleet.offer.type.name,
        "min_capacity": found.fleet.least,
        "max_capacity": found.fleet.most,
        "pinned": found.fleet.pinned,
        "usd_per_hour": found.fleet.offer.price.usd_per_hour,
        "usd_per_month": round(found.usd_per_month, 2) if not found.cause else None,
        "waiting": found.waiting,
        "p50_s": found.p50_s if not found.cause else None,
        "p99_s": found.p99_s if not found.cause else None,
        "gpu_busy": found.busy,
        "loads": found.loads,
        "unloads": found.unloads,
        "cause": found.cause,
    }


def figures(found: Outcome) -> Mapping[str, str]:
    """Return the figures of a fleet in words, by their titles: of one that cannot serve, there are none."""
    if found.cause:
        return dict.fromkeys(_FIGURES, "-")
    cells = (
        f"{found.usd_per_month:,.0f}",
        f"{found.waiting:.2%}",
        in_units(found.p50_s),
        in_units(found.p99_s),
    )
    return dict(zip(_FIGURES, cells, strict=True))


def _table(rows: Sequence[tuple[str, Outcome]], *, title: str = "") -> Iterator[str]:
    outcomes = [each for _, each in rows]
    notes = Column(title=title, cells=[": ".join(filter(None, (note, each.cause))) for note, each in rows])
    shown = [figures(each) for each in outcomes]
    numbers = [Column(title=name, cells=[each[name] for each in shown], right=True) for name in _FIGURES]
    fleets = Column(title="fleet", cells=[str(each.fleet) for each in outcomes])
    columns = [notes, *numbers[1:]] if title else [fleets, *numbers, notes]
    yield from (f"  {line}".rstrip() for line in table(columns, width=output_width() - 2))
