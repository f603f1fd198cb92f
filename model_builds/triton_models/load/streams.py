"""The traffic of a scenario, which `fleet load` and rehearsals send."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.load.schedule import Schedule, read

SCENARIO = Check(id="load-scenario", source=FROM_ARGUMENTS)

_MOST_REQUESTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Requests at a constant rate, for some of the models; they count from 1.

    Attributes:
        start: When it begins, in seconds.
        last_model: None for the last one of all.
        popularity: The exponent of Zipf's law over its models.
    """

    requests_per_second: float
    seconds: float
    start: float = 0.0
    first_model: int = 1
    last_model: int | None = None
    popularity: float = 0.0


def arrivals(
    streams: Sequence[Stream], *, models: int, seed: int, part_s: float
) -> Iterator[tuple[float, int]]:
    """Yield the requests of each stream: the moment, and the number of the model.

    Arrivals are random, and their models follow Zipf's law. The same seed gives the same ones. Each part of
    the time has its share of the requests, at random moments within it: less noise than in a Poisson process.

    Args:
        streams: The streams.
        models: The number of models.
        seed: The seed.
        part_s: The length of a part, in seconds.
    """
    for number, stream in enumerate(streams):
        chance = random.Random(f"{seed}-{number}")  # noqa: S311  no secret
        asked = range(stream.first_model, (stream.last_model or models) + 1)
        weights = list(itertools.accumulate(rank**-stream.popularity for rank in range(1, len(asked) + 1)))
        count = max(1, round(stream.requests_per_second * stream.seconds))
        size = max(1, round(stream.requests_per_second * part_s))
        for index in range(count):
            first = index - index % size
            at = (first + chance.random() * min(size, count - first)) * stream.seconds / count
            yield stream.start + at, chance.choices(asked, cum_weights=weights)[0]


def read_scenario(path: Path, models: Sequence[str]) -> Schedule:
    """Return the traffic of a scenario's file, whose model N is the Nth of these.

    Raises:
        FleetError: It has no traffic, or traffic that cannot be sent to so many models.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise _wrong(path, f"it is no YAML: {str(error).partition(chr(10))[0]}") from None
    if not isinstance(document, Mapping):
        raise _wrong(path, "it is no scenario")
    if isinstance(document.get("trace"), str):
        return read(path.parent / document["trace"], models)
    streams = [_stream(each, path) for each in document.get("traffic") or ()]
    known = int(document.get("models", len(models)))
    most = max((each.last_model or known for each in streams), default=0)
    if not streams or sum(each.requests_per_second * each.seconds for each in streams) > _MOST_REQUESTS:
        raise _wrong(path, f"it has no traffic, or more than {_MOST_REQUESTS:,} requests")
    if most > len(models):
        raise _wrong(path, f"it has {most} models, and the run has {len(models)}")
    drawn = arrivals(streams, models=known, seed=int(document.get("seed", 1)), part_s=1.0)
    return Schedule.of(drawn, models)


def _stream(given: Any, path: Path) -> Stream:
    names = {each.name for each in fields(Stream)}
    if not isinstance(given, Mapping):
        raise _wrong(path, f"traffic has {given!r}")
    for name in given:
        if name not in names:
            fix = did_you_mean(str(name), names, otherwise="remove it")
            raise SCENARIO.error(what=f"unknown field {name!r}", where=str(path), fix=fix)
    try:
        stream = Stream(**given)
        if not (stream.requests_per_second > 0 and stream.seconds > 0 and stream.start >= 0):
            raise ValueError
    except (TypeError, ValueError):
        what = f"a stream is {dict(given)}"
        raise _wrong(path, what) from None
    return stream


def _wrong(path: Path, what: str) -> FleetError:
    return SCENARIO.error(
        what=what,
        where=str(path),
        fix="give it traffic with requests_per_second and seconds, as scenarios of `fleet rehearse` have",
    )
