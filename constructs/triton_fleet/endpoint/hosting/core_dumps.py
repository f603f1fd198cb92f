"""Core dumps: what is left of a container that crashed."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from triton_fleet.endpoint.hosting.s3_folder import S3Folder
from triton_fleet.parts.arguments.typed import typed

_Config = sagemaker.CfnEndpointConfig.CoreDumpConfigProperty


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDumps:
    """Core dumps of crashed containers, stored in S3 for debugging backends.

    A dump holds models and requests: whoever may read the folder may read those.

    Source, read on 2026-11-21:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantCoreDumpConfig.html

    Attributes:
        folder: The folder to write to.
        encryption_key: Encrypts the dumps; None for the default key of S3.
    """

    folder: S3Folder
    encryption_key: kms.IKey | None = None

    def _grant(self, role: iam.IRole) -> None:
        """Let the endpoint's role write dumps, and nothing else."""
        self.folder.grant_write(role)
        if self.encryption_key is not None:
            self.encryption_key.grant_encrypt(role)

    def _render(self) -> _Config:
        """As CloudFormation takes it."""
        return _Config(
            destination_s3_uri=self.folder.url,
            kms_key_id=self.encryption_key.key_arn if self.encryption_key else None,
        )
