"""The model repository: the S3 prefix behind an endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from triton_fleet.arguments.findings import Findings
from triton_fleet.arguments.tokens import known
from triton_fleet.arguments.typed import typed
from triton_fleet.rules.plan_portability import PlanTarget, plan_portability
from triton_fleet.rules.repository_prefix import repository_prefix
from triton_models.errors import Problem
from triton_models.manifest import MANIFEST_NAME


class ModelRepository(Construct):
    """A bucket of immutable model artifacts, and the key that encrypts them.

    Nothing is public, nothing travels without TLS 1.2, and deleting the stack keeps the models: compiling
    them again costs GPU hours. Every artifact has a name of its own and is never overwritten, because an
    instance of the endpoint goes on serving the copy it has downloaded.

    Attributes:
        bucket: The bucket, for what this class does not offer.
        key: The customer-managed key; rotated every year.
        prefix: The prefix that the endpoint serves, with its final slash.
        url: Such as "s3://bucket/models/".
    """

    @typed
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str = "models/",
        access_logs: s3.IBucket | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
    ) -> None:
        """Create the bucket and its key.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            prefix: What comes before the artifacts' names. A release may refuse a "/" in a target model, so
                artifacts lie flat below it.
            access_logs: Where S3 writes an access log of every request. None by default: a fleet reads its
                models all day, the log grows without bound, and CloudTrail data events answer the same
                questions with the caller's identity.
            removal_policy: What happens to bucket and key when the stack is deleted.

        Raises:
            FleetError: A prefix with characters that mean something else in a URL or in a policy.
        """
        super().__init__(scope, construct_id)
        findings = Findings.of(self)
        findings.add(repository_prefix(known(prefix), where=findings.where("prefix")))
        findings.raise_if_any()
        self.prefix = f"{prefix.strip('/')}/"
        self.key = kms.Key(
            self,
            "Key",
            description="Encrypts the artifacts of a model repository",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        self.bucket = s3.Bucket(
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
        self.url = f"s3://{self.bucket.bucket_name}/{self.prefix}"
        self._builds: list[PlanTarget] = []
        self._endpoints: list[PlanTarget] = []

    @property
    def artifacts_arn(self) -> str:
        """The ARN pattern of everything below the prefix."""
        return self.bucket.arn_for_objects(f"{self.prefix}*")

    @property
    def working_prefix(self) -> str:
        """The prefix of what builds keep beside the artifacts: no endpoint serves what is below it."""
        return f"{self.prefix.removesuffix('/')}-builds/"

    @typed
    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to list and read the prefix, and nothing beside it.

        ListBucket is part of it: without it S3 answers a missing artifact with 403 instead of 404, and
        SageMaker cannot tell a wrong target model from a wrong role.
        """
        return (
            self._grant_list(grantee)
            .combine(self._grant_objects(grantee, "s3:GetObject"))
            .combine(self._grant_key(grantee, "kms:Decrypt"))
        )

    @typed
    def grant_publish(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to add artifacts and to move names: no deleting, and nothing beside the prefix.

        Reading belongs to it, for the manifest is read before it is replaced. So does Decrypt: S3 needs it to
        put the parts of a large upload together.
        """
        return (
            self._grant_list(grantee)
            .combine(self._grant_objects(grantee, "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"))
            .combine(self._grant_key(grantee, "kms:Decrypt", "kms:GenerateDataKey"))
        )

    @typed
    def grant_prune(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to delete artifacts that nothing needs any more, as `fleet prune` does: no new ones.

        What it finds out first is which artifacts the account's SageMaker Models name, and SageMaker lists no
        models by resource. A bucket with versions keeps what is deleted for ninety days.
        """
        uploads = iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucketMultipartUploads"],
            resource_arns=[self.bucket.bucket_arn],
        )
        models = iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["sagemaker:ListModels", "sagemaker:DescribeModel"],
            resource_arns=["*"],
        )
        manifest = iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:PutObject"],
            resource_arns=[self.bucket.arn_for_objects(f"{self.prefix}{MANIFEST_NAME}")],
        )
        objects = self._grant_objects(grantee, "s3:GetObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
        key = self._grant_key(grantee, "kms:Decrypt", "kms:GenerateDataKey")
        return (
            self._grant_list(grantee)
            .combine(objects)
            .combine(manifest)
            .combine(uploads)
            .combine(models)
            .combine(key)
        )

    @typed
    def compiled_for(self, target: PlanTarget, *, where: str) -> Iterator[Problem]:
        """Note a build job that publishes here; yields its conflicts with the endpoints noted so far."""
        self._builds.append(target)
        for endpoint in self._endpoints:
            problem = plan_portability(build=target, endpoint=endpoint, where=where)
            if problem is not None:
                yield problem

    @typed
    def served_by(self, target: PlanTarget, *, where: str) -> Iterator[Problem]:
        """Note an endpoint that serves this; yields its conflicts with the build jobs noted so far."""
        self._endpoints.append(target)
        for build in self._builds:
            problem = plan_portability(build=build, endpoint=target, where=where)
            if problem is not None:
                yield problem

    def _grant_list(self, grantee: iam.IGrantable) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket"],
            resource_arns=[self.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{self.prefix}*"}},
        )

    def _grant_objects(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[self.artifacts_arn]
        )

    def _grant_key(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[self.key.key_arn]
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
