"""What happens to each request and load of a simulation, compiled.

The arrays are small enough for the caches of a core. Lists are linked by indices, and the row after the last
model is their beginning and end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit

from triton_models.plan import policy

Array: TypeAlias = "np.ndarray[Any, Any]"
F = TypeVar("F", bound=Callable[..., object])

NEWER, OLDER, FIRST, LAST, STATUS, USERS, COPY_NEWER, COPY_OLDER = range(8)
"""The fields of a model on an instance: its neighbors in the order of use; the first and the last request
that wait for it; its status; its requests in progress, or -1 if it is not there, which include some that are
answered, until `_forget`; and the neighbors of a copy on the disk that is not in use, in the order in which
they go. Without a copy, they are negative."""

ABSENT, FETCHING, QUEUED, REFUSED_ONCE, LOADING, LOADED, LEAVING, LEAVING_ASKED = range(8)
"""The statuses of a model on an instance: refused for lack of memory, it waits for its turn to make room. The
last one is asked for while it is unloaded."""

MODELS, LOADS, QUEUE_FIRST, QUEUE_COUNT, LOADED_ONCE, ROOM_ASKED, AGE = range(7)
WANTED, TURN, MAKES_ROOM, SERVES = range(7, 11)
"""The numbers of an instance: its models; loads in progress; the ring of models to load; whether it has
loaded one, and looks for room at a later moment; how often its slot was taken: what was planned for an
earlier instance does not happen; the models for which requests wait; the model whose turn it is to make room,
from 1, or 0; whether one is unloaded for it, or it is tried again; and its place among those that take
requests, from 1, or 0."""

MEMORY, DISK = range(2)
"""What is free on an instance."""

UNTIL, ASSIGNED = range(2)
"""The fields of a GPU: the moment until which it is busy, and the seconds of all requests that it got."""

DONE, SINCE, MODEL, ANSWER, HELD = range(5)
"""The fields of a request in progress: the moment until which it keeps its GPU busy, its arrival, its model,
the moment of its answer, and that of the first loads or unloads that hold it, or -1."""

NEEDS_MEMORY, NEEDS_DISK, FETCH_S, LOAD_S, BUSY_S, PINNED = range(6)
"""The fields of a model."""

ASKED, WAITED = range(2)
"""The numbers of a model's requests, and of those that waited for a load."""

FREE, ANSWERED, FULL, PLANNED, NOTED, LOADED_MODELS, UNLOADED_MODELS, REFUSED = range(8)
"""Numbers: the first free place for a request that waits; answers and events in the log; 1 without room for
more requests; planned moments; and loads, unloads, and requests that were refused."""

MANY, LOADS_AT_ONCE, FIRST_LOAD_S, UNLOAD_S, OVERHEAD_S, STALLS, REFUSED_AFTER, HOLDS = range(8)
"""The fields of the setting, as in `simulation.Endpoint`."""

BUCKETS_PER_OCTAVE, OCTAVES, SMALLEST_S = 64, 40, 2.0**-20
"""The buckets of times: 64 for each power of two, from a microsecond, and a time is right within 1.6 %."""

BUCKETS = BUCKETS_PER_OCTAVE * OCTAVES
_UNCOUNTED_BITS = 46  # of a double's 52
_FIRST_BUCKET = int(np.float64(SMALLEST_S).view(np.int64)) >> _UNCOUNTED_BITS

ROOM = 1 << 15
"""The most requests in progress on a GPU. An endpoint with more cannot keep up."""

_LOOK = -1
_FETCHED, _REFUSED, _UNLOADED = 1 << 20, 1 << 21, 1 << 22
"""What is planned for a model, besides the end of its load: see `Arrays.planned`."""


class Arrays(NamedTuple):
    """The arrays of a simulation.

    Attributes:
        setting: See `MANY`.
        model: By field and model.
        copies: By model, the number of instances that take requests and have it, and their slots in the order
            of their places.
        requests: By slot, -1 between choices.
        pair: By slot of an instance, model, and field.
        slot: By number, and slot.
        free: By slot and field.
        gpu: By slot, GPU and field.
        progress: Rings of requests in progress, by slot, GPU, place and field.
        ring: The first place of each ring, and its count.
        queue: Rings of models to load, by slot.
        waiting: The moment and the successor of each request that waits.
        planned: A heap of moments, each with a slot, its age, and what happens: a model is loaded, or
            copied (with `_FETCHED`), refused (`_REFUSED`) or unloaded (`_UNLOADED`), or there may be room.
        found: By field and model.
        times: The number of answers by bucket of their times, and of waits.
        number: See `FREE`.
        log: The moments of requests and their answers, as far as there is room.
        events: Moments, slots and models, as far as there is room; an unload has a negative model, from -1.
    """

    setting: Array
    model: Array
    copies: Array
    requests: Array
    pair: Array
    slot: Array
    free: Array
    gpu: Array
    progress: Array
    ring: Array
    queue: Array
    waiting: Array
    planned: Array
    found: Array
    times: Array
    number: Array
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
def _serve(
    slot: int,
    model: int,
    since: float,
    now: float,
    gpu: Array,
    progress: Array,
    ring: Array,
    about: Array,
    times: Array,
    setting: Array,
    number: Array,
    log: Array,
) -> None:
    """Let the GPU that is free first answer a request."""
    best = 0
    for each in range(1, gpu.shape[1]):
        if gpu[slot, each, UNTIL] < gpu[slot, best, UNTIL]:
            best = each
    done = max(now, gpu[slot, best, UNTIL]) + about[BUSY_S, model]
    gpu[slot, best, UNTIL] = done
    gpu[slot, best, ASSIGNED] += about[BUSY_S, model]
    if ring[slot, best, 1] == ROOM:
        number[FULL] = 1
    else:
        place = (ring[slot, best, 0] + ring[slot, best, 1]) & (ROOM - 1)
        progress[slot, best, place, DONE] = done
        progress[slot, best, place, SINCE] = since
        progress[slot, best, place, MODEL] = model
        progress[slot, best, place, ANSWER] = done
        progress[slot, best, place, HELD] = -1
        ring[slot, best, 1] += 1
    times[0, _bucket(done - since + setting[OVERHEAD_S])] += 1
    if number[ANSWERED] < len(log):
        log[number[ANSWERED], 0], log[number[ANSWERED], 1] = since, done
        number[ANSWERED] += 1


@_part
def _forget(slot: int, now: float, pair: Array, progress: Array, ring: Array) -> None:
    """Forget the requests that are answered."""
    for each in range(ring.shape[1]):
        first = _index(ring[slot, each, 0])
        while ring[slot, each, 1] and progress[slot, each, first, DONE] <= now:
            pair[slot, _index(int(progress[slot, each, first, MODEL])), USERS] -= 1
            first = (first + 1) & (ROOM - 1)
            ring[slot, each, 0] = first
            ring[slot, each, 1] -= 1
        if not ring[slot, each, 1]:
            ring[slot, each, 0] = 0  # an empty ring begins where it is in the cache


@_part
def _take_out(pair: Array, slot: int, model: int, newer: int, older: int) -> None:
    after, before = _index(pair[slot, model, newer]), _index(pair[slot, model, older])
    pair[slot, before, newer], pair[slot, after, older] = after, before


@_part
def _append(pair: Array, slot: int, model: int, newer: int, older: int) -> None:
    """Make a model the last one of an order."""
    end = pair.shape[1] - 1
    last = _index(pair[slot, end, older])
    pair[slot, last, newer], pair[slot, model, older] = model, last
    pair[slot, model, newer], pair[slot, end, older] = end, model


@_part
def _copy(planned: Array, row: int, to: int) -> None:
    for each in range(planned.shape[1]):
        planned[to, each] = planned[row, each]


@_compiled
def _plan(planned: Array, number: Array, at: float, slot: int, age: int, model: int) -> None:
    """Add a moment to the heap; of the same moment, the earlier one is first."""
    place = number[PLANNED]
    if place == len(planned) - 1:
        number[FULL] = 1
        return
    number[PLANNED] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if planned[above, 0] <= at:
            break
        _copy(planned, above, place)
        place = above
    planned[place, 0], planned[place, 1], planned[place, 2], planned[place, 3] = at, slot, age, model


@_compiled
def _drop_first(planned: Array, number: Array) -> None:
    """Remove the first moment from the heap."""
    last = number[PLANNED] - 1
    number[PLANNED] = last
    at, place = planned[last, 0], 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and planned[below + 1, 0] < planned[below, 0]:
            below += 1
        if planned[below, 0] >= at:
            break
        _copy(planned, below, place)
        place = below
    _copy(planned, last, place)
    planned[last, 0] = math.inf


@_compiled
def _note(a: Arrays, at: float, slot: int, model: int) -> None:
    place = a.number[NOTED]
    if place < len(a.events):
        a.events[place, 0], a.events[place, 1], a.events[place, 2] = at, slot, model
        a.number[NOTED] = place + 1


@_compiled
def _hold(a: Arrays, slot: int, now: float, until: float) -> None:
    """Let the answers to requests in progress wait for a load or an unload, which takes their thread."""
    if not a.setting[HOLDS]:
        return
    for each in range(a.ring.shape[1]):
        for place in range(a.ring[slot, each, 1]):
            entry = a.progress[slot, each, (a.ring[slot, each, 0] + place) & (ROOM - 1)]
            if entry[DONE] > now and (entry[HELD] < 0 or entry[HELD] == now):
                entry[HELD] = now
                if until > entry[ANSWER]:
                    answer_at(a, entry[SINCE], entry[ANSWER], until)
                    entry[ANSWER] = until


@_compiled
def answer_at(a: Arrays, since: float, was: float, at: float) -> None:
    """Let an answer come at another moment; not at all if that is NaN."""
    a.times[0, _bucket(was - since + a.setting[OVERHEAD_S])] -= 1
    if not math.isnan(at):
        a.times[0, _bucket(at - since + a.setting[OVERHEAD_S])] += 1
    for entry in range(a.number[ANSWERED]):
        if a.log[entry, 0] == since and a.log[entry, 1] == was:
            a.log[entry, 1] = at


@_compiled
def _queue(a: Arrays, slot: int, model: int, status: int, now: float) -> None:
    """Let a load wait for its turn."""
    numbers = a.slot[:, slot]
    a.pair[slot, model, STATUS] = status
    a.queue[slot, (numbers[QUEUE_FIRST] + numbers[QUEUE_COUNT]) % a.model.shape[1]] = model
    numbers[QUEUE_COUNT] += 1
    _advance(a, slot, now)


@_compiled
def _try_load(a: Arrays, slot: int, model: int, now: float) -> None:
    """Load a model if it fits and not too many are loaded. The server refuses it after a part of the load."""
    if a.slot[LOADS, slot] >= a.setting[LOADS_AT_ONCE]:
        _queue(a, slot, model, QUEUED, now)
    elif a.free[slot, MEMORY] >= a.model[NEEDS_MEMORY, model]:
        _begin_load(a, slot, model, now)
    else:
        _plan_refusal(a, slot, model, now)


@_compiled
def _plan_refusal(a: Arrays, slot: int, model: int, now: float) -> None:
    if a.pair[slot, model, STATUS] != REFUSED_ONCE:
        a.pair[slot, model, STATUS] = FETCHING
    refused = now + a.setting[REFUSED_AFTER] * a.model[LOAD_S, model]
    _hold(a, slot, now, refused)
    _plan(a.planned, a.number, refused, slot, a.slot[AGE, slot], _REFUSED + model)


@_compiled
def _advance(a: Arrays, slot: int, now: float) -> None:
    """Give the next load its turn. If it was refused, it has the turn to make room until it is loaded."""
    numbers = a.slot[:, slot]
    while numbers[QUEUE_COUNT] and numbers[LOADS] < a.setting[LOADS_AT_ONCE] and not numbers[MAKES_ROOM]:
        model = a.queue[slot, numbers[QUEUE_FIRST]]
        refused = a.pair[slot, model, STATUS] == REFUSED_ONCE
        if refused:
            if numbers[TURN] and numbers[TURN] != 1 + model:
                return
            numbers[TURN] = 1 + model
            if _unload_oldest(a, slot, now) or _may_become_idle(a, slot):
                return
            numbers[TURN] = 0
        _drop_from_queue(numbers, a.model.shape[1])
        if a.free[slot, MEMORY] >= a.model[NEEDS_MEMORY, model]:
            _begin_load(a, slot, model, now)
        elif refused:
            _refuse(a, slot, model)
        else:
            _plan_refusal(a, slot, model, now)


@_part
def _drop_from_queue(numbers: Array, room: int) -> None:
    numbers[QUEUE_FIRST] = (numbers[QUEUE_FIRST] + 1) % room
    numbers[QUEUE_COUNT] -= 1


@_compiled
def _may_become_idle(a: Arrays, slot: int) -> bool:
    """Return whether a model will be idle later, and look again when a request is answered."""
    numbers, next_done = a.slot[:, slot], math.inf
    for each in range(a.ring.shape[1]):
        if a.ring[slot, each, 1]:
            next_done = min(next_done, a.progress[slot, each, a.ring[slot, each, 0], DONE])
    if next_done < math.inf and not numbers[ROOM_ASKED]:
        numbers[ROOM_ASKED] = 1
        _plan(a.planned, a.number, next_done, slot, numbers[AGE], _LOOK)
    return next_done < math.inf or numbers[WANTED] > numbers[QUEUE_COUNT]


@_compiled
def _begin_load(a: Arrays, slot: int, model: int, now: float) -> None:
    numbers, about = a.slot[:, slot], a.model[:, model]
    a.free[slot, MEMORY] -= about[NEEDS_MEMORY]
    numbers[LOADS] += 1
    a.pair[slot, model, STATUS] = LOADING
    seconds = about[LOAD_S]
    if not numbers[LOADED_ONCE]:
        seconds += a.setting[FIRST_LOAD_S]
    numbers[LOADED_ONCE] = 1
    a.number[LOADED_MODELS] += 1
    _note(a, now, slot, model)
    _hold(a, slot, now, now + seconds)
    _plan(a.planned, a.number, now + seconds, slot, numbers[AGE], model)


@_compiled
def keep_on_disk(a: Arrays, slot: int, model: int) -> None:
    """Add a copy, and remove those of unloaded models, that which was unloaded first before others."""
    end, pair = a.model.shape[1], a.pair
    a.free[slot, DISK] -= a.model[NEEDS_DISK, model]
    pair[slot, model, COPY_NEWER] = 0
    while a.free[slot, DISK] < 0 and pair[slot, end, COPY_NEWER] != end:
        oldest = pair[slot, end, COPY_NEWER]
        _take_out(pair, slot, oldest, COPY_NEWER, COPY_OLDER)
        pair[slot, oldest, COPY_NEWER] = -1
        a.free[slot, DISK] += a.model[NEEDS_DISK, oldest]


@_compiled
def _come(a: Arrays, slot: int, model: int) -> None:
    """Let requests for a model find it on an instance."""
    a.pair[slot, model, USERS] = 1
    place, copies = a.slot[SERVES, slot], a.copies[model]
    if not place:
        return
    copies[0] += 1
    last = copies[0]
    while last > 1 and a.slot[SERVES, copies[last - 1]] > place:
        copies[last] = copies[last - 1]
        last -= 1
    copies[last] = slot


@_compiled
def _leave(a: Arrays, slot: int, model: int) -> None:
    """Let requests for a model no longer find it on an instance."""
    a.pair[slot, model, USERS] = -1
    if not a.slot[SERVES, slot]:
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
    _forget(slot, now, a.pair, a.progress, a.ring)
    end, pair = a.model.shape[1], a.pair
    model = pair[slot, end, NEWER]
    while model != end:
        here = pair[slot, model]
        if here[STATUS] == LOADED and here[USERS] == 0 and not a.model[PINNED, model]:
            _take_out(pair, slot, model, NEWER, OLDER)
            here[STATUS] = LEAVING
            _leave(a, slot, model)
            # The memory is free long before the server has answered: another load may take it.
            a.free[slot, MEMORY] += a.model[NEEDS_MEMORY, model]
            a.slot[MODELS, slot] -= 1
            a.slot[MAKES_ROOM, slot] = 1
            a.number[UNLOADED_MODELS] += 1
            done = now + a.setting[UNLOAD_S]
            _hold(a, slot, now, done)
            if a.setting[STALLS]:
                for each in range(a.gpu.shape[1]):
                    until = max(now, a.gpu[slot, each, UNTIL])
                    a.gpu[slot, each, UNTIL] = max(until, done)
                    a.gpu[slot, each, ASSIGNED] += max(until, done) - until
            _note(a, now, slot, -1 - model)
            _plan(a.planned, a.number, done, slot, a.slot[AGE, slot], _UNLOADED + model)
            return True
        model = here[NEWER]
    return False


@_compiled
def _unloaded(a: Arrays, slot: int, model: int, now: float) -> None:
    """Load the model whose turn it is, and this one again if it was asked for meanwhile."""
    numbers = a.slot[:, slot]
    asked = a.pair[slot, model, STATUS] == LEAVING_ASKED
    if not asked:
        a.pair[slot, model, STATUS] = ABSENT
        _append(a.pair, slot, model, COPY_NEWER, COPY_OLDER)
    other = numbers[TURN] - 1
    if a.free[slot, MEMORY] >= a.model[NEEDS_MEMORY, other]:
        numbers[MAKES_ROOM] = 0
        _drop_from_queue(numbers, a.model.shape[1])
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
    place = here[FIRST]
    while place >= 0:
        after = int(a.waiting[place, 1])
        a.waiting[place, 1], a.number[FREE] = a.number[FREE], place
        a.number[REFUSED] += 1
        place = after
    _take_out(a.pair, slot, model, NEWER, OLDER)
    here[FIRST], here[LAST], here[STATUS] = -1, -1, ABSENT
    _leave(a, slot, model)
    a.slot[MODELS, slot] -= 1
    a.slot[WANTED, slot] -= 1
    _append(a.pair, slot, model, COPY_NEWER, COPY_OLDER)


@_compiled
def _happen(a: Arrays) -> None:
    """Let the first planned moment come."""
    now, slot = a.planned[0, 0], int(a.planned[0, 1])
    current, what = a.slot[AGE, slot] == int(a.planned[0, 2]), int(a.planned[0, 3])
    _drop_first(a.planned, a.number)
    if not current:
        return
    if what == _LOOK:
        a.slot[ROOM_ASKED, slot] = 0
        _advance(a, slot, now)
    elif what >= _UNLOADED:
        _unloaded(a, slot, what - _UNLOADED, now)
    elif what >= _REFUSED:
        model = what - _REFUSED
        if a.slot[TURN, slot] == 1 + model:
            a.slot[MAKES_ROOM, slot] = 0
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
    _forget(slot, now, a.pair, a.progress, a.ring)
    numbers = a.slot[:, slot]
    numbers[LOADS] -= 1
    numbers[WANTED] -= 1
    if numbers[TURN] == 1 + model:
        numbers[TURN] = 0
    place = a.pair[slot, model, FIRST]
    a.pair[slot, model, FIRST] = a.pair[slot, model, LAST] = -1
    a.pair[slot, model, STATUS] = LOADED
    if a.model[PINNED, model]:
        a.pair[slot, model, USERS] -= int(a.setting[MANY])
    while place >= 0:
        after, since = int(a.waiting[place, 1]), a.waiting[place, 0]
        _serve(
            slot, model, since, now, a.gpu, a.progress, a.ring, a.model, a.times, a.setting, a.number, a.log
        )
        a.times[1, _bucket(now - since)] += 1
        a.waiting[place, 1], a.number[FREE] = a.number[FREE], place
        place = after
    _advance(a, slot, now)


@_compiled
def happen_until(a: Arrays, until: float) -> None:
    """Let all planned moments come before another one."""
    while a.planned[0, 0] < until and not a.number[FULL]:
        _happen(a)


@_part
def _instance_for(
    model: int,
    among: Array,
    now: float,
    copies: Array,
    requests: Array,
    pair: Array,
    numbers: Array,
    progress: Array,
    ring: Array,
    many: int,
) -> int:
    """Return the choice of `policy.choose`: without many requests, one of the few that have the model."""
    having = copies[model, 1 : 1 + copies[model, 0]]
    for place in range(len(having)):
        each = _index(having[place])
        if pair[each, model, USERS] > 0:
            _forget(each, now, pair, progress, ring)
        if many and pair[each, model, USERS] == 0:  # the least busy one, before others like it
            return each
    slot = _choose(having, pair[:, model, USERS], numbers[MODELS], many) if len(having) > 0 else among[0]
    if len(having) == 0 or pair[slot, model, USERS] >= many:
        for each in having:
            requests[each] = pair[each, model, USERS]
        slot = _choose(among, requests, numbers[MODELS], many)
        for each in having:
            requests[each] = -1
    return _index(slot)


@_compiled
def take(a: Arrays, at: Array, since: Array, asked: Array, first: int, until: float, among: Array) -> int:
    """Take requests before a moment, until there is no room for more; return the number of the next one.

    Their times count from `since`.
    """
    pair, gpu, progress, ring, number = a.pair, a.gpu, a.progress, a.ring, a.number
    about, found, times, setting, log = a.model, a.found, a.times, a.setting, a.log
    planned = a.planned
    end, many = about.shape[1], int(setting[MANY])
    for request in range(first, len(at)):
        now, model = at[request], _index(asked[request])
        if now >= until or number[FULL]:
            return request
        while planned[0, 0] <= now:
            _happen(a)
        slot = _instance_for(model, among, now, a.copies, a.requests, pair, a.slot, progress, ring, many)
        _forget(slot, now, pair, progress, ring)
        found[ASKED, model] += 1
        status = pair[slot, model, STATUS]
        if status in (ABSENT, LEAVING):
            _append(pair, slot, model, NEWER, OLDER)
        elif pair[slot, end, OLDER] != model:
            _take_out(pair, slot, model, NEWER, OLDER)
            _append(pair, slot, model, NEWER, OLDER)
        if status == LOADED:
            pair[slot, model, USERS] += 1
            _serve(slot, model, since[request], now, gpu, progress, ring, about, times, setting, number, log)
            continue
        _wait(a, slot, model, since[request], now)
    return len(at)


@_compiled
def _wait(a: Arrays, slot: int, model: int, since: float, now: float) -> None:
    """Let a request wait for a load, and begin it if it is the first one."""
    here, numbers, place = a.pair[slot, model], a.slot[:, slot], a.number[FREE]
    if place == len(a.waiting):
        a.number[FULL] = 1
        return
    a.found[WAITED, model] += 1
    a.number[FREE] = int(a.waiting[place, 1])
    a.waiting[place, 0], a.waiting[place, 1] = since, -1
    if here[STATUS] not in (ABSENT, LEAVING):
        if here[FIRST] < 0:  # it is loaded without a request
            here[FIRST] = place
        else:
            a.waiting[here[LAST], 1] = place
        here[LAST] = place
        here[USERS] += 1
        return
    here[FIRST] = here[LAST] = place
    _come(a, slot, model)
    numbers[MODELS] += 1
    numbers[WANTED] += 1
    if here[STATUS] == LEAVING:
        here[STATUS] = LEAVING_ASKED
    elif here[COPY_NEWER] >= 0:
        _take_out(a.pair, slot, model, COPY_NEWER, COPY_OLDER)
        _try_load(a, slot, model, now)
    else:
        here[STATUS] = FETCHING
        fetched = now + a.model[FETCH_S, model]
        _plan(a.planned, a.number, fetched, slot, numbers[AGE], _FETCHED + model)


@_compiled
def start(a: Arrays, slot: int, memory: float, disk: float, now: float, loaded: int) -> None:
    """Begin an instance, which has the pinned models alone, or begins to load them.

    The requests that load them wait there, so that others go where the models are loaded.
    """
    end, pair = a.model.shape[1], a.pair
    for model in range(end):
        here = pair[slot, model]
        here[FIRST] = here[LAST] = here[USERS] = here[COPY_NEWER] = -1
        here[STATUS] = ABSENT
    here = pair[slot, end]
    here[NEWER] = here[OLDER] = here[COPY_NEWER] = here[COPY_OLDER] = end
    age = a.slot[AGE, slot]
    a.slot[:, slot] = 0
    a.slot[AGE, slot] = age + 1
    a.free[slot, MEMORY], a.free[slot, DISK] = memory, disk
    a.gpu[slot, :, UNTIL] = now
    a.ring[slot] = 0
    for model in range(end):
        if a.model[PINNED, model]:
            _append(pair, slot, model, NEWER, OLDER)
            if not loaded:
                pair[slot, model, STATUS], pair[slot, model, USERS] = FETCHING, int(a.setting[MANY])
                a.slot[MODELS, slot] += 1
                a.slot[WANTED, slot] += 1
                fetched = now + a.model[FETCH_S, model]
                _plan(a.planned, a.number, fetched, slot, age + 1, _FETCHED + model)
                continue
            pair[slot, model, STATUS], pair[slot, model, USERS] = LOADED, 0
            a.free[slot, MEMORY] -= a.model[NEEDS_MEMORY, model]
            a.slot[MODELS, slot] += 1
            a.slot[LOADED_ONCE, slot] = 1
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
