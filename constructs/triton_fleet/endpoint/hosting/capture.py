"""Data capture: keeping a sample of what a single-model endpoint is asked and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from triton_fleet.parts.arguments.checks import literal_list
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

DATA_CAPTURE = Check(
    id="data-capture", source="2026-11-22: CaptureOptionList of SageMaker in botocore 1.44.5, at least one"
)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class DataCapture:
    """Capture of requests and answers in S3, for monitoring, audits or training.

    A multi-model endpoint cannot have one: SageMaker captures for endpoints that serve one model.

    Attributes:
        bucket: The bucket to write to.
        prefix: The prefix of the files, which are sorted by endpoint, variant and hour.
        sampling_percent: The share of requests to capture, 0 to 100. The default is all, which is a lot of
            data on a busy endpoint; requests do not wait for it.
        inputs: Keep what was asked.
        outputs: Keep what was answered.
        encryption_key: Encrypts the files. By default what the bucket does by itself.
        csv_content_types: Content types that are stored as CSV.
        json_content_types: Content types that are stored as JSON. All others, including Triton's binary type,
            are stored in base64.
    """

    bucket: s3.IBucket
    prefix: str = "captured/"
    sampling_percent: int = 100
    inputs: bool = True
    outputs: bool = True
    encryption_key: kms.IKey | None = None
    csv_content_types: Sequence[str] = ()
    json_content_types: Sequence[str] = ("application/json",)

    def _check(self, report: Report) -> None:
        """Report problems of values that would capture nothing."""
        if not (self.inputs or self.outputs):
            report(
                DATA_CAPTURE,
                "neither inputs nor outputs are captured",
                fix="leave data_capture out to capture nothing",
                why="SageMaker refuses a capture of nothing",
            )
        for name, types in (
            ("csv_content_types", self.csv_content_types),
            ("json_content_types", self.json_content_types),
        ):
            literal_list(report, types, name=name)

    def _grant(self, role: iam.IRole) -> None:
        """Let the endpoint's role write the files, and nothing else."""
        self.bucket.grant_put(role, f"{self._folder}*")
        if self.encryption_key is not None:
            self.encryption_key.grant_encrypt(role)

    def _render(self) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
        """As CloudFormation takes it."""
        modes = [mode for mode, on in (("Input", self.inputs), ("Output", self.outputs)) if on]
        csv, json = list(self.csv_content_types), list(self.json_content_types)
        return sagemaker.CfnEndpointConfig.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=self.sampling_percent,
            destination_s3_uri=f"s3://{self.bucket.bucket_name}/{self._folder}",
            kms_key_id=self.encryption_key.key_arn if self.encryption_key else None,
            capture_options=[
                sagemaker.CfnEndpointConfig.CaptureOptionProperty(capture_mode=mode) for mode in modes
            ],
            capture_content_type_header=sagemaker.CfnEndpointConfig.CaptureContentTypeHeaderProperty(
                # An empty list is refused, a missing one is not.
                csv_content_types=csv or None,
                json_content_types=json or None,
            )
            if csv or json
            else None,
        )

    @property
    def _folder(self) -> str:
        return f"{self.prefix.strip('/')}/".removeprefix("/")
