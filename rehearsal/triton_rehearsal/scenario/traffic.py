"""The requests of a scenario: random arrivals whose models follow Zipf's law.

A minute of a fast clock has the requests of a second or less, and would have the noise of so few. So each
short part of a minute has its share of the requests, at random times within it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from triton_rehearsal.scenario.scenario import Request, Scenario, Stream

_PART_S = 6.0  # of the clock


def requests(scenario: Scenario) -> Sequence[Request]:
    """Return all requests in the order of their times. The same seed gives the same ones."""
    streams = [
        _arrivals(stream, scenario, random.Random(f"{scenario.seed}-{number}"))  # noqa: S311  no secret
        for number, stream in enumerate(scenario.traffic)
    ]
    return sorted(itertools.chain(scenario.trace, *streams), key=lambda request: request.at)


def _arrivals(stream: Stream, scenario: Scenario, chance: random.Random) -> Iterator[Request]:
    models = range(stream.first_model, (stream.last_model or scenario.models) + 1)
    weights = list(itertools.accumulate(rank**-stream.popularity for rank in range(1, len(models) + 1)))
    rate = stream.requests_per_second
    count = max(1, round(rate * stream.seconds))
    size = max(1, round(rate * _PART_S / scenario.speed))
    for number in range(count):
        first = number - number % size
        at = (first + chance.random() * min(size, count - first)) * stream.seconds / count
        yield Request(at=stream.start + at, model=chance.choices(models, cum_weights=weights)[0])
