"""The role with which a workflow of GitHub Actions deploys, without a stored key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aws_cdk import Annotations as Advice
from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.fleet.accepted_findings import Acceptance, accept, pattern, reads
from triton_fleet.fleet.multi_model_fleet import MultiModelFleet
from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.roles import policy_of
from triton_fleet.parts.arguments.tokens import deferred, known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report
from triton_models.repository.manifest import Repository

GITHUB_REPOSITORY = Check(
    id="github-repository", source="2026-11-23: https://docs.github.com/en/actions/reference/security/oidc"
)

GITHUB_ENVIRONMENT = Check(
    id="github-environment", source="2026-11-23: https://docs.github.com/en/actions/reference/security/oidc"
)

GITHUB_PROVIDER = Check(
    id="github-provider",
    source="2026-11-23: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html",
)

ISSUER = "token.actions.githubusercontent.com"
"""The host that signs the tokens of GitHub Actions."""

READ_IDS = "gh api repos/OWNER/NAME --jq '.owner.id, .id'"
"""The command that prints the ids of a repository's owner and of the repository."""

GITHUB_IDS = Check(
    id="github-ids",
    source="2026-11-25: "
    "https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens/",
)

_REPOSITORY = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9])*(_[A-Za-z0-9]+)?/[A-Za-z0-9._-]+")
_ID = re.compile(r"[1-9][0-9]*", re.ASCII)
_OWNER, _NAME, _LONGEST_ENVIRONMENT = 39, 100, 255
# A colon is escaped in the subject, and a star or a question mark would stand for others.
_FORBIDDEN = re.compile(r"[:*?${}\x00-\x1f\x7f]|^\s|\s$")


def github_repository(report: Report, repository: str | None) -> None:
    """Report problems with a repository's name; None if it is known only at deployment."""
    if repository is None:
        return
    owner, _, name = repository.partition("/")
    fits = len(owner) <= _OWNER and len(name) <= _NAME and name not in {".", ".."}
    if fits and _REPOSITORY.fullmatch(repository):
        return
    report(
        GITHUB_REPOSITORY,
        f"the repository is {repository[:80]!a}",
        fix="give the last two parts of its address, without https://github.com/ and .git"
        if "github.com" in repository
        else "give the names alone; their numbers are the owner's id and the repository's id"
        if "@" in repository
        else "give the owner, a slash and the repository's name",
        why="the role trusts the tokens of this repository, and of no other",
    )


def github_ids(report: Report, owner: str | None, repository: str | None) -> None:
    """Report problems with the ids of a repository and its owner; None of both for tokens without them."""
    if owner is None and repository is None:
        return
    if all(each and _ID.fullmatch(each) for each in (owner, repository)):
        return
    report(
        GITHUB_IDS,
        f"the owner's id is {_given(owner)}, and the repository's id is {_given(repository)}",
        fix=f"give two numbers, as from {READ_IDS}",
        why="the subject of a token has both ids or none",
    )


def _given(number: str | None) -> str:
    return "missing" if number is None else repr(number[:40])


def github_environment(report: Report, environment: str | None) -> None:
    """Report problems with an environment's name; None if it is known only at deployment."""
    if environment is None:
        return
    if environment and len(environment) <= _LONGEST_ENVIRONMENT and not _FORBIDDEN.search(environment):
        return
    report(
        GITHUB_ENVIRONMENT,
        f"the environment is {environment[:80]!a}",
        fix=f"use one name, such as production: up to {_LONGEST_ENVIRONMENT} characters without : * ? $",
        why="its protection rules decide who may deploy, and the trust names it alone",
    )


def github_provider(report: Report, arn: str | None) -> None:
    """Report problems with the ARN of an identity provider; None for a new one, or if it is not known yet."""
    if arn is None or re.fullmatch(
        rf"arn:aws[a-z-]*:iam::[0-9]{{12}}:oidc-provider/{re.escape(ISSUER)}", arn
    ):
        return
    report(
        GITHUB_PROVIDER,
        f"the provider is {arn[:80]!a}",
        fix=f"copy the ARN ending in oidc-provider/{ISSUER} from `aws iam list-open-id-connect-providers`, "
        "or leave it out for a new one",
        why="only this provider vouches for the tokens of GitHub Actions",
    )


# The roles of `cdk bootstrap` that the command line assumes. The fifth one, with which CloudFormation creates
# resources, is passed to CloudFormation by the first.
_BOOTSTRAP_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")
_CONTEXT = "@aws-cdk/core:bootstrapQualifier"
_QUALIFIER = "hnb659fds"
_AUDIENCE = "sts.amazonaws.com"
# Updates wait after each step, and a build may take an hour: longer than the hour of a role by default.
_SESSION = Duration.hours(4)


@typed
class GitHubDeployRole(Construct):
    """A role that a workflow of one GitHub repository assumes in one environment, with a token of GitHub's.

    It may assume the roles that `cdk bootstrap` made for the account and the region of the stack, and nothing
    else: those deploy. The protection rules of the environment, such as required reviewers, decide who may
    use it. With a fleet, it may also invoke its models, to test them, publish models for it, and read alarms.

    Deploy it once yourself; later the workflow does so.

    Example:
        ```python
        app = App()
        stack = Stack(app, "Delivery")
        deploy = GitHubDeployRole(
            stack, "Deploy", repository="octo-org/search", environment="production"
        )
        ```
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: str,
        environment: str,
        owner_id: str | None = None,
        repository_id: str | None = None,
        provider_arn: str | None = None,
        fleet: MultiModelFleet | None = None,
        promoted_from: str | None = None,
        qualifier: str | None = None,
    ) -> None:
        """Create the role.

        Args:
            repository: The repository, as OWNER/NAME.
            environment: The environment of the repository in which the job runs, such as production.
            owner_id: The number of the repository's owner. GitHub adds it and `repository_id` to the tokens
                of repositories that were created, renamed or transferred since 2026-07-15, or that opted in.
            repository_id: The number of the repository. Without both ids, the role trusts only tokens without
                them.
            provider_arn: The account's identity provider for GitHub, of which an account can have one. By
                default a new one.
            fleet: The fleet whose models the workflow tests and publishes.
            promoted_from: The model repository of the stage before, s3://bucket/prefix/. One in another
                account allows the role with `ModelRepository.allow_reading`. The bucket may be a token.
            qualifier: The qualifier of `cdk bootstrap`. By default that of the CDK's context, or hnb659fds.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        github_repository(report.at("repository"), known(repository))
        github_environment(report.at("environment"), known(environment))
        github_ids(report.at("owner_id"), known(owner_id), known(repository_id))
        github_provider(report.at("provider_arn"), known(provider_arn))
        source = _source(promoted_from, report) if promoted_from else None
        report.raise_if_any()
        self._qualifier = qualifier
        subject = repository
        if owner_id is None:
            self._advise_on_ids(repository)
        else:
            owner, _, name = repository.partition("/")
            subject = f"{owner}@{owner_id}/{name}@{repository_id}"
        self.provider_arn = provider_arn or self._new_provider()
        self.role = iam.Role(
            self,
            "Role",
            description=f"Deploys from the environment {environment} of {repository} on GitHub",
            max_session_duration=_SESSION,
            assumed_by=iam.WebIdentityPrincipal(
                self.provider_arn,
                {
                    "StringEquals": {
                        f"{ISSUER}:aud": _AUDIENCE,
                        f"{ISSUER}:sub": f"repo:{subject}:environment:{environment}",
                    }
                },
            ),
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="Deploy", actions=["sts:AssumeRole"], resources=[*map(self._role_arn, _BOOTSTRAP_ROLES)]
            )
        )
        if fleet is not None:
            fleet.grant_invoke(self.role)
            fleet.library.repository.grant_publish(self.role)
            self._watch(fleet)
        accept(self._accepted(fleet))
        if source is not None:
            accept(self._reading(source))

    def _advise_on_ids(self, repository: str) -> None:
        Advice.of(self).add_warning_v2(
            "triton-fleet:github-ids",
            f"The role trusts the tokens of {repository} without ids. GitHub has added the ids of owner and "
            "repository to the tokens of each repository that was created, renamed or transferred since "
            "2026-07-15: the role refuses those. For such a repository, set github_owner_id and "
            f"github_repository_id: {READ_IDS}",
        )

    def _new_provider(self) -> str:
        provider = iam.OidcProviderNative(self, "Provider", url=f"https://{ISSUER}", client_ids=[_AUDIENCE])
        return provider.oidc_provider_arn

    def _accepted(self, fleet: MultiModelFleet | None) -> Iterator[Acceptance]:
        if fleet is None:
            return
        policy = policy_of(self.role)
        for arn in fleet.alias._endpoint_arns:
            yield pattern(
                policy,
                arn,
                "Another release or instance type is another endpoint of the same fleet. A condition limits "
                "the permission to endpoints with the fleet's tag.",
            )
        yield reads(policy, fleet.library.repository)
        yield pattern(
            policy,
            "*",
            "CloudWatch describes composite alarms only with a permission for all alarms. The action changes "
            "nothing.",
        )

    def _watch(self, fleet: MultiModelFleet) -> None:
        """Allow to read the alarms of an endpoint, and the states of all, for `fleet promote --watch`.

        Source, read on 2026-11-27:
        https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_DescribeAlarms.html
        """
        for action, arns in (
            ("cloudwatch:DescribeAlarms", ["*"]),
            ("sagemaker:DescribeEndpoint", fleet.alias._endpoint_arns),
        ):
            self.role.add_to_policy(iam.PolicyStatement(actions=[action], resources=arns))

    def _reading(self, source: Repository) -> Iterator[Acceptance]:
        """Allow to read the repository of the stage before; yields the accepted findings of that."""
        bucket = f"arn:{Aws.PARTITION}:s3:::{source.bucket}"
        artifacts = f"{bucket}/{source.prefix}*"
        keys = f"arn:{Aws.PARTITION}:kms:*:*:key/*"
        listed = {"StringLikeIfExists": {"s3:prefix": [source.prefix.removesuffix("/"), f"{source.prefix}*"]}}
        # S3 names the object to the key, or its bucket where the bucket has a key of its own.
        decrypted = {"StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket, artifacts]}}
        for action, arn, conditions in (
            ("s3:ListBucket", bucket, listed),
            ("s3:GetObject", artifacts, None),
            ("kms:Decrypt", keys, decrypted),
        ):
            self.role.add_to_policy(
                iam.PolicyStatement(actions=[action], resources=[arn], conditions=conditions)
            )
        policy = policy_of(self.role)
        yield pattern(policy, artifacts, "The artifacts of the stage before are not known at deployment.")
        yield pattern(
            policy,
            keys,
            "The key is that of another stage, and not known here. A condition limits the permission to "
            "objects of the repository.",
        )

    def _role_arn(self, name: str) -> str:
        stack = Stack.of(self)
        qualifier = self._qualifier or self.node.try_get_context(_CONTEXT) or _QUALIFIER
        return (
            f"arn:{Aws.PARTITION}:iam::{stack.account}:role/"
            f"cdk-{qualifier}-{name}-role-{stack.account}-{stack.region}"
        )


def _source(url: str, report: Report) -> Repository | None:
    """Return the repository of a URL in which the name of the bucket may be a token."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if prefix and deferred(bucket) and not deferred(prefix):
        return Repository(bucket=bucket, prefix=prefix)
    return look_up(report, "promoted_from", url, Repository.parse)
