"""The search for the cheapest fleet that meets the limits, and what its figures rest on."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from triton_models.artifact.profile import LEAST, LIKELY, MIB, MOST, Profile
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Array
from triton_models.check.fits import LIMITS, share_of, taken
from triton_models.facts.containers import REQUEST_THREADS
from triton_models.facts.cost import HOURS_PER_MONTH
from triton_models.plan import policy
from triton_models.plan.compiled import BUCKETS_PER_OCTAVE, SMALLEST_S, Models
from triton_models.plan.offer import FIRST_LOAD_S, OVERHEAD_S, STARTS_S, Offer
from triton_models.plan.simulation import MINUTE_S, Endpoint, Minute, OverloadedError, Simulation, Tracking
from triton_models.plan.traffic import Traffic, waiting_by_mean_rates

PLAN = Check(id="plan", source=FROM_ARGUMENTS)

_MOST_INSTANCES = 64
_UNLOAD_S, _QUICK_UNLOAD_S = 3.0, 0.5
"""Triton answers an unload after 2 or 3 seconds: the belief `unload-takes-seconds`."""

_FULL = 0.95
_HOUR_S = 3600.0
# Traffic whose busiest minute is so much above its mean may be cheaper with scaling.
_VARIES = 1.3
_BUSY_TARGETS, _BUSY_AT_MOST = (0.3, 0.5, 0.7), 0.9
_REQUEST_TARGETS = (0.4, 0.6, 0.8)
"""Shares of what each instance of the cheapest fixed fleet answers in the busiest minute."""

GPU_TIME, FIRST_LOADS = "GPU time", "the first loads of models"
_ANY_ROOM = 1e6

_FOR_DOUBTS = 400_000
_FIFTH = 5
_ALIKE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan has to meet: the largest share of requests that wait for a load, and a p99 if any."""

    waiting: float = 0.01
    p99_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Instances of a type, with scaling if it tracks something, and the most popular models pinned."""

    offer: Offer
    least: int
    most: int
    tracking: Tracking | None = None
    pinned: int = 0

    def __str__(self) -> str:
        count = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        return f"{count} x {self.offer.type.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What a simulation assumes besides the fleet: the ends of ranges, and decisions of the platform.

    The ends are indices of `Range.values`.
    """

    memory: int = LIKELY
    times: int = LIKELY
    busy: int = LIKELY
    many: int = policy.MANY
    loads_at_once: int = REQUEST_THREADS
    unload_s: float = _UNLOAD_S
    stalls: bool = False
    holds: bool = True
    starts: float = 1.0  # the time of a start, as a multiple
    room: float = 1.0  # the room for models, as a multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a simulation found.

    Attributes:
        waiting: The share of requests that waited for a load.
        busy: The share of the GPUs' time.
        gave_up: Whether it was ended because too many requests waited.
        cause: Why the endpoint cannot serve the requests at all; "" if it can.
    """

    fleet: Fleet
    waiting: float = 1.0
    p50_s: float = math.inf
    p99_s: float = math.inf
    usd_per_month: float = math.inf
    instance_hours: float = math.inf
    busy: float = 1.0
    loads: int = 0
    unloads: int = 0
    most_instances: int = 0
    gave_up: bool = False
    cause: str = ""
    waited_by_model: Array | None = field(default=None, repr=False, compare=False)
    minutes: Sequence[Minute] = field(default=(), repr=False, compare=False)

    def meets(self, limits: Limits) -> bool:
        """Return whether it meets the limits."""
        if self.cause or self.gave_up or self.waiting > limits.waiting:
            return False
        return limits.p99_s is None or self.p99_s <= limits.p99_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A belief on which a plan rests, by its id if it has one, and the outcomes if it were wrong."""

    belief: str
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cheapest fleet, and its neighbors.

    Attributes:
        best: None if no fleet meets the limits.
        others: The cheapest fleet of each other type, also of those where none meets the limits.
        fewer: The best fleet with one instance fewer; None if it has one.
        limit: Why one instance fewer misses the limits: `GPU_TIME`, `FIRST_LOADS`, or what is used up, as in
            `triton_models.check.fits`. "" if nothing limits.
        pinned: The cheapest fleet with a fifth of the models pinned; None if they fit on no type, or the
            plan has pinned models.
        today: The fleet that is compared with the plan; None without one.
        hot: The names of the models that are pinned in it.
        tried: All fleets that were simulated with all requests, or until too many waited.
        by_mean_rates: The share that would wait by mean rates alone.
    """

    traffic: str
    models: Sequence[Profile]
    limits: Limits
    best: Outcome | None
    others: Sequence[Outcome]
    fewer: Outcome | None = None
    limit: str = ""
    pinned: Outcome | None = None
    doubts: Sequence[Doubt] = ()
    today: Outcome | None = None
    hot: Sequence[str] = ()
    tried: Sequence[Outcome] = ()
    by_mean_rates: float = 0.0


class Planner:
    """Simulates fleets for some models and requests."""

    def __init__(self, models: Sequence[Profile], traffic: Traffic, limits: Limits) -> None:
        self._models, self._traffic, self._limits = models, traffic, limits
        self._popular = np.argsort(-traffic.rates(), kind="stable")
        self._known: dict[Any, Outcome] = {}
        self._shares: dict[Any, Array] = {}
        self._tried: dict[Fleet, Outcome] = {}
        self._lock, self._locks = Lock(), dict[Any, Lock]()

    def plan(self, offers: Sequence[Offer], *, pinned: int = 0, today: Fleet | None = None) -> Plan:
        """Return the cheapest fleet of the offered types.

        Args:
            offers: The instance types.
            pinned: The number of models to pin, the most popular ones.
            today: A fleet to compare the plan with.

        Raises:
            FleetError: A model, or those that are pinned, fit on none of the types.
        """
        outcomes = self._cheapest_by_type(offers, pinned)
        if not outcomes:
            self._refuse(offers, pinned)
        outcomes.sort(key=lambda one: (not one.meets(self._limits), one.usd_per_month, one.waiting))
        best = outcomes[0] if outcomes[0].meets(self._limits) else None
        plan = Plan(
            traffic=str(self._traffic),
            models=self._models,
            limits=self._limits,
            best=best,
            others=outcomes[1:] if best else outcomes,
            today=None if today is None else self.simulate(today),
            hot=[self._models[index].name for index in self._popular[:pinned].tolist()],
        )
        if best is not None:
            plan = self._around(plan, best, offers)
        return replace(plan, tried=tuple(self._tried.values()))

    def _cheapest_by_type(self, offers: Sequence[Offer], pinned: int) -> list[Outcome]:
        """Return the cheapest fleet of each type on which the models fit."""
        fitting = [offer for offer in offers if self._fits(offer, pinned=pinned)]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return list(threads.map(lambda offer: self.cheapest(offer, pinned=pinned), fitting))

    def _around(self, plan: Plan, best: Outcome, offers: Sequence[Offer]) -> Plan:
        """Add what stands next to the best fleet, and what it rests on."""
        fleet, fifth = best.fleet, len(self._models) // _FIFTH
        fewer = replace(fleet, least=max(1, fleet.least - 1), most=max(1, fleet.most - 1))
        pinned = self._cheapest_by_type(offers, fifth) if fifth and not fleet.pinned else []
        pinned = [outcome for outcome in pinned if outcome.meets(self._limits)]
        rates, sizes = self._traffic.rates(), self._sizes(fleet.offer)
        return replace(
            plan,
            fewer=self.simulate(fewer) if fleet.most > 1 else None,
            limit=self._limit(fewer) if fleet.most > 1 else "",
            pinned=min(pinned, key=lambda outcome: outcome.usd_per_month, default=None),
            doubts=list(self._doubts(fleet, unloads=best.unloads)),
            by_mean_rates=waiting_by_mean_rates(rates, sizes, best.most_instances),
        )

    def _limit(self, fewer: Fleet) -> str:
        """Return why a fleet misses the limits: what is used up, if it meets them with any amount of that."""
        if fewer.most < self._busy_instances(fewer.offer):
            return GPU_TIME
        if self.simulate(fewer).meets(self._limits):
            return ""
        roomy = self.simulate(fewer, Assumed(room=_ANY_ROOM))
        if roomy.meets(self._limits):
            return LIMITS[taken(self._models, fewer.offer.room).limit]
        return FIRST_LOADS if not roomy.cause and roomy.waiting > self._limits.waiting else GPU_TIME

    def _fits(self, offer: Offer, *, pinned: int = 0) -> bool:
        """Return whether the pinned models leave room for the largest other one."""
        sizes = self._sizes(offer)[self._popular]
        return bool(sizes[:pinned].sum() + sizes[pinned:].max(initial=0.0) <= 1)

    def _sizes(self, offer: Offer, end: int = LIKELY) -> Array:
        """Return the share of an instance that each model takes, of that of which it takes most.

        The models of which one takes most of the memory and another one of the disk may fit a little better.
        """
        key = (offer.room, end)
        if key not in self._shares:
            shares = [share_of(model, offer.room, end).fraction for model in self._models]
            self._shares[key] = np.array(shares)
        return self._shares[key]

    def _refuse(self, offers: Sequence[Offer], pinned: int) -> None:
        most = min(offers, key=lambda offer: float(self._sizes(offer).max()))
        largest = self._models[int(self._sizes(most).argmax())]
        share = share_of(largest, most.room)
        what = f"{largest.name} needs about {share.fraction:.1f} times {LIMITS[share.limit]}"
        if self._fits(most):
            pins = self._sizes(most)[self._popular[:pinned]].sum()
            what = f"{pinned:,} pinned models take {pins:.0%} of an instance, and leave no room for others"
        room = f"{most.type.name} has {most.room.memory / MIB:,.0f} MiB of a GPU for models"
        raise PLAN.error(
            what=what,
            where="the models",
            why=f"{room}, the best of the types considered",
            fix="name a larger type with --types, pin fewer models, or make them smaller",
        )

    def cheapest(self, offer: Offer, *, pinned: int = 0) -> Outcome:
        """Return the cheapest fleet of a type that meets the limits; without one, that which waits least."""

        def fixed(count: int) -> Outcome:
            return self.simulate(Fleet(offer=offer, least=count, most=count, pinned=pinned), gives_up=True)

        least = self._busy_instances(offer)
        count = self._first_guess(offer, least)
        found, least_known = fixed(count), least
        while not found.meets(self._limits) and count < _MOST_INSTANCES:
            least_known, count = count + 1, min(_MOST_INSTANCES, count + max(1, count // 3))
            found = fixed(count)
        if not found.meets(self._limits):
            return self._nearest(found.fleet, least)
        while least_known < count:
            other = fixed(count - 1)
            if not other.meets(self._limits):
                break
            count, found = count - 1, other
        return min([found, *self._scaled(found)], key=lambda outcome: outcome.usd_per_month)

    def _nearest(self, largest: Fleet, least: int) -> Outcome:
        """Return the smallest fleet that does about as well as the largest one, which misses the limits."""
        best, count = self.simulate(largest), max(1, least)
        while count < largest.most:
            found = self.simulate(replace(largest, least=count, most=count))
            waits_little = found.waiting <= max(self._limits.waiting, _ALIKE * best.waiting)
            if not found.cause and waits_little and found.p99_s <= _ALIKE * best.p99_s:
                return found
            count *= 2
        return best

    def _busy_instances(self, offer: Offer) -> int:
        """Return the number of instances whose GPUs are just not always busy."""
        work_s = float(self._traffic.rates() @ self._values("busy_s", LIKELY))
        return min(_MOST_INSTANCES, max(1, math.ceil(work_s / offer.type.gpu_count / _FULL)))

    def _first_guess(self, offer: Offer, least: int) -> int:
        """Return the number of instances that is enough by mean rates."""
        rates, sizes = self._traffic.rates(), self._sizes(offer)
        counts = range(least, _MOST_INSTANCES)
        enough = (n for n in counts if waiting_by_mean_rates(rates, sizes, n) <= self._limits.waiting)
        return next(enough, _MOST_INSTANCES)

    def _scaled(self, found: Outcome) -> Iterator[Outcome]:
        """Yield fleets with scaling that meet the limits."""
        count = found.fleet.most
        if count == 1 or self._traffic.busiest() < _VARIES * self._traffic.count / self._traffic.seconds:
            return
        for tracking in self._trackings(count):
            for least in sorted({1, (count + 1) // 2, count - 1}):
                fleet = replace(found.fleet, least=least, most=2 * count, tracking=tracking)
                scaled = self.simulate(fleet, gives_up=True)
                if scaled.meets(self._limits):
                    yield scaled
                    break

    def _trackings(self, count: int) -> Iterator[Tracking]:
        """Yield pairs of targets, of which one decides: the constructs always set both."""
        of_each = self._traffic.busiest() * MINUTE_S / count
        for busy in _BUSY_TARGETS:
            yield Tracking(busy=busy, requests=math.ceil(of_each / min(_REQUEST_TARGETS)))
        for share in _REQUEST_TARGETS:
            yield Tracking(busy=_BUSY_AT_MOST, requests=math.ceil(of_each * share))

    def simulate(
        self,
        fleet: Fleet,
        assumed: Assumed = Assumed(),
        *,
        gives_up: bool = False,
        most_requests: float = math.inf,
    ) -> Outcome:
        """Return what a fleet does with the requests, or with the first ones.

        If it gives up, it stops once more requests wait than the limits allow.
        """
        offer = fleet.offer
        same = (offer.room, offer.type.gpu_count, fleet.least, fleet.most, fleet.tracking)
        key = (same, fleet.pinned, assumed, most_requests)
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:  # the same simulation is not run twice at a time
            if key not in self._known or (self._known[key].gave_up and not gives_up):
                self._known[key] = self._simulated(fleet, assumed, most_requests, gives_up=gives_up)
        found = self._known[key]
        price = offer.price.usd_per_hour
        usd = found.instance_hours * price * HOURS_PER_MONTH / (self._traffic.seconds / _HOUR_S)
        found = replace(found, fleet=fleet, usd_per_month=usd)
        if assumed == Assumed():
            self._tried[fleet] = found
        return found

    def _simulated(self, fleet: Fleet, assumed: Assumed, most_requests: float, *, gives_up: bool) -> Outcome:
        simulation = Simulation(self._endpoint(fleet, assumed), self._arrays(fleet, assumed))
        found = simulation.arrays.found
        most_waiting = (
            self._limits.waiting * (self._traffic.count - self._traffic.warm_up) if gives_up else math.inf
        )
        until, gave_up, sent = math.ceil(self._traffic.seconds / MINUTE_S) * MINUTE_S, False, 0
        try:
            for at, model in self._traffic.parts():
                simulation.send(at, model)
                sent += len(at)
                if sent <= self._traffic.warm_up:
                    if sent == self._traffic.warm_up:
                        simulation.forget_counts()
                    continue
                gave_up = gives_up and int(found["waited"].sum()) > most_waiting
                if gave_up or sent - self._traffic.warm_up >= most_requests:
                    until = float(at[-1])
                    break
            simulation.finish(until)
            asked, waited = simulation.counts().tolist()
        except OverloadedError:
            return Outcome(fleet=fleet, cause="it cannot keep up with the requests")
        if simulation.refused:
            return Outcome(fleet=fleet, cause="models do not fit next to those that are pinned")
        p50, p99 = percentiles(simulation.arrays.times[0], (0.5, 0.99))
        return Outcome(
            fleet=fleet,
            waiting=waited / asked,
            p50_s=p50,
            p99_s=p99,
            instance_hours=simulation.instance_s / _HOUR_S * self._traffic.seconds / until,
            busy=simulation.busy_s / simulation.instance_s / fleet.offer.type.gpu_count,
            loads=simulation.loads,
            unloads=simulation.unloads,
            most_instances=max((each.instances for each in simulation.minutes), default=fleet.least),
            gave_up=gave_up,
            waited_by_model=found["waited"].copy(),
            minutes=simulation.minutes,
        )

    def _endpoint(self, fleet: Fleet, assumed: Assumed) -> Endpoint:
        first_s, last_s = (each * assumed.starts for each in STARTS_S)
        return Endpoint(
            instances=fleet.least,
            most=fleet.most,
            gpus=fleet.offer.type.gpu_count,
            memory=assumed.room,
            disk=fleet.offer.room.disk * assumed.room,
            overhead_s=OVERHEAD_S,
            first_load_s=FIRST_LOAD_S.values[assumed.times],
            unload_s=assumed.unload_s,
            loads_at_once=assumed.loads_at_once,
            stalls=assumed.stalls,
            holds=assumed.holds,
            many=assumed.many,
            first_s=first_s,
            last_s=last_s,
            replace_s=first_s,
            tracking=fleet.tracking or Tracking(),
        )

    def _arrays(self, fleet: Fleet, assumed: Assumed) -> Models:
        return Models(
            memory=self._sizes(fleet.offer, assumed.memory),
            disk=np.array([model.disk for model in self._models]),
            fetch_s=self._values("fetch_s", assumed.times),
            load_s=self._values("load_s", assumed.times),
            busy_s=self._values("busy_s", assumed.busy),
            pinned=np.isin(np.arange(len(self._models)), self._popular[: fleet.pinned]),
        )

    def _values(self, name: str, end: int) -> Array:
        return np.array([getattr(model, name).values[end] for model in self._models])

    def _doubts(self, fleet: Fleet, *, unloads: int) -> Iterator[Doubt]:
        """Yield the beliefs that change the figures, one at a time."""
        doubted: list[tuple[str, Mapping[str, Assumed]]] = [
            ("gpu-memory-of-models", {"least": Assumed(memory=LEAST), "most": Assumed(memory=MOST)}),
            ("cold-start-figures", {"shortest": Assumed(times=LEAST), "longest": Assumed(times=MOST)}),
            ("routing-to-loaded", {"any instance": Assumed(many=0), "never another": Assumed(many=1 << 30)}),
            ("loads at a time", {"1": Assumed(loads_at_once=1)}),
            ("loads-hold-answers", {"not held": Assumed(holds=False)}),
        ]
        if unloads:
            doubted += [
                ("unload-takes-seconds", {"half a second": Assumed(unload_s=_QUICK_UNLOAD_S)}),
                ("unload-stalls", {"as since 25.12": Assumed(stalls=True)}),
            ]
        if any(len(set(model.busy_s.values)) > 1 for model in self._models):
            busy = {"least": Assumed(busy=LEAST), "most": Assumed(busy=MOST)}
            doubted.append(("GPU time of a request", busy))
        if fleet.tracking is not None:
            starts = {"half": Assumed(starts=0.5), "twice": Assumed(starts=2.0)}
            doubted.append(("start-takes-twelve-minutes", starts))

        def simulate(assumed: Assumed) -> Outcome:
            return self.simulate(fleet, assumed, most_requests=_FOR_DOUBTS)

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            outcomes = threads.map(simulate, [case for _, cases in doubted for case in cases.values()])
            for belief, cases in doubted:
                yield Doubt(belief=belief, outcomes=dict(zip(cases, outcomes, strict=False)))


def percentiles(counts: Array, shares: Sequence[float]) -> Sequence[float]:
    """Return the times that shares of all answers do not exceed, right within 1.6 %."""
    total = np.cumsum(counts)
    if not total[-1]:
        return [math.nan for _ in shares]
    times = []
    for share in shares:
        bucket = int(np.searchsorted(total, math.ceil(total[-1] * share)))
        octave, part = divmod(bucket, BUCKETS_PER_OCTAVE)
        times.append(SMALLEST_S * 2.0**octave * (1 + (part + 0.5) / BUCKETS_PER_OCTAVE))
    return times
