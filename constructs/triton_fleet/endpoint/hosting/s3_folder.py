"""A folder in S3 that SageMaker reads or writes for an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.endpoint_network import EndpointNetwork


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class S3Folder:
    """A bucket and a prefix of object names.

    Attributes:
        bucket: The bucket, in the endpoint's region.
        prefix: Such as "answers/"; the slash at its end may be left out. Empty for the bucket.
    """

    bucket: s3.IBucket
    prefix: str = ""

    @property
    def url(self) -> str:
        """Such as "s3://bucket/answers/"."""
        return f"s3://{self.bucket.bucket_name}/{self._folder}"

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to read what is in it, and nothing else.

        ListBucket is part of it: without it S3 answers a missing object with 403, as it would a wrong role.

        Args:
            grantee: The principal that may read.
        """
        grant = self._grant(grantee, "s3:GetObject").combine(self._grant_list(grantee))
        key = self.bucket.encryption_key
        return grant if key is None else grant.combine(key.grant_decrypt(grantee))

    def grant_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to put objects into it, and nothing else.

        Args:
            grantee: The principal that may write.
        """
        grant = self._grant(grantee, "s3:PutObject", "s3:AbortMultipartUpload")
        key = self.bucket.encryption_key
        return grant if key is None else grant.combine(key.grant_encrypt_decrypt(grantee))

    def _allow_through(self, network: EndpointNetwork, *actions: str) -> None:
        """Let requests for these actions through the network's S3 endpoint, whose policy is narrow."""
        if network.s3_endpoint is not None:
            network.s3_endpoint.add_to_policy(
                iam.PolicyStatement(
                    principals=[iam.AnyPrincipal()], actions=list(actions), resources=[self._objects]
                )
            )

    def _grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[self._objects]
        )

    def _grant_list(self, grantee: iam.IGrantable) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket"],
            resource_arns=[self.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{self._folder}*"}},
        )

    @property
    def _objects(self) -> str:
        return self.bucket.arn_for_objects(f"{self._folder}*")

    @property
    def _folder(self) -> str:
        return f"{self.prefix.strip('/')}/".removeprefix("/")
