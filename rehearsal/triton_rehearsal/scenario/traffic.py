"""The requests of a scenario: Poisson arrivals whose models follow Zipf's law."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from triton_rehearsal.scenario.scenario import Request, Scenario, Stream


def requests(scenario: Scenario) -> Sequence[Request]:
    """Return all requests in the order of their times. The same seed gives the same ones."""
    streams = [
        _arrivals(stream, random.Random(f"{scenario.seed}-{number}"))  # noqa: S311  no secret
        for number, stream in enumerate(scenario.streams)
    ]
    return sorted(itertools.chain(scenario.trace, *streams), key=lambda request: request.at)


def _arrivals(stream: Stream, chance: random.Random) -> Iterator[Request]:
    models = range(stream.first, stream.last + 1)
    weights = list(itertools.accumulate(rank**-stream.popularity for rank in range(1, len(models) + 1)))
    at = stream.start
    while (at := at + chance.expovariate(stream.rate)) < stream.start + stream.seconds:
        yield Request(at=at, model=chance.choices(models, cum_weights=weights)[0])
