"""The comparison of a candidate version with the current one, minute by minute, on simulated requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from triton_models.signals.compare import ERROR_RATE, Margins, Verdict, compare
from triton_models.signals.counts import Counts, bucket

FIRST = bucket(0.001)
EDGES = [math.ldexp(0.5 + number % 16 / 32, number // 16) for number in range(FIRST + 1, bucket(100.0))]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Version:
    """The shares of calls in each bucket from `FIRST`, of failing requests and of differing answers."""

    times: tuple[float, ...]
    errors: float = 0.002
    differing: float = 0.0


def shares(below: Callable[[float], float]) -> tuple[float, ...]:
    return tuple(np.diff([0.0, *map(below, EDGES), 1.0]).tolist())


def usual(
    *, slower: float = 1.0, sigma: float = 0.5, errors: float = 0.002, differing: float = 0.0
) -> Version:
    log = NormalDist(math.log(0.07 * slower), sigma)
    times = shares(lambda edge: log.cdf(math.log(edge)))
    return Version(times=times, errors=errors, differing=differing)


def heavy(*, slower: float = 1.0) -> Version:
    """Times of infinite variance."""
    return Version(times=shares(lambda edge: 1 - min(1.0, 0.02 * slower / edge) ** 1.5))


def drawn(rng: np.random.Generator, version: Version, requests: Array) -> Array:
    """Return the sums of each minute: the errors, then the calls in each bucket."""
    times = np.array(version.times) * (1 - version.errors)
    return np.cumsum(rng.multinomial(requests, [version.errors, *times]), axis=-2)


def counts(sums: Array) -> Counts:
    times = {FIRST + number: int(sums[number + 1]) for number in np.flatnonzero(sums[1:]).tolist()}
    return Counts(requests=int(sums.sum()), errors={"failed": int(sums[0])}, times=times)


@dataclass(frozen=True, kw_only=True)
class RollOut:
    """Its decision, and the candidate's requests until then or until the last look."""

    requests: int
    verdict: Verdict


def roll_out(
    current: Version, candidate: Version, *, seed: int, looks: int, rate: float, share: float
) -> RollOut:
    """Look after each minute until it is decided."""
    rng = np.random.default_rng(seed)
    to_current, to_candidate = (rng.poisson(60 * rate * part, looks) for part in (1 - share, share))
    sums = zip(drawn(rng, current, to_current), drawn(rng, candidate, to_candidate), strict=True)
    differing = np.cumsum(rng.binomial(to_candidate, candidate.differing)).tolist()
    for (ours, theirs), number in zip(sums, differing, strict=True):
        tried = replace(counts(theirs), compared=int(theirs.sum()), differing=number)
        verdict = compare(counts(ours), tried, answers=True)
        if verdict.decision != "open":
            break
    return RollOut(requests=int(theirs.sum()), verdict=verdict)


def roll_outs(
    current: Version,
    candidate: Version,
    *,
    looks: int,
    rate: float = 100,
    share: float = 0.1,
    runs: int = 200,
) -> list[RollOut]:
    each = range(runs)
    return [roll_out(current, candidate, seed=seed, looks=looks, rate=rate, share=share) for seed in each]


@pytest.mark.parametrize(
    ("candidate", "requests", "figures"),
    [
        (usual(slower=1.2), 1_900, {"p50", "p90", "p99"}),
        (usual(sigma=0.65), 3_100, {"p50", "p90", "p99"}),
        (usual(errors=0.012), 6_100, {"errors"}),
        (usual(errors=1.0), 700, {"errors"}),
        (usual(differing=0.01), 3_200, {"answers"}),
    ],
    ids=["slower", "slower in the tail", "failing", "always failing", "differing"],
)
def test_a_worse_candidate_is_found_within_minutes(
    candidate: Version, requests: int, figures: set[str]
) -> None:
    for each in roll_outs(usual(), candidate, looks=10):
        assert each.verdict.decision == "worse"
        assert {reason.partition(":")[0] for reason in each.verdict.reasons} <= figures
        assert each.requests <= requests


@pytest.mark.parametrize(
    ("candidate", "share", "requests"),
    [(usual(), 0.1, 45_000), (usual(), 0.5, 80_000), (usual(slower=0.5), 0.1, 12_000)],
    ids=["equal", "equal, half of the requests", "faster"],
)
def test_a_candidate_that_is_no_worse_is_found_as_good(
    candidate: Version, share: float, requests: int
) -> None:
    for each in roll_outs(usual(), candidate, looks=100, share=share):
        assert each.verdict == Verdict(decision="as good")
        assert each.requests <= requests


def test_times_may_have_any_distribution() -> None:
    slower = roll_outs(heavy(), heavy(slower=1.2), looks=10)
    assert {each.verdict.decision for each in slower} == {"worse"}
    equal = roll_outs(heavy(), heavy(), looks=100, rate=1_000, runs=25)
    assert {each.verdict.decision for each in equal} == {"as good"}


def test_a_model_with_few_requests_stays_open_rather_than_wrong() -> None:
    equal = roll_outs(usual(), usual(), looks=100, rate=1, runs=10)
    assert {each.verdict.decision for each in equal} == {"open"}
    slower = roll_outs(usual(), usual(slower=2), looks=60, rate=1, runs=50)
    assert {each.verdict.decision for each in slower} == {"worse"}


def suspicious(ours: Array, theirs: Array, ends: dict[float, int]) -> Array:
    """Return the looks at which any figure of the candidate is 3 standard deviations worse.

    Evidence is below the largest ratio of likelihoods. Fewer deviations cannot suffice, and are not compared.
    """
    requests, of_candidate = ours.sum(axis=-1), theirs.sum(axis=-1)
    pooled = (ours[..., 0] + theirs[..., 0]) / (requests + of_candidate)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / requests + 1 / of_candidate))
    found: Array = theirs[..., 0] / of_candidate - ours[..., 0] / requests > 3 * spread
    calls = of_candidate - theirs[..., 0]
    for share, last in ends.items():
        above = theirs[..., 2 + last :].sum(axis=-1)
        found |= above - (1 - share) * calls > 3 * np.sqrt(share * (1 - share) * calls)
    return found


def equal_runs(runs: int, looks: int) -> Iterator[tuple[Array, Array]]:
    """Yield the suspicious looks of each run.

    The percentiles are at ends of buckets, where the test is wrong most often.
    """
    version = Version(times=(0.2, 0.3, 0.2, 0.2, 0.06, 0.03, 0.009, 0.001))
    rng = np.random.default_rng(1)
    for _ in range(runs // 100):
        ours, theirs = (drawn(rng, version, rng.poisson(mean, (100, looks))) for mean in (1_080, 120))
        found = suspicious(ours, theirs, {0.5: 1, 0.9: 3, 0.99: 5})
        yield from ((ours[run][found[run]], theirs[run][found[run]]) for run in range(100))


def test_looking_often_does_not_make_an_equal_candidate_worse() -> None:
    compared = 0
    worse = 0
    for ours, theirs in equal_runs(2_000, 500):
        compared += len(ours)
        verdicts = (compare(counts(one), counts(other)) for one, other in zip(ours, theirs, strict=True))
        worse += any(each.decision == "worse" for each in verdicts)
    assert compared > 2_000
    assert worse <= ERROR_RATE * 2_000


def test_an_outage_of_both_versions_is_no_difference() -> None:
    rng = np.random.default_rng(2)
    minutes = [usual()] * 5 + [usual(slower=5, errors=0.4)] * 3 + [usual(slower=1.5)] * 7
    worse = 0
    for _ in range(100):
        ours, theirs = (
            np.cumsum([drawn(rng, each, rng.poisson(mean, 1))[0] for each in minutes], axis=0)
            for mean in (5_400, 600)
        )
        verdicts = (compare(counts(one), counts(other)) for one, other in zip(ours, theirs, strict=True))
        worse += any(each.decision == "worse" for each in verdicts)
    assert worse <= ERROR_RATE * 100


def test_nothing_is_decided_without_requests() -> None:
    some = Counts(requests=1_000, errors={"failed": 2}, times={0: 998})
    reasons = ("errors: no requests to compare", "times: no answered calls to compare")
    assert compare(some, Counts()) == Verdict(decision="open", reasons=(*reasons, "requests: 0 of 1,000"))
    assert compare(Counts(), some) == Verdict(decision="open", reasons=reasons)
    assert compare(some, Counts(), answers=True).decision == "open"


def test_two_versions_that_always_fail_have_no_times_to_compare() -> None:
    failing = Counts(requests=100_000, errors={"failed": 100_000})
    reasons = ("times: no answered calls to compare",)
    assert compare(failing, failing) == Verdict(decision="open", reasons=reasons)


def test_the_reasons_have_the_figures_of_both_versions() -> None:
    current = Counts(requests=10_000, errors={"failed": 20}, times={0: 9_980})
    candidate = Counts(requests=900, errors={"failed": 30}, times={0: 870})
    reasons = ("errors: 3.33% of 900, current 0.20% of 10,000",)
    assert compare(current, candidate) == Verdict(decision="worse", reasons=reasons)
    candidate = Counts(requests=900, errors={"failed": 2}, times={1: 898}, compared=1_000, differing=30)
    found = compare(current, candidate, answers=True)
    slower = (f"{each}: 0.547 s, current 0.516 s" for each in ("p50", "p90", "p99"))
    assert found == Verdict(decision="worse", reasons=(*slower, "answers: 30 of 1,000 differ"))


def test_a_candidate_is_as_good_only_after_enough_requests() -> None:
    current = Counts(requests=90_000, times={0: 90_000})
    candidate = Counts(requests=9_000, times={0: 9_000})
    assert compare(current, candidate) == Verdict(decision="as good")
    more = compare(current, candidate, margins=Margins(requests=10_000))
    assert more == Verdict(decision="open", reasons=("requests: 9,000 of 10,000",))


@pytest.mark.parametrize(
    "wrong", [{"errors": 0}, {"errors": 1}, {"times": 0}, {"times": math.inf}, {"answers": 0}]
)
def test_a_margin_must_be_a_share(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        Margins(**wrong)  # type: ignore[arg-type]
