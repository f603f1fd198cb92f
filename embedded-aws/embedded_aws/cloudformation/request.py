"""Converts CloudFormation properties to a request of a service's API.

Most types use the names of their API, in another case and with strings where the API has numbers. A property
that the API lacks is an error here and never dropped: without it, the resource would not be the one that the
template declares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from embedded_aws.cloudformation.resource import Client, Properties


class UnsupportedPropertyError(ValueError):
    """A property that the embedded AWS does not pass on to the service."""


def api_request(client: Client, operation: str, properties: Properties) -> dict[str, Any]:
    """Return properties as the keyword arguments of an operation, such as `CreateProject`.

    Raises:
        UnsupportedPropertyError: The operation does not have a member with the name of a property.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    converted: dict[str, Any] = _structure(shape, properties, "")
    return converted


def refuse_unknown(properties: Properties, known: set[str] | frozenset[str]) -> None:
    """Raise UnsupportedPropertyError if there are properties that a type does not support."""
    unknown = sorted(set(properties) - known)
    if unknown:
        msg = f"the embedded AWS does not support {', '.join(unknown)} here"
        raise UnsupportedPropertyError(msg)


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> dict[str, Any]:
    members = {name.lower(): name for name in shape.members}
    converted = {}
    for key, item in value.items():
        name = members.get(key.lower())
        if name is None:
            msg = f"the embedded AWS does not support the property {path}{key} here"
            raise UnsupportedPropertyError(msg)
        converted[name] = _convert(shape.members[name], item, f"{path}{key}.")
    return converted


def _convert(shape: Any, value: Any, path: str) -> Any:
    if shape.type_name == "structure":
        return _structure(shape, value, path)
    if shape.type_name == "list":
        return [_convert(shape.member, item, path) for item in value]
    if shape.type_name == "map":
        return {str(key): _convert(shape.value, item, path) for key, item in value.items()}
    return _SCALARS.get(shape.type_name, _same)(value)


def _same(value: Any) -> Any:
    return value


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).lower() == "true"


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    # JSON writes true, not True, and documents such as policies are JSON.
    return json.dumps(value)


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "string": _string,
}
