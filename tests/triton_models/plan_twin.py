"""A slow twin of the simulation of a plan: an endpoint as processes of simpy, for comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from triton_models.plan.compiled import Models
from triton_models.plan.simulation import MINUTE_S, Endpoint


@dataclass(eq=False)
class Held:
    """A model on an instance."""

    used: int = 0
    loaded: bool = False
    waiting: list[float] = field(default_factory=list)
    users: int = 0


@dataclass(eq=False)
class Instance:
    number: int
    gpu: simpy.Resource
    memory: float
    disk: float
    held: dict[int, Held] = field(default_factory=dict)
    disk_order: list[int] = field(default_factory=list)
    # Models with the event of their turn, or None once the server has refused them.
    queue: list[tuple[int, Any]] = field(default_factory=list)
    leaving: dict[int, Any] = field(default_factory=dict)  # what happens once they are unloaded
    turn: int | None = None
    wanted: int = 0  # models for which requests wait
    trying: bool = False
    loads: int = 0
    fresh: bool = True
    watched: bool = False
    dead: bool = False
    ends: list[float] = field(default_factory=list)  # of the requests in progress
    # Of each request in progress: its model, its beginning, and its end, or its turn before it has begun.
    running: dict[object, tuple[int, float, Any]] = field(default_factory=dict)
    held_until: dict[object, tuple[float, float]] = field(default_factory=dict)  # since, and until


class Twin:
    """The endpoint; `events` and `answers` are to be compared."""

    def __init__(self, endpoint: Endpoint, models: Models) -> None:
        self.world = simpy.Environment()
        self.events: list[tuple[float, str, int, int]] = []
        self.answers: list[tuple[float, float]] = []
        self.e, self.m = endpoint, models
        self.instances: list[Instance] = []
        self.started = self.clock = self.minute_asked = 0
        self.homeless: list[tuple[int, float]] = []
        self.wanted = endpoint.instances
        self.busy_s = 0.0
        self.ends_of_change, self.cool_out, self.cool_in, self.base = 0.0, -math.inf, -math.inf, self.wanted
        self.history: list[list[float]] = []
        for _ in range(endpoint.instances):
            self.start(loaded=True)
        self.world.process(self.minutes())

    @property
    def now(self) -> float:
        return float(self.world.now)

    def run(
        self, requests: Sequence[tuple[float, int]], losses: Sequence[tuple[float, int]], until: float
    ) -> None:
        for at, number in losses:
            self.world.process(self.lose(at, number))
        self.world.process(self.arrivals(requests))
        self.world.run(until)

    def arrivals(self, requests: Sequence[tuple[float, int]]) -> Iterator[Any]:
        for at, model in requests:
            wake = self.world.event()
            wake._ok, wake._value = True, None
            self.world.schedule(wake, delay=at - self.now)
            yield wake
            self.minute_asked += 1
            self.ask(model, at)

    def start(self, *, loaded: bool = False) -> None:
        self.started += 1
        new = Instance(
            number=self.started,
            gpu=simpy.Resource(self.world, capacity=self.e.gpus),
            memory=self.e.memory,
            disk=self.e.disk,
        )
        for model, pinned in enumerate(self.m.pinned):
            if pinned and not loaded:
                new.held[model] = Held(used=-1, users=int(self.e.many))
                self.world.process(self.acquire(new, model))
            elif pinned:
                new.held[model] = Held(loaded=True, used=-1)
                new.memory -= self.m.memory[model]
                new.fresh = False
                self.on_disk(new, model)
        self.events.append((self.now, "start", new.number, -1))
        self.instances.append(new)
        again, self.homeless = self.homeless, []
        for model, since in again:
            self.ask(model, since)

    def ask(self, model: int, since: float) -> None:
        if not self.instances:
            self.homeless.append((model, since))
            return
        on = self.choose(model)
        self.clock += 1
        held = on.held.setdefault(model, Held())
        held.used, held.users = self.clock, held.users + 1
        if held.loaded:
            self.world.process(self.answer(on, model, since))
            return
        held.waiting.append(since)
        if held.users == 1 and not self.m.pinned[model]:
            self.world.process(self.acquire(on, model))

    def choose(self, model: int) -> Instance:
        having = [each for each in self.instances if model in each.held]
        others = [each for each in self.instances if model not in each.held]
        least = min((each.held[model].users for each in having), default=self.e.many)
        if others and least >= self.e.many:
            return min(others, key=lambda each: len(each.held))
        return next(each for each in having if each.held[model].users == least)

    def answer(self, on: Instance, model: int, since: float) -> Iterator[Any]:
        key, seconds = object(), self.m.busy_s[model]
        with on.gpu.request() as turn:
            on.running[key] = (model, since, turn)
            yield turn
            if on.dead:
                return
            on.running[key] = (model, since, self.now + seconds)
            began = self.now
            yield self.world.timeout(seconds)
            if on.dead:
                return
            self.busy_s += self.now - began
        yield self.world.timeout(0)  # the next request has its turn before
        if on.dead:
            return
        del on.running[key]
        on.held[model].users -= 1
        self.answers.append((since, max(self.now, on.held_until.pop(key, (0.0, 0.0))[1])))
        yield self.world.timeout(0)  # others end at the same moment
        if on.watched and on.ends and self.now >= on.ends[0]:
            on.watched = False
            self.pump(on)

    def hold(self, on: Instance, seconds: float) -> None:
        for key in on.running if self.e.holds else ():
            since, until = on.held_until.get(key, (self.now, 0.0))
            if since == self.now:
                on.held_until[key] = since, max(until, self.now + seconds)

    def acquire(self, on: Instance, model: int) -> Iterator[Any]:
        on.wanted += 1
        if model in on.leaving:
            yield on.leaving[model]
        elif model not in on.disk_order:
            yield self.world.timeout(self.m.fetch_s[model])
            if not on.dead:
                self.on_disk(on, model)
        if not on.dead:
            yield from self.try_load(on, model)

    def try_load(self, on: Instance, model: int) -> Iterator[Any]:
        queued = on.loads >= self.e.loads_at_once
        if queued:
            turn = self.world.event()
            on.queue.append((model, turn))
            self.pump(on)
            yield turn
            if on.dead:
                return
        fits = on.memory >= self.m.memory[model]
        if fits:
            self.begin_load(on, model)
        if queued:
            self.pump(on)
        if fits:
            return
        self.hold(on, self.e.refused_after * self.m.load_s[model])
        yield self.world.timeout(self.e.refused_after * self.m.load_s[model])
        if not on.dead:
            on.queue.append((model, None))
            self.pump(on)

    def pump(self, on: Instance) -> None:
        while on.queue and on.loads < self.e.loads_at_once and not on.trying:
            model, tried = on.queue[0]
            if tried is not None:
                on.queue.pop(0)
                tried.succeed()
                return
            if on.turn not in {None, model}:
                return
            on.turn = model
            idle = [
                (held.used, each)
                for each, held in on.held.items()
                if held.loaded and not held.users and not self.m.pinned[each]
            ]
            if idle:
                victim = min(idle)[1]
                del on.held[victim]
                on.memory += self.m.memory[victim]
                on.leaving[victim], on.trying = self.world.event(), True
                self.events.append((self.now, "unload", on.number, victim))
                self.hold(on, self.e.unload_s)
                self.world.process(self.unload(on, victim))
                return
            ends = [
                end if isinstance(end, float) else self.now + self.m.busy_s[which]
                for which, _, end in on.running.values()
                if isinstance(end, float) or end.triggered
            ]
            if ends and not on.watched:
                on.watched, on.ends = True, [min(ends)]
            if ends or on.wanted > len(on.queue):
                return
            on.queue.pop(0)
            on.turn = None
            if on.memory >= self.m.memory[model]:
                self.begin_load(on, model)
                continue
            on.wanted -= 1
            del on.held[model]

    def unload(self, on: Instance, victim: int) -> Iterator[Any]:
        yield self.world.timeout(self.e.unload_s)
        if on.dead:
            return
        if victim not in on.held:
            on.disk_order.remove(victim)
            on.disk_order.append(victim)
        model = on.queue[0][0]
        fits = on.memory >= self.m.memory[model]
        if fits:
            on.trying = False
            on.queue.pop(0)
            self.begin_load(on, model)
            self.pump(on)
        on.leaving.pop(victim).succeed()
        if not fits:
            self.hold(on, self.e.refused_after * self.m.load_s[model])
            yield self.world.timeout(self.e.refused_after * self.m.load_s[model])
            if not on.dead:
                on.trying = False
                self.pump(on)

    def begin_load(self, on: Instance, model: int) -> None:
        seconds = self.m.load_s[model] + (self.e.first_load_s if on.fresh else 0.0)
        on.fresh = False
        on.loads += 1
        on.memory -= self.m.memory[model]
        self.events.append((self.now, "load", on.number, model))
        self.hold(on, seconds)
        self.world.process(self.load(on, model, seconds))

    def load(self, on: Instance, model: int, seconds: float) -> Iterator[Any]:
        yield self.world.timeout(seconds)
        if on.dead:
            return
        on.loads -= 1
        on.wanted -= 1
        if on.turn == model:
            on.turn = None
        held = on.held[model]
        held.loaded = True
        held.users -= int(self.e.many) if self.m.pinned[model] else 0
        for since in held.waiting:
            self.world.process(self.answer(on, model, since))
        held.waiting = []
        # The requests have begun before another load looks for room.
        yield self.world.timeout(0)
        self.pump(on)

    def on_disk(self, on: Instance, model: int) -> None:
        on.disk -= self.m.disk[model]
        on.disk_order.append(model)
        for other in [each for each in on.disk_order if each not in on.held and each not in on.leaving]:
            if on.disk < 0:
                on.disk_order.remove(other)
                on.disk += self.m.disk[other]

    def lose(self, at: float, number: int) -> Iterator[Any]:
        yield self.world.timeout(at)
        if number >= len(self.instances):
            return
        on = self.instances.pop(number)
        on.dead = True
        self.events.append((self.now, "end", on.number, -1))
        again = [(model, since) for model, since, _ in on.running.values()]
        again += [(model, since) for model in sorted(on.held) for since in on.held[model].waiting]
        self.world.process(self.again(sorted(again, key=lambda each: each[1])))
        yield self.world.timeout(self.e.replace_s)
        self.come()

    def again(self, requests: Sequence[tuple[int, float]]) -> Iterator[Any]:
        yield self.world.timeout(self.e.repeat_s)
        for model, since in requests:
            self.ask(model, since)

    def come(self) -> None:
        if len(self.instances) < self.wanted:
            self.start()

    def minutes(self) -> Iterator[Any]:
        policies = self.e.tracking
        while True:
            yield self.world.timeout(MINUTE_S)
            count = max(1, len(self.instances))
            shares = []
            if policies.requests is not None:
                value = self.minute_asked / count
                shares.append(value / policies.requests if self.minute_asked else math.nan)
            self.minute_asked = 0
            self.history.append(shares)
            if shares and self.ends_of_change <= self.now:
                self.scale()

    def scale(self) -> None:
        """One policy: of requests."""
        values = [shares[0] for shares in self.history]
        base = self.base if self.now < self.cool_out else self.wanted
        if len(values) >= 3 and all(each > 1 for each in values[-3:]):
            more = min(self.e.most, math.ceil(base * values[-1] - 1e-9))
            if more > self.wanted:
                self.base = base
                count, self.wanted = more - self.wanted, more
                for each in range(count):
                    after = self.e.first_s + (self.e.last_s - self.e.first_s) * each / max(1, count - 1)
                    self.ends_of_change = self.now + after
                    self.world.process(self.later(after, self.come))
                self.cool_out = self.ends_of_change + self.e.tracking.out_cooldown_s
                self.cool_in = -math.inf
        elif len(values) >= 15 and all(each < 0.9 for each in values[-15:]) and self.now >= self.cool_in:
            fewer = max(self.e.instances, math.ceil(self.wanted * values[-1] - 1e-9))
            if fewer < self.wanted:
                self.wanted = fewer
                self.ends_of_change = self.now + self.e.go_s
                self.cool_in = self.ends_of_change + self.e.tracking.in_cooldown_s
                self.world.process(self.later(self.e.go_s, self.go))

    def go(self) -> None:
        for on in self.instances[self.wanted :]:
            self.events.append((self.now, "end", on.number, -1))
        self.instances = self.instances[: self.wanted]

    def later(self, seconds: float, do: Any) -> Iterator[Any]:
        yield self.world.timeout(seconds)
        do()
