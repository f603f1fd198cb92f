from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk.assertions import Annotations, Match, Template

from triton_fleet import FleetError, GitHubDeployRole

HERE = Environment(account="123456789012", region="eu-west-1")
PROVIDER = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def _template(*, context: dict[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    stack = Stack(App(context=context), "Delivery", env=HERE)
    given: dict[str, Any] = {"repository": "octo-org/search", "environment": "production"}
    GitHubDeployRole(stack, "Deploy", **given | arguments)
    found = Template.from_stack(stack).to_json()["Resources"]
    return {each["Type"]: each["Properties"] for each in found.values()}


def test_only_a_job_of_this_repository_in_this_environment_assumes_the_role() -> None:
    (statement,) = _template()["AWS::IAM::Role"]["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": "repo:octo-org/search:environment:production",
        }
    }


def test_with_ids_it_trusts_the_immutable_subject_alone() -> None:
    (statement,) = _template(owner_id="583231", repository_id="1296269")["AWS::IAM::Role"][
        "AssumeRolePolicyDocument"
    ]["Statement"]

    assert statement["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"] == (
        "repo:octo-org@583231/search@1296269:environment:production"
    )


@pytest.mark.parametrize(
    ("given", "warned"), [({}, True), ({"owner_id": "583231", "repository_id": "1296269"}, False)]
)
def test_a_role_without_ids_warns_that_newer_repositories_need_them(given: Any, warned: bool) -> None:
    stack = Stack(App(), "Delivery", env=HERE)
    GitHubDeployRole(stack, "Deploy", repository="octo-org/search", environment="production", **given)
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("github_owner_id"))

    assert bool(found) is warned


@pytest.mark.parametrize(
    ("given", "qualifier"),
    [
        ({}, "hnb659fds"),
        ({"qualifier": "mine"}, "mine"),
        ({"context": {"@aws-cdk/core:bootstrapQualifier": "ours"}}, "ours"),
    ],
)
def test_it_may_assume_the_roles_of_the_bootstrap_and_no_other(given: Any, qualifier: str) -> None:
    template = _template(**given)
    (statement,) = template["AWS::IAM::Policy"]["PolicyDocument"]["Statement"]

    assert (statement["Action"], len(statement["Resource"])) == ("sts:AssumeRole", 4)
    written = json.dumps(statement["Resource"])
    for role in ("deploy", "file-publishing", "image-publishing", "lookup"):
        assert f":iam::123456789012:role/cdk-{qualifier}-{role}-role-123456789012-eu-west-1" in written


def test_the_provider_is_new_unless_the_account_has_one() -> None:
    assert _template()["AWS::IAM::OIDCProvider"] == {
        "Url": "https://token.actions.githubusercontent.com",
        "ClientIdList": ["sts.amazonaws.com"],
    }

    existing = _template(provider_arn=PROVIDER)
    (statement,) = existing["AWS::IAM::Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Federated": PROVIDER}
    assert "AWS::IAM::OIDCProvider" not in existing


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(FleetError) as raised:
        _template(
            repository="search", environment="*", owner_id="1", provider_arn="github", promoted_from="models"
        )

    assert [each.rule for each in raised.value.problems] == [
        "github-repository",
        "github-environment",
        "github-ids",
        "github-provider",
        "repository-url",
    ]


def test_it_reads_the_repository_of_the_stage_before_and_its_key_for_that_alone() -> None:
    template = _template(promoted_from="s3://staging-models/models/")
    statements = {
        each["Action"]: each for each in template["AWS::IAM::Policy"]["PolicyDocument"]["Statement"]
    }

    assert json.dumps(statements["s3:GetObject"]["Resource"]).endswith(':s3:::staging-models/models/*"]]}')
    decrypted = statements["kms:Decrypt"]["Condition"]["StringLike"]["kms:EncryptionContext:aws:s3:arn"]
    assert [":s3:::staging-models" in json.dumps(each) for each in decrypted] == [True, True]
    assert statements["s3:ListBucket"]["Condition"] == {
        "StringLikeIfExists": {"s3:prefix": ["models", "models/*"]}
    }
