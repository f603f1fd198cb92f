"""Existing roles, which get permissions unless they were imported as immutable."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Annotations
from aws_cdk import aws_iam as iam
from constructs import Construct

IMMUTABLE_ROLE = "triton-fleet:immutable-role"
"""The id of the warning about an existing role that gets no permissions."""


def is_immutable(role: iam.IRole) -> bool:
    """Return True if permissions given to the role are dropped: no policy holds them."""
    return not any(isinstance(each, iam.CfnPolicy) for each in role.node.find_all())


def advise_on_immutable(
    scope: Construct, role: iam.IRole, statements: Sequence[iam.PolicyStatement], *, service: str
) -> None:
    """Warn about an immutable role, with the actions that it must allow."""
    if not is_immutable(role):
        return
    actions = sorted({action for each in statements for action in each.actions})
    Annotations.of(scope).add_warning_v2(
        IMMUTABLE_ROLE,
        "The role is imported as immutable, so no permission was added to it. It must allow "
        f"{', '.join(actions)}, and {service} to assume it.",
    )
