"""Scenarios from YAML files: all mistakes of a file are one error."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.suggest import did_you_mean
from triton_models.load import schedule
from triton_rehearsal.scenario.scenario import MOST_MODELS, MOST_REQUESTS, Expected, Fault, Scenario, Stream

SCENARIO = Check(id="scenario", source=FROM_ARGUMENTS)

_PARTS: Mapping[str, type[BaseModel]] = {"traffic": Stream, "faults": Fault, "expect": Expected}
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
_STORIES = files("triton_rehearsal.scenario") / "stories"
_LONGEST_FILE = 1 << 20
_NUMBERS = [str(number) for number in range(1, MOST_MODELS + 1)]

# A value in a message is shortened, because a file may have any.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 100


class _Loader(yaml.SafeLoader):
    """Refuses aliases, because a few lines of them can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            what = "there is an alias, *NAME; write its value again"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=self.get_mark())
        return super().compose_node(parent, index)


def shipped() -> Sequence[str]:
    """Return the names of the scenarios that come with the rehearsal."""
    return sorted(
        each.name.removesuffix(".yaml") for each in _STORIES.iterdir() if each.name.endswith(".yaml")
    )


def read(name: str) -> Scenario:
    """Read a scenario from a file at a path, or the shipped one of a name."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        text = _text(path)
        return parse(text, name=path.stem, where=name, folder=path.parent)
    if name not in shipped():
        raise SCENARIO.error(
            what=f"no scenario {name!r}",
            where="--scenario",
            fix=did_you_mean(
                name, shipped(), otherwise=f"name a YAML file, or one of {', '.join(shipped())}"
            ),
        )
    return parse((_STORIES / f"{name}.yaml").read_text(), name=name, where=name, folder=Path())


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            what = "it is not a file"
        elif path.stat().st_size > _LONGEST_FILE:
            what = f"it has more than {_LONGEST_FILE} bytes"
        else:
            return path.read_text()
    except (OSError, UnicodeError, ValueError) as error:
        what = type(error).__name__ if isinstance(error, UnicodeError) else str(error)
    raise SCENARIO.error(
        what=f"the file cannot be read: {what}",
        where=str(path),
        fix=f"name a text file of at most {_LONGEST_FILE} bytes",
    )


def parse(text: str, *, name: str, where: str, folder: Path) -> Scenario:
    """Return the scenario in YAML. The path of its trace is relative to a folder."""
    try:
        given = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a 13th month, or 3,000 brackets
        what = " ".join(str(error).split())
        raise SCENARIO.error(what=what, where=where, fix="write it as YAML") from None
    if isinstance(given, dict) and "trace" in given:
        found = schedule.read(folder / str(given["trace"]), _NUMBERS, most=MOST_REQUESTS)
        given["trace"] = list(zip(found.at.tolist(), (found.model + 1).tolist(), strict=True))
    try:
        return Scenario.model_validate(given).named(name)
    except ValidationError as error:
        raise FleetError(_problem(each, where) for each in error.errors()) from None


def _problem(error: Mapping[str, Any], where: str) -> Problem:
    place, name = error["loc"], ""
    if place and isinstance(place[-1], str):
        *place, name = place
    what, fix = f"{name or 'it'} is {_SHOWN.repr(error['input'])}", f"give {error['msg']}"
    for said, better in _WORDS:
        fix = fix.replace(said, better)
    if error["type"] == "missing":
        what, fix = f"{name} is missing", f"give {name}"
    elif error["type"] == "model_type":
        fix = "give fields with values"
    elif error["type"] == "extra_forbidden":
        part = _PARTS.get(str(place[0]), Scenario) if place else Scenario
        what = f"unknown field {_SHOWN.repr(name)}"
        fix = did_you_mean(name, part.model_fields, otherwise="remove it")
    parts = " ".join(each if isinstance(each, str) else str(each + 1) for each in place)
    return SCENARIO.problem(what=what, where=f"{where}, {parts}" if parts else where, fix=fix)
