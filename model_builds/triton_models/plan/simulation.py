"""The simulation of an endpoint: requests, loads, unloads and instances, one after the other.

It decides as a rehearsed endpoint does. A GPU answers its requests one after the other, in their order,
without batches. A load reserves its memory at its start, and unloads idle models for it, the least recently
used one first.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from triton_models.plan import compiled, policy
from triton_models.plan.compiled import (
    ABSENT,
    ASKED,
    ASSIGNED,
    BUCKETS,
    DONE,
    FIRST,
    FREE,
    FULL,
    LOADED,
    LOADING,
    OLDER,
    ROOM,
    STATUS,
    UNTIL,
    USERS,
    WAITED,
    Array,
    Arrays,
)

MINUTE_S = 60.0

_WAITING_ROOM = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models, in arrays: memory and disk in bytes, times in seconds.

    Attributes:
        fetch_s: Download and unpacking, unless a copy is on the instance's disk.
        busy_s: The time for which a request keeps a GPU busy.
        pinned: Whether it is always loaded.
    """

    memory: Array
    disk: Array
    fetch_s: Array
    load_s: Array
    busy_s: Array
    pinned: Array


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
        loads_at_once: On an instance.
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
    many: int = policy.MANY
    first_s: float
    last_s: float
    go_s: float = 240.0
    replace_s: float
    repeat_s: float = 0.1
    tracking: Tracking = Tracking()


@dataclass(slots=True, kw_only=True)
class _Instance:
    number: int  # in the order of starts
    slot: int
    memory: float  # free
    disk: float  # free
    queue: deque[int] = field(default_factory=deque)  # models to load
    unused: dict[int, None] = field(default_factory=dict)  # copies on the disk, in the order in which they go
    kept: set[int] = field(default_factory=set)  # queued models with a copy on the disk
    loading: int = 0
    delayed_s: float = 0.0  # by unloading, for the next load
    loaded_once: bool = False
    room_asked: bool = False
    serving: bool = True
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """A minute.

    Attributes:
        waited: Requests that waited for a load.
        shares: The metric of each policy, as a share of its target; NaN without requests.
    """

    asked: int
    waited: int
    loads: int
    instances: int
    shares: tuple[float, ...]


@dataclass(slots=True)
class Totals:
    """What is counted."""

    loads: int = 0
    unloads: int = 0
    refused: int = 0  # requests for models without room
    instance_s: float = 0.0
    waited_s: float = 0.0


class OverloadedError(Exception):
    """The endpoint cannot keep up with its requests."""


class Simulation:
    """An endpoint in time. `events` is for tests: what happened to models and instances."""

    def __init__(self, endpoint: Endpoint, models: Models, *, logged: int = 0) -> None:
        count, slots = len(models.memory), 2 * endpoint.most + 1
        waiting = np.zeros((_WAITING_ROOM, 2))
        waiting[:, 1] = np.arange(1, _WAITING_ROOM + 1)
        self.arrays = Arrays(
            pair=np.zeros((count + 1, slots, 6), np.int32),
            models=np.zeros(slots, np.int64),
            gpu=np.zeros((slots, endpoint.gpus, 2)),
            progress=np.zeros((slots, endpoint.gpus, ROOM, 3)),
            ring=np.zeros((slots, endpoint.gpus, 2), np.int64),
            waiting=waiting,
            busy_s=models.busy_s,
            found=np.zeros((count, 2), np.int64),
            times=np.zeros((2, BUCKETS), np.int64),
            number=np.zeros(3, np.int64),
            log=np.zeros((logged, 2)),
        )
        self.totals, self.minutes = Totals(), list[Minute]()
        self.events: list[tuple[float, str, int, int]] | None = [] if logged else None
        self._endpoint, self._models = endpoint, models
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._serving: list[_Instance] = []
        self._in_slot: dict[int, _Instance] = {}
        self._among = np.zeros(0, np.int64)
        self._free_slots = list(range(slots))
        self._homeless: deque[tuple[int, float]] = deque()
        self._unloaded = np.zeros(count, np.int32)
        self._desired = self._counted = endpoint.instances
        self._paid = self._busy_s = 0.0
        self._asked = self._started = 0
        self._changed, self._out_until, self._in_until = 0.0, -math.inf, -math.inf
        for _ in range(endpoint.instances):
            self._start(0.0)
        self._push(MINUTE_S, self._end_minute)

    @property
    def sent(self) -> int:
        """The number of requests until now that are counted."""
        return int(self.arrays.found[:, ASKED].sum())

    def forget_counts(self) -> None:
        """Count from now on, but for the instances and their time."""
        self.totals.loads = self.totals.unloads = self._asked = 0
        self.arrays.found[:] = 0
        self.arrays.times[:] = 0

    def lose(self, at: float, number: int) -> None:
        """Plan the loss of an instance, by its place in the order of their starts."""
        self._push(at, lambda now: self._lose(number, now))

    def send(self, at: Array, models: Array) -> None:
        """Take requests in the order of their times.

        Raises:
            OverloadedError: The endpoint cannot keep up.
        """
        first, endpoint = 0, self._endpoint
        while first < len(at):
            until = self._coming[0][0]
            if not self._serving and at[first] < until:
                self._homeless.append((int(models[first]), float(at[first])))
                self.arrays.found[models[first], ASKED] += 1
                first += 1
                continue
            first, slot = compiled.take(
                self.arrays, at, at, models, first, until, self._among, endpoint.many, endpoint.overhead_s
            )
            if self.arrays.number[FULL]:
                raise OverloadedError
            if slot >= 0:
                self._want_load(slot, int(models[first]), float(at[first]))
                first += 1
            elif first < len(at):
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
        happen(at)
        if self.arrays.number[FULL]:
            raise OverloadedError

    def _note(self, at: float, what: str, on: _Instance, model: int = -1) -> None:
        if self.events is not None:
            self.events.append((at, what, on.number, model))

    def _want_load(self, slot: int, model: int, now: float) -> None:
        instance = self._in_slot[slot]
        instance.queue.append(model)
        if model in instance.unused:
            del instance.unused[model]
            instance.kept.add(model)
        self._begin_loads(instance, now)

    def _begin_loads(self, on: _Instance, now: float) -> None:
        """Begin the loads that have their turn, and unload idle models for them."""
        while on.queue and on.loading < self._endpoint.loads_at_once:
            model = on.queue[0]
            if self._make_room(on, float(self._models.memory[model]), now):
                on.queue.popleft()
                self._begin_load(on, model, now)
            elif (next_done := self._next_done(on.slot)) < math.inf:
                if not on.room_asked:
                    on.room_asked = True
                    self._push(next_done, partial(self._try_again, on))
                return
            elif on.loading:
                return
            else:
                on.queue.popleft()
                self._refuse(on, model)

    def _try_again(self, on: _Instance, now: float) -> None:
        on.room_asked = False
        if not on.lost:
            self._begin_loads(on, now)

    def _make_room(self, on: _Instance, wanted: float, now: float) -> bool:
        if on.memory < wanted:
            m = self._models
            count = compiled.unload_for(
                self.arrays, on.slot, now, wanted, on.memory, m.memory, m.pinned, self._unloaded
            )
            for model in self._unloaded[:count].tolist():
                on.memory += float(m.memory[model])
                on.delayed_s += self._endpoint.unload_s
                self.totals.unloads += 1
                on.unused[model] = None
                self._note(now, "unload", on, model)
        return on.memory >= wanted

    def _begin_load(self, on: _Instance, model: int, now: float) -> None:
        m = self._models
        on.memory -= float(m.memory[model])
        on.loading += 1
        self.arrays.pair[model, on.slot, STATUS] = LOADING
        seconds = float(m.load_s[model]) + on.delayed_s
        if not on.loaded_once:
            seconds += self._endpoint.first_load_s
        if model in on.kept:
            on.kept.remove(model)
        else:
            seconds += float(m.fetch_s[model])
            self._keep_on_disk(on, model)
        on.delayed_s, on.loaded_once = 0.0, True
        self.totals.loads += 1
        self._note(now, "load", on, model)
        self._push(now + seconds, partial(self._end_load, on, model))

    def _keep_on_disk(self, on: _Instance, model: int) -> None:
        """Add a copy, and remove those of unloaded models, the one that was unloaded first before others."""
        on.disk -= float(self._models.disk[model])
        while on.disk < 0 and on.unused:
            oldest = next(iter(on.unused))
            del on.unused[oldest]
            on.disk += float(self._models.disk[oldest])

    def _next_done(self, slot: int) -> float:
        """Return the moment of the next answer; infinite without requests in progress."""
        rings, progress = self.arrays.ring[slot], self.arrays.progress[slot]
        return min(
            (float(progress[gpu, first, DONE]) for gpu, (first, count) in enumerate(rings.tolist()) if count),
            default=math.inf,
        )

    def _refuse(self, on: _Instance, model: int) -> None:
        """Refuse the requests for a model that has no room."""
        if model in on.kept:
            on.kept.remove(model)
            on.unused[model] = None
        for place in self._waiting(on, model):
            self._stop_waiting(place)
            self.totals.refused += 1
        compiled.remove(self.arrays.pair, on.slot, model)
        self.arrays.pair[model, on.slot, [USERS, FIRST, STATUS]] = -1, -1, ABSENT
        self.arrays.models[on.slot] -= 1

    def _waiting(self, on: _Instance, model: int) -> Sequence[int]:
        places, place = list[int](), int(self.arrays.pair[model, on.slot, FIRST])
        while place >= 0:
            places.append(place)
            place = int(self.arrays.waiting[place, 1])
        return places

    def _stop_waiting(self, place: int) -> None:
        self.arrays.waiting[place, 1] = self.arrays.number[FREE]
        self.arrays.number[FREE] = place

    def _end_load(self, on: _Instance, model: int, now: float) -> None:
        if on.lost:
            return
        on.loading -= 1
        self.totals.waited_s += compiled.answer_waiting(
            self.arrays, on.slot, model, now, self._endpoint.overhead_s
        )
        self._begin_loads(on, now)
        if not on.serving and not on.loading and not on.queue:
            self._free_slots.append(on.slot)

    def _start(self, now: float) -> None:
        """Begin to send requests to another instance, which has the pinned models alone."""
        slot, pair, end = min(self._free_slots), self.arrays.pair, len(self._models.memory)
        self._free_slots.remove(slot)
        pair[:, slot, USERS] = pair[:, slot, FIRST] = -1
        pair[:, slot, STATUS] = ABSENT
        pair[end, slot, : OLDER + 1] = end
        self.arrays.gpu[slot, :, UNTIL] = now
        self.arrays.ring[slot] = 0
        pinned = np.flatnonzero(self._models.pinned).tolist()
        self.arrays.models[slot] = len(pinned)
        self._started += 1
        on = _Instance(
            number=self._started, slot=slot, memory=self._endpoint.memory, disk=self._endpoint.disk
        )
        for model in pinned:
            compiled.use(pair, slot, model)
            pair[model, slot, USERS], pair[model, slot, STATUS] = 0, LOADED
            on.memory -= float(self._models.memory[model])
            on.loaded_once = True
            self._keep_on_disk(on, model)
        self._in_slot[slot] = on
        self._note(now, "start", on)
        self._serve_from([*self._serving, on])
        homeless, self._homeless = self._homeless, deque()
        for model, since in homeless:
            self._ask(model, since, now)

    def _serve_from(self, instances: list[_Instance]) -> None:
        self._serving = instances
        self._among = np.array([each.slot for each in instances], np.int64)

    def _ask(self, model: int, since: float, now: float) -> None:
        """Take a request of an earlier moment, which has been counted."""
        if not self._serving:
            self._homeless.append((model, since))
            return
        endpoint = self._endpoint
        self.arrays.found[model, ASKED] -= 1
        at, of, asked = np.array([now]), np.array([since]), np.array([model], np.int32)
        _, slot = compiled.take(
            self.arrays, at, of, asked, 0, math.inf, self._among, endpoint.many, endpoint.overhead_s
        )
        if slot >= 0:
            self._want_load(slot, model, now)

    def _lose(self, number: int, now: float) -> None:
        """Lose an instance with all that it does: its requests come again, and another instance comes."""
        if number >= len(self._serving):
            return
        on = self._serving[number]
        on.lost, on.serving = True, False
        self._serve_from([each for each in self._serving if each is not on])
        self._free_slots.append(on.slot)
        self._note(now, "end", on)
        again = now + self._endpoint.repeat_s
        for model, since in self._interrupted(on, now):
            self._push(again, partial(self._ask, model, since))
        self._push(now + self._endpoint.replace_s, self._come)

    def _interrupted(self, on: _Instance, now: float) -> Sequence[tuple[int, float]]:
        a, found = self.arrays, list[tuple[int, float]]()
        for gpu, (first, count) in enumerate(a.ring[on.slot].tolist()):
            for place in range(first, first + count):
                done, since, model = a.progress[on.slot, gpu, place % ROOM].tolist()
                if done > now:
                    compiled.take_back(a, since, done, self._endpoint.overhead_s)
                    found.append((int(model), since))
            a.gpu[on.slot, gpu, ASSIGNED] -= max(0.0, a.gpu[on.slot, gpu, UNTIL] - now)
            a.gpu[on.slot, gpu, UNTIL] = now
        for model in np.flatnonzero(a.pair[:-1, on.slot, FIRST] >= 0).tolist():
            for place in self._waiting(on, model):
                found.append((model, float(a.waiting[place, 0])))
                self._stop_waiting(place)
                a.found[model, WAITED] -= 1
        return sorted(found, key=lambda each: each[1])

    def _come(self, now: float) -> None:
        if len(self._serving) < self._desired:
            self._start(now)

    def _go(self, now: float) -> None:
        """Send no more requests to the newest instances."""
        for on in self._serving[self._desired :]:
            on.serving = False
            self._note(now, "end", on)
            if not on.loading and not on.queue:
                self._free_slots.append(on.slot)
        self._serve_from(self._serving[: self._desired])

    def _pay(self, now: float) -> None:
        """Count the seconds of instances, which are paid from the moment at which they are wanted."""
        self.totals.instance_s += (now - self._paid) * self._desired
        self._paid = now

    @property
    def busy_s(self) -> float:
        """The seconds for which all GPUs were busy until the last minute."""
        return self._busy_s

    def _end_minute(self, now: float) -> None:
        a, endpoint, serving = self.arrays, self._endpoint, max(1, len(self._serving))
        asked, waited = a.found.sum(axis=0).tolist()
        busy_s = float((a.gpu[..., ASSIGNED] - np.maximum(0.0, a.gpu[..., UNTIL] - now)).sum())
        of_minute, spent_s = asked - self._asked, busy_s - self._busy_s
        self._asked, self._busy_s = asked, busy_s
        shares, policy_of = list[float](), endpoint.tracking
        if policy_of.requests is not None:
            shares.append(of_minute / serving / policy_of.requests if of_minute else math.nan)
        if policy_of.busy is not None:
            shares.append(max(0.0, spent_s) / (MINUTE_S * serving * endpoint.gpus) / policy_of.busy)
        self.minutes.append(
            Minute(
                asked=of_minute,
                waited=waited,
                loads=self.totals.loads,
                instances=len(self._serving),
                shares=tuple(shares),
            )
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
