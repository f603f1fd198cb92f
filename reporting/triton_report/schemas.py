"""The immutable properties of resources, from AWS's own schemas in cfn-lint."""

from __future__ import annotations

import functools

# Schemas differ between regions only by properties that have not arrived everywhere.
_REGION = "us-east-1"
_PROPERTIES = "/properties/"


@functools.cache
def create_only(type_name: str) -> frozenset[str]:
    """The properties whose change replaces a resource, such as "EndpointName" or "Target/Name".

    Empty for a type without a schema, such as a custom resource: what happens then, its own code decides.
    """
    from cfnlint.schema import ResourceNotFoundError  # type: ignore[import-untyped]
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(_REGION, type_name).schema
    except ResourceNotFoundError:
        return frozenset()
    return frozenset(path.removeprefix(_PROPERTIES) for path in schema.get("createOnlyProperties", ()))
