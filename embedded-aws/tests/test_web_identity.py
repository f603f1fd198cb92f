"""The role that a job of GitHub Actions assumes with its token, and the tokens that it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.callers import HOST, OLD, token
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

IMMUTABLE = "repo:octo-org@583231/search@1296269:environment:production"
REFUSED = ("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")

aws = aws_fixture(scope="module")


@pytest.fixture(scope="module", autouse=True)
def _provider(aws: EmbeddedAws) -> None:
    aws.client("iam").create_open_id_connect_provider(
        Url=f"https://{HOST}", ClientIDList=["sts.amazonaws.com"], ThumbprintList=[]
    )


def role(aws: EmbeddedAws, operator: str, subject: str) -> str:
    """Create a role that trusts the subject. Returns its ARN."""
    condition = {operator: {f"{HOST}:aud": "sts.amazonaws.com", f"{HOST}:sub": subject}}
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::{EmbeddedAws.account}:oidc-provider/{HOST}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": condition,
    }
    iam = aws.client("iam")
    name = f"role-{len(iam.list_roles()['Roles'])}"
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": [statement]}))
    arn: str = made["Role"]["Arn"]
    return arn


def sign_in(aws: EmbeddedAws, arn: str, given: str) -> tuple[str, str] | None:
    """Assume a role with a token. Returns code and message of the refusal, or None."""
    sts = aws.client("sts")
    try:
        sts.assume_role_with_web_identity(RoleArn=arn, RoleSessionName="job", WebIdentityToken=given)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"]
    return None


@pytest.mark.parametrize(
    ("operator", "trusted", "subject", "refusal"),
    [
        ("StringEquals", OLD, OLD, None),
        ("StringEquals", IMMUTABLE, IMMUTABLE, None),
        ("StringEquals", IMMUTABLE, OLD, REFUSED),
        ("StringEquals", IMMUTABLE, IMMUTABLE.replace("1296269", "1296270"), REFUSED),
        ("StringEquals", "repo:octo-org/*", OLD, REFUSED),
        ("StringLike", "repo:octo-org/*:environment:production", OLD, None),
        ("StringNotEquals", IMMUTABLE, OLD, REFUSED),
    ],
)
def test_a_role_is_for_the_subjects_that_its_trust_names(
    aws: EmbeddedAws, operator: str, trusted: str, subject: str, refusal: Any
) -> None:
    assert sign_in(aws, role(aws, operator, trusted), token(sub=subject)) == refusal


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (token(aud="https://github.com/octo-org"), "Incorrect token audience"),
        (
            token(iss="https://gitlab.com"),
            "No OpenIDConnect provider found in your account for https://gitlab.com",
        ),
        ("no.token", "The ID Token provided is not a valid JWT"),
    ],
)
def test_a_token_of_another_provider_or_for_another_audience_is_none(
    aws: EmbeddedAws, given: str, message: str
) -> None:
    refusal = sign_in(aws, role(aws, "StringEquals", OLD), given)

    assert refusal is not None
    assert (refusal[0], refusal[1][: len(message)]) == ("InvalidIdentityToken", message)
