"""Intrinsic functions of templates, evaluated as CloudFormation does, and the order that references need."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

import moto.cloudformation.models
from moto.cloudformation.exceptions import ExportNotFound, ValidationError
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

_SUBSTITUTION = re.compile(r"\$\{([^!}.]+)[^}]*\}")


def in_order(resources: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> list[str]:
    chosen = list(wanted)
    known = set(chosen)
    graph = {name: sorted(set(dependencies(resources[name])) & known) for name in chosen}
    return list(TopologicalSorter(graph).static_order())


def needed_by(resources: Mapping[str, Mapping[str, Any]], name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(dependencies(resources.get(waiting.pop(), {}))) & resources.keys() - found
        found |= new
        waiting += new
    return found


def values_of(function: str, value: Any) -> Iterator[Any]:
    """Yield every argument of an intrinsic function, such as `Fn::ImportValue`, anywhere in a template."""
    if isinstance(value, Mapping):
        if function in value:
            yield value[function]
        for item in value.values():
            yield from values_of(function, item)
    elif isinstance(value, list):
        for item in value:
            yield from values_of(function, item)


def dependencies(resource: Mapping[str, Any]) -> Iterator[str]:
    declared = resource.get("DependsOn", [])
    yield from [declared] if isinstance(declared, str) else declared
    properties = resource.get("Properties", {})
    yield from (name for name in values_of("Ref", properties) if isinstance(name, str))
    for attribute in values_of("Fn::GetAtt", properties):
        yield attribute.split(".")[0] if isinstance(attribute, str) else attribute[0]
    for text in values_of("Fn::Sub", properties):
        template, local = (text, ()) if isinstance(text, str) else text
        yield from (name for name in _SUBSTITUTION.findall(template) if name not in local)


VARIABLE = re.compile(r"\$\{(!?)([^}]*)\}")
"""A variable of Fn::Sub, or a literal that begins with an exclamation mark."""


def evaluate(value: Any, resources: Any) -> Any:
    if isinstance(value, list):
        return [item for each in value if (item := evaluate(each, resources)) is not None]
    if not isinstance(value, Mapping):
        return value
    name = next(iter(value), "")
    if len(value) == 1 and name in FUNCTIONS:
        try:
            return FUNCTIONS[name](value[name], resources)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            msg = f"Template error: {name} has an invalid argument: {value[name]}"
            raise ValidationError(message=msg) from error
    found = {key: evaluate(each, resources) for key, each in value.items()}
    return {key: item for key, item in found.items() if item is not None}


def condition_holds(condition: Mapping[str, Any], resources: Any) -> bool:
    [(name, argument)] = condition.items()
    if name == "Condition":
        return bool(resources.lazy_condition_map[argument])
    if name == "Fn::Equals":
        left, right = evaluate(argument, resources)
        return text(left) == text(right)
    found = [condition_holds(each, resources) for each in argument]
    return not found[0] if name == "Fn::Not" else {"Fn::And": all, "Fn::Or": any}[name](found)


def text(value: Any) -> str:
    if isinstance(value, (Mapping, list)):
        raise ValidationError(message=f"Template error: {json.dumps(value)} is not a string")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ref(name: str, resources: Any) -> Any:
    found = resources[name]
    return getattr(found, "physical_resource_id", found)


def _get_att(argument: Any, resources: Any) -> Any:
    name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
    return resources[name].get_cfn_attribute(evaluate(attribute, resources))


def _find_in_map(argument: list[Any], resources: Any) -> Any:
    name, top, second = [evaluate(each, resources) for each in argument]
    mapping = resources[name]
    # moto adds what AWS::Include reads to the map itself.
    mapping = resources if "Fn::Transform" in mapping else mapping
    try:
        return mapping[top][second]
    except KeyError as error:
        msg = f"Template error: Unable to get mapping for {name}::{top}::{second}"
        raise ValidationError(message=msg) from error


def _if(argument: list[Any], resources: Any) -> Any:
    condition, yes, no = argument
    return evaluate(yes if resources.lazy_condition_map[condition] else no, resources)


def _join(argument: list[Any], resources: Any) -> str:
    separator, parts = argument
    found: str = separator.join(map(text, evaluate(parts, resources)))
    return found


def _select(argument: list[Any], resources: Any) -> Any:
    index, items = [evaluate(each, resources) for each in argument]
    if not isinstance(items, list):
        raise TypeError(f"not a list: {items}")
    if not 0 <= int(index) < len(items):
        msg = f"Template error: Fn::Select cannot select nonexistent value at index {index}"
        raise ValidationError(message=msg)
    return items[int(index)]


def _split(argument: list[Any], resources: Any) -> list[str]:
    separator, source = argument
    return text(evaluate(source, resources)).split(separator)


def _sub(argument: Any, resources: Any) -> str:
    pattern, given = (argument, {}) if isinstance(argument, str) else argument
    local = {name: evaluate(value, resources) for name, value in given.items()}

    def value_of(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return f"${{{name}}}"
        if name in local:
            return text(local[name])
        return text(_get_att(name, resources) if "." in name else _ref(name, resources))

    return VARIABLE.sub(value_of, pattern)


def _import_value(argument: Any, resources: Any) -> Any:
    name = evaluate(argument, resources)
    if name not in resources.cross_stack_resources:
        raise ExportNotFound(name)
    return resources.cross_stack_resources[name].value


def _stack_output(argument: Any, resources: Any) -> str:
    wanted = evaluate(argument, resources)
    backends = moto.cloudformation.models.cloudformation_backends
    backend = backends[resources["AWS::AccountId"]][wanted.get("Region", resources["AWS::Region"])]
    for stack in backend.stacks.values():
        for output in stack.outputs or []:
            if (stack.name, output["OutputKey"]) == (wanted["StackName"], wanted["OutputName"]):
                value: str = output["OutputValue"]
                return value
    raise ValidationError(message=f"stack {wanted['StackName']} has no output {wanted['OutputName']}")


def _zones(argument: Any, resources: Any) -> list[str]:
    region = evaluate(argument, resources) or resources["AWS::Region"]
    return [zone.name for zone in RegionsAndZonesBackend.zones[region]]


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Ref": _ref,
    "Fn::Base64": lambda value, at: base64.b64encode(text(evaluate(value, at)).encode()).decode(),
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAtt": _get_att,
    "Fn::GetAZs": _zones,
    "Fn::GetStackOutput": _stack_output,
    "Fn::If": _if,
    "Fn::ImportValue": _import_value,
    "Fn::Join": _join,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
}
