"""AWS's own managed policies, such as AdministratorAccess.

moto's gap: it either has none of them or, with a setting, builds all of them at each reset, which takes a
second. Here each policy is built on its first request.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend, ManagedPolicy

from embedded_aws.moto_gaps import patch

_moto_attach = IAMBackend.attach_role_policy
_moto_get = IAMBackend.get_policy


@cache
def _declared() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(aws_managed_policies_data)
    return found


def _ensure(backend: IAMBackend, arn: str) -> None:
    """Build a policy if its ARN is that of an AWS managed policy and moto does not have it yet."""
    _, _, resource = arn.partition(":iam::aws:policy/")
    name = resource.rsplit("/", 1)[-1]
    if arn in backend.managed_policies or name not in _declared():
        return
    policy = AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, _declared()[name])
    if policy.arn == arn:
        backend.managed_policies[arn] = policy
        backend.aws_managed_policies.append(policy)


def _attach_role_policy(self: IAMBackend, policy_arn: str, role_name: str) -> None:
    _ensure(self, policy_arn)
    _moto_attach(self, policy_arn, role_name)


def _get_policy(self: IAMBackend, policy_arn: str) -> ManagedPolicy:
    _ensure(self, policy_arn)
    return _moto_get(self, policy_arn)


def install() -> None:
    """Close the gap."""
    patch.replace(IAMBackend, attach_role_policy=_attach_role_policy, get_policy=_get_policy)
