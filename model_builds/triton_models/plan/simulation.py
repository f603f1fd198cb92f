"""The simulation of an endpoint: requests, loads, unloads and instances, one after the other.

It decides as a rehearsed endpoint does. A GPU answers its requests one after the other, in their order,
without batches. A load reserves its memory at its start. If there is too little, it waits for its turn to
unload idle models, the least recently used one first.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_type_hints

import numpy as np

from triton_models.base.encoding import Array
from triton_models.plan import compiled, policy
from triton_models.plan.compiled import ROOM, Arrays, Models, Setting

MINUTE_S = 60.0

_WAITING_ROOM, _PLANNED_ROOM = 1 << 18, 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """A policy that keeps a metric at its target.

    Attributes:
        requests: Requests per minute and instance; None to not follow them.
        busy: The share of the GPUs' time.
    """

    requests: float | None = None
    busy: float | None = None
    out_cooldown_s: float = 300.0
    in_cooldown_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint. Times are in seconds.

    Attributes:
        instances: At the beginning, and the least.
        most: The most instances.
        gpus: GPUs of an instance, each of which answers one request at a time, and has all models.
        memory: Bytes for models on a GPU.
        disk: Bytes for copies of models.
        overhead_s: The time of a request besides its model's.
        first_load_s: The additional time of the first load of an instance.
        unload_s: The time of an unload. One at a time makes room on an instance.
        loads_at_once: On an instance.
        refused_after: The share of a load after which the server refuses a model for lack of memory.
        stalls: Whether an unload stops all answers of its instance, as Triton's does since 25.12.
        holds: Whether the requests in progress get their answers after a load or an unload that begins.
        many: See `policy.choose`.
        first_s: From a change to the first new instance.
        last_s: From a change to the last new instance.
        go_s: From a change to the end of the instances that it removes.
        replace_s: From the loss of an instance to another one.
        repeat_s: From a loss to the next attempt of a client.
    """

    instances: int
    most: int
    gpus: int
    memory: float
    disk: float
    overhead_s: float
    first_load_s: float
    unload_s: float
    loads_at_once: int
    stalls: bool = False
    holds: bool = True
    refused_after: float = 0.5
    many: int = policy.MANY
    first_s: float
    last_s: float
    go_s: float = 240.0
    replace_s: float
    repeat_s: float = 0.1
    tracking: Tracking = Tracking()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instance:
    number: int  # in the order of starts
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """A minute.

    Attributes:
        waited: Requests that waited for a load.
        shares: The metric of each policy, as a share of its target; NaN without requests.
    """

    asked: int
    waited: int
    instances: int
    shares: tuple[float, ...]


class OverloadedError(Exception):
    """The endpoint cannot keep up with its requests."""


class Simulation:
    """An endpoint in time. With `logged`, it keeps so many answers and events, for tests."""

    def __init__(self, endpoint: Endpoint, models: Models, *, logged: int = 0) -> None:
        self._endpoint, self._slots = endpoint, 2 * endpoint.most + 1
        self.arrays = _arrays(endpoint, models, slots=self._slots, logged=logged)
        self.minutes, self.instance_s = list[Minute](), 0.0
        self._instance_events: list[tuple[float, str, int, int]] = []
        self._names: list[list[tuple[float, int]]] = [[] for _ in range(self._slots)]
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._serving: list[_Instance] = []
        self._among = np.zeros(0, np.int64)
        self._homeless: deque[tuple[int, float]] = deque()
        self._desired = self._counted = endpoint.instances
        self._paid = self._busy_s = 0.0
        self._started = 0
        self._before = np.zeros(2, np.int64)  # the minute: requests that were asked, and that waited
        self._changed, self._out_until, self._in_until = 0.0, -math.inf, -math.inf
        for _ in range(endpoint.instances):
            self._start(0.0, loaded=True)
        self._push(MINUTE_S, self._end_minute)

    @property
    def loads(self) -> int:
        """The number of loads."""
        return int(self.arrays.number.loads)

    @property
    def unloads(self) -> int:
        """The number of unloads."""
        return int(self.arrays.number.unloads)

    @property
    def refused(self) -> int:
        """The number of requests for models without room."""
        return int(self.arrays.number.refused)

    @property
    def events(self) -> Sequence[tuple[float, str, int, int]]:
        """What happened to models and instances: the moment, what, the instance's number, and the model."""
        found = list(self._instance_events)
        for at, slot, model in self.arrays.events[: self.arrays.number.noted].tolist():
            number = [each for began, each in self._names[int(slot)] if began <= at][-1]
            what, of = ("load", int(model)) if model >= 0 else ("unload", int(-1 - model))
            found.append((at, what, number, of))
        return found

    def counts(self) -> Array:
        """Return the number of requests, and of those that waited for a load."""
        return np.array([self.arrays.found[name].sum() for name in ("asked", "waited")])

    def forget_counts(self) -> None:
        """Count from now on, but for the instances and their time."""
        self._before -= self.counts()  # the minute keeps those that it has
        self.arrays.number.loads = self.arrays.number.unloads = 0
        self.arrays.found[:] = 0
        self.arrays.times[:] = 0

    def lose(self, at: float, number: int) -> None:
        """Plan the loss of an instance, by its place in the order of their starts."""
        self._push(at, lambda now: self._lose(number, now))

    def add(self, at: float, count: int) -> None:
        """Plan that instances are added, as scaling adds them."""
        self._push(at, lambda now: self._add(count, now))

    def send(self, at: Array, models: Array) -> None:
        """Take requests in the order of their times.

        Raises:
            OverloadedError: The endpoint cannot keep up.
        """
        first = 0
        while first < len(at):
            until = self._coming[0][0]
            if not self._serving and at[first] < until:
                self._homeless.append((int(models[first]), float(at[first])))
                self.arrays.found["asked"][models[first]] += 1
                first += 1
                continue
            first = compiled.take(self.arrays, at, at, models, first, until, self._among)
            self._refuse_overload()
            if first < len(at) and at[first] >= until:
                self._happen()

    def finish(self, until: float) -> None:
        """Let all happen until a moment, without further requests.

        Raises:
            OverloadedError: The endpoint cannot keep up.
        """
        while self._coming[0][0] <= until:
            self._happen()
        self._pay(until)

    def _push(self, at: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._coming, (at, next(self._order), happen))

    def _happen(self) -> None:
        at, _, happen = heapq.heappop(self._coming)
        compiled.happen_until(self.arrays, at)
        happen(at)
        self._refuse_overload()

    def _refuse_overload(self) -> None:
        if self.arrays.number.full:
            raise OverloadedError

    def _note(self, at: float, what: str, on: _Instance) -> None:
        self._instance_events.append((at, what, on.number, -1))

    def _start(self, now: float, *, loaded: bool = False) -> None:
        """Begin to send requests to another instance, which has loaded the pinned models, or begins to."""
        busy = self.arrays.slot["wanted"].copy()
        busy[self._among] = 1
        self._started += 1
        on = _Instance(number=self._started, slot=int(np.flatnonzero(busy == 0)[0]))
        compiled.start(self.arrays, on.slot, self._endpoint.memory, self._endpoint.disk, now, loaded)
        self._names[on.slot].append((now, on.number))
        self._note(now, "start", on)
        self._serve_from([*self._serving, on])
        homeless, self._homeless = self._homeless, deque()
        for model, since in homeless:
            self._ask(model, since, now)

    def _serve_from(self, instances: list[_Instance]) -> None:
        self._serving = instances
        self._among = np.array([each.slot for each in instances], np.int64)
        self.arrays.slot["serves"] = 0
        self.arrays.slot["serves"][self._among] = 1 + np.arange(len(instances))
        there = self.arrays.pair["users"][self._among, :-1].T >= 0
        self.arrays.copies[:, 0] = there.sum(axis=1)
        self.arrays.copies[:, 1 : 1 + len(instances)] = self._among[np.argsort(~there, axis=1, kind="stable")]

    def _ask(self, model: int, since: float, now: float) -> None:
        """Take a request of an earlier moment, which has been counted."""
        if not self._serving:
            self._homeless.append((model, since))
            return
        self.arrays.found["asked"][model] -= 1
        at, of, asked = np.array([now]), np.array([since]), np.array([model], np.int32)
        compiled.take(self.arrays, at, of, asked, 0, math.inf, self._among)

    def _lose(self, number: int, now: float) -> None:
        """Lose an instance with all that it does: its requests come again, and another instance comes."""
        if number >= len(self._serving):
            return
        on = self._serving[number]
        self._serve_from([each for each in self._serving if each is not on])
        self._note(now, "end", on)
        again = now + self._endpoint.repeat_s
        for model, since in self._interrupted(on, now):
            self._push(again, partial(self._ask, model, since))
        self.arrays.slot["wanted"][on.slot] = 0
        self.arrays.slot["age"][on.slot] += 1
        self._push(now + self._endpoint.replace_s, self._come)

    def _interrupted(self, on: _Instance, now: float) -> Sequence[tuple[int, float]]:
        a, found = self.arrays, list[tuple[int, float]]()
        for number, gpu in enumerate(a.gpu[on.slot]):
            for place in range(gpu["first"], gpu["first"] + gpu["count"]):
                done, since, answer, _, model = a.progress[on.slot, number, place % ROOM].tolist()
                if done > now:
                    compiled.answer_at(a, since, answer, math.nan)
                    found.append((model, since))
            gpu["assigned"] -= max(0.0, gpu["until"] - now)
            gpu["until"] = now
        for model in np.flatnonzero(a.pair["first"][on.slot, :-1] >= 0).tolist():
            place = int(a.pair["first"][on.slot, model])
            while place >= 0:
                since, after = a.waiting[place].tolist()
                found.append((model, since))
                a.waiting["after"][place], a.number.free = a.number.free, place
                a.found["waited"][model] -= 1
                place = after
        return sorted(found, key=lambda each: each[1])

    def _come(self, now: float) -> None:
        if len(self._serving) < self._desired:
            self._start(now)

    def _go(self, now: float) -> None:
        """Send no more requests to the newest instances."""
        for on in self._serving[self._desired :]:
            self._note(now, "end", on)
        self._serve_from(self._serving[: self._desired])

    def _pay(self, now: float) -> None:
        """Count the seconds of instances, which are paid from the moment at which they are wanted."""
        self.instance_s += (now - self._paid) * self._desired
        self._paid = now

    @property
    def busy_s(self) -> float:
        """The seconds for which all GPUs were busy until the last minute."""
        return self._busy_s

    def _end_minute(self, now: float) -> None:
        a, endpoint, serving = self.arrays, self._endpoint, max(1, len(self._serving))
        counted = self.counts()
        asked, waited = (counted - self._before).tolist()
        busy_s = float((a.gpu["assigned"] - np.maximum(0.0, a.gpu["until"] - now)).sum())
        spent_s = busy_s - self._busy_s
        self._before, self._busy_s = counted, busy_s
        shares, policy_of = list[float](), endpoint.tracking
        if policy_of.requests is not None:
            shares.append(asked / serving / policy_of.requests if asked else math.nan)
        if policy_of.busy is not None:
            shares.append(max(0.0, spent_s) / (MINUTE_S * serving * endpoint.gpus) / policy_of.busy)
        self.minutes.append(
            Minute(asked=asked, waited=waited, instances=len(self._serving), shares=tuple(shares))
        )
        if shares and self._changed <= now:
            self._scale(now)
        self._push(now + MINUTE_S, self._end_minute)

    def _scale(self, now: float) -> None:
        """Follow the policies: the largest wish counts, and instances go if all policies agree."""
        capacity, last = self._desired, self.minutes[-policy.LOW_PERIODS :]
        counted = self._counted if now < self._out_until else capacity
        more, fewer, agreed = 0, self._endpoint.instances, True
        for shares in zip(*(each.shares for each in last), strict=True):
            found = policy.breach(shares)
            if found > 0:
                more = max(more, policy.within(shares[-1], counted))
            elif found < 0:
                fewer = max(fewer, policy.within(shares[-1], capacity))
            agreed = agreed and found < 0
        more = min(more, self._endpoint.most)
        if more > capacity:
            self._counted = counted
            self._add(more - capacity, now)
        elif not more and agreed and fewer < capacity and now >= self._in_until:
            self._pay(now)
            self._desired = fewer
            self._changed = now + self._endpoint.go_s
            self._in_until = self._changed + self._endpoint.tracking.in_cooldown_s
            self._push(self._changed, self._go)

    def _add(self, count: int, now: float) -> None:
        endpoint = self._endpoint
        self._pay(now)
        self._desired += count
        for each in range(count):
            after = endpoint.first_s + (endpoint.last_s - endpoint.first_s) * each / max(1, count - 1)
            self._push(now + after, self._come)
            self._changed = now + after
        self._out_until = self._changed + endpoint.tracking.out_cooldown_s
        self._in_until = -math.inf


def _arrays(endpoint: Endpoint, models: Models, *, slots: int, logged: int) -> Arrays:
    count, gpus = len(models.memory), endpoint.gpus
    waiting = np.zeros(_WAITING_ROOM, compiled.WAITING)
    planned = np.zeros(_PLANNED_ROOM, compiled.PLANNED)
    waiting["after"], planned["at"] = np.arange(1, _WAITING_ROOM + 1), np.inf
    fields = {name: kind(getattr(endpoint, name)) for name, kind in get_type_hints(Setting).items()}
    return Arrays(
        setting=Setting(**fields),
        model=Models(*(np.array(values, float) for values in models)),
        requests=np.full(slots, -1, np.int32),
        copies=np.zeros((count, slots + 1), np.int16),
        pair=np.zeros((slots, count + 1), compiled.PAIR),
        slot=np.zeros(slots, compiled.SLOT),
        gpu=np.zeros((slots, gpus), compiled.GPU),
        progress=np.zeros((slots, gpus, ROOM + 8), compiled.REQUEST),
        queue=np.zeros((slots, count), np.int32),
        waiting=waiting,
        planned=planned,
        found=np.zeros(count, compiled.FOUND),
        times=np.zeros((2, compiled.BUCKETS), np.int64),
        number=np.zeros(1, compiled.NUMBER).view(np.recarray)[0],
        log=np.zeros((logged, 2)),
        events=np.zeros((logged, 3)),
    )
