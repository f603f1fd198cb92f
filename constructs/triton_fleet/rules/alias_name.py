"""An endpoint behind an alias is named after its instance type."""

from __future__ import annotations

from triton_models.errors import Problem

RULE = "alias-endpoint-name"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html"

LONGEST = 63
"""The characters of an endpoint's name."""


def alias_endpoint_name(name: str, *, expected: str, where: str) -> Problem | None:
    """The problem with an endpoint of this name behind an alias.

    Args:
        name: The endpoint's name.
        expected: What its fleet and its instance types make of it.
        where: What the problem is told about.
    """
    if name == expected:
        return None
    return Problem(
        what=f"the endpoint is named {name!r}",
        where=where,
        expected=f"the name {expected!r}",
        why="with a name that stays, SageMaker refuses another instance type while the endpoint is scaled; "
        "with the type in the name CloudFormation makes a new endpoint, and then moves the alias",
        fix="give the endpoint endpoint_name=endpoint_name_for(fleet, instance_type)",
        rule=RULE,
    )


def alias_name_length(name: str, *, fleet: str, where: str) -> Problem | None:
    """The problem with the length of an endpoint's name.

    Args:
        name: The name that fleet and instance types make.
        fleet: The fleet's part of it.
        where: What the problem is told about.
    """
    if len(name) <= LONGEST:
        return None
    return Problem(
        what=f"the endpoint's name {name!r} has {len(name)} characters",
        where=where,
        expected=f"at most {LONGEST}",
        why="SageMaker takes no longer name, and the instance type has to be in it",
        fix=f"give the fleet a name of at most {LONGEST - len(name) + len(fleet)} characters",
        rule=RULE,
    )
