"""Plans of ten times as many requests, which should take ten times as long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.ratio import Ratio, measure
from triton_models.check.estimate import alike
from triton_models.plan.offer import offers
from triton_models.plan.planning import Fleet, Limits, Planner
from triton_models.plan.traffic import Steady

MODELS, INSTANCES, PER_SECOND = 5000, 24, 400.0


def ratios(*, short: bool) -> Iterator[Ratio]:
    """Simulate a fleet in which some requests wait for a load."""
    fewer, more = 100_000 if short else 1_000_000, 1_000_000 if short else 10_000_000
    _simulation(1000)()  # compiles it
    yield measure(
        f"a plan with {MODELS:,} models, {INSTANCES} instances",
        ours=(f"{fewer:,} requests", _simulation(fewer)),
        theirs=(f"{more:,}", _simulation(more)),
        pairs=3,
        short=short,
    )


def _simulation(requests: int) -> Callable[[], object]:
    models = alike(MODELS, size=100e6, backend="pytorch")
    [offer] = offers(["ml.g5.xlarge"], backends=["pytorch"])
    fleet = Fleet(offer=offer, least=INSTANCES, most=INSTANCES)
    traffic = Steady(rate=PER_SECOND, seconds=requests / PER_SECOND, models=MODELS, popularity=1.1)
    return lambda: Planner(models, traffic, Limits()).simulate(fleet)
