"""Roles of services, and existing ones, which get permissions unless they were imported as immutable."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Annotations, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

IMMUTABLE_ROLE = "triton-fleet:immutable-role"
"""The id of the warning about an existing role that gets no permissions."""


def service_role(scope: Construct, construct_id: str, *, service: str, description: str) -> iam.Role:
    """A role that a service takes for this account only.

    https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html, read on
    2026-11-25, has this condition for the roles of real-time and asynchronous inference.
    """
    return iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(
            service, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
        ),
        description=description,
    )


def policy_of(role: iam.IRole) -> IConstruct:
    """The policy that a role has of its own; of an immutable one, the role."""
    return next((each for each in role.node.children if isinstance(each, iam.Policy)), role)


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
