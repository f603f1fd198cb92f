"""The parts of a scenario. Times are seconds of the wall clock since its start. Models count from 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from triton_rehearsal.aws import SPEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Requests at a constant rate, for some of the models.

    Attributes:
        rate: Requests per second. Poisson arrivals.
        start: The time of its start.
        seconds: Its duration.
        first: The first of its models.
        last: The last of its models.
        popularity: The exponent of Zipf's law over its models: 0 asks all of them equally often.
    """

    rate: float
    seconds: float
    last: int
    first: int = 1
    start: float = 0.0
    popularity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a recorded trace, or of a stream.

    Attributes:
        at: Its time.
        model: Its model.
    """

    at: float
    model: int


class Kind(str, Enum):
    """The kinds of faults."""

    KILL = "kill"
    HANG = "hang"
    CORRUPT = "corrupt"
    S3_ERRORS = "s3_errors"
    S3_DELAY = "s3_delay"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        kind: Its kind.
        at: Its time.
        target: The number of the instance that is killed or hangs, in the order of their starts, or of the
            model whose artifact is corrupt.
        seconds: The duration of a fault of S3, or of a lack of instances.
        delay: The seconds by which S3 delays every answer.
    """

    kind: Kind
    at: float
    target: int = 1
    seconds: float = 0.0
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """An accepted range of a number, both ends included."""

    least: float = 0.0
    most: float = float("inf")

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float | int) and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least:g}"
        return f"at most {self.most:g}" if self.least == 0 else f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The conditions that must hold at the end. None is not checked. No answer may be wrong.

    Attributes:
        answered: The share of requests that are answered, after the retries of a client, 0 to 1.
        p99: The longest time of 99 % of the requests, in seconds.
        loads: Number of loads.
        unloads: Number of unloads, which are evictions unless the endpoint does not cache models.
        replaced: Number of instances that were replaced.
        most_instances: The largest number of instances at one time.
        instances_at_end: Number of instances after the last request.
        alarms: The alarms that fire, without the name of the endpoint.
        no_alarms: The alarms that do not fire.
        failing: The models whose requests fail; they do not count as unanswered.
        recovers: True if every other model must answer once more at the end.
    """

    answered: Range = Range(least=1.0, most=1.0)
    p99: Range | None = None
    loads: Range | None = None
    unloads: Range | None = None
    replaced: Range | None = None
    most_instances: Range | None = None
    instances_at_end: Range | None = None
    alarms: tuple[str, ...] = ()
    no_alarms: tuple[str, ...] = ()
    failing: frozenset[int] = frozenset()
    recovers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario.

    Attributes:
        name: Its name.
        about: Its story, in one or two sentences.
        models: Number of models.
        model_bytes: The size of each model, in bytes; its memory on a GPU.
        instances: Number of instances.
        gpu_memory: The memory for models of each GPU, in bytes; None for that of the instance type.
        disk: The disk for copies of models of each instance, in bytes; None for that of the instance type.
        speed: Seconds of alarms, scaling and deployments per second of the wall clock, and the number of
            requests as which each counts.
        fleet: Settings of the fleet, in addition to those of cdk.json.
        seed: The seed of all chances.
        streams: Its traffic.
        trace: Recorded requests, in addition.
        faults: The faults.
        expected: The conditions.
    """

    name: str
    about: str
    models: int
    model_bytes: int = 0
    instances: int = 1
    gpu_memory: int | None = None
    disk: int | None = None
    speed: int = SPEED
    fleet: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    streams: tuple[Stream, ...] = ()
    trace: tuple[Request, ...] = ()
    faults: tuple[Fault, ...] = ()
    expected: Expected = Expected()
