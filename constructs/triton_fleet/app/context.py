"""The configuration, read from CDK context and the environment: here and nowhere else.

`cdk.json` holds it under one key, `tritonFleet`. On the command line every entry can be given on its own:
`cdk deploy --all -c instance_type=ml.g5.4xlarge -c max_capacity=8`. There every value is a string, and
precedes that of the selected stage, which precedes that of all stages.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from constructs import Node

from triton_fleet import CapacitySize
from triton_fleet.app.config import DECLARED, OFF, FleetConfig, Requests, Vpc
from triton_fleet.app.problems import problems
from triton_fleet.app.stages import (
    STAGE,
    STAGES,
    in_order,
    new_providers,
    repeated_keys,
    selected,
    stage_choice,
    stage_environment,
    stage_names,
)
from triton_fleet.arguments.collector import ProblemCollector
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.suggest import did_you_mean

UNKNOWN_CONFIG_KEY = Check(id="unknown-config-key", source=FROM_ARGUMENTS)
CONFIG_VALUE_KIND = Check(id="config-value-kind", source=FROM_ARGUMENTS)


CONTEXT_KEY = "tritonFleet"

_PLACE = f"the context {CONTEXT_KEY!r} (cdk.json, or -c KEY=VALUE)"

# The type of each key, as it is written in the code.
_KEYS: Mapping[str, str] = {
    each.name: str(each.type) for each in fields(FleetConfig) if each.metadata.get("key", True)
}

_PORTION = re.compile(r"([0-9]+)( ?%)?")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip()


def _optional_string(value: object) -> str | None:
    return None if value is None else _string(value) or None


def _integer(value: object) -> int:
    if isinstance(value, (bool, float)) or not isinstance(value, (int, str)):
        raise ValueError
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    return float(value)


def _optional_number(value: object) -> float | None:
    return None if value in (None, "") else _number(value)


def _names(value: object) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise ValueError
    return tuple(name for name in map(_string, listed) if name)


def _truth(value: object) -> bool:
    known = {"true": True, "false": False}
    if isinstance(value, str):
        value = known.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError
    return value


def _addresses(value: object) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [each.partition("=") for each in value.split(",") if each.strip()]
        if not all(mark for _, mark, _ in pairs):
            raise ValueError
        value = {name.strip(): address.strip() for name, _, address in pairs}
    if not isinstance(value, dict):
        raise ValueError
    return {_string(name): _string(address) for name, address in value.items()}


def _portion(value: object) -> CapacitySize | None:
    """Percent of the fleet, as in "25%", or a number of instances; None for an empty string."""
    if value == "":
        return None
    if isinstance(value, (bool, float)) or not (parts := _PORTION.fullmatch(str(value).strip())):
        raise ValueError
    return CapacitySize(value=int(parts[1]), by_percent=parts[2] is not None)


def _requests(value: object) -> Requests:
    """Bodies of requests by model: JSON documents, or strings that hold one."""
    if value == DECLARED:
        return DECLARED
    if isinstance(value, str):
        value = {} if value in ("", OFF) else json.loads(value)
    if not isinstance(value, dict):
        raise ValueError
    return {name: each if isinstance(each, str) else json.dumps(each) for name, each in value.items()}


def _vpc(value: object) -> Vpc | None:
    if isinstance(value, str):
        value = json.loads(value) if value.strip() else None
    if value is None:
        return None
    if not isinstance(value, dict) or not {"id", "subnets"} <= value.keys() <= set(Vpc.__slots__):
        raise ValueError
    groups = _names(value.get("security_groups", []))
    return Vpc(id=_string(value["id"]), subnets=_names(value["subnets"]), security_groups=groups)


# For each type of a field: how to read it from JSON or from `-c`, which gives text, and what to ask for.
_READERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "str": (_string, "a string"),
    "str | None": (_optional_string, "a string"),
    "int": (_integer, "an integer"),
    "str | int": (lambda value: str(value).strip(), "an integer"),
    "float": (_number, "a number"),
    "float | None": (_optional_number, "a number"),
    "bool": (_truth, "true or false"),
    "Mapping[str, str]": (
        _addresses,
        "an object of variables and addresses, or NAME=ADDRESS with commas between",
    ),
    "Requests": (_requests, 'an object of models and their requests, "declared" or "off"'),
    "CapacitySize | None": (_portion, 'percent of the fleet, such as "25%", or a number of instances'),
    "Vpc | None": (_vpc, 'an object of "id", "subnets" and optionally "security_groups"'),
    "tuple[str, ...]": (_names, "a list of names, or names with commas between them"),
}


def fleet_configs(
    node: Node, *, environment: Mapping[str, str] = os.environ, file: Path = Path("cdk.json")
) -> tuple[FleetConfig, ...]:
    """Read the configuration of every selected stage from the context of the app.

    All stages are checked, also those that are not selected.

    Args:
        node: The app's node.
        environment: The process environment. Only CDK_DEFAULT_REGION is read: the CLI sets it to where it
            would deploy, so a region that cannot work is found before that.
        file: The file from which the CLI takes the context. It is read for repeated keys only, of which the
            CLI hands on the last.

    Returns:
        One configuration per stage; without stages, that of the fleet.

    Raises:
        FleetError: Unknown keys, values of the wrong kind, unknown or unfitting instance type, release or
            region, an impossible capacity range, and stages that are unknown, without an account or of the
            same name: all of them together.
    """
    collector = ProblemCollector(_PLACE)
    collector.add(repeated_keys(file, below=CONTEXT_KEY))
    given = node.get_all_context()
    shared = dict(_object(CONTEXT_KEY, given.get(CONTEXT_KEY), collector))
    stages = {
        name: _object(f"stage {name!r}", each, collector)
        for name, each in _object(STAGES, shared.pop(STAGES, None), collector).items()
    }
    collector.add(_unknown_keys(shared, (*_KEYS, STAGES), where=collector.where))
    collector.add(_unknown_keys(_lookalikes(given), (*_KEYS, CONTEXT_KEY, STAGE), where=collector.where))
    collector.add(stage_choice(given.get(STAGE), stages, where=_PLACE))
    declared: Mapping[str | None, Mapping[str, Any]] = dict(stages.items()) or {None: {}}
    wanted = selected(given.get(STAGE), declared)
    configs = [
        _config(
            name, given if name in wanted else {}, shared, own, environment=environment, collector=collector
        )
        for name, own in declared.items()
    ]
    collector.add(stage_names(configs, together=wanted, where=collector.where(STAGES)))
    collector.add(new_providers(configs, where=collector.where(STAGES)))
    collector.raise_if_any()
    return tuple(each for each in in_order(configs) if each.stage in wanted)


def fleet_config(node: Node, *, environment: Mapping[str, str] = os.environ) -> FleetConfig:
    """Read the configuration of a fleet without stages, or of the selected one, as `fleet_configs` does.

    Raises:
        FleetError: As `fleet_configs`; or several stages are selected.
    """
    configs = fleet_configs(node, environment=environment)
    if len(configs) > 1:
        raise_if_any(stage_choice(None, [each.stage or "" for each in configs], where=_PLACE))
    return configs[0]


def _object(name: str, given: object, collector: ProblemCollector) -> Mapping[str, Any]:
    """Return a JSON object of the context; an empty one if it is missing, or something else."""
    if given is None or isinstance(given, Mapping):
        return given or {}
    collector.add(_wrong_kind(name, given, "an object of keys and values", where=collector.where(name)))
    return {}


class _StageProblems(ProblemCollector):
    """Collects the problems of a stage, and says of each key whether the stage or all of them share it."""

    def __init__(self, stage: str | None, own: Collection[str]) -> None:
        super().__init__(_PLACE)
        self._stage, self._own = stage, own

    def where(self, argument: str) -> str:
        own = argument in self._own
        return f"{argument} of stage {self._stage!r} in {_PLACE}" if own else super().where(argument)


def _config(
    stage: str | None,
    given: Mapping[str, object],
    shared: Mapping[str, object],
    own: Mapping[str, object],
    *,
    environment: Mapping[str, str],
    collector: ProblemCollector,
) -> FleetConfig:
    """Read and check the configuration of one stage, or of the fleet without stages.

    Args:
        stage: The stage's name; None without stages.
        given: The values on the command line, which precede all others.
        shared: The values for all stages.
        own: The stage's values, which precede the shared ones.
        environment: The process environment.
        collector: Collects the mistakes; those in shared values once for all stages.
    """
    found = _StageProblems(stage, {key for key in own if given.get(key) is None})
    found.add(_unknown_keys(own, _KEYS, where=found.where))
    config = FleetConfig(**_values(_merged(shared, own, given), found), stage=stage)
    if stage and given.get("name") is None and "name" not in own:
        config = replace(config, name=f"{config.name}-{stage}")
    config = replace(config, deployed_in=config.region or environment.get("CDK_DEFAULT_REGION"))
    found.add(problems(config, found, region=config.deployed_in))
    if stage:
        found.add(stage_environment(config, where=f"stage {stage!r} of {_PLACE}"))
    collector.add(found.problems)
    return config


def _merged(*sources: Mapping[str, object]) -> dict[str, object]:
    """Return the last value of each key that is not null."""
    return {key: value for each in sources for key, value in each.items() if value is not None}


def _values(given: Mapping[str, object], collector: ProblemCollector) -> dict[str, Any]:
    """Return the value of each key; a missing key keeps its default, and so does one of the wrong kind."""
    found = {}
    for key, kind in _KEYS.items():
        if key not in given:
            continue
        read, expected = _READERS[kind]
        try:
            found[key] = read(given[key])
        except ValueError:
            collector.add(_wrong_kind(key, given[key], expected, where=collector.where(key)))
    return found


def _unknown_keys(
    given: Iterable[str], known: Collection[str], *, where: Callable[[str], str]
) -> Iterator[Problem]:
    """Yield a problem per key that nothing reads."""
    for key in given:
        if key not in known:
            yield UNKNOWN_CONFIG_KEY.problem(
                what=f"unknown key {key!r}",
                where=where(key),
                expected=f"one of {', '.join(known)}",
                why="it would be ignored, and the default deployed in its place",
                fix=did_you_mean(key, known, otherwise="remove it"),
            )


def _lookalikes(given: Iterable[str]) -> Iterator[str]:
    """Yield the keys of the context that resemble one of a fleet; it holds the CDK's own as well."""
    known = (*_KEYS, CONTEXT_KEY, STAGE)
    return (key for key in given if _resembles(key, known))


def _resembles(key: str, known: Sequence[str]) -> bool:
    """Return whether an unknown key is probably a misspelling of a known one."""
    close = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.8)
    return bool(close) and key not in known


def _wrong_kind(key: str, given: object, expected: str, *, where: str) -> Iterator[Problem]:
    yield CONFIG_VALUE_KIND.problem(
        what=f"{key} is {given!r}", where=where, expected=expected, fix=f"give {expected}"
    )
