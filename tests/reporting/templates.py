"""Assemblies written by hand, for cases that the sample fleet lacks."""

from __future__ import annotations

from typing import Any

from triton_report.assembly import Assembly, Resource


def resource(
    logical_id: str,
    type_name: str,
    properties: dict[str, Any] | None = None,
    *,
    stack: str = "S",
    **kept: bool,
) -> Resource:
    """Return a resource, which a deployment deletes unless it is retained."""
    return Resource(
        stack=stack,
        logical_id=logical_id,
        type=type_name,
        path=logical_id,
        properties=properties or {},
        kept_when_removed=kept.get("kept_when_removed", False),
        kept_when_replaced=kept.get("kept_when_replaced", False),
    )


def of(*resources: Resource) -> Assembly:
    """Return an assembly of these resources."""
    return Assembly(resources={each.key: each for each in resources}, warnings=frozenset(), exports={})
