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
        _arrivals(stream, random.Random(f"{scenario.seed}-{number}"), scenario.speed)  # noqa: S311  no secret
        for number, stream in enumerate(scenario.streams)
    ]
    return sorted(itertools.chain(scenario.trace, *streams), key=lambda request: request.at)


def _arrivals(stream: Stream, chance: random.Random, speed: float) -> Iterator[Request]:
    models = range(stream.first, stream.last + 1)
    weights = list(itertools.accumulate(rank**-stream.popularity for rank in range(1, len(models) + 1)))
    count, size = max(1, round(stream.rate * stream.seconds)), max(1, round(stream.rate * _PART_S / speed))
    for number in range(count):
        first = number - number % size
        at = (first + chance.random() * min(size, count - first)) * stream.seconds / count
        yield Request(at=stream.start + at, model=chance.choices(models, cum_weights=weights)[0])
