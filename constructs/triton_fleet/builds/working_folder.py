"""Folders of builds next to the artifacts: TensorRT's timing cache, and the results of runs."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.model_repository import ModelRepository


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingFolder:
    """A folder of a repository's bucket that no endpoint serves and `fleet prune` never looks into."""

    repository: ModelRepository
    name: str

    @property
    def prefix(self) -> str:
        """The prefix of its keys, with the final slash."""
        return f"{self.repository.working_prefix}{self.name}/"

    @property
    def url(self) -> str:
        """Such as "s3://bucket/models-builds/timing-cache/"."""
        return f"s3://{self.repository.bucket.bucket_name}/{self.prefix}"

    @property
    def objects_arn(self) -> str:
        """The ARN pattern of everything in it."""
        return self.repository.bucket.arn_for_objects(f"{self.prefix}*")

    def read_write_statements(self, sid: str) -> list[iam.PolicyStatement]:
        """Return the statements for reading, listing and writing it, without the repository's key."""
        return [
            iam.PolicyStatement(
                sid=sid, actions=["s3:GetObject", "s3:PutObject"], resources=[self.objects_arn]
            ),
            iam.PolicyStatement(
                sid=f"{sid}Listed",  # else S3 answers 403 for what is not there, as for what is forbidden
                actions=["s3:ListBucket"],
                resources=[self.repository.bucket.bucket_arn],
                conditions={"StringLike": {"s3:prefix": f"{self.prefix}*"}},
            ),
        ]

    def write_statement(self, sid: str) -> iam.PolicyStatement:
        """Return the statement for writing it, without the repository's key."""
        return iam.PolicyStatement(sid=sid, actions=["s3:PutObject"], resources=[self.objects_arn])

    def key_statement(self, sid: str) -> iam.PolicyStatement:
        """Return the statement for using the repository's key to read and write here."""
        return iam.PolicyStatement(
            sid=sid, actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[self.repository.key.key_arn]
        )


def timing_cache(repository: ModelRepository) -> WorkingFolder:
    """Return the folder of TensorRT's measurements per GPU and version, which make later builds faster."""
    return WorkingFolder(repository=repository, name="timing-cache")


def runs(repository: ModelRepository) -> WorkingFolder:
    """A folder for each run: its items, a result for each model, and the summary."""
    return WorkingFolder(repository=repository, name="runs")
