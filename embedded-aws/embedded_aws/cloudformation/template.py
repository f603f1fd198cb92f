"""Reads templates and checks them as CloudFormation does, before a stack changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, NoReturn

import yaml
from moto.cloudformation.exceptions import ValidationError
from moto.ssm.exceptions import ParameterVersionNotFound
from moto.ssm.models import ssm_backends

from embedded_aws.cloudformation.functions import FUNCTIONS, VARIABLE, dependencies, text
from embedded_aws.cloudformation.schemas import has_attribute

Template = dict[str, Any]

_SECTIONS = ("Parameters", "Mappings", "Conditions", "Resources", "Outputs")
_OTHER_SECTIONS = ("AWSTemplateFormatVersion", "Description", "Hooks", "Metadata", "Rules", "Transform")
_POLICIES = ("CreationPolicy", "DeletionPolicy", "UpdatePolicy", "UpdateReplacePolicy")
_MEMBERS = {"Type", "Properties", "DependsOn", "Condition", "Metadata", "Version", *_POLICIES}
_PSEUDO = ("AccountId", "NoValue", "Partition", "Region", "StackId", "StackName", "URLSuffix")
_OPERATORS = ("Fn::And", "Fn::Equals", "Fn::Not", "Fn::Or")
_TYPE = re.compile(r"String|Number|CommaDelimitedList|List<.+>|AWS::.+")
_STORED = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
_DYNAMIC = re.compile(r"\{\{resolve:[^\"]*")
_CONSTRAINTS: Mapping[str, tuple[str, Callable[[str, Any], object]]] = {
    "AllowedValues": ("be one of AllowedValues", lambda value, allowed: value in map(text, allowed)),
    "AllowedPattern": ("match pattern {}", lambda value, pattern: re.fullmatch(pattern, value)),
    "MinLength": ("contain at least {} characters", lambda value, length: len(value) >= int(length)),
    "MaxLength": ("contain at most {} characters", lambda value, length: len(value) <= int(length)),
    "MinValue": ("be a number not less than {}", lambda value, least: float(value) >= float(least)),
    "MaxValue": ("be a number not greater than {}", lambda value, most: float(value) <= float(most)),
}


def _refuse(message: str) -> NoReturn:
    raise ValidationError(message=message)


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of intrinsic functions, where dates and keys are strings."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """Return a mapping. An account's number stays a string."""
        self.flatten_mapping(node)
        return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_form(loader: _Loader, name: str, node: yaml.Node) -> Template:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = node.value.split(".", 1) if name == "GetAtt" else node.value
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {name if name in {"Ref", "Condition"} else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _short_form)


def read(body: str) -> Template:
    kind = "JSON" if body.lstrip().startswith("{") else "YAML"
    try:
        try:
            template = json.loads(body)
        except json.JSONDecodeError:
            template = yaml.load(body, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValidationError(message=f"Template format error: {kind} not well-formed.{place}") from error
    if not isinstance(template, dict):
        _refuse("Template format error: unsupported structure.")
    return template


def check(template: Template) -> None:
    if unknown := sorted(template.keys() - {*_SECTIONS, *_OTHER_SECTIONS}):
        _refuse(f"Invalid template property or properties [{', '.join(unknown)}]")
    for path in _nulls("", template):
        _refuse(f"[{path}] 'null' values are not allowed in templates")
    for section in _SECTIONS:
        if not isinstance(template.get(section, {}), dict):
            _refuse(f"Template format error: [/{section}] must be an object")
    if not template.get("Resources"):
        _refuse("Template format error: At least one Resources member must be defined.")
    for name in _transforms(template):
        _refuse(f"The embedded AWS does not run transforms: {name}")
    _check_members(template)
    properties = [item.get("Properties") for item in template["Resources"].values()]
    if found := _DYNAMIC.search(json.dumps(properties)):
        _refuse(f"The embedded AWS does not resolve dynamic references: {found[0]}")
    _check_conditions(template)
    _check_references(template, "Resources")
    _check_references(template, "Outputs")


def check_created(template: Template, conditions: Mapping[str, bool]) -> None:
    """Check that what the conditions create refers to nothing that they leave out."""

    def created(item: Mapping[str, Any]) -> bool:
        return "Condition" not in item or conditions[item["Condition"]]

    absent = {name for name, resource in template["Resources"].items() if not created(resource)}
    for block, member in (("Resources", "Properties"), ("Outputs", "Value")):
        used: list[str] = []
        for item in filter(created, template.get(block, {}).values()):
            used += dependencies({"Properties": _chosen(item.get(member), conditions)})
        if left := [name for name in dict.fromkeys(used) if name in absent]:
            kind = "Template format error: " if block == "Resources" else ""
            where = f"in the {block} block of the template"
            _refuse(f"{kind}Unresolved resource dependencies [{', '.join(left)}] {where}")


def _chosen(value: Any, conditions: Mapping[str, bool]) -> Any:
    if isinstance(value, list):
        return [_chosen(item, conditions) for item in value]
    if not isinstance(value, dict):
        return value
    if "Fn::If" in value:
        condition, *branches = value["Fn::If"]
        return _chosen(branches[not conditions[condition]], conditions)
    return {key: _chosen(item, conditions) for key, item in value.items()}


def _nulls(path: str, value: Any) -> Iterator[str]:
    if value is None:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _nulls(f"{path}/{key}", item)


def _transforms(template: Template) -> Iterator[str]:
    """Yield the names of transforms that are not run: all but AWS::Include in a mapping."""
    declared = template.get("Transform", [])
    yield from map(str, declared if isinstance(declared, list) else [declared])
    for function, argument in _functions([template.get(section, {}) for section in _SECTIONS[2:]]):
        if function.startswith("Fn::ForEach::"):
            yield "AWS::LanguageExtensions"
        if function == "Fn::Transform":
            yield str(argument.get("Name") if isinstance(argument, dict) else argument)


def _functions(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key.startswith("Fn::") or (len(value) == 1 and key in {"Ref", "Condition"}):
                yield key, item
            yield from _functions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _functions(item)


def _check_members(template: Template) -> None:
    for section in ("Parameters", "Resources"):
        for name, item in template.get(section, {}).items():
            if not isinstance(item, dict) or not isinstance(item.get("Type"), str):
                path = f"[/{section}/{name}]"
                _refuse(f"Template format error: {path} Every {section} object must contain a Type member.")
    for resource in template["Resources"].values():
        for key in sorted(resource.keys() - _MEMBERS):
            _refuse(f"Invalid template resource property '{key}'")
    for name, output in template.get("Outputs", {}).items():
        if not isinstance(output, dict) or "Value" not in output:
            _refuse(f"Template format error: Output {name} is malformed.")


def _check_conditions(template: Template) -> None:
    conditions = template.get("Conditions", {})
    others: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        if not isinstance(condition, dict) or not condition.keys() <= {"Condition", *_OPERATORS}:
            only = "Conditions can only be boolean operations on parameters and other conditions"
            _refuse(f"Template format error: {only}")
        used = list(_functions(condition))
        others[name] = [argument for function, argument in used if function == "Condition"]
        for function, argument in used:
            if function == "Ref" and argument not in _known(template, "Parameters"):
                where = "Cannot reference resources in the Conditions block of the template"
                _refuse(f"Template format error: Unresolved dependencies [{argument}]. {where}")
            _check_function(template, function, argument)
    try:
        TopologicalSorter(others).prepare()
    except CycleError as error:
        between = " and ".join(dict.fromkeys(error.args[1]))
        _refuse(f"Template error: Found circular condition dependency between {between}")


def _known(template: Template, *sections: str) -> set[str]:
    return {f"AWS::{name}" for name in _PSEUDO}.union(*(template.get(section, {}) for section in sections))


def _check_references(template: Template, block: str) -> None:
    known = _known(template, "Parameters", "Resources")
    where = f"in the {block} block of the template"
    unresolved: list[str] = []
    for item in template.get(block, {}).values():
        condition = item.get("Condition")
        if condition is not None and condition not in template.get("Conditions", {}):
            _refuse(f"Template format error: Unresolved condition dependency {condition} {where}")
        depends = item.get("DependsOn", [])
        unresolved += {*([depends] if isinstance(depends, str) else depends)} - template["Resources"].keys()
        for function, argument in _functions([item[key] for key in item if key != "Metadata"]):
            if function == "Ref":
                unresolved += {argument} - known
            elif function == "Fn::Sub":
                unresolved += _unknown_variables(template, argument, known)
            elif function != "Condition":
                _check_function(template, function, argument)
    if unresolved:
        names = ", ".join(dict.fromkeys(unresolved))
        _refuse(f"Template format error: Unresolved resource dependencies [{names}] {where}")


def _unknown_variables(template: Template, argument: Any, known: Collection[str]) -> Iterator[str]:
    pattern, local = (argument, {}) if isinstance(argument, str) else argument
    for literal, name in VARIABLE.findall(pattern):
        resource, dot, attribute = name.partition(".")
        if literal or name in local:
            continue
        if dot and resource not in template["Resources"]:
            _refuse(f"Template error: instance of Fn::Sub references invalid resource attribute {name}")
        if dot:
            _check_attribute(template, resource, attribute)
        elif name not in known:
            yield name


def _check_function(template: Template, function: str, argument: Any) -> None:
    supported = (*FUNCTIONS, *_OPERATORS, "Condition")
    if function not in supported:
        names = f"{function} Supported functions are: [{', '.join(supported)}]"
        _refuse(f"Template Error: Encountered unsupported function: {names}")
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    first, *rest = parts if isinstance(parts, list) and parts else [parts]
    if function == "Fn::GetAtt":
        if first not in template["Resources"]:
            _refuse(f"Template error: instance of Fn::GetAtt references undefined resource {first}")
        _check_attribute(template, first, *rest[:1] or [""])
    if function in {"Fn::If", "Condition"} and first not in template.get("Conditions", {}):
        _refuse(f"Template error: unresolved condition dependency {first} in {function}")
    if function == "Fn::FindInMap" and isinstance(first, str) and first not in template.get("Mappings", {}):
        where = "is not present in the 'Mappings' section of template."
        _refuse(f"Template error: Mapping named '{first}' {where}")


def _check_attribute(template: Template, resource: str, attribute: Any) -> None:
    if isinstance(attribute, str) and not has_attribute(template["Resources"][resource]["Type"], attribute):
        found = f"resource {resource} does not support attribute type {attribute} in Fn::GetAtt"
        _refuse(f"Template error: {found}")


def given_parameters(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    values = {name: given.get(name, parameter.get("Default")) for name, parameter in declared.items()}
    return {name: text(value) for name, value in values.items() if value is not None}


def parameter_values(
    declared: Mapping[str, Any], given: Mapping[str, Any], *, account: str, region: str
) -> dict[str, Any]:
    if unknown := sorted(given.keys() - declared.keys()):
        _refuse(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values = given_parameters(declared, given)
    if missing := [name for name in declared if name not in values]:
        _refuse(f"Parameters: [{', '.join(missing)}] must have values")
    return {name: _value(name, declared[name], value, account, region) for name, value in values.items()}


def _value(name: str, parameter: Mapping[str, Any], value: str, account: str, region: str) -> Any:
    kind = parameter["Type"]
    if not _TYPE.fullmatch(kind):
        _refuse(f"Template format error: Unrecognized parameter type: {kind}")
    for part in _parts(kind, value):
        _check_value(name, parameter, part)
    stored = _STORED.fullmatch(kind)
    if stored:
        kind, value = stored[1], _stored(value, stored[1], account, region)
    parts: list[Any] = _parts(kind, value)
    if "Number" in kind:
        parts = [int(part) if part.lstrip("-").isdigit() else float(part) for part in parts]
    return parts if _is_list(kind) else parts[0]


def _is_list(kind: str) -> bool:
    return kind == "CommaDelimitedList" or kind.startswith("List<")


def _parts(kind: str, value: str) -> list[str]:
    return [part.strip() for part in value.split(",")] if _is_list(kind) else [value]


def _check_value(name: str, parameter: Mapping[str, Any], value: str) -> None:
    """Check a parameter's value; of one in Systems Manager, CloudFormation checks the name."""
    if "Number" in parameter["Type"]:
        try:
            float(value)
        except ValueError:
            _refuse(f"Parameter '{name}' must be a number.")
    for constraint, (words, holds) in _CONSTRAINTS.items():
        if constraint in parameter and not holds(value, parameter[constraint]):
            if described := parameter.get("ConstraintDescription"):
                _refuse(f"Parameter {name} failed to satisfy constraint: {described}")
            _refuse(f"Parameter '{name}' must {words.format(parameter[constraint])}")


def _stored(name: str, kind: str, account: str, region: str) -> str:
    try:
        found = ssm_backends[account][region].get_parameter(name)
    except ParameterVersionNotFound:
        found = None
    if found is None:
        _refuse(f"Unable to fetch parameters [{name}] from parameter store for this account.")
    if found.parameter_type == "SecureString":
        _refuse(f"Parameters [{name}] referenced by template have types not supported by CloudFormation.")
    if (found.parameter_type == "StringList") != _is_list(kind):
        _refuse(f"Types for SSM parameters [{name}] defined in CFN template and SSM are incompatible")
    return str(found.value)
