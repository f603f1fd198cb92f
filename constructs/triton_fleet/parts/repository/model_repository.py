"""The model repository: the S3 prefix behind an endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aws_cdk import Annotations as Advice
from aws_cdk import Arn, ArnFormat, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from triton_fleet.parts.arguments.checks import role_arn
from triton_fleet.parts.arguments.late import LateProblems
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.endpoint_fit import RepositoryUsage
from triton_models.artifact.layout import ARCHIVE_SUFFIX
from triton_models.base.checks import Check, Report
from triton_models.repository.manifest import MANIFEST_NAME, REQUESTS

EXISTING_BUCKET = Check(
    id="existing-bucket",
    source="2026-11-22: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html",
)

REMOVAL_POLICY = Check(
    id="removal-policy",
    source=(
        "2026-11-29: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
        "aws-attribute-deletionpolicy.html"
    ),
)

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

# Characters that are safe in keys; a star or a dollar has another meaning in a policy.
REPOSITORY_PREFIX = Check(
    id="repository-prefix",
    source="2026-11-21: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html",
)

_PREFIX = re.compile(r"[A-Za-z0-9!_.()'/-]*")
# A key has 1024 bytes; the other half is left to the names of artifacts.
_LONGEST_PREFIX = 512
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


@typed
class ModelRepository(Construct):
    """A bucket of immutable model artifacts, and the key that encrypts them.

    Nothing is public, and every request needs TLS 1.2. Deleting the stack keeps the models, because compiling
    them again costs GPU hours. Every artifact has a name of its own and is never overwritten, because an
    instance of the endpoint goes on serving the copy that it has downloaded.

    An existing bucket can be used instead, such as one that a deleted stack has left: give it with its key.

    Attributes:
        bucket: The bucket, for what this class does not offer.
        key: The customer-managed key; one that is made here is rotated every year.
        owned: The bucket belongs to the stack. The stack does not change an existing bucket.
        prefix: The prefix that the endpoint serves, with its final slash.
        url: Such as "s3://bucket/models/".
        signals_url: Where clients write what they count of the models, such as "s3://bucket/models-signals/".
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str = "models/",
        bucket: s3.IBucket | None = None,
        encryption_key: kms.IKey | None = None,
        access_logs: s3.IBucket | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the bucket and its key, or take those that are given.

        Args:
            prefix: The prefix of the artifacts' keys. A release may refuse a "/" in a target model, so there
                are no folders below it.
            bucket: A bucket that exists, such as `s3.Bucket.from_bucket_name(...)`. Its encryption, its
                versions and its lifecycle stay as they are.
            encryption_key: The key that encrypts `bucket`, or a new bucket. By default a new key.
            access_logs: A bucket for S3's access log of every request. None by default: a fleet reads its
                models all day, so the log grows without bound. CloudTrail data events answer the same
                questions with the caller's identity.
            removal_policy: The policy for bucket and key when the stack is deleted. By default they stay;
                only a first deployment that fails removes them, while the bucket is empty.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        _check_prefix(report.at("prefix"), known(prefix))
        if bucket is not None and encryption_key is None:
            report.at("bucket")(
                EXISTING_BUCKET,
                "a bucket is given without its key",
                fix="add the key of the bucket's default encryption",
                why="reading and publishing models needs permissions for the key",
            )
        if bucket is not None and access_logs is not None:
            report.at("bucket")(
                EXISTING_BUCKET,
                "access_logs is given for an existing bucket",
                fix="configure the logs where the bucket is created, and remove access_logs",
                why="a stack cannot change a bucket that it does not own",
            )
        if removal_policy is RemovalPolicy.SNAPSHOT:
            report.at("removal_policy")(
                REMOVAL_POLICY,
                "the removal policy is SNAPSHOT, and CloudFormation takes no snapshots of buckets and keys",
                fix="use RETAIN_ON_UPDATE_OR_DELETE, RETAIN or DESTROY",
            )
        report.raise_if_any()
        self.owned = bucket is None
        self.prefix = f"{prefix.strip('/')}/"
        self.key: kms.IKey = encryption_key or kms.Key(
            self,
            "Key",
            description="Encrypts the artifacts of a model repository",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        self.bucket: s3.IBucket = bucket or s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            # One data key for the bucket instead of one for each download, which KMS bills and throttles.
            bucket_key_enabled=True,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            lifecycle_rules=_lifecycle(),
            server_access_logs_bucket=access_logs,
            removal_policy=removal_policy,
        )
        if self.owned:
            self._refuse_overwriting()
        self.url = f"s3://{self.bucket.bucket_name}/{self.prefix}"
        self.signals_url = f"s3://{self.bucket.bucket_name}/{self.signals_prefix}"
        self._expiring = set[str]()
        self._usage = RepositoryUsage()
        LateProblems(self, self._usage.misfits)

    @property
    def artifacts_arn(self) -> str:
        """The ARN pattern of everything below the prefix."""
        return self.bucket.arn_for_objects(f"{self.prefix}*")

    @property
    def list_condition(self) -> dict[str, dict[str, list[str]]]:
        """The condition of ListBucket: the prefix, with and without its slash, or a request that names none.

        AWS's examples for SageMaker have no condition at all. HeadBucket, which asks for the same permission,
        names no prefix, nor may SageMaker when it looks for the bucket; nothing documents what it does.
        """
        return {"StringLikeIfExists": {"s3:prefix": [self.prefix.removesuffix("/"), f"{self.prefix}*"]}}

    @property
    def working_prefix(self) -> str:
        """The prefix of what builds keep next to the artifacts: no endpoint serves what is below it."""
        return f"{self.prefix.removesuffix('/')}-builds/"

    @property
    def signals_prefix(self) -> str:
        """The prefix of what clients count of the models; no endpoint serves what is below it either."""
        return f"{self.prefix.removesuffix('/')}-signals/"

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to list and read the prefix, and nothing else.

        ListBucket is part of it: without it S3 answers a missing artifact with 403 instead of 404, and
        SageMaker cannot distinguish a wrong target model from a wrong role.
        """
        return (
            self._grant_list(grantee)
            .combine(self._grant_objects(grantee, "s3:GetObject"))
            .combine(self._grant_key(grantee, "kms:Decrypt"))
        )

    def grant_resolve(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to read the manifest, which says the artifact of each name, and no artifact.

        It is all that an application needs of the repository: SageMaker reads the weights. Listing is
        limited to the manifest; without it S3 answers 403 while nothing is published yet.
        """
        manifest = f"{self.prefix}{MANIFEST_NAME}"
        named = {"StringLikeIfExists": {"s3:prefix": [manifest]}}
        return (
            allow(grantee, "s3:ListBucket", on=self.bucket.bucket_arn, conditions=named)
            .combine(allow(grantee, "s3:GetObject", on=self.bucket.arn_for_objects(manifest)))
            .combine(self._grant_key(grantee, "kms:Decrypt"))
        )

    def allow_reading(self, *role_arns: str) -> None:
        """Let roles of other accounts read artifacts and manifest, as `fleet promote` does.

        It takes two permissions: this one, in the policies of bucket and key, and the same actions in the
        policy of the role, which its own account grants. The policies name the account and compare the role,
        because S3 refuses a policy that names a role before it exists.
        """
        report = Report(self.node.path)
        for arn in role_arns:
            role_arn(report.at("role_arns"), known(arn))
        if not (self.owned and isinstance(self.key, kms.Key)):
            report.at("role_arns")(
                EXISTING_BUCKET,
                "the bucket or its key is not the stack's own",
                fix="allow the role in the policies of the bucket and the key where they are created",
                why="a stack cannot change the policies of others",
            )
        report.raise_if_any()
        for arn in role_arns:
            account = iam.AccountPrincipal(Arn.split(arn, ArnFormat.SLASH_RESOURCE_NAME).account)
            reader = iam.PrincipalWithConditions(account, {"ArnEquals": {"aws:PrincipalArn": arn}})
            listing = iam.PrincipalWithConditions(reader, self.list_condition)
            bucket = self.bucket
            for principal, action, resource in (
                (listing, "s3:ListBucket", bucket.bucket_arn),
                (reader, "s3:GetObject", self.artifacts_arn),
            ):
                bucket.add_to_resource_policy(
                    iam.PolicyStatement(actions=[action], principals=[principal], resources=[resource])
                )
            self.key.add_to_resource_policy(
                iam.PolicyStatement(actions=["kms:Decrypt"], principals=[reader], resources=["*"])
            )

    def grant_publish(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to add artifacts and to move names: no deleting, and nothing outside the prefix.

        Reading belongs to it, for the manifest is read before it is replaced. So does Decrypt: S3 needs it to
        put the parts of a large upload together.
        """
        return (
            self._grant_list(grantee)
            .combine(self._grant_objects(grantee, "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"))
            .combine(self._grant_key(grantee, "kms:Decrypt", "kms:GenerateDataKey"))
        )

    def grant_prune(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to delete artifacts that nothing needs any more, as `fleet prune` does: no new ones.

        It looks first for artifacts that Models and endpoints of the account use; SageMaker lists neither by
        resource. A bucket with versions keeps what is deleted for ninety days.
        """
        manifest = self.bucket.arn_for_objects(f"{self.prefix}{MANIFEST_NAME}")
        read = ("DescribeEndpoint", "DescribeEndpointConfig", "DescribeModel", "ListEndpoints", "ListModels")
        return (
            self._grant_list(grantee)
            .combine(self._grant_objects(grantee, "s3:GetObject", "s3:DeleteObject"))
            .combine(allow(grantee, "s3:PutObject", on=manifest))
            .combine(allow(grantee, *(f"sagemaker:{each}" for each in read), on="*"))
            .combine(self._grant_key(grantee, "kms:Decrypt", "kms:GenerateDataKey"))
        )

    def expire(self, *, rule: str, prefix: str, after: Duration) -> None:
        """Let S3 delete what is below a prefix of the bucket when it is old; of an existing bucket, say so.

        The rule is the lifecycle rule's id: a second one of it changes nothing.
        """
        if rule in self._expiring:
            return
        self._expiring.add(rule)
        if isinstance(self.bucket, s3.Bucket):
            self.bucket.add_lifecycle_rule(id=rule, prefix=prefix, expiration=after)
            return
        Advice.of(self).add_info(
            f"Give the existing bucket a lifecycle rule that deletes {prefix} after {after.to_days():.0f} "
            "days. Nothing reads it for longer, and the stack changes no bucket that it does not own."
        )

    def sequence_models(self) -> tuple[str, ...]:
        """The models with sequence batching that build jobs publish here."""
        return self._usage.sequence_models()

    def _refuse_overwriting(self) -> None:
        """Refuse to write an artifact or a request over another one, to every caller.

        Parts of an upload have no such condition; its completion has. Source, read on 2026-11-25:
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
        """
        names = (f"*{ARCHIVE_SUFFIX}", f"{REQUESTS}/*")
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NothingIsOverwritten",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[self.bucket.arn_for_objects(f"{self.prefix}{each}") for each in names],
                conditions={
                    "Null": {"s3:if-none-match": "true"},
                    "Bool": {"s3:ObjectCreationOperation": "true"},
                },
            )
        )

    def _grant_list(self, grantee: iam.IGrantable) -> iam.Grant:
        return allow(grantee, "s3:ListBucket", on=self.bucket.bucket_arn, conditions=self.list_condition)

    def _grant_objects(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return allow(grantee, *actions, on=self.artifacts_arn)

    def _grant_key(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return allow(grantee, *actions, on=self.key.key_arn)


def allow(
    grantee: iam.IGrantable, *actions: str, on: str, conditions: Mapping[str, Any] | None = None
) -> iam.Grant:
    """Grant actions on a resource."""
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=list(actions), resource_arns=[on], conditions=conditions
    )


def _lifecycle() -> list[s3.LifecycleRule]:
    return [
        s3.LifecycleRule(
            id="AbandonedUploads",
            # An interrupted upload of a large artifact is billed and invisible; none takes a week.
            abort_incomplete_multipart_upload_after=Duration.days(7),
        ),
        s3.LifecycleRule(
            id="OldVersions",
            # Artifacts are never overwritten, so this is about manifests replaced and artifacts deleted:
            # three months to notice a mistake.
            noncurrent_version_expiration=Duration.days(90),
            expired_object_delete_marker=True,
        ),
    ]


def bucket_name(report: Report, name: str | None) -> None:
    """Report problems with a bucket's name; None is no bucket."""
    if name is None or (_BUCKET_NAME.fullmatch(name) and ".." not in name):
        return
    report(
        EXISTING_BUCKET,
        f"the bucket is {name[:80]!a}",
        fix="use only the name: 3 to 63 lower-case letters, digits, dots and hyphens, without s3://",
    )


def _check_prefix(report: Report, prefix: str | None) -> None:
    if prefix is None:
        return
    if prefix.strip("/").lower().endswith(_ARCHIVES):
        report(
            REPOSITORY_PREFIX,
            f"the prefix {prefix[:60]!a} names an archive",
            fix="remove the file name",
            why="a prefix ends with a slash, so the repository would be empty",
        )
        return
    folders = prefix.strip("/")
    too_long = len(prefix) > _LONGEST_PREFIX
    if _PREFIX.fullmatch(prefix) and folders and "//" not in folders and not too_long:
        return
    report(
        REPOSITORY_PREFIX,
        f"the prefix is {prefix[:60]!a}" + f"..., with {len(prefix)} characters" * too_long,
        fix=f"shorten it to {_LONGEST_PREFIX} characters"
        if too_long
        else "use folders such as models/ or search/models/, of letters, digits and any of !_.()'-",
        why="the URLs of models and the policies for reading them contain it",
    )
