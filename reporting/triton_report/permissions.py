"""The permissions in an assembly: the statements of every policy, and the new ones among them."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from triton_report.assembly import Assembly, Resource
from triton_report.changes import renamed
from triton_report.intrinsics import written

# Resources with a policy about themselves: the property that holds it. Read on 2026-11-21 from the schemas.
_ABOUT_ITSELF = {
    "AWS::S3::BucketPolicy": "PolicyDocument",
    "AWS::KMS::Key": "KeyPolicy",
    "AWS::SNS::TopicPolicy": "PolicyDocument",
    "AWS::SQS::QueuePolicy": "PolicyDocument",
    "AWS::SecretsManager::ResourcePolicy": "ResourcePolicy",
    "AWS::ECR::Repository": "RepositoryPolicyText",
    "AWS::EC2::VPCEndpoint": "PolicyDocument",
}

_ENDPOINT = "AWS::SageMaker::Endpoint"
# The name of an uploaded file, which every change of its content changes.
_HASH = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A permission that is allowed or denied."""

    who: str  # a role's path, or a principal
    allowed: bool  # False for a statement that denies
    action: str  # such as "s3:GetObject", with wildcards; "not s3:*" for all others
    resource: str  # such as "${Repository/Bucket.Arn}/models/*"
    condition: str = ""  # as JSON

    @property
    def is_broad(self) -> bool:
        """True if a reviewer must see it: for an outsider, of many actions, on everything, or once denied."""
        outsider = self.who == "*" or self.who.startswith("arn:") or self.who.isdecimal()
        many_actions = self.action.endswith("*") or " " in self.action
        unlimited = not self.condition and (self.resource == "*" or self.action.startswith("iam:"))
        return outsider or many_actions or unlimited or not self.allowed

    def covers(self, other: Grant) -> bool:
        """Return whether this permission covers another one."""
        return (
            self.who in {other.who, "*"}
            and self.allowed == other.allowed
            and fnmatch.fnmatchcase(other.action.lower(), self.action.lower())
            and fnmatch.fnmatchcase(other.resource, _literal(self.resource))
            and self.condition in {"", other.condition}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionChange:
    """Actions that become allowed, or are no longer denied, and the other way round."""

    widened: tuple[Grant, ...]
    narrowed: tuple[Grant, ...]


def permission_change(before: Assembly, after: Assembly) -> PermissionChange:
    """Compare all permissions of two assemblies."""
    old, new = list(_under_new_names(before, after)), list(grants(after))
    gained, lost = _beyond(new, old), _beyond(old, new)
    return PermissionChange(
        widened=(*(each for each in gained if each.allowed), *(each for each in lost if not each.allowed)),
        narrowed=(*(each for each in lost if each.allowed), *(each for each in gained if not each.allowed)),
    )


def _under_new_names(before: Assembly, after: Assembly) -> Iterator[Grant]:
    """Yield the old permissions, with renamed principals and replaced endpoints under their new names."""
    names = {
        before.resources[old].path: after.resources[new].path for new, old in renamed(before, after).items()
    }
    new_names = {(each.stack, each.path): _endpoint_name(each) for each in after.of_type(_ENDPOINT)}
    for endpoint in before.of_type(_ENDPOINT):
        was, name = _endpoint_name(endpoint), new_names.get((endpoint.stack, endpoint.path))
        if was and name and was != name:
            names |= {was: name, was.lower(): name.lower()}
    whole = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names) or "(?!)")

    def rename(text: str) -> str:
        return whole.sub(lambda found: names[found[0]], text)

    for each in grants(before):
        yield replace(
            each, who=rename(each.who), resource=rename(each.resource), condition=rename(each.condition)
        )


def _endpoint_name(endpoint: Resource) -> str | None:
    name = endpoint.properties.get("EndpointName")
    return name if isinstance(name, str) else None


def grants(assembly: Assembly) -> Iterator[Grant]:
    """Every permission in an assembly."""
    for resource in assembly.resources.values():
        for who, about, document in _policies(resource, assembly):
            yield from _statements(document, resource, assembly, who=who, about=about)
        for arn in resource.properties.get("ManagedPolicyArns", ()):
            name = written(arn, resource.stack, assembly)
            yield Grant(who=resource.path, allowed=True, action="everything in the policy", resource=name)
        if resource.type == "AWS::Lambda::Permission":
            yield _lambda_permission(resource, assembly)


def _policies(resource: Resource, assembly: Assembly) -> Iterator[tuple[str | None, str | None, Any]]:
    """Yield the holder of each policy, the resource that it belongs to, and its document."""
    properties = resource.properties
    if resource.type in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}:
        for name in (each for kind in ("Roles", "Users", "Groups") for each in properties.get(kind, ())):
            who = written(name, resource.stack, assembly).removeprefix("${").removesuffix("}")
            yield who, None, properties["PolicyDocument"]
    elif resource.type == "AWS::IAM::Role":
        yield None, resource.path, properties["AssumeRolePolicyDocument"]
        for policy in properties.get("Policies", ()):
            yield resource.path, None, policy["PolicyDocument"]
    elif document := properties.get(_ABOUT_ITSELF.get(resource.type, "")):
        yield None, resource.path, document


def _lambda_permission(resource: Resource, assembly: Assembly) -> Grant:
    given = {name: written(value, resource.stack, assembly) for name, value in resource.properties.items()}
    conditions = {name: given[name] for name in ("SourceArn", "SourceAccount") if name in given}
    return Grant(
        who=given["Principal"],
        allowed=True,
        action=given["Action"],
        resource=given["FunctionName"],
        condition=json.dumps(conditions) if conditions else "",
    )


def _statements(
    document: Mapping[str, Any], resource: Resource, assembly: Assembly, *, who: str | None, about: str | None
) -> Iterator[Grant]:
    """The statements of a policy, one for each principal, action and resource in them."""
    for statement in _listed(document.get("Statement")):
        given = statement.get("Condition")
        condition = _HASH.sub("…", written(given, resource.stack, assembly)) if given else ""
        resources = _either(statement, "Resource", resource, assembly) or ["*"]
        for principal, action, name in product(
            [who] if who is not None else _principals(statement, resource, assembly),
            _either(statement, "Action", resource, assembly),
            [about if about and name == "*" else name for name in resources],
        ):
            yield Grant(
                who=principal,
                allowed=statement.get("Effect") == "Allow",
                action=action,
                resource=_HASH.sub("…", name),
                condition=condition,
            )


def _principals(statement: Mapping[str, Any], resource: Resource, assembly: Assembly) -> list[str]:
    for name in ("Principal", "NotPrincipal"):
        if name in statement:
            prefix = "not " if name.startswith("Not") else ""
            given = statement[name]
            values = _listed(given) if isinstance(given, str) else [
                each for group in given.values() for each in _listed(group)
            ]  # fmt: skip
            return [f"{prefix}{written(value, resource.stack, assembly)}" for value in values]
    return ["*"]


def _either(statement: Mapping[str, Any], name: str, resource: Resource, assembly: Assembly) -> list[str]:
    """The values of `Action`, or those of `NotAction` as what they are."""
    plain = [written(each, resource.stack, assembly) for each in _listed(statement.get(name))]
    negated = [written(each, resource.stack, assembly) for each in _listed(statement.get(f"Not{name}"))]
    return plain or ([f"not {', '.join(negated)}"] if negated else [])


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _beyond(new: list[Grant], old: list[Grant]) -> list[Grant]:
    """Return the new permissions that no old one covers, without duplicates."""
    by_who: dict[str, list[Grant]] = {}
    for each in old:
        by_who.setdefault(each.who, []).append(each)
    return [
        each
        for each in dict.fromkeys(new)
        if not any(one.covers(each) for one in (*by_who.get(each.who, ()), *by_who.get("*", ())))
    ]


def _literal(resource: str) -> str:
    """A resource as a pattern: only a star and a question mark are wild, a bracket is not."""
    return resource.replace("[", "[[]")
