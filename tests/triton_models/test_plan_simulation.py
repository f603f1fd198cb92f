"""The simulation of a plan, next to a slow twin and to what it stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from plan_twin import Twin

from triton_models.plan.compiled import Models
from triton_models.plan.simulation import Endpoint, Simulation, Tracking


def random_fleet(seed: int) -> tuple[Endpoint, Models, np.ndarray, np.ndarray, list[tuple[float, int]]]:
    """Return a fleet under pressure, its requests, and the losses of instances."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(2, 12))
    memory = chance.uniform(1, 4, count)
    models = Models(
        memory=memory,
        disk=chance.uniform(1, 3, count),
        fetch_s=chance.uniform(0.1, 2, count),
        load_s=chance.uniform(0.1, 3, count),
        busy_s=chance.uniform(0.001, 0.4, count),
        pinned=chance.random(count) < chance.choice([0.0, 0.2]),
    )
    models = models._replace(pinned=models.pinned & (np.cumsum(models.pinned * memory) < 3))
    instances = int(chance.integers(1, 4))
    endpoint = Endpoint(
        instances=instances,
        most=instances + int(chance.integers(0, 4)),
        gpus=int(chance.integers(1, 3)),
        memory=float(chance.uniform(8, 14)),
        disk=float(chance.uniform(8, 40)),
        overhead_s=0.0,
        first_load_s=float(chance.uniform(0, 3)),
        unload_s=float(chance.uniform(0, 0.5)),
        loads_at_once=int(chance.integers(1, 4)),
        many=int(chance.integers(1, 9)),
        first_s=float(chance.uniform(60, 120)),
        last_s=float(chance.uniform(120, 200)),
        go_s=float(chance.uniform(30, 90)),
        replace_s=float(chance.uniform(5, 60)),
        tracking=Tracking(requests=float(chance.uniform(20, 200)), out_cooldown_s=91.7, in_cooldown_s=133.3),
    )
    steps = [chance.exponential(1 / rate, int(rate * 1200)) for rate in chance.uniform(0.3, 6, 3)]
    at = np.cumsum(np.concatenate(steps))
    weights = np.arange(1, count + 1.0) ** -chance.uniform(0, 2)
    asked = chance.choice(count, len(at), p=weights / weights.sum()).astype(np.int32)
    losses = [(float(chance.uniform(0, at[-1])), int(chance.integers(0, 3))) for _ in range(3)]
    return endpoint, models, at, asked, losses


def in_order(events: Sequence[tuple[float, str, int, int]]) -> Sequence[tuple[float, str, int, int]]:
    """Sort events by their moments; those of instances are first."""
    return sorted(events, key=lambda event: (round(event[0], 6), event[3] >= 0))


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.story) for seed in range(12, 100))]
)
def test_it_has_the_events_and_answers_of_a_slow_twin(seed: int) -> None:
    endpoint, models, at, asked, losses = random_fleet(seed)
    until = float(at[-1]) + 3000
    simulation, twin = Simulation(endpoint, models, logged=2 * len(at)), Twin(endpoint, models)
    for moment, number in losses:
        simulation.lose(moment, number)
    simulation.send(at, asked)
    simulation.finish(until)
    twin.run(list(zip(at.tolist(), asked.tolist(), strict=True)), losses, until)
    for one, other in zip(in_order(simulation.events), in_order(twin.events), strict=True):
        assert one[1:] == other[1:], (one, other)
        assert math.isclose(one[0], other[0], abs_tol=1e-6)
    log = simulation.arrays.log[: simulation.arrays.number.answered]
    found = sorted(map(tuple, log[~np.isnan(log[:, 1])].tolist()))
    np.testing.assert_allclose(found, sorted(twin.answers), atol=1e-6)
