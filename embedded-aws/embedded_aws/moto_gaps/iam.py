"""AWS's own managed policies, and roles assumed with the token of an identity provider.

moto's gaps:
- It has none of AWS's policies, such as AdministratorAccess, or builds all of them at each reset, which
  takes a second. Here each policy is built on its first request.
- AssumeRoleWithWebIdentity gives every caller every role. Here the issuer, audience and subject of the token
  are compared with the account's providers and the role's trust policy, as STS does. Signature and expiry of
  the token are not checked: only requests with the key of this run get this far.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from moto.core.exceptions import AccessDeniedError
from moto.core.responses import ActionResult
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend, ManagedPolicy, iam_backends
from moto.sts.exceptions import STSClientError
from moto.sts.models import sts_backends
from moto.sts.responses import TokenResponse

from embedded_aws.moto_gaps import patch

_CREDENTIAL = re.compile(r"Credential=([^/]+)/")


def assumed_role(headers: Mapping[str, Any], account: str, partition: str) -> Any:
    """Return the assumed role that signed a request; None for any other caller."""
    key = _CREDENTIAL.search(headers.get("Authorization", ""))
    session = sts_backends[account][partition].get_assumed_role_from_access_key(key[1]) if key else None
    iam: Any = iam_backends[account][partition]
    return iam.get_role_by_arn(session.role_arn) if session else None


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


@patch.replaces(IAMBackend, "attach_role_policy")
def _attach_role_policy(self: IAMBackend, policy_arn: str, role_name: str) -> None:
    _ensure(self, policy_arn)
    _moto_attach(self, policy_arn, role_name)


@patch.replaces(IAMBackend, "get_policy")
def _get_policy(self: IAMBackend, policy_arn: str) -> ManagedPolicy:
    _ensure(self, policy_arn)
    return _moto_get(self, policy_arn)


_ACTION = "sts:AssumeRoleWithWebIdentity"
_NO_TOKEN = "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)"  # noqa: S105
_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda given, allowed: given == allowed,
    # As in a policy, only * and ? stand for others.
    **dict.fromkeys(
        ("ArnEquals", "ArnLike", "StringLike"),
        lambda given, allowed: fnmatchcase(given, allowed.replace("[", "[[]")),
    ),
}
_moto_assume = TokenResponse.assume_role_with_web_identity


class _NotAuthorizedError(AccessDeniedError):
    def __init__(self) -> None:
        super(AccessDeniedError, self).__init__("AccessDenied", f"Not authorized to perform {_ACTION}")


@patch.replaces(TokenResponse, "assume_role_with_web_identity")
def _assume_role_with_web_identity(self: TokenResponse) -> ActionResult:
    claims = _claims(self._get_param("WebIdentityToken") or "")
    issuer = str(claims.get("iss", "")).removeprefix("https://")
    iam: Any = iam_backends[self.current_account][self.partition]
    provider = next((each for each in iam.open_id_providers.values() if each.url == issuer), None)
    if provider is None:
        raise STSClientError(
            "InvalidIdentityToken", f"No OpenIDConnect provider found in your account for https://{issuer}"
        )
    if not set(_listed(claims.get("aud", ()))) & set(provider.client_id_list):
        raise STSClientError("InvalidIdentityToken", "Incorrect token audience")
    trust = _trust(iam, self._get_param("RoleArn"))
    if not any(_allows(statement, provider, claims) for statement in trust):
        raise _NotAuthorizedError
    return _moto_assume(self)


def _claims(token: str) -> dict[str, Any]:
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        claims = None
    if not isinstance(claims, dict):
        raise STSClientError("InvalidIdentityToken", _NO_TOKEN)
    return claims


def _trust(iam: Any, arn: str) -> Iterator[dict[str, Any]]:
    """Yield the statements that trust a provider; none of a role that does not exist."""
    for role in iam.get_roles():
        if role.arn == arn:
            for statement in json.loads(role.assume_role_policy_document)["Statement"]:
                if statement["Effect"] == "Allow" and _ACTION in _listed(statement["Action"]):
                    yield statement


def _allows(statement: Mapping[str, Any], provider: Any, claims: Mapping[str, Any]) -> bool:
    if provider.arn not in _listed(statement["Principal"].get("Federated", ())):
        return False
    known = {name: value for name, value in claims.items() if isinstance(value, str | list)}
    return conditions_hold(statement, {f"{provider.url}:{name}": known[name] for name in known})


def conditions_hold(statement: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    """Return True if a statement's conditions hold; one with an operator that is not supported does not."""
    values = {name.lower(): _listed(value) for name, value in context.items()}
    return all(
        operator in _OPERATORS
        and any(
            _OPERATORS[operator](given, allowed)
            for given in values.get(key.lower(), ())
            for allowed in _listed(wanted)
        )
        for operator, conditions in statement.get("Condition", {}).items()
        for key, wanted in conditions.items()
    )


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)
