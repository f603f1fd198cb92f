"""The role with which a workflow of GitHub Actions deploys, without a stored key."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import Annotations as Advice
from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.arguments.collector import look_up
from triton_fleet.arguments.tokens import deferred, known
from triton_fleet.arguments.typed import typed
from triton_fleet.delivery.checks import (
    ISSUER,
    READ_IDS,
    github_environment,
    github_ids,
    github_provider,
    github_repository,
)
from triton_fleet.fleet.accepted_findings import (
    Acceptance,
    accept,
    bucket_arn,
    pattern,
    policy_of,
    reads_prefix,
)
from triton_fleet.fleet.multi_model_fleet import MultiModelFleet
from triton_models.base.checks import Report
from triton_models.repository.manifest import Repository

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
    use it. With a fleet, it may also invoke its models, to test them, and publish models for it.

    Deploy it once yourself; later the workflow does so.

    Example:
        ```python
        app = App()
        stack = Stack(app, "Delivery")
        deploy = GitHubDeployRole(
            stack, "Deploy", repository="octo-org/search", environment="production"
        )
        ```

    Attributes:
        role: The role.
        provider_arn: The account's identity provider for GitHub.
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
            scope: The parent construct.
            construct_id: The construct's id.
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

        Raises:
            FleetError: The repository or the environment is no name of one, an id is missing or no number,
                the provider is not GitHub's, or the model repository is not the URL of one.
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
        """Accepted findings of the role."""
        if fleet is None:
            return
        policy, repository = policy_of(self.role), fleet.library.repository
        for arn in fleet.alias._endpoint_arns:
            yield pattern(
                policy,
                arn,
                "Another release or instance type is another endpoint of the same fleet. A condition limits "
                "the permission to endpoints with the fleet's tag.",
            )
        yield reads_prefix(policy, bucket_arn(repository, self), repository.prefix)

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
