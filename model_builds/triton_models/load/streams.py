"""The traffic of a scenario, which `fleet load` and rehearsals send."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.load.schedule import Schedule

if TYPE_CHECKING:
    from triton_models.load.scenario import Stream

_PART_S = 1.0


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
        FleetError: It is not a scenario, or has traffic that cannot be sent to so many models.
    """
    from triton_models.load.scenario import SCENARIO, TrafficFile, parse, text_of

    found = parse(text_of(path), TrafficFile, where=str(path), folder=path.parent, models=models)
    known = found.models or len(models)
    most = max((each.most if each.last_model else known for each in found.traffic), default=0)
    most = max([most, *(each.first_model for each in found.traffic)])
    if most > len(models):
        raise SCENARIO.error(
            what=f"it has {most:,} models, and the run has {len(models):,}",
            where=str(path),
            fix="give as many models to the run, or write fewer into the scenario",
        )
    drawn = arrivals(found.traffic, models=known, seed=found.seed, part_s=_PART_S)
    return Schedule.of(itertools.chain(found.trace, drawn), models)
