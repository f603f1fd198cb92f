"""The file of a scenario, which `fleet plan`, `fleet load` and rehearsals read: all mistakes are one error.

It needs the packages of a rehearsal, so nothing imports it before a scenario is read.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.suggest import did_you_mean
from triton_models.load import schedule

SCENARIO = Check(id="scenario", source=FROM_ARGUMENTS)

MOST_REQUESTS = 1_000_000
"""All requests of a scenario are drawn before the first one is sent."""

_MOST_MODELS = 20_000
_DAY_S = 86_400.0
_LONGEST_FILE = 1 << 20

# pydantic's words, and ours.
_WORDS = (
    ("Value error, ", ""),
    ("Input should be ", ""),
    ("a valid integer", "an integer"),
    ("a valid ", "a "),
    ("give greater", "give a number greater"),
    ("give less", "give a number less"),
    ("String should have", "a string of"),
    ("List should have", "a list of"),
)

# A value in a message is shortened, because a file may have any.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 100

Time = Annotated[float, Field(ge=0, le=_DAY_S)]
Duration = Annotated[float, Field(ge=0.001, le=_DAY_S)]
Number = Annotated[int, Field(ge=1)]
"""The number of a model or an instance."""


def at_most(name: str, number: Callable[[Any], int | None]) -> AfterValidator:
    """Return the check that a part counts no further than a field of its scenario."""

    def check(part: Any, info: ValidationInfo) -> Any:
        value, most = number(part), info.data.get(name)
        if value is not None and most is not None and value > most:
            msg = f"a number up to {most}, as in `{name}`, not {value}"
            raise ValueError(msg)
        return part

    return AfterValidator(check)


class Part(BaseModel):
    """A part of a scenario, without fields that it does not know."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, str_strip_whitespace=True
    )


class Stream(Part):
    """Requests at a constant rate, for some of the models; Poisson arrivals."""

    requests_per_second: Annotated[float, Field(ge=0.001, le=10_000)]
    seconds: Duration
    start: Time = 0.0
    first_model: Number = 1
    last_model: Number | None = None
    # The exponent of Zipf's law over its models: 0 asks all of them equally often.
    popularity: Annotated[float, Field(ge=0, le=10)] = 0.0

    @property
    def most(self) -> int:
        """The largest number of a model that it names."""
        return max(self.first_model, self.last_model or 1)

    @model_validator(mode="after")
    def _in_order(self) -> Stream:
        if self.last_model is not None and self.last_model < self.first_model:
            msg = f"last_model {self.first_model} or more, as in `first_model`, not {self.last_model}"
            raise ValueError(msg)
        return self


class TrafficFile(Part):
    """A scenario of which only the requests are read: the fields without a type are those of a rehearsal."""

    about: Any = ""
    models: Annotated[int, Field(ge=1, le=_MOST_MODELS)] | None = None
    instances: Any = None
    model_size: Any = None
    gpu_memory: Any = None
    disk: Any = None
    speed: Any = None
    fleet: Any = None
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1
    traffic: Annotated[
        list[Annotated[Stream, at_most("models", lambda part: part.most)]], Field(max_length=1000)
    ] = []
    # The second and the model of each request.
    trace: Annotated[
        list[tuple[float, int]],
        at_most("models", lambda trace: max((model for _, model in trace), default=None)),
    ] = []
    faults: Any = None
    expect: Any = None

    @model_validator(mode="after")
    def _has_requests(self) -> TrafficFile:
        count = len(self.trace) + sum(part.requests_per_second * part.seconds for part in self.traffic)
        if not 0 < count <= MOST_REQUESTS:
            msg = f"traffic or a trace with up to {MOST_REQUESTS} requests in all, not {count:.0f}"
            raise ValueError(msg)
        return self


T = TypeVar("T", bound=TrafficFile)


class _Loader(yaml.SafeLoader):
    """Refuses aliases, because a few lines of them can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            what = "there is an alias, *NAME; write its value again"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=self.get_mark())
        return super().compose_node(parent, index)


def text_of(path: Path) -> str:
    """Return the text of a scenario's file.

    Raises:
        FleetError: It is not a file of text, or too long.
    """
    try:
        if path.exists() and not path.is_file():
            what = "it is not a file"
        elif path.stat().st_size > _LONGEST_FILE:
            what = f"it has more than {_LONGEST_FILE} bytes"
        else:
            return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError, ValueError) as error:
        what = type(error).__name__ if isinstance(error, UnicodeError) else str(error)
    raise SCENARIO.error(
        what=f"the file cannot be read: {what}",
        where=str(path),
        fix=f"name a text file of at most {_LONGEST_FILE} bytes",
    )


def parse(
    text: str,
    kind: type[T],
    *,
    where: str,
    folder: Path,
    models: Sequence[str],
    parts: Mapping[str, type[BaseModel]] = {"traffic": Stream},
) -> T:
    """Return the scenario in YAML.

    The path of its trace is relative to a folder. Besides numbers, a trace may have the names of models.

    Raises:
        FleetError: It is not a scenario, with all its mistakes.
    """
    try:
        fields = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a 13th month, or 3,000 brackets
        what = " ".join(str(error).split())
        raise SCENARIO.error(what=what, where=where, fix="write it as YAML") from None
    if isinstance(fields, dict) and "trace" in fields:
        path = folder / str(fields["trace"])
        trace = schedule.read(path, models, most=MOST_REQUESTS, quoted=False)
        fields["trace"] = list(zip(trace.at.tolist(), (trace.model + 1).tolist(), strict=True))
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise FleetError(_problem(entry, where, {**parts, "": kind}) for entry in error.errors()) from None


def _problem(error: Mapping[str, Any], where: str, parts: Mapping[str, type[BaseModel]]) -> Problem:
    place, name = error["loc"], ""
    if place and isinstance(place[-1], str):
        *place, name = place
    what, fix = f"{name or 'it'} is {_SHOWN.repr(error['input'])}", f"give {error['msg']}"
    for theirs, ours in _WORDS:
        fix = fix.replace(theirs, ours)
    if error["type"] == "missing":
        what, fix = f"{name} is missing", f"give {name}"
    elif error["type"] == "model_type":
        fix = "give fields with values"
    elif error["type"] == "extra_forbidden":
        part = parts.get(str(place[0]), parts[""]) if place else parts[""]
        what = f"unknown field {_SHOWN.repr(name)}"
        fix = did_you_mean(name, part.model_fields, otherwise="remove it")
    at = " ".join(part if isinstance(part, str) else str(part + 1) for part in place)
    return SCENARIO.problem(what=what, where=f"{where}, {at}" if at else where, fix=fix)
