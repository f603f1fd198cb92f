"""What happens to each request and load of a simulation, compiled.

The arrays are small enough for the caches of a core. Lists are linked by indices, and the row after the last
model is their beginning and end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit

from triton_models.base.encoding import Array
from triton_models.plan import policy

F = TypeVar("F", bound=Callable[..., object])


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


LINK = np.dtype(_fields(np.int32, "newer older"))
"""The neighbors of a model in an order."""

PAIR = np.dtype([("used", LINK), *_fields(np.int32, "first last status users"), ("kept", LINK)], align=True)
"""A model on an instance: its neighbors in the order of use; the first and the last request that wait for it;
its status; its requests in progress, or -1 if it is not there, which include some that are answered, until
`_forget`; and the neighbors of a copy on the disk that is not in use, in the order in which they go. Without
a copy, they are negative."""

ABSENT, FETCHING, QUEUED, REFUSED_ONCE, LOADING, LOADED, LEAVING, LEAVING_ASKED = range(8)
"""The statuses of a model on an instance: refused for lack of memory, it waits for its turn to make room. The
last one is asked for while it is unloaded."""

SLOT = np.dtype(
    _fields(np.int64, "models loads queue_first queue_count loaded_once room_asked age")
    + _fields(np.int64, "wanted turn makes_room serves")
    + _fields(np.float64, "memory disk"),
    align=True,
)
"""An instance: its models; loads in progress; the ring of models to load; whether it has loaded one, and
looks for room at a later moment; how often its slot was taken: what was planned for an earlier instance does
not happen; the models for which requests wait; the model whose turn it is to make room, from 1, or 0; whether
one is unloaded for it, or it is tried again; its place among those that take requests, from 1, or 0; and the
memory and disk that are free."""

GPU = np.dtype([*_fields(np.float64, "until assigned"), *_fields(np.int64, "first count")], align=True)
"""A GPU: the moment until which it is busy, the seconds of all requests that it got, and the first place and
the count of its ring of requests in progress."""

REQUEST = np.dtype([*_fields(np.float64, "done since answer held"), *_fields(np.int64, "model")], align=True)
"""A request in progress: the moment until which it keeps its GPU busy, its arrival, the moment of its answer,
that of the first loads or unloads that hold it, or -1, and its model."""

WAITING = np.dtype([("since", np.float64), ("after", np.int64)], align=True)
"""A request that waits: its arrival and its successor."""

PLANNED = np.dtype([("at", np.float64), *_fields(np.int64, "slot age what")], align=True)
"""A moment, with a slot, its age, and what happens: a model is loaded, or copied (with `_FETCHED`), refused
(`_REFUSED`) or unloaded (`_UNLOADED`), or there may be room."""

FOUND = np.dtype(_fields(np.int64, "asked waited"), align=True)
"""The numbers of a model's requests, and of those that waited for a load."""

NUMBER = np.dtype(_fields(np.int64, "free answered full planned noted loads unloads refused"), align=True)
"""The first free place for a request that waits; answers and events in the log; 1 without room for more
requests; planned moments; and loads, unloads, and requests that were refused."""

BUCKETS_PER_OCTAVE, OCTAVES, SMALLEST_S = 64, 40, 2.0**-20
"""The buckets of times: 64 for each power of two, from a microsecond, and a time is right within 1.6 %."""

BUCKETS = BUCKETS_PER_OCTAVE * OCTAVES
_UNCOUNTED_BITS = 46  # of a double's 52
_FIRST_BUCKET = int(np.float64(SMALLEST_S).view(np.int64)) >> _UNCOUNTED_BITS

ROOM = 1 << 15
"""The most requests in progress on a GPU. An endpoint with more cannot keep up."""

_LOOK = -1
_FETCHED, _REFUSED, _UNLOADED = 1 << 20, 1 << 21, 1 << 22
"""What is planned for a model, besides the end of its load: see `PLANNED`."""


class Models(NamedTuple):
    """The models, in arrays: memory and disk in bytes, times in seconds.

    Attributes:
        fetch_s: Download and unpacking, unless a copy is on the instance's disk.
        busy_s: The time for which a request keeps a GPU busy.
        pinned: Whether it is loaded at the beginning, and on each later instance as soon as it serves.
    """

    memory: Array
    disk: Array
    fetch_s: Array
    load_s: Array
    busy_s: Array
    pinned: Array


class Setting(NamedTuple):
    """The fields of `simulation.Endpoint` that matter here."""

    many: int
    loads_at_once: int
    first_load_s: float
    unload_s: float
    overhead_s: float
    stalls: bool
    refused_after: float
    holds: bool


class Arrays(NamedTuple):
    """The arrays of a simulation.

    Attributes:
        copies: By model, the number of instances that take requests and have it, and their slots in the order
            of their places.
        requests: By slot, -1 between choices.
        pair: By slot of an instance and model, a `PAIR`.
        slot: By slot, a `SLOT`.
        gpu: By slot and GPU, a `GPU`.
        progress: Rings of `REQUEST`s, by slot, GPU and place.
        queue: Rings of models to load, by slot.
        waiting: The `WAITING` requests.
        planned: A heap of `PLANNED` moments.
        found: By model, a `FOUND`.
        times: The number of answers by bucket of their times, and of waits.
        number: The `NUMBER`s.
        log: The moments of requests and their answers, as far as there is room.
        events: Moments, slots and models, as far as there is room; an unload has a negative model, from -1.
    """

    setting: Setting
    model: Models
    copies: Array
    requests: Array
    pair: Array
    slot: Array
    gpu: Array
    progress: Array
    queue: Array
    waiting: Array
    planned: Array
    found: Array
    times: Array
    number: Any
    log: Array
    events: Array


# Nothing here allocates. With the reference counts of arrays, half of the time is theirs.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}


def _compiled(function: F) -> F:
    """Compile a function when it is first called, without the interpreter's lock, and keep it on the disk."""
    return cast("F", njit(**_OPTIONS)(function))


def _part(function: F) -> F:
    """Compile a function into those that call it."""
    return cast("F", njit(inline="always")(function))


_choose = _part(policy.choose)


@_part
def _index(number: int) -> int:
    """Return a number that is not negative so that the compiler knows it: no index counts from the end."""
    return number & 0x3FFFFFFF


@_part
def _bucket(seconds: float) -> int:
    """Return the bucket of a time: its exponent and the first bits of its fraction."""
    bits = int(np.float64(max(seconds, SMALLEST_S)).view(np.int64)) >> _UNCOUNTED_BITS
    return min(bits - _FIRST_BUCKET, BUCKETS - 1)


@_part
def _serve(a: Arrays, slot: int, model: int, since: float, now: float) -> None:
    """Let the GPU that is free first answer a request."""
    best = 0
    for each in range(1, a.gpu.shape[1]):
        if a.gpu[slot, each].until < a.gpu[slot, best].until:
            best = each
    gpu = a.gpu[slot, best]
    done = max(now, gpu.until) + a.model.busy_s[model]
    gpu.until = done
    gpu.assigned += a.model.busy_s[model]
    if gpu.count == ROOM:
        a.number.full = 1
    else:
        entry = a.progress[slot, best, (gpu.first + gpu.count) & (ROOM - 1)]
        entry.done = entry.answer = done
        entry.since, entry.model, entry.held = since, model, -1
        gpu.count += 1
    a.times[0, _bucket(done - since + a.setting.overhead_s)] += 1
    if a.number.answered < len(a.log):
        a.log[a.number.answered, 0], a.log[a.number.answered, 1] = since, done
        a.number.answered += 1


@_part
def _forget(a: Arrays, slot: int, now: float) -> None:
    """Forget the requests that are answered."""
    for each in range(a.gpu.shape[1]):
        gpu = a.gpu[slot, each]
        first = _index(gpu.first)
        while gpu.count and a.progress[slot, each, first].done <= now:
            a.pair[slot, _index(a.progress[slot, each, first].model)].users -= 1
            first = (first + 1) & (ROOM - 1)
            gpu.first = first
            gpu.count -= 1
        if not gpu.count:
            gpu.first = 0  # an empty ring begins where it is in the cache


@_part
def _take_out(links: Array, model: int) -> None:
    after, before = _index(links[model].newer), _index(links[model].older)
    links[before].newer, links[after].older = after, before


@_part
def _append(links: Array, model: int) -> None:
    """Make a model the last one of an order."""
    end = len(links) - 1
    last = _index(links[end].older)
    links[last].newer, links[model].older = model, last
    links[model].newer, links[end].older = end, model


@_compiled
def _plan(a: Arrays, at: float, slot: int, what: int) -> None:
    """Add a moment to the heap; of the same moment, the earlier one is first."""
    place, planned = a.number.planned, a.planned
    if place == len(planned) - 1:
        a.number.full = 1
        return
    a.number.planned = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if planned[above].at <= at:
            break
        planned[place] = planned[above]
        place = above
    entry = planned[place]
    entry.at, entry.slot, entry.age, entry.what = at, slot, a.slot[slot].age, what


@_compiled
def _drop_first(a: Arrays) -> None:
    """Remove the first moment from the heap."""
    last, planned = a.number.planned - 1, a.planned
    a.number.planned = last
    at, place = planned[last].at, 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and planned[below + 1].at < planned[below].at:
            below += 1
        if planned[below].at >= at:
            break
        planned[place] = planned[below]
        place = below
    planned[place] = planned[last]
    planned[last].at = math.inf


@_compiled
def _note(a: Arrays, at: float, slot: int, model: int) -> None:
    place = a.number.noted
    if place < len(a.events):
        a.events[place, 0], a.events[place, 1], a.events[place, 2] = at, slot, model
        a.number.noted = place + 1


@_compiled
def _hold(a: Arrays, slot: int, now: float, until: float) -> None:
    """Let the answers to requests in progress wait for a load or an unload, which takes their thread."""
    if not a.setting.holds:
        return
    for each in range(a.gpu.shape[1]):
        for place in range(a.gpu[slot, each].count):
            entry = a.progress[slot, each, (a.gpu[slot, each].first + place) & (ROOM - 1)]
            if entry.done > now and (entry.held < 0 or entry.held == now):
                entry.held = now
                if until > entry.answer:
                    answer_at(a, entry.since, entry.answer, until)
                    entry.answer = until


@_compiled
def answer_at(a: Arrays, since: float, was: float, at: float) -> None:
    """Let an answer come at another moment; not at all if that is NaN."""
    a.times[0, _bucket(was - since + a.setting.overhead_s)] -= 1
    if not math.isnan(at):
        a.times[0, _bucket(at - since + a.setting.overhead_s)] += 1
    for entry in range(a.number.answered):
        if a.log[entry, 0] == since and a.log[entry, 1] == was:
            a.log[entry, 1] = at


@_compiled
def _queue(a: Arrays, slot: int, model: int, status: int, now: float) -> None:
    """Let a load wait for its turn."""
    instance = a.slot[slot]
    a.pair[slot, model].status = status
    a.queue[slot, (instance.queue_first + instance.queue_count) % len(a.model.memory)] = model
    instance.queue_count += 1
    _advance(a, slot, now)


@_compiled
def _try_load(a: Arrays, slot: int, model: int, now: float) -> None:
    """Load a model if it fits and not too many are loaded. The server refuses it after a part of the load."""
    if a.slot[slot].loads >= a.setting.loads_at_once:
        _queue(a, slot, model, QUEUED, now)
    elif a.slot[slot].memory >= a.model.memory[model]:
        _begin_load(a, slot, model, now)
    else:
        _plan_refusal(a, slot, model, now)


@_compiled
def _plan_refusal(a: Arrays, slot: int, model: int, now: float) -> None:
    if a.pair[slot, model].status != REFUSED_ONCE:
        a.pair[slot, model].status = FETCHING
    refused = now + a.setting.refused_after * a.model.load_s[model]
    _hold(a, slot, now, refused)
    _plan(a, refused, slot, _REFUSED + model)


@_compiled
def _advance(a: Arrays, slot: int, now: float) -> None:
    """Give the next load its turn. If it was refused, it has the turn to make room until it is loaded."""
    instance = a.slot[slot]
    while instance.queue_count and instance.loads < a.setting.loads_at_once and not instance.makes_room:
        model = a.queue[slot, instance.queue_first]
        refused = a.pair[slot, model].status == REFUSED_ONCE
        if refused:
            if instance.turn and instance.turn != 1 + model:
                return
            instance.turn = 1 + model
            if _unload_oldest(a, slot, now) or _may_become_idle(a, slot):
                return
            instance.turn = 0
        _drop_from_queue(instance, len(a.model.memory))
        if a.slot[slot].memory >= a.model.memory[model]:
            _begin_load(a, slot, model, now)
        elif refused:
            _refuse(a, slot, model)
        else:
            _plan_refusal(a, slot, model, now)


@_part
def _drop_from_queue(instance: Any, room: int) -> None:
    instance.queue_first = (instance.queue_first + 1) % room
    instance.queue_count -= 1


@_compiled
def _may_become_idle(a: Arrays, slot: int) -> bool:
    """Return whether a model will be idle later, and look again when a request is answered."""
    instance, next_done = a.slot[slot], math.inf
    for each in range(a.gpu.shape[1]):
        gpu = a.gpu[slot, each]
        if gpu.count:
            next_done = min(next_done, a.progress[slot, each, gpu.first].done)
    if next_done < math.inf and not instance.room_asked:
        instance.room_asked = 1
        _plan(a, next_done, slot, _LOOK)
    return next_done < math.inf or instance.wanted > instance.queue_count


@_compiled
def _begin_load(a: Arrays, slot: int, model: int, now: float) -> None:
    instance = a.slot[slot]
    a.slot[slot].memory -= a.model.memory[model]
    instance.loads += 1
    a.pair[slot, model].status = LOADING
    seconds = a.model.load_s[model]
    if not instance.loaded_once:
        seconds += a.setting.first_load_s
    instance.loaded_once = 1
    a.number.loads += 1
    _note(a, now, slot, model)
    _hold(a, slot, now, now + seconds)
    _plan(a, now + seconds, slot, model)


@_compiled
def keep_on_disk(a: Arrays, slot: int, model: int) -> None:
    """Add a copy, and remove those of unloaded models, that which was unloaded first before others."""
    kept = a.pair[slot].kept
    instance, end = a.slot[slot], len(kept) - 1
    instance.disk -= a.model.disk[model]
    kept[model].newer = 0
    while instance.disk < 0 and kept[end].newer != end:
        oldest = kept[end].newer
        _take_out(kept, oldest)
        kept[oldest].newer = -1
        instance.disk += a.model.disk[oldest]


@_compiled
def _come(a: Arrays, slot: int, model: int) -> None:
    """Let requests for a model find it on an instance."""
    a.pair[slot, model].users = 1
    place, copies = a.slot[slot].serves, a.copies[model]
    if not place:
        return
    copies[0] += 1
    last = copies[0]
    while last > 1 and a.slot[copies[last - 1]].serves > place:
        copies[last] = copies[last - 1]
        last -= 1
    copies[last] = slot


@_compiled
def _leave(a: Arrays, slot: int, model: int) -> None:
    """Let requests for a model no longer find it on an instance."""
    a.pair[slot, model].users = -1
    if not a.slot[slot].serves:
        return
    copies, each = a.copies[model], 1
    while copies[each] != slot:
        each += 1
    for later in range(each, copies[0]):
        copies[later] = copies[later + 1]
    copies[0] -= 1


@_compiled
def _unload_oldest(a: Arrays, slot: int, now: float) -> bool:
    """Begin to unload the idle model that was used least recently; return False if all are busy."""
    _forget(a, slot, now)
    end, used = len(a.model.memory), a.pair[slot].used
    model = used[end].newer
    while model != end:
        here = a.pair[slot, model]
        if here.status == LOADED and here.users == 0 and not a.model.pinned[model]:
            _take_out(used, model)
            here.status = LEAVING
            _leave(a, slot, model)
            # The memory is free long before the server has answered: another load may take it.
            a.slot[slot].memory += a.model.memory[model]
            a.slot[slot].models -= 1
            a.slot[slot].makes_room = 1
            a.number.unloads += 1
            done = now + a.setting.unload_s
            _hold(a, slot, now, done)
            if a.setting.stalls:
                for each in range(a.gpu.shape[1]):
                    until = max(now, a.gpu[slot, each].until)
                    a.gpu[slot, each].until = max(until, done)
                    a.gpu[slot, each].assigned += max(until, done) - until
            _note(a, now, slot, -1 - model)
            _plan(a, done, slot, _UNLOADED + model)
            return True
        model = here.used.newer
    return False


@_compiled
def _unloaded(a: Arrays, slot: int, model: int, now: float) -> None:
    """Load the model whose turn it is, and this one again if it was asked for meanwhile."""
    instance = a.slot[slot]
    asked = a.pair[slot, model].status == LEAVING_ASKED
    if not asked:
        a.pair[slot, model].status = ABSENT
        _append(a.pair[slot].kept, model)
    other = instance.turn - 1
    if a.slot[slot].memory >= a.model.memory[other]:
        instance.makes_room = 0
        _drop_from_queue(instance, len(a.model.memory))
        _begin_load(a, slot, other, now)
        _advance(a, slot, now)
    else:
        _plan_refusal(a, slot, other, now)
    if asked:
        _try_load(a, slot, model, now)


@_compiled
def _refuse(a: Arrays, slot: int, model: int) -> None:
    """Refuse the requests for a model that has no room."""
    here = a.pair[slot, model]
    place = here.first
    while place >= 0:
        after = a.waiting[place].after
        a.waiting[place].after, a.number.free = a.number.free, place
        a.number.refused += 1
        place = after
    _take_out(a.pair[slot].used, model)
    here.first, here.last, here.status = -1, -1, ABSENT
    _leave(a, slot, model)
    a.slot[slot].models -= 1
    a.slot[slot].wanted -= 1
    _append(a.pair[slot].kept, model)


@_compiled
def _happen(a: Arrays) -> None:
    """Let the first planned moment come."""
    first = a.planned[0]
    now, slot, what = first.at, first.slot, first.what
    current = a.slot[slot].age == first.age
    _drop_first(a)
    if not current:
        return
    if what == _LOOK:
        a.slot[slot].room_asked = 0
        _advance(a, slot, now)
    elif what >= _UNLOADED:
        _unloaded(a, slot, what - _UNLOADED, now)
    elif what >= _REFUSED:
        model = what - _REFUSED
        if a.slot[slot].turn == 1 + model:
            a.slot[slot].makes_room = 0
            _advance(a, slot, now)
        else:
            _queue(a, slot, model, REFUSED_ONCE, now)
    elif what >= _FETCHED:
        keep_on_disk(a, slot, what - _FETCHED)
        _try_load(a, slot, what - _FETCHED, now)
    else:
        _loaded(a, slot, what, now)


@_compiled
def _loaded(a: Arrays, slot: int, model: int, now: float) -> None:
    """Serve the requests that wait for a model."""
    _forget(a, slot, now)
    instance = a.slot[slot]
    instance.loads -= 1
    instance.wanted -= 1
    if instance.turn == 1 + model:
        instance.turn = 0
    place = a.pair[slot, model].first
    a.pair[slot, model].first = a.pair[slot, model].last = -1
    a.pair[slot, model].status = LOADED
    if a.model.pinned[model]:
        a.pair[slot, model].users -= a.setting.many
    while place >= 0:
        after, since = a.waiting[place].after, a.waiting[place].since
        _serve(a, slot, model, since, now)
        a.times[1, _bucket(now - since)] += 1
        a.waiting[place].after, a.number.free = a.number.free, place
        place = after
    _advance(a, slot, now)


@_compiled
def happen_until(a: Arrays, until: float) -> None:
    """Let all planned moments come before another one."""
    while a.planned[0].at < until and not a.number.full:
        _happen(a)


@_part
def _instance_for(a: Arrays, model: int, among: Array, now: float) -> int:
    """Return the choice of `policy.choose`: without many requests, one of the few that have the model."""
    many, models, users = a.setting.many, a.slot["models"], a.pair[:, model]["users"]
    having = a.copies[model, 1 : 1 + a.copies[model, 0]]
    for place in range(len(having)):
        each = _index(having[place])
        if users[each] > 0:
            _forget(a, each, now)
        if many and users[each] == 0:  # the least busy one, before others like it
            return each
    slot = _choose(having, users, models, many) if len(having) > 0 else among[0]
    if len(having) == 0 or users[slot] >= many:
        for each in having:
            a.requests[each] = users[each]
        slot = _choose(among, a.requests, models, many)
        for each in having:
            a.requests[each] = -1
    return _index(slot)


@_compiled
def take(a: Arrays, at: Array, since: Array, asked: Array, first: int, until: float, among: Array) -> int:
    """Take requests before a moment, until there is no room for more; return the number of the next one.

    Their times count from `since`.
    """
    end = len(a.model.memory)
    for request in range(first, len(at)):
        now, model = at[request], _index(asked[request])
        if now >= until or a.number.full:
            return request
        while a.planned[0].at <= now:
            _happen(a)
        slot = _instance_for(a, model, among, now)
        _forget(a, slot, now)
        a.found[model].asked += 1
        here, used = a.pair[slot, model], a.pair[slot].used
        if here.status in (ABSENT, LEAVING):
            _append(used, model)
        elif used[end].older != model:
            _take_out(used, model)
            _append(used, model)
        if here.status == LOADED:
            here.users += 1
            _serve(a, slot, model, since[request], now)
            continue
        _wait(a, slot, model, since[request], now)
    return len(at)


@_compiled
def _wait(a: Arrays, slot: int, model: int, since: float, now: float) -> None:
    """Let a request wait for a load, and begin it if it is the first one."""
    here, instance, place = a.pair[slot, model], a.slot[slot], a.number.free
    if place == len(a.waiting):
        a.number.full = 1
        return
    a.found[model].waited += 1
    a.number.free = a.waiting[place].after
    a.waiting[place].since, a.waiting[place].after = since, -1
    if here.status not in (ABSENT, LEAVING):
        if here.first < 0:  # it is loaded without a request
            here.first = place
        else:
            a.waiting[here.last].after = place
        here.last = place
        here.users += 1
        return
    here.first = here.last = place
    _come(a, slot, model)
    instance.models += 1
    instance.wanted += 1
    if here.status == LEAVING:
        here.status = LEAVING_ASKED
    elif here.kept.newer >= 0:
        _take_out(a.pair[slot].kept, model)
        _try_load(a, slot, model, now)
    else:
        here.status = FETCHING
        fetched = now + a.model.fetch_s[model]
        _plan(a, fetched, slot, _FETCHED + model)


@_compiled
def start(a: Arrays, slot: int, memory: float, disk: float, now: float, loaded: int) -> None:
    """Begin an instance, which has the pinned models alone, or begins to load them.

    The requests that load them wait there, so that others go where the models are loaded.
    """
    end, used, instance = len(a.model.memory), a.pair[slot].used, a.slot[slot]
    for model in range(end):
        here = a.pair[slot, model]
        here.first = here.last = here.users = here.kept.newer = -1
        here.status = ABSENT
    here = a.pair[slot, end]
    here.used.newer = here.used.older = here.kept.newer = here.kept.older = end
    instance.models = instance.loads = instance.queue_first = instance.queue_count = 0
    instance.loaded_once = instance.room_asked = instance.wanted = instance.turn = 0
    instance.makes_room = instance.serves = 0
    instance.age += 1
    instance.memory, instance.disk = memory, disk
    for each in range(a.gpu.shape[1]):
        gpu = a.gpu[slot, each]
        gpu.until, gpu.first, gpu.count = now, 0, 0
    for model in range(end):
        if a.model.pinned[model]:
            here = a.pair[slot, model]
            _append(used, model)
            instance.models += 1
            if not loaded:
                here.status, here.users = FETCHING, a.setting.many
                instance.wanted += 1
                _plan(a, now + a.model.fetch_s[model], slot, _FETCHED + model)
                continue
            here.status, here.users = LOADED, 0
            instance.memory -= a.model.memory[model]
            instance.loaded_once = 1
            keep_on_disk(a, slot, model)


@_compiled
def draw_requests(
    chance: Any, keep: Array, other: Array, after: float, mean_s: float, at: Array, model: Array
) -> None:
    """Draw moments and models: one number chooses a column of Walker's table, and its part of that column."""
    for each in range(len(at)):
        after += chance.standard_exponential() * mean_s
        at[each] = after
        number = chance.random() * len(keep)
        column = min(int(number), len(keep) - 1)
        model[each] = column if number - column < keep[column] else other[column]
