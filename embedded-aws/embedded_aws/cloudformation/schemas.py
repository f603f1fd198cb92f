"""CloudFormation's registry of resource types, from the schemas that cfn-lint includes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from embedded_aws.cloudformation.functions import text
from embedded_aws.cloudformation.resource import Properties


def is_custom(type_name: str) -> bool:
    return type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource"


def _schema(type_name: str) -> Mapping[str, Any]:
    found = _provided(type_name)
    return found.schema if found else {}


def has_attribute(type_name: str, name: str) -> bool:
    found = _provided(type_name)
    return not found or any(re.fullmatch(pattern, name) for pattern in found.get_atts)


@cache
def _provided(type_name: str) -> Any:
    if is_custom(type_name):
        return None
    # Reading the index of all schemas takes some tenths of a second, and only deployments need it.
    from cfnlint.schema import ResourceNotFoundError  # type: ignore[import-untyped]
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

    try:
        return PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type_name)
    except ResourceNotFoundError:
        return None


def with_strings(type_name: str, properties: Properties) -> Properties:
    """Return properties whose numbers and booleans are strings where the type declares strings."""
    schema = _schema(type_name)
    converted: Properties = _with_strings(schema, schema, properties)
    return converted


def _with_strings(schema: Mapping[str, Any], root: Mapping[str, Any], value: Any) -> Any:
    schema = _followed(schema, root)
    if isinstance(value, list):
        return [_with_strings(schema.get("items", {}), root, item) for item in value]
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        other: Mapping[str, Any] = next(iter(schema.get("patternProperties", {}).values()), {})
        return {key: _with_strings(known.get(key, other), root, item) for key, item in value.items()}
    return text(value) if schema.get("type") == "string" and isinstance(value, (bool, int, float)) else value


def _followed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = root["definitions"].get(schema["$ref"].removeprefix("#/definitions/"), {})
    return found


def violations(type_name: str, properties: Properties) -> list[str]:
    schema = _schema(type_name)
    return list(_violations(schema, schema, properties, "#"))


def _violations(schema: Mapping[str, Any], root: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    schema = _followed(schema, root)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _violations(schema.get("items", {}), root, item, f"{path}/{number}")
    elif isinstance(value, Mapping) and "properties" in schema:
        known = schema["properties"]
        yield from (
            f"{path}: required key [{key}] not found"
            for key in schema.get("required", ())
            if key not in value
        )
        for key, item in value.items():
            if key in known:
                yield from _violations(known[key], root, item, f"{path}/{key}")
            elif schema.get("additionalProperties") is False and "patternProperties" not in schema:
                yield f"{path}: extraneous key [{key}] is not permitted"


@cache
def create_only(type_name: str) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the properties whose change replaces a resource; empty if none is known."""
    pointers = _schema(type_name).get("createOnlyProperties") or ()
    return tuple(tuple(pointer.removeprefix("/properties/").split("/")) for pointer in pointers)


def must_replace(type_name: str, before: Properties, after: Properties) -> bool:
    return any(_at(before, path) != _at(after, path) for path in create_only(type_name))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
