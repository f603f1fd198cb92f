"""CloudFormation's registry of resource types, from the schemas that cfn-lint includes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from triton_aws.cloudformation.resource import Properties


def is_custom(type_name: str) -> bool:
    """Return True if functions create the resources of the type."""
    return type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource"


@cache
def create_only(type_name: str) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the properties whose change replaces a resource; empty if none is known."""
    if is_custom(type_name):
        return ()
    # Reading the index of all schemas takes some tenths of a second, and only updates need it.
    from cfnlint.schema import ResourceNotFoundError  # type: ignore[import-untyped]
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

    try:
        schema: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type_name).schema
    except ResourceNotFoundError:
        return ()
    pointers = schema.get("createOnlyProperties") or ()
    return tuple(tuple(pointer.removeprefix("/properties/").split("/")) for pointer in pointers)


def must_replace(type_name: str, before: Properties, after: Properties) -> bool:
    """Return True if a change of properties needs a new resource."""
    return any(_at(before, path) != _at(after, path) for path in create_only(type_name))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
