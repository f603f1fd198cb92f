"""The knee: the largest rate that a target sustains, and the scaling target that follows from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triton_models.load.result import Latencies, Loaded

_FACTOR = 1.6
_STEPS = 24
_FEWEST = 10
_CLOSE = 1.03

# Of a step's time: what takes so much longer at its end than at its beginning is behind by that share.
_BEHIND = 0.03
_ERRORS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rate that was tried.

    Attributes:
        answered: The answers per second, until the last one.
        why: Why it is too much; "" if it was sustained.
    """

    rate: float
    answered: float
    latencies: Latencies | None
    why: str

    def line(self) -> str:
        """Return it as a line."""
        p99 = "" if self.latencies is None else f", p99 {self.latencies.p99 * 1e3:,.0f} ms"
        why = f"; {self.why}" if self.why else ""
        return f"{self.rate:,.1f}/s: {self.answered:,.1f} answers per second{p99}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How load grows while an instance starts.

    Attributes:
        share: The growth in a minute, as a share of the load: 0.2 is 20 % of it.
        start_s: The time until a new instance answers, in seconds. One with a GPU and a Triton image takes
            about 12 minutes: the belief `start-takes-twelve-minutes`.
    """

    share: float = 0.2
    start_s: float = 720.0

    @property
    def free(self) -> float:
        """The share of the capacity at which another instance has to be started."""
        return 1 / (1 + self.share * self.start_s / 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The largest rate that a target sustains, to 3 %.

    Attributes:
        rate: In requests per second; None if no rate was sustained.
        gpus: The number of GPUs that answered; None if it is unknown.
        limit: Why the search ended without a knee; "" if it has one.
    """

    target: str
    rate: float | None
    steps: Sequence[Step]
    gpus: int | None
    growth: Growth
    limit: str = ""

    @property
    def exit_code(self) -> int:
        """0 if there is a knee, otherwise 1."""
        return 0 if self.rate is not None and not self.limit else 1

    @property
    def per_gpu_per_minute(self) -> float | None:
        """The requests per minute that a GPU sustains."""
        return None if self.rate is None or not self.gpus else self.rate * 60 / self.gpus

    @property
    def scaling_target(self) -> int | None:
        """The setting `invocations_per_gpu_per_minute` that leaves room for the growth of load."""
        sustained = self.per_gpu_per_minute
        return None if sustained is None else max(1, int(sustained * self.growth.free))

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            **asdict(self),
            "per_gpu_per_minute": self.per_gpu_per_minute,
            "invocations_per_gpu_per_minute": self.scaling_target,
        }

    def lines(self) -> Iterator[str]:
        """Yield the rates that were tried, the knee, and the setting for cdk.json."""
        yield from (each.line() for each in self.steps)
        yield ""
        if self.limit:
            yield f"There is no knee: {self.limit}"
        if self.rate is None:
            return
        yield f"{self.target} sustains {self.rate:,.1f} requests per second."
        if self.scaling_target is not None:
            yield f"That is {self.per_gpu_per_minute:,.0f} per GPU and minute."
            yield (
                f"Load that grows by {self.growth.share:.0%} a minute, and instances that start in "
                f"{self.growth.start_s / 60:g} minutes, leave {self.growth.free:.0%} of it. In cdk.json:"
            )
            yield f'  "invocations_per_gpu_per_minute": {self.scaling_target}'


async def find_knee(
    measure: Callable[[float], Awaitable[Loaded | None]],
    *,
    start: float,
    seconds: float,
    p99_s: float | None,
    say: Callable[[Step], object] = lambda _: None,
) -> tuple[float | None, list[Step], str]:
    """Return the largest rate that is sustained to 3 %, all steps, and why the search failed.

    Rates grow until one is too much, or shrink until one is not; then the interval is halved.

    Args:
        measure: Sends requests at a rate, and returns the figures; None if the budget does not allow it.
        start: The first rate, in requests per second.
        seconds: The length of a step.
        p99_s: The largest 99th percentile that is accepted, in seconds; None accepts any.
        say: Called after each step.
    """
    steps: list[Step] = []
    good, bad, rate = 0.0, 0.0, start
    while len(steps) < _STEPS:
        found = await measure(rate)
        if found is None:
            return good or None, steps, "the budget does not allow another step"
        if found.generator.limit or found.stopped:
            own = found.generator.limit
            limit = f"at {rate:,.1f}/s the generator was the limit: {own}" if own else "it was ended early"
            return good or None, steps, limit
        step = Step(
            rate=rate,
            answered=found.answered_per_second,
            latencies=found.warm or found.first,
            why=_too_much(found, seconds, p99_s),
        )
        steps.append(step)
        say(step)
        if step.why:
            bad = rate
        else:
            good = rate
        if good and bad and bad / good <= _CLOSE:
            return good, steps, ""
        rate = (good * bad) ** 0.5 if good and bad else good * _FACTOR if good else bad / _FACTOR
        if rate * seconds < _FEWEST:
            return None, steps, f"{bad:,.3g}/s is too much, and a step of less has too few requests"
    return good or None, steps, f"none of {_STEPS} rates was too much"


def _too_much(found: Loaded, seconds: float, p99_s: float | None) -> str:
    """Return why a rate is too much."""
    failed = sum(found.errors.values())
    if failed > _ERRORS * found.requests:
        kinds = ", ".join(found.errors)
        return f"{failed / found.requests:.0%} errors ({kinds})"
    if found.drift_s > _BEHIND * seconds:
        return f"answers fall behind, by {found.drift_s:,.1f} s at its end"
    latencies = found.warm or found.first
    if p99_s is not None and latencies is not None and latencies.p99 > p99_s:
        return f"p99 is above {p99_s * 1e3:,.0f} ms"
    return ""
