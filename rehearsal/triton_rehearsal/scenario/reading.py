"""Scenarios from YAML files: all mistakes of a file are one error."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from triton_models.base.errors import FleetError, Problem
from triton_models.base.suggest import did_you_mean
from triton_rehearsal.aws import SPEED
from triton_rehearsal.hosting.budget import read_size
from triton_rehearsal.scenario.fields import SCENARIO, Fields
from triton_rehearsal.scenario.scenario import Expected, Fault, Kind, Range, Request, Scenario, Stream

_RANGE = re.compile(r"(?P<least>\d+(\.\d+)?)(\.\.(?P<most>\d+(\.\d+)?))?")
_OF_INSTANCES = (Kind.KILL, Kind.HANG)
_LASTING = (Kind.S3_ERRORS, Kind.S3_DELAY, Kind.NO_CAPACITY)


def shipped() -> Sequence[str]:
    """Return the names of the scenarios that come with the rehearsal."""
    found = files("triton_rehearsal.scenario") / "stories"
    return sorted(each.name.removesuffix(".yaml") for each in found.iterdir() if each.name.endswith(".yaml"))


def read(name: str) -> Scenario:
    """Read a scenario.

    Args:
        name: The path of a file, or the name of a shipped scenario.

    Raises:
        FleetError: There is no such file or scenario, or it has mistakes.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return parse(_text(path), name=path.stem, where=name, folder=path.parent)
    if name not in shipped():
        raise SCENARIO.error(
            what=f"no scenario {name!r}",
            where="--scenario",
            expected=f"a YAML file, or one of {', '.join(shipped())}",
            fix=did_you_mean(name, shipped(), otherwise="correct the path"),
        )
    text = (files("triton_rehearsal.scenario") / "stories" / f"{name}.yaml").read_text()
    return parse(text, name=name, where=name, folder=Path())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeError) as error:
        raise SCENARIO.error(
            what=f"the file cannot be read: {error}",
            where=str(path),
            expected="a YAML file",
            fix="correct the path or the file",
        ) from error


def parse(text: str, *, name: str, where: str, folder: Path) -> Scenario:
    """Return the scenario in a text.

    Args:
        text: The YAML.
        name: The scenario's name.
        where: The file, for errors.
        folder: The folder to which the path of a trace is relative.

    Raises:
        FleetError: It has mistakes.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SCENARIO.error(
            what=" ".join(str(error).split()), where=where, expected="YAML", fix="correct the file"
        ) from error
    problems: list[Problem] = []
    fields = Fields(given, where=where, problems=problems)
    about, models = fields.text("about"), fields.count("models", most=5000)
    instances = fields.count("instances", 1)
    scenario = Scenario(
        name=name,
        about=about,
        models=models,
        instances=instances,
        model_bytes=_size(fields, "model_size") or 0,
        gpu_memory=_size(fields, "gpu_memory"),
        disk=_size(fields, "disk"),
        speed=fields.number("speed", SPEED, least=1, most=600),
        fleet=_settings(fields),
        seed=fields.count("seed", 1, least=0),
        streams=tuple(
            _stream(each, models, where=f"{where}, traffic {number}", problems=problems)
            for number, each in enumerate(fields.items("traffic"), start=1)
        ),
        trace=_trace(fields, models, folder, problems),
        faults=tuple(
            _fault(each, models, instances, where=f"{where}, fault {number}", problems=problems)
            for number, each in enumerate(fields.items("faults"), start=1)
        ),
        expected=_expected(fields.raw("expect") or {}, models, where=f"{where}, expect", problems=problems),
    )
    fields.end()
    if not scenario.streams and not scenario.trace and not problems:
        fields.problem("it has no requests", expected="traffic or trace", fix="add traffic")
    if problems:
        raise FleetError(problems)
    return scenario


def _size(fields: Fields, name: str) -> int | None:
    given = fields.raw(name)
    if given is None:
        return None
    try:
        return read_size(str(given), where=name)
    except FleetError as error:
        fields.problem(error.problems[0].what, expected=error.problems[0].expected)
        return None


def _settings(fields: Fields) -> Mapping[str, str]:
    """Return the settings of the fleet as the CDK's command line takes them."""
    given = fields.raw("fleet") or {}
    if not isinstance(given, Mapping) or any(isinstance(each, list | dict) for each in given.values()):
        fields.problem(f"fleet: {given!r}", expected="fleet, settings of cdk.json that are no lists")
        return {}
    return {name: str(value) for name, value in given.items()}


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    given = fields.items(name)
    if any(not isinstance(each, str) for each in given):
        fields.problem(f"{name}: {given!r}", expected=f"{name}, a list of names")
    return tuple(map(str, given))


def _stream(given: Any, models: int, *, where: str, problems: list[Problem]) -> Stream:
    fields = Fields(given, where=where, problems=problems)
    first = fields.count("first_model", 1, most=models)
    stream = Stream(
        rate=fields.number("requests_per_second", least=0.001, most=10_000),
        seconds=fields.number("seconds", least=0.001, most=86_400),
        start=fields.number("start", 0.0),
        first=first,
        last=fields.count("last_model", models, least=first, most=models),
        popularity=fields.number("popularity", 0.0, most=10),
    )
    fields.end()
    return stream


def _fault(given: Any, models: int, instances: int, *, where: str, problems: list[Problem]) -> Fault:
    fields = Fields(given, where=where, problems=problems)
    at = fields.number("at")
    kinds = [each.value for each in Kind]
    named = [name for name in fields.names if name in kinds]
    if len(named) != 1:
        fields.problem(f"{len(named)} kinds of faults", expected=f"one of {', '.join(kinds)}")
        return Fault(kind=Kind.KILL, at=at)
    kind = Kind(named[0])
    most = instances if kind in _OF_INSTANCES else models if kind is Kind.CORRUPT else 3600
    value = fields.number(kind.value, least=0.001 if kind in _LASTING else 1, most=most)
    delay = fields.number("delay", least=0.001, most=60) if kind is Kind.S3_DELAY else 0.0
    fields.end()
    return Fault(
        kind=kind,
        at=at,
        target=1 if kind in _LASTING else int(value),
        seconds=value if kind in _LASTING else 0.0,
        delay=delay,
    )


def _expected(given: Any, models: int, *, where: str, problems: list[Problem]) -> Expected:
    fields = Fields(given, where=where, problems=problems)
    failing = fields.items("failing_models")
    if any(not isinstance(each, int) or not 1 <= each <= models for each in failing):
        fields.problem(f"failing_models: {failing!r}", expected=f"numbers of models from 1 to {models}")
        failing = []
    least = fields.number("answered_percent", 100.0, most=100)
    p99 = fields.raw("p99_seconds")
    expected = Expected(
        answered=Range(least=least / 100, most=1.0),
        p99=None if p99 is None else Range(most=fields.number("p99_seconds", least=0.001)),
        loads=_range(fields, "loads"),
        unloads=_range(fields, "unloads"),
        replaced=_range(fields, "replaced_instances"),
        most_instances=_range(fields, "most_instances"),
        instances_at_end=_range(fields, "instances_at_end"),
        alarms=_texts(fields, "alarms"),
        no_alarms=_texts(fields, "no_alarms"),
        failing=frozenset(failing),
        recovers=fields.flag("recovers", default=True),
    )
    fields.end()
    return expected


def _range(fields: Fields, name: str) -> Range | None:
    given = fields.raw(name)
    if given is None:
        return None
    found = _RANGE.fullmatch(str(given))
    if found is None or float(found["most"] or found["least"]) < float(found["least"]):
        fields.problem(f"{name}: {given!r}", expected=f"{name}, a number or a range such as 3..10")
        return None
    return Range(least=float(found["least"]), most=float(found["most"] or found["least"]))


def _trace(fields: Fields, models: int, folder: Path, problems: list[Problem]) -> tuple[Request, ...]:
    """Return the requests of a CSV file with the columns `seconds` and `model`."""
    name = fields.raw("trace")
    if name is None:
        return ()
    path = folder / str(name)
    found: list[Request] = []
    for number, row in enumerate(csv.DictReader(_text(path).splitlines()), start=2):
        of = Fields(row, where=f"{path}, line {number}", problems=problems)
        try:
            request = Request(at=float(row["seconds"]), model=int(row["model"]))
        except (KeyError, TypeError, ValueError):
            of.problem(f"{dict(row)}", expected="seconds,model: a number and the number of a model")
            break
        if found and request.at < found[-1].at:
            of.problem(f"{request.at:g} s follows {found[-1].at:g} s", expected="times in order")
            break
        if not 1 <= request.model <= models:
            of.problem(f"model {request.model}", expected=f"a model from 1 to {models}")
            break
        found.append(request)
    return tuple(found)
