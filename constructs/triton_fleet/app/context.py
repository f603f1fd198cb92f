"""The configuration, read from CDK context and the environment: here and nowhere else.

`cdk.json` holds it under one key, `tritonFleet`. On the command line every entry can be given on its own:
`cdk deploy --all -c instance_type=ml.g5.4xlarge -c max_capacity=8`. There every value is a string.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from constructs import Node

from triton_fleet import CapacitySize
from triton_fleet.app.config import DECLARED, FleetConfig, Requests
from triton_fleet.app.problems import problems
from triton_fleet.arguments.collector import ProblemCollector
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

UNKNOWN_CONFIG_KEY = Check(id="unknown-config-key", source=FROM_ARGUMENTS)
CONFIG_VALUE_KIND = Check(id="config-value-kind", source=FROM_ARGUMENTS)


CONTEXT_KEY = "tritonFleet"

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
        value = {} if value in ("", "off") else json.loads(value)
    if not isinstance(value, dict):
        raise ValueError
    return {name: each if isinstance(each, str) else json.dumps(each) for name, each in value.items()}


# For each type of a field: how to read it from JSON or from `-c`, which gives text, and what to ask for.
_READERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "str": (_string, "a string"),
    "str | None": (_optional_string, "a string"),
    "int": (_integer, "an integer"),
    "float": (_number, "a number"),
    "float | None": (_optional_number, "a number"),
    "bool": (_truth, "true or false"),
    "Mapping[str, str]": (
        _addresses,
        "an object of variables and addresses, or NAME=ADDRESS with commas between",
    ),
    "Requests": (_requests, 'an object of models and their requests, "declared" or "off"'),
    "CapacitySize | None": (_portion, 'percent of the fleet, such as "25%", or a number of instances'),
    "tuple[str, ...]": (_names, "a list of names, or names with commas between them"),
}


def fleet_config(node: Node, *, environment: Mapping[str, str] = os.environ) -> FleetConfig:
    """Read the configuration from the context of the app.

    Args:
        node: The app's node.
        environment: The process environment. Only CDK_DEFAULT_REGION is read: the CLI sets it to where it
            would deploy, so a region that cannot work is found before that.

    Raises:
        FleetError: Unknown keys, values of the wrong kind, unknown or unfitting instance type, release or
            region, and an impossible capacity range: all of them together.
    """
    collector = ProblemCollector(f"the context {CONTEXT_KEY!r} (cdk.json, or -c KEY=VALUE)")
    keys = (each for each in fields(FleetConfig) if each.metadata.get("key", True))
    types = {each.name: str(each.type) for each in keys}
    config = FleetConfig(**_values(node, types, collector))
    config = replace(config, deployed_in=config.region or environment.get("CDK_DEFAULT_REGION"))
    collector.add(problems(config, collector, region=config.deployed_in))
    collector.raise_if_any()
    return config


def _values(node: Node, types: Mapping[str, str], collector: ProblemCollector) -> dict[str, Any]:
    """Return the context's value of each key; a missing key keeps its default.

    Args:
        node: The app's node.
        types: The type of each key, as it is written in the code.
        collector: Collects the mistakes.
    """
    nested = node.try_get_context(CONTEXT_KEY) or {}
    if not isinstance(nested, dict):
        collector.add(_wrong_kind(CONTEXT_KEY, nested, "an object of keys and values", collector))
        nested = {}
    collector.add(_unknown_keys(nested, node.get_all_context(), types, collector))
    found = {}
    for key, kind in types.items():
        given = node.try_get_context(key)
        given = nested.get(key) if given is None else given
        if given is None:
            continue
        read, expected = _READERS[kind]
        try:
            found[key] = read(given)
        except ValueError:
            collector.add(_wrong_kind(key, given, expected, collector))
    return found


def _unknown_keys(
    nested: Mapping[str, object],
    flat: Mapping[str, object],
    known: Mapping[str, str],
    collector: ProblemCollector,
) -> Iterator[Problem]:
    """Keys that nothing reads. The context holds the CDK's own as well, so there only lookalikes count."""
    misread = [key for key in nested if key not in known]
    misread += [key for key in flat if _resembles(key, (*known, CONTEXT_KEY))]
    for key in misread:
        yield UNKNOWN_CONFIG_KEY.problem(
            what=f"unknown key {key!r}",
            where=collector.where(key),
            expected=f"one of {', '.join(known)}",
            why="it would be ignored, and the default deployed in its place",
            fix=did_you_mean(key, (*known, CONTEXT_KEY), otherwise="remove it"),
        )


def _resembles(key: str, known: Sequence[str]) -> bool:
    """Return whether an unknown key is probably a misspelling of a known one."""
    close = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.8)
    return bool(close) and key not in known


def _wrong_kind(key: str, given: object, expected: str, collector: ProblemCollector) -> Iterator[Problem]:
    yield CONFIG_VALUE_KIND.problem(
        what=f"{key} is {given!r}", where=collector.where(key), expected=expected, fix=f"give {expected}"
    )
