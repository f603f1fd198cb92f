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
from triton_rehearsal.scenario.fields import DAY_S, SCENARIO, Fields, shown
from triton_rehearsal.scenario.scenario import Expected, Fault, Kind, Range, Request, Scenario, Stream

_RANGE = re.compile(r"(?P<least>\d{1,12}(\.\d+)?)(\.\.(?P<most>\d{1,12}(\.\d+)?))?", re.ASCII)
_OF_INSTANCES = (Kind.KILL, Kind.HANG)
_LASTING = (Kind.S3_ERRORS, Kind.S3_DELAY, Kind.NO_CAPACITY)

# All requests of a scenario are drawn before the first one is sent, at about half a kilobyte each.
MOST_REQUESTS = 1_000_000
_MOST_MODELS, _MOST_INSTANCES, _MOST_SEED = 5000, 100, 2**31
_MOST_MODEL_BYTES = 1 << 30
_LONGEST_FILE, _LONGEST_TRACE = 1 << 20, 64 << 20


class _Loader(yaml.SafeLoader):
    """Refuses aliases, because a few lines of them can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            what = "there is an alias, *NAME; write its value again"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=self.get_mark())
        return super().compose_node(parent, index)


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
        text = _text(path, most=_LONGEST_FILE)
        return parse(text, name=path.stem, where=name, folder=path.parent)
    if name not in shipped():
        raise SCENARIO.error(
            what=f"no scenario {name!r}",
            where="--scenario",
            expected=f"a YAML file, or one of {', '.join(shipped())}",
            fix=did_you_mean(name, shipped(), otherwise="correct the path"),
        )
    text = (files("triton_rehearsal.scenario") / "stories" / f"{name}.yaml").read_text()
    return parse(text, name=name, where=name, folder=Path())


def _text(path: Path, *, most: int) -> str:
    try:
        if path.exists() and not path.is_file():
            what = "it is not a file"
        elif path.stat().st_size > most:
            what = f"it has more than {most} bytes"
        else:
            return path.read_text()
    except (OSError, UnicodeError, ValueError) as error:
        what = type(error).__name__ if isinstance(error, UnicodeError) else str(error)
    raise SCENARIO.error(
        what=f"the file cannot be read: {what}",
        where=str(path),
        expected=f"a text file of at most {most} bytes",
        fix="correct the path or the file",
    )


def parse(text: str, *, name: str, where: str, folder: Path) -> Scenario:
    """Return the scenario in YAML.

    Args:
        text: The YAML.
        name: The scenario's name.
        where: The file, for errors.
        folder: The folder to which the path of a trace is relative.

    Raises:
        FleetError: It has mistakes.
    """
    try:
        given = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # such as the date 2026-13-01, or 3,000 brackets
        raise SCENARIO.error(
            what=" ".join(str(error).split()), where=where, expected="YAML", fix="correct the file"
        ) from None
    problems: list[Problem] = []
    fields = Fields(given, where=where, problems=problems)
    about, models = fields.text("about"), fields.count("models", most=_MOST_MODELS)
    instances = fields.count("instances", 1, most=_MOST_INSTANCES)
    scenario = Scenario(
        name=name,
        about=about,
        models=models,
        instances=instances,
        model_bytes=_size(fields, "model_size", most=_MOST_MODEL_BYTES) or 0,
        gpu_memory=_size(fields, "gpu_memory"),
        disk=_size(fields, "disk"),
        speed=fields.count("speed", SPEED, most=600),
        fleet=_settings(fields),
        seed=fields.count("seed", 1, least=0, most=_MOST_SEED),
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
    wanted = len(scenario.trace) + sum(stream.rate * stream.seconds for stream in scenario.streams)
    if wanted > MOST_REQUESTS:
        fields.problem(f"about {wanted:.0f} requests", expected=f"at most {MOST_REQUESTS} requests in all")
    if problems:
        raise FleetError(problems)
    return scenario


def _size(fields: Fields, name: str, *, most: float = float("inf")) -> int | None:
    given = fields.raw(name)
    if given is None:
        return None
    try:
        size = read_size(str(given), where=name)
    except FleetError as error:
        fields.problem(f"{name}: {shown(given)}", expected=error.problems[0].expected)
        return None
    if size > most:
        fields.problem(f"{name}: {shown(given)}", expected=f"{name}, at most {most} bytes")
        return None
    return size


def _settings(fields: Fields) -> Mapping[str, str]:
    """Return the settings of the fleet as the CDK's command line takes them."""
    given = fields.raw("fleet") or {}
    if not isinstance(given, Mapping) or any(isinstance(each, list | dict) for each in given.values()):
        fields.problem(f"fleet: {shown(given)}", expected="fleet, settings of cdk.json that are no lists")
        return {}
    return {str(name): str(value) for name, value in given.items()}


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    given = fields.items(name)
    if any(not isinstance(each, str) for each in given):
        fields.problem(f"{name}: {shown(given)}", expected=f"{name}, a list of names")
    return tuple(map(str, given))


def _stream(given: Any, models: int, *, where: str, problems: list[Problem]) -> Stream:
    fields = Fields(given, where=where, problems=problems)
    first = fields.count("first_model", 1, most=models)
    stream = Stream(
        rate=fields.number("requests_per_second", least=0.001, most=10_000),
        seconds=fields.number("seconds", least=0.001, most=DAY_S),
        start=fields.number("start", 0.0, most=DAY_S),
        first=first,
        last=fields.count("last_model", models, least=first, most=models),
        popularity=fields.number("popularity", 0.0, most=10),
    )
    fields.end()
    return stream


def _fault(given: Any, models: int, instances: int, *, where: str, problems: list[Problem]) -> Fault:
    fields = Fields(given, where=where, problems=problems)
    at = fields.number("at", most=DAY_S)
    kinds = [each.value for each in Kind]
    named = [name for name in fields.names if name in kinds]
    if len(named) != 1:
        fields.problem(f"{len(named)} kinds of faults", expected=f"one of {', '.join(kinds)}")
        return Fault(kind=Kind.KILL, at=at)
    kind = Kind(named[0])
    seconds = fields.number(kind.value, least=0.001, most=3600) if kind in _LASTING else 0.0
    most = instances if kind in _OF_INSTANCES else models
    target = 1 if kind in _LASTING else fields.count(kind.value, most=most)
    delay = fields.number("delay", least=0.001, most=60) if kind is Kind.S3_DELAY else 0.0
    fields.end()
    return Fault(kind=kind, at=at, target=target, seconds=seconds, delay=delay)


def _expected(given: Any, models: int, *, where: str, problems: list[Problem]) -> Expected:
    fields = Fields(given, where=where, problems=problems)
    failing = fields.items("failing_models")
    if any(not isinstance(each, int) or not 1 <= each <= models for each in failing):
        fields.problem(f"failing_models: {shown(failing)}", expected=f"numbers of models from 1 to {models}")
        failing = []
    least = fields.number("answered_percent", 100.0, most=100)
    p99 = fields.raw("p99_seconds")
    expected = Expected(
        answered=Range(least=least / 100, most=1.0),
        p99=None if p99 is None else Range(most=fields.number("p99_seconds", least=0.001, most=DAY_S)),
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
        fields.problem(f"{name}: {shown(given)}", expected=f"{name}, a number or a range such as 3..10")
        return None
    return Range(least=float(found["least"]), most=float(found["most"] or found["least"]))


def _trace(fields: Fields, models: int, folder: Path, problems: list[Problem]) -> tuple[Request, ...]:
    """Return the requests of a CSV file with the columns `seconds` and `model`."""
    name = fields.raw("trace")
    if name is None:
        return ()
    path = folder / str(name)
    rows = csv.DictReader(_text(path, most=_LONGEST_TRACE).splitlines())
    found: list[Request] = []
    try:
        for row in rows:
            found.append(_request(row, models, after=found[-1].at if found else 0.0))
    except (_RowError, csv.Error) as error:
        line = rows.line_num + isinstance(error, csv.Error)  # which is raised before the line is counted
        problems.append(
            SCENARIO.problem(
                what=str(error),
                where=f"{path}, line {line}",
                expected=f"seconds,model: times from 0 to {DAY_S:g} in order, and models from 1 to {models}",
                fix="correct the file",
            )
        )
    return tuple(found)


class _RowError(ValueError):
    """A row of a trace is wrong."""


def _request(row: Mapping[str, Any], models: int, *, after: float) -> Request:
    try:
        request = Request(at=float(row["seconds"]), model=int(row["model"]))
    except (KeyError, TypeError, ValueError):
        # Without the row itself, because a path may lead to any file.
        msg = "there are no two such numbers"
        raise _RowError(msg) from None
    if not after <= request.at <= DAY_S:
        msg = f"{request.at:g} s follows {after:g} s"
        raise _RowError(msg)
    if not 1 <= request.model <= models:
        msg = f"model {shown(request.model)}"
        raise _RowError(msg)
    return request
