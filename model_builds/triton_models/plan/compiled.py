"""What happens to each request of a simulation, compiled.

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

USERS, NEWER, OLDER, FIRST, LAST, STATUS = range(6)
"""The fields of a model on an instance: its requests in progress, or -1 if it is not there; its neighbors in
the order of use; the first and the last request that wait for it; and its status."""

ABSENT, QUEUED, LOADING, LOADED = range(4)
"""The statuses of a model on an instance."""

UNTIL, ASSIGNED = range(2)
"""The fields of a GPU: the moment until which it is busy, and the seconds of all requests that it got."""

DONE, SINCE, MODEL = range(3)
"""The fields of a request in progress."""

ASKED, WAITED = range(2)
"""The numbers of a model's requests, and of those that waited for a load."""

FREE, ANSWERED, FULL = range(3)
"""The first free place for a request that waits, the number of answers in the log, and 1 without a place."""

BUCKETS_PER_OCTAVE, OCTAVES, SMALLEST_S = 64, 40, 2.0**-20
"""The buckets of times: 64 for each power of two, from a microsecond, and a time is right within 1.6 %."""

BUCKETS = BUCKETS_PER_OCTAVE * OCTAVES
_UNCOUNTED_BITS = 46  # of a double's 52
_FIRST_BUCKET = int(np.float64(SMALLEST_S).view(np.int64)) >> _UNCOUNTED_BITS

ROOM = 1 << 15
"""The most requests in progress on a GPU. An endpoint with more cannot keep up."""


class Arrays(NamedTuple):
    """The arrays of a simulation.

    Attributes:
        pair: By model, slot of an instance, and field.
        models: The number of models of each slot.
        gpu: By slot, GPU and field.
        progress: Rings of requests in progress, by slot, GPU, place and field.
        ring: The first place of each ring, and its count.
        waiting: The moment and the successor of each request that waits.
        busy_s: The seconds for which a request keeps a GPU busy, by model.
        found: By model and field.
        times: The number of answers by bucket of their times, and of waits.
        number: See `FREE`.
        log: The moments of requests and their answers, as far as there is room.
    """

    pair: Array
    models: Array
    gpu: Array
    progress: Array
    ring: Array
    waiting: Array
    busy_s: Array
    found: Array
    times: Array
    number: Array
    log: Array


def _compiled(function: F) -> F:
    """Compile a function when it is first called, without the interpreter's lock, and keep it on the disk."""
    return cast("F", njit(cache=True, nogil=True)(function))


def _part(function: F) -> F:
    """Compile a function into those that call it."""
    return cast("F", njit(inline="always")(function))


_choose = _part(policy.choose)


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
    busy_s: Array,
    times: Array,
    overhead_s: float,
    number: Array,
    log: Array,
) -> None:
    """Let the GPU that is free first answer a request."""
    best = 0
    for each in range(1, gpu.shape[1]):
        if gpu[slot, each, UNTIL] < gpu[slot, best, UNTIL]:
            best = each
    done = max(now, gpu[slot, best, UNTIL]) + busy_s[model]
    gpu[slot, best, UNTIL] = done
    gpu[slot, best, ASSIGNED] += busy_s[model]
    place = ring[slot, best, 0] + ring[slot, best, 1]
    if ring[slot, best, 1] == ROOM:
        number[FULL] = 1
    else:
        place &= ROOM - 1
        progress[slot, best, place, DONE] = done
        progress[slot, best, place, SINCE] = since
        progress[slot, best, place, MODEL] = model
        ring[slot, best, 1] += 1
    times[0, _bucket(done - since + overhead_s)] += 1
    if number[ANSWERED] < len(log):
        log[number[ANSWERED], 0], log[number[ANSWERED], 1] = since, done
        number[ANSWERED] += 1


@_part
def _forget(slot: int, now: float, pair: Array, progress: Array, ring: Array) -> None:
    """Forget the requests that are answered."""
    for each in range(ring.shape[1]):
        first = ring[slot, each, 0]
        while ring[slot, each, 1] and progress[slot, each, first, DONE] <= now:
            pair[int(progress[slot, each, first, MODEL]), slot, USERS] -= 1
            first = (first + 1) & (ROOM - 1)
            ring[slot, each, 0] = first
            ring[slot, each, 1] -= 1


@_part
def _take_out(pair: Array, slot: int, model: int) -> None:
    after, before = pair[model, slot, NEWER], pair[model, slot, OLDER]
    pair[before, slot, NEWER], pair[after, slot, OLDER] = after, before


@_part
def _append(pair: Array, slot: int, model: int) -> None:
    """Make a model the most recently used one."""
    end = len(pair) - 1
    last = pair[end, slot, OLDER]
    pair[last, slot, NEWER], pair[model, slot, OLDER] = model, last
    pair[model, slot, NEWER], pair[end, slot, OLDER] = end, model


@_compiled
def take(
    arrays: Arrays,
    at: Array,
    since: Array,
    asked: Array,
    first: int,
    until: float,
    among: Array,
    many: int,
    overhead_s: float,
) -> tuple[int, int]:
    """Take requests until a moment, until one wants a load, or until there is no room for more.

    Their times count from `since`.

    Returns:
        The number of the request that wants a load, with its slot; or of the first one that was not taken,
        and -1.
    """
    pair, models, gpu, progress, ring, waiting, busy_s, found, times, number, log = arrays
    end = len(pair) - 1
    for request in range(first, len(at)):
        now, model = at[request], asked[request]
        if now >= until or number[FULL]:
            return request, -1
        for slot in among:
            _forget(slot, now, pair, progress, ring)
        slot = _choose(among, pair[model, :, USERS], models, many)
        found[model, ASKED] += 1
        status = pair[model, slot, STATUS]
        if status == ABSENT:
            _append(pair, slot, model)
        elif pair[end, slot, OLDER] != model:
            _take_out(pair, slot, model)
            _append(pair, slot, model)
        if status == LOADED:
            pair[model, slot, USERS] += 1
            _serve(
                slot, model, since[request], now, gpu, progress, ring, busy_s, times, overhead_s, number, log
            )
            continue
        found[model, WAITED] += 1
        place = number[FREE]
        if place == len(waiting):
            number[FULL] = 1
            return request, -1
        number[FREE] = int(waiting[place, 1])
        waiting[place, 0], waiting[place, 1] = since[request], -1
        if status == ABSENT:
            pair[model, slot, USERS], pair[model, slot, STATUS] = 1, QUEUED
            pair[model, slot, FIRST] = pair[model, slot, LAST] = place
            models[slot] += 1
            return request, slot
        waiting[pair[model, slot, LAST], 1] = place
        pair[model, slot, LAST] = place
        pair[model, slot, USERS] += 1
    return len(at), -1


@_compiled
def answer_waiting(arrays: Arrays, slot: int, model: int, now: float, overhead_s: float) -> float:
    """Answer the requests that wait for a model, which is now loaded; return the seconds that they waited."""
    pair, _, gpu, progress, ring, waiting, busy_s, _, times, number, log = arrays
    _forget(slot, now, pair, progress, ring)
    place, waited_s = pair[model, slot, FIRST], 0.0
    pair[model, slot, FIRST] = pair[model, slot, LAST] = -1
    pair[model, slot, STATUS] = LOADED
    while place >= 0:
        after, since = int(waiting[place, 1]), waiting[place, 0]
        _serve(slot, model, since, now, gpu, progress, ring, busy_s, times, overhead_s, number, log)
        times[1, _bucket(now - since)] += 1
        waited_s += now - since
        waiting[place, 1], number[FREE] = number[FREE], place
        place = after
    return waited_s


@_compiled
def unload_for(
    arrays: Arrays,
    slot: int,
    now: float,
    wanted: float,
    free: float,
    memory: Array,
    pinned: Array,
    out: Array,
) -> int:
    """Unload idle models until so many bytes are free, the least recently used first.

    Returns:
        The number of models that are unloaded, which are in `out`.
    """
    pair, models, progress, ring = arrays.pair, arrays.models, arrays.progress, arrays.ring
    _forget(slot, now, pair, progress, ring)
    end, count = len(pair) - 1, 0
    model = pair[end, slot, NEWER]
    while free < wanted and model != end:
        after = pair[model, slot, NEWER]
        if pair[model, slot, STATUS] == LOADED and pair[model, slot, USERS] == 0 and not pinned[model]:
            _take_out(pair, slot, model)
            pair[model, slot, STATUS], pair[model, slot, USERS] = ABSENT, -1
            models[slot] -= 1
            free += memory[model]
            out[count] = model
            count += 1
        model = after
    return count


@_compiled
def take_back(arrays: Arrays, since: float, done: float, overhead_s: float) -> None:
    """Forget an answer that did not come."""
    arrays.times[0, _bucket(done - since + overhead_s)] -= 1
    for entry in range(arrays.number[ANSWERED]):
        if arrays.log[entry, 0] == since and arrays.log[entry, 1] == done:
            arrays.log[entry, 1] = math.nan


@_compiled
def use(pair: Array, slot: int, model: int) -> None:
    """Add a model to an instance as the most recently used one."""
    _append(pair, slot, model)


@_compiled
def remove(pair: Array, slot: int, model: int) -> None:
    """Remove a model from the order of use of an instance."""
    _take_out(pair, slot, model)
