"""A sequential test of a candidate version against the current one.

Call `compare` after every minute, with the counts since the roll-out began. Looking often does not raise the
error rates, because each bound holds at all looks together. At most `ERROR_RATE` of equal candidates are ever
found worse. At most `ERROR_RATE` of the candidates that are worse by a margin are ever found as good.

Method: divide the likelihood of the counts, mixed over a beta distribution, by the largest under the
hypothesis. The ratio ever reaches 1 / rate with at most that probability: Ville's inequality. See Robbins,
"Statistical methods related to the law of the iterated logarithm" (1970); Howard et al., "Time-uniform,
nonparametric, nonasymptotic confidence sequences" (2021); Wasserman et al., "Universal inference" (2020).

- Errors: the hypotheses are "the candidate fails no more" and "it fails more by at least the margin".
- Times: p50, p90 and p99 of the answered calls. The share of calls below the true percentile is known, and a
  test that excludes every bucket excludes the true one. So no bucket is chosen from the data, and times may
  have any distribution. See Howard and Ramdas, "Sequential estimation of quantiles with applications to A/B
  testing and best-arm identification" (2022). The margin is exact to one bucket, which is 3 to 6 % wide.
- Answers: the share of shadow comparisons that differ, against the allowed share.

One test suffices for `worse`, so they divide `ERROR_RATE`. `as good` needs every test, so each has the full
rate. A candidate that is worse by less than a margin may get either verdict.

Assumptions: requests are independent, and a random key assigns them. A few keys with most of the requests
violate this. The candidate's share is constant: begin new sums when it changes. Both sums begin when the
candidate is loaded, because calls that wait for a load are slow. Load may vary if both versions see it alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from triton_models.signals.counts import Counts, bucket, middle

ERROR_RATE = 0.01
"""The largest share of roll-outs that end with each wrong verdict."""

_PERCENTILES = (0.5, 0.9, 0.99)
_WORSE, _AS_GOOD = math.log((len(_PERCENTILES) + 2) / ERROR_RATE), math.log(1 / ERROR_RATE)
_ANY = (0.5, 0.5)  # the beta distribution of errors and of differing answers: near the best for any share
_WEIGHT = 500  # of the beta distribution at a percentile: the test is fastest near as many calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """The differences that a candidate must stay below to be as good.

    Attributes:
        errors: The share of requests that fail, above that of the current version.
        times: The time at each percentile, above that of the current version, as a share of it.
        answers: The share of answers that differ.
        requests: The fewest requests to the candidate before it is as good.
    """

    errors: float = 0.005
    times: float = 0.1
    answers: float = 0.001
    requests: int = 1_000

    def __post_init__(self) -> None:
        if not (0 < self.errors < 1 and 0 < self.times < math.inf and 0 < self.answers < 1):
            msg = f"errors and answers must be between 0 and 1, and times above 0: {self}"
            raise ValueError(msg)


DEFAULT = Margins()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision, with its reasons: the figures that are worse, or those that are still uncertain."""

    decision: Literal["worse", "as good", "open"]
    reasons: tuple[str, ...] = ()


def compare(
    current: Counts, candidate: Counts, *, answers: bool = False, margins: Margins = DEFAULT
) -> Verdict:
    """Compare the candidate's counts with those of the current version since the roll-out began.

    With `answers`, those of a shadow are compared as well.
    """
    compared = [_answers(candidate, margins)] if answers else []
    found = [_errors(current, candidate, margins), *_times(current, candidate, margins), *compared]
    if worse := tuple(each.figure for each in found if each.worse):
        return Verdict(decision="worse", reasons=worse)
    uncertain = [each.figure for each in found if not each.as_good]
    if candidate.requests < margins.requests:
        uncertain.append(f"requests: {candidate.requests:,} of {margins.requests:,}")
    return Verdict(decision="open" if uncertain else "as good", reasons=tuple(uncertain))


@dataclass(frozen=True, slots=True)
class _Found:
    figure: str
    worse: bool = False
    as_good: bool = False


def _errors(current: Counts, candidate: Counts, margins: Margins) -> _Found:
    if not current.requests or not candidate.requests:
        return _Found("errors: no requests to compare")
    ours, theirs = (current.failed, current.requests), (candidate.failed, candidate.requests)
    excess = candidate.failed / candidate.requests - current.failed / current.requests
    mixed = _mixed(*ours, *_ANY) + _mixed(*theirs, *_ANY)
    worse = excess > 0 and mixed - _largest(ours, theirs, 0) >= _WORSE
    as_good = excess < margins.errors and mixed - _largest(ours, theirs, margins.errors) >= _AS_GOOD
    shares = (f"{failed / requests:.2%} of {requests:,}" for failed, requests in (theirs, ours))
    return _Found("errors: " + ", current ".join(shares), worse, as_good)


def _times(current: Counts, candidate: Counts, margins: Margins) -> Iterator[_Found]:
    ours, theirs = _Times(current.times), _Times(candidate.times)
    if not ours.calls or not theirs.calls:
        yield _Found("times: no answered calls to compare")
        return
    for share in _PERCENTILES:
        seconds = f"{candidate.percentile(share):.3g} s, current {current.percentile(share):.3g} s"
        worse = _slower(theirs, ours, share=share, ratio=1, needed=_WORSE)
        as_good = _slower(ours, theirs, share=share, ratio=1 + margins.times, needed=_AS_GOOD)
        yield _Found(f"p{100 * share:.0f}: {seconds}", worse, as_good)


def _answers(candidate: Counts, margins: Margins) -> _Found:
    differing, compared = candidate.differing, candidate.compared
    ratio = _mixed(differing, compared, *_ANY) - _likelihood(differing, compared, margins.answers)
    excess = differing - margins.answers * compared
    worse, as_good = excess > 0 and ratio >= _WORSE, excess < 0 and ratio >= _AS_GOOD
    return _Found(f"answers: {differing:,} of {compared:,} differ", worse, as_good)


class _Times:
    def __init__(self, times: Mapping[int, int]) -> None:
        self.buckets = sorted(times)
        self.sums = list(accumulate((times[each] for each in self.buckets), initial=0))
        self.calls = self.sums[-1]

    def below(self, number: int) -> int:
        return self.sums[bisect_left(self.buckets, number)]


def _slower(slow: _Times, fast: _Times, *, share: float, ratio: float, needed: float) -> bool:
    """Return whether a percentile of `slow`, times the ratio, is certainly above that of `fast`.

    Exclude each bucket as that of `slow`: too many of its calls are above, or too many of `fast` are below
    the bucket times the ratio. Away from the estimate, the evidence of one version only grows.
    """
    first = bucket(middle(min(slow.buckets[0], fast.buckets[0])) / ratio) - 1
    last = max(slow.buckets[-1], fast.buckets[-1]) + 1
    start = slow.buckets[bisect_left(slow.sums, math.ceil(share * slow.calls)) - 1]
    for numbers in (range(start, last + 1), range(start, first - 1, -1)):
        for number in numbers:
            beyond = bucket(ratio * middle(number))
            beyond += middle(beyond) < ratio * middle(number)
            above = _evidence(slow.calls - slow.below(number + 1), slow.calls, 1 - share)
            below = _evidence(fast.below(beyond), fast.calls, share)
            if above + below < needed:
                return False
            if (below if numbers.step > 0 else above) >= needed + math.log(2):
                break
    return True


def _evidence(count: int, of: int, share: float) -> float:
    """Return the logarithm of the evidence that calls exceed a share: at least that of 1/2."""
    if count <= share * of:
        return -math.log(2)
    ratio = _mixed(count, of, share * _WEIGHT, (1 - share) * _WEIGHT) - _likelihood(count, of, share)
    return max(ratio, 0) + math.log1p(math.exp(-abs(ratio))) - math.log(2)


def _mixed(count: int, of: int, a: float, b: float) -> float:
    """Return the logarithm of the likelihood of a count, mixed over a beta distribution of the share."""
    mixed = math.lgamma(count + a) + math.lgamma(of - count + b) - math.lgamma(of + a + b)
    return mixed + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


def _likelihood(count: int, of: int, share: float) -> float:
    both = ((count, share), (of - count, 1 - share))
    return sum(number * math.log(each) for number, each in both if number)


def _largest(ours: tuple[int, int], theirs: tuple[int, int], margin: float) -> float:
    """Return the logarithm of the largest likelihood with their share above ours by the margin."""
    low, high = 0.0, 1 - margin
    for _ in range(40):
        share = (low + high) / 2
        shares = ((*ours, share), (*theirs, share + margin))
        slope = sum(count / each - (of - count) / (1 - each) for count, of, each in shares)
        low, high = (share, high) if slope > 0 else (low, share)
    return sum(_likelihood(*each) for each in shares)
