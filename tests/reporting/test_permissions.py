"""Widened permissions: all kinds of statements, before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from templates import of, resource

from triton_report.assembly import Assembly
from triton_report.permissions import Grant, PermissionChange, permission_change

BUCKET = "arn:aws:s3:::models"


def assembly(*statements: dict[str, Any], type_name: str = "AWS::IAM::Policy", **properties: Any) -> Assembly:
    document = {"Statement": list(statements)}
    holder = {"Roles": [{"Ref": "Role"}]} if type_name == "AWS::IAM::Policy" else {}
    policy = resource("Policy", type_name, {"PolicyDocument": document, **holder, **properties})
    return of(resource("Role", "AWS::IAM::Role", {"AssumeRolePolicyDocument": {}}), policy)


def allow(*actions: str, on: Any = f"{BUCKET}/*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": on, **more}


def deny(*actions: str, on: Any = f"{BUCKET}/*", **more: Any) -> dict[str, Any]:
    return {**allow(*actions, on=on, **more), "Effect": "Deny"}


def widened(change: PermissionChange) -> list[tuple[str, str]]:
    return [(grant.action, grant.resource) for grant in change.widened]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (allow("s3:GetObject"), allow("s3:GetObject", "s3:PutObject")),
        (allow("s3:GetObject"), allow("s3:*")),
        (allow("s3:GetObject"), allow("s3:GetObject", on="*")),
        (allow("s3:GetObject"), allow("s3:GetObject", on=f"{BUCKET}*")),
        (allow("s3:GetObject", Condition={"Bool": {"aws:SecureTransport": "true"}}), allow("s3:GetObject")),
        (allow("s3:GetObject"), {**allow("s3:GetObject"), "NotAction": "iam:*", "Action": None}),
        (deny("s3:DeleteObject"), allow("s3:GetObject", on="arn:aws:s3:::other")),
        (deny("s3:*"), deny("s3:DeleteObject")),
        (allow("s3:GetObject", on="arn:aws:s3:::[ab]"), allow("s3:GetObject", on="arn:aws:s3:::a")),
    ],
    ids=[
        *("action", "wildcard", "everywhere", "prefix", "no-condition", "not-action", "no-deny"),
        *("less-denied", "bracket"),
    ],
)
def test_what_widens_is_reported(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert permission_change(assembly(before), assembly(after)).widened


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (allow("s3:*"), allow("s3:GetObject")),
        (allow("s3:GetObject", "s3:PutObject"), allow("s3:PutObject", "s3:GetObject")),
        (allow("s3:GetObject"), allow("s3:getobject")),
        (allow("s3:GetObject", on="*"), allow("s3:GetObject")),
        (allow("s3:GetObject"), allow("s3:GetObject", Condition={"Bool": {"aws:SecureTransport": "true"}})),
        (allow("s3:GetObject"), deny("s3:DeleteObject")),
    ],
    ids=["fewer", "reordered", "case", "narrower", "condition", "deny"],
)
def test_what_does_not_widen_is_not_reported(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert not permission_change(assembly(before), assembly(after)).widened


NOTHING = PermissionChange(widened=(), narrowed=())


def test_the_same_permissions_in_another_form_are_no_change() -> None:
    def reads(digest: str) -> Assembly:
        return assembly(allow("s3:GetObject", on=f"arn:aws:s3:::assets/{digest * 64}.zip"))

    two = assembly(allow("s3:GetObject"), allow("s3:PutObject"))
    one = assembly(allow("s3:GetObject", "s3:PutObject"))

    assert permission_change(two, one) == NOTHING
    assert permission_change(reads("a"), reads("b")) == NOTHING  # the hash of an uploaded file


def test_a_holder_that_only_got_another_name_gains_nothing() -> None:
    def held_by(name: str) -> Assembly:
        document = {"Statement": [allow("s3:GetObject")]}
        trust = {
            "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "x"}}]
        }
        return of(
            resource(name, "AWS::IAM::Role", {"AssumeRolePolicyDocument": trust}),
            resource("P", "AWS::IAM::Policy", {"PolicyDocument": document, "Roles": [{"Ref": name}]}),
        )

    assert permission_change(held_by("Old"), held_by("New")) == NOTHING


def test_a_new_holder_and_everyone_in_a_bucket_policy_gain_what_they_may_do() -> None:
    role = assembly(allow("s3:GetObject"))
    opened = assembly(allow("s3:GetObject", Principal="*"), type_name="AWS::S3::BucketPolicy", Bucket="b")

    assert [grant.who for grant in permission_change(of(), role).widened] == ["Role"]
    assert [grant.who for grant in permission_change(of(), opened).widened] == ["*"]


def test_a_managed_policy_that_is_attached_is_reported() -> None:
    def role(*arns: str) -> Assembly:
        properties = {"AssumeRolePolicyDocument": {}, "ManagedPolicyArns": list(arns)}
        return of(resource("Role", "AWS::IAM::Role", properties))

    change = permission_change(role(), role("arn:aws:iam::aws:policy/AdministratorAccess"))

    assert widened(change) == [("everything in the policy", "arn:aws:iam::aws:policy/AdministratorAccess")]


def test_who_may_invoke_a_function_is_reported_with_its_condition() -> None:
    properties = {
        "Principal": "events.amazonaws.com",
        "Action": "lambda:InvokeFunction",
        "FunctionName": {"Fn::GetAtt": ["Function", "Arn"]},
        "SourceArn": "arn:aws:events:::rule/r",
    }
    after = of(resource("P", "AWS::Lambda::Permission", properties))

    (grant,) = permission_change(of(), after).widened
    assert (grant.who, grant.resource) == ("events.amazonaws.com", "${Function.Arn}")
    assert "arn:aws:events:::rule/r" in grant.condition


def test_a_permission_on_the_resource_of_another_stack_names_it() -> None:
    granted = assembly(allow("s3:GetObject", on={"Fn::ImportValue": "Models"}))
    after = replace(granted, exports={"Models": ("Other", {"Ref": "Bucket"})})

    assert widened(permission_change(of(), after)) == [("s3:GetObject", "${Bucket}")]


@pytest.mark.parametrize(
    ("invoked", "widened"), [(("fleet-g5", "fleet-g4dn"), 0), (("fleet-g5wood", "fleet-g4dnwood"), 1)]
)
def test_what_an_endpoint_could_do_under_its_old_name_is_nothing_new_but_that_of_another_is(
    invoked: tuple[str, str], widened: int
) -> None:
    before, after = (
        of(
            resource("Endpoint", "AWS::SageMaker::Endpoint", {"EndpointName": name}),
            *assembly(
                allow("sagemaker:InvokeEndpoint", on=f"arn:aws:sagemaker:endpoint/{on}")
            ).resources.values(),
        )
        for name, on in zip(("fleet-g5", "fleet-g4dn"), invoked, strict=True)
    )

    assert len(permission_change(before, after).widened) == widened


@pytest.mark.parametrize(
    ("grant", "broad"),
    [
        (Grant(who="Role", allowed=True, action="s3:GetObject", resource=BUCKET), False),
        (Grant(who="Role", allowed=True, action="s3:*", resource=BUCKET), True),
        (Grant(who="Role", allowed=True, action="not s3:GetObject", resource=BUCKET), True),
        (Grant(who="Role", allowed=True, action="s3:GetObject", resource="*"), True),
        (Grant(who="Role", allowed=True, action="s3:GetObject", resource="*", condition="{}"), False),
        (Grant(who="Role", allowed=False, action="s3:GetObject", resource=BUCKET), True),
        (Grant(who="Role", allowed=True, action="iam:PassRole", resource=BUCKET), True),
        (Grant(who="*", allowed=True, action="s3:GetObject", resource=BUCKET), True),
        (Grant(who="arn:aws:iam::1:root", allowed=True, action="s3:GetObject", resource=BUCKET), True),
        (Grant(who="lambda.amazonaws.com", allowed=True, action="sts:AssumeRole", resource="Role"), False),
    ],
)
def test_a_permission_is_broad_if_its_holder_its_actions_or_its_resources_are(
    grant: Grant, broad: bool
) -> None:
    assert grant.is_broad is broad
