"""An endpoint behind an alias is named after its instance type and its release."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "alias-endpoint-name"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html"

LONGEST = 63
"""The characters of an endpoint's name."""


def alias_endpoint_name(name: str, *, expected: str, where: str) -> Problem | None:
    """The problem with an endpoint of this name behind an alias.

    Args:
        name: The endpoint's name.
        expected: What its fleet, its instance types and its release make of it.
        where: What the problem is reported for.
    """
    if name == expected:
        return None
    return Problem(
        what=f"the endpoint is named {name!r}",
        where=where,
        expected=f"the name {expected!r}",
        why="another type or release needs another endpoint, so that what serves today keeps its plans",
        fix="give the endpoint endpoint_name=endpoint_name_for(fleet, instance_type, release=release)",
        rule=RULE,
    )


def alias_name_length(name: str, *, fleet: str, where: str) -> Problem | None:
    """The problem with the length of an endpoint's name.

    Args:
        name: The name that fleet, instance types and release make.
        fleet: The fleet's part of it.
        where: What the problem is reported for.
    """
    if len(name) <= LONGEST:
        return None
    return Problem(
        what=f"the endpoint's name {name!r} has {len(name)} characters",
        where=where,
        expected=f"at most {LONGEST}",
        why="SageMaker limits names to 63 characters, and the instance type and the release are in it",
        fix=f"give the fleet a name of at most {LONGEST - len(name) + len(fleet)} characters",
        rule=RULE,
    )
