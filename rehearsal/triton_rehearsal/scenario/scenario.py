"""A scenario and its requests. Times are seconds of the wall clock since its start. Models count from 1."""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from triton_models.base.errors import FleetError
from triton_models.load import streams
from triton_models.load.scenario import Duration, Number, Part, Time, TrafficFile, at_most
from triton_models.load.schedule import Schedule
from triton_rehearsal.aws import SPEED
from triton_rehearsal.hosting.budget import read_size

MOST_MODELS = 5000
_PART_S = 6.0  # of the clock

_RANGE = re.compile(r"(\d{1,12}(?:\.\d+)?)(?:\.\.(\d{1,12}(?:\.\d+)?))?", re.ASCII)


def _size(given: Any) -> int:
    try:
        return read_size(str(given), where="a size")
    except FleetError as error:
        raise ValueError(error.problems[0].fix.removeprefix("give ")) from None


def _single(given: Any) -> Any:
    if isinstance(given, list | dict):
        msg = "a setting of cdk.json that is not a list"
        raise ValueError(msg)
    return given


Lack = Annotated[float, Field(ge=0.001, le=3600)]
Size = Annotated[int, BeforeValidator(_size)]


class Fault(Part):
    """Something that goes wrong: one of these fields, and its time."""

    at: Time
    kill: Number | None = None  # the number of an instance, in the order of their starts
    hang: Number | None = None  # as `kill`
    corrupt: Number | None = None  # the model whose artifact is corrupt
    s3_errors: Lack | None = None  # the seconds for which S3 fails
    s3_delay: Lack | None = None  # the seconds for which S3 delays every answer, by `delay` seconds
    no_capacity: Lack | None = None  # the seconds for which no instance starts
    delay: Annotated[float, Field(ge=0.001, le=60)] | None = None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Fault:
        kinds = [name for name in Fault.model_fields if name not in ("at", "delay")]
        if sum(getattr(self, name) is not None for name in kinds) != 1:
            msg = f"one of {', '.join(kinds)}"
            raise ValueError(msg)
        if (self.s3_delay is None) != (self.delay is None):
            msg = "both of s3_delay and delay, or neither"
            raise ValueError(msg)
        return self


class Range(Part):
    """An accepted range of a number, both ends included, written as 3 or 3..10."""

    least: float
    most: float

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, given: Any) -> Any:
        found = _RANGE.fullmatch(str(given))
        if found is None:
            msg = "a number, or a range such as 3..10"
            raise ValueError(msg)
        least, most = float(found[1]), float(found[2] or found[1])
        if most < least:
            msg = f"a range such as {most:g}..{least:g}, the smaller number first"
            raise ValueError(msg)
        return {"least": least, "most": most}

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least:g}"
        return f"at most {self.most:g}" if self.least == 0 else f"{self.least:g} to {self.most:g}"


class Expected(Part):
    """The conditions that must hold at the end. None is not checked. No answer may be wrong."""

    # Of the requests, after the retries of a client.
    answered_percent: Annotated[float, Field(ge=0, le=100)] = 100.0
    p99_seconds: Duration | None = None
    loads: Range | None = None
    unloads: Range | None = None
    replaced_instances: Range | None = None
    most_instances: Range | None = None  # at one time
    instances_at_end: Range | None = None
    alarms: list[str] = Field(default_factory=list)  # those that fire, without the name of the endpoint
    no_alarms: list[str] = Field(default_factory=list)
    failing_models: list[Number] = Field(default_factory=list)  # whose requests do not count as unanswered
    recovers: bool = True  # every other model must answer once more at the end


_Faults = Annotated[
    Fault,
    at_most("models", lambda fault: fault.corrupt),
    at_most("instances", lambda fault: fault.kill or fault.hang),
]


class Scenario(TrafficFile):
    """A scenario. Sizes are in bytes; None stands for those of the instance type."""

    _name: str = PrivateAttr("")
    about: Annotated[str, Field(min_length=1)]  # its story, in one or two sentences
    models: Annotated[int, Field(ge=1, le=MOST_MODELS)]
    instances: Annotated[int, Field(ge=1, le=100)] = 1
    model_size: Annotated[Size, Field(le=1 << 30)] = 0  # of each, which is its memory on a GPU
    gpu_memory: Size | None = None  # for models, of each GPU
    disk: Size | None = None  # for copies of models, of each instance
    # Seconds of alarms, scaling and deployments per second of the wall clock, and the number of requests as
    # which each counts.
    speed: Annotated[int, Field(ge=1, le=600)] = SPEED
    fleet: dict[str, Annotated[Any, AfterValidator(_single)]] = Field(
        default_factory=dict
    )  # settings besides those of cdk.json
    faults: Annotated[list[_Faults], Field(max_length=1000, default_factory=list)]
    expect: Annotated[Expected, at_most("models", lambda part: max(part.failing_models, default=None))] = (
        Expected()
    )

    @property
    def name(self) -> str:
        """The name of its file."""
        return self._name

    def named(self, name: str) -> Scenario:
        """Return it under a name."""
        self._name = name
        return self


def requests(scenario: Scenario) -> Schedule:
    """Return all requests in the order of their times. The same seed gives the same ones.

    A minute of a fast clock has the requests of a second or less, and would have the noise of so few. So each
    short part of a minute has its share of the requests, at random times within it.
    """
    drawn = streams.arrivals(
        scenario.traffic, models=scenario.models, seed=scenario.seed, part_s=_PART_S / scenario.speed
    )
    names = tuple(target_of(number) for number in range(1, scenario.models + 1))
    return Schedule.of(itertools.chain(scenario.trace, drawn), names)


def target_of(number: int) -> str:
    """Return the name of a model's artifact."""
    return f"model-{number}.tar.gz"
