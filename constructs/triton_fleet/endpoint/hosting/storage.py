"""What SageMaker reads and writes in S3 for an endpoint: requests, answers and captured data.

Sources of asynchronous inference, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-create-endpoint-prerequisites.html, for what
  the role needs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns

from triton_fleet.parts.arguments.checks import literal_list
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_models.base.checks import Check, Report

Outcome = Literal["success", "error"]

ASYNC_TOPICS = Check(
    id="async-topics",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AsyncInferenceNotificationConfig.html",
)
DATA_CAPTURE = Check(
    id="data-capture", source="2026-11-22: CaptureOptionList of SageMaker in botocore 1.44.5, at least one"
)

_Config = sagemaker.CfnEndpointConfig
_WRITING = ("s3:PutObject", "s3:AbortMultipartUpload")
_TOPICS = {"success": "SUCCESS_NOTIFICATION_TOPIC", "error": "ERROR_NOTIFICATION_TOPIC"}


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
        """
        reading = self._grant(grantee, "s3:GetObject")
        listing = iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket"],
            resource_arns=[self.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{self._folder}*"}},
        )
        grant, key = reading.combine(listing), self.bucket.encryption_key
        return grant if key is None else grant.combine(key.grant_decrypt(grantee))

    def grant_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to put objects into it, and nothing else."""
        grant, key = self._grant(grantee, *_WRITING), self.bucket.encryption_key
        return grant if key is None else grant.combine(key.grant_encrypt_decrypt(grantee))

    def _allow_through(self, network: EndpointNetwork | None, *actions: str) -> None:
        """Let requests for these actions through the network's S3 endpoint, whose policy is narrow."""
        if network is not None and network.s3_endpoint is not None:
            network.s3_endpoint.add_to_policy(
                iam.PolicyStatement(
                    principals=[iam.AnyPrincipal()], actions=list(actions), resources=[self._objects]
                )
            )

    def _grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[self._objects]
        )

    @property
    def _objects(self) -> str:
        return self.bucket.arn_for_objects(f"{self._folder}*")

    @property
    def _folder(self) -> str:
        return f"{self.prefix.strip('/')}/".removeprefix("/")


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
        if not (self.inputs or self.outputs):
            report(
                DATA_CAPTURE,
                "neither inputs nor outputs are captured",
                fix="leave data_capture out to capture nothing",
                why="SageMaker refuses a capture of nothing",
            )
        for name in ("csv_content_types", "json_content_types"):
            literal_list(report, getattr(self, name), name=name)

    def _grant(self, role: iam.IRole) -> None:
        self.bucket.grant_put(role, f"{self._folder._folder}*")
        if self.encryption_key is not None:
            self.encryption_key.grant_encrypt(role)

    def _render(self) -> _Config.DataCaptureConfigProperty:
        modes = [mode for mode, on in (("Input", self.inputs), ("Output", self.outputs)) if on]
        # An empty list is refused, a missing one is not.
        csv, json = list(self.csv_content_types) or None, list(self.json_content_types) or None
        return _Config.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=self.sampling_percent,
            destination_s3_uri=self._folder.url,
            kms_key_id=_arn(self.encryption_key),
            capture_options=[_Config.CaptureOptionProperty(capture_mode=mode) for mode in modes],
            capture_content_type_header=_Config.CaptureContentTypeHeaderProperty(
                csv_content_types=csv, json_content_types=json
            )
            if csv or json
            else None,
        )

    @property
    def _folder(self) -> S3Folder:
        return S3Folder(bucket=self.bucket, prefix=self.prefix)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncInference:
    """Asynchronous inference through S3: `InvokeEndpointAsync` instead of `InvokeEndpoint`.

    For requests of up to 1 GB and answers that may take an hour. Requests wait in a queue of SageMaker's, so
    the fleet may shrink to no instance at all without requests: give `EndpointScaling` min_capacity=0.

    SageMaker publishes no Invocations of such an endpoint. `EndpointAlarms` and `EndpointDashboard` look at
    the queue instead; `RollbackAlarms`, which count requests, never go off.

    SageMaker refuses to remove it from an endpoint. To go back to real-time inference, give the endpoint
    another name.

    Attributes:
        requests: The folder for requests, which the role may read.
        output: The folder for answers.
        failure: The folder for errors; None to report them only through the topic.
        success_topic: Notified of each answer.
        error_topic: Notified of each failure.
        include_inference_in: The notifications that hold the answer itself, if that has 128 KB at most.
        max_concurrent_invocations: Requests that SageMaker gives to a container at one time, 1 to 1000. None
            leaves it to SageMaker; Triton's dynamic batching needs as many as make a batch.
        encryption_key: Encrypts the answers; None for what the bucket does by itself.
    """

    requests: S3Folder
    output: S3Folder
    failure: S3Folder | None = None
    success_topic: sns.ITopic | None = None
    error_topic: sns.ITopic | None = None
    include_inference_in: Sequence[Outcome] = ()
    max_concurrent_invocations: int | None = None
    encryption_key: kms.IKey | None = None

    def _check(self, report: Report) -> None:
        included = self.include_inference_in
        for outcome in sorted(set(included) - set(self._topics)):
            report(
                ASYNC_TOPICS,
                f"include_inference_in names {outcome!r}, and there is no {outcome}_topic",
                fix=f"add {outcome}_topic, or remove {outcome!r}",
                why="without a topic, no notification is sent",
            )
        for outcome in sorted({each for each in included if included.count(each) > 1}):
            what = f"include_inference_in names {outcome!r} {included.count(outcome)} times"
            report(ASYNC_TOPICS, what, fix="keep one of them")

    def _grant(self, role: iam.IRole, network: EndpointNetwork | None) -> None:
        self.requests.grant_read(role)
        for folder in self._written:
            folder.grant_write(role)
        for topic in self._topics.values():
            topic.grant_publish(role)
            if topic.master_key is not None:
                topic.master_key.grant(role, "kms:Decrypt", "kms:GenerateDataKey")
        if self.encryption_key is not None:
            self.encryption_key.grant_encrypt_decrypt(role)
        self.requests._allow_through(network, "s3:GetObject")
        for folder in self._written:
            folder._allow_through(network, *_WRITING)

    def _grant_caller(self, grantee: iam.IGrantable) -> iam.Grant:
        grant = self.requests.grant_write(grantee)
        for folder in self._written:
            grant = grant.combine(folder.grant_read(grantee))
        key = self.encryption_key
        return grant if key is None else grant.combine(key.grant_decrypt(grantee))

    def _render(self) -> _Config.AsyncInferenceConfigProperty:
        topics = {outcome: topic.topic_arn for outcome, topic in self._topics.items()}
        notification = _Config.AsyncInferenceNotificationConfigProperty(
            success_topic=topics.get("success"),
            error_topic=topics.get("error"),
            include_inference_response_in=[_TOPICS[each] for each in self.include_inference_in] or None,
        )
        most = self.max_concurrent_invocations
        return _Config.AsyncInferenceConfigProperty(
            client_config=None
            if most is None
            else _Config.AsyncInferenceClientConfigProperty(max_concurrent_invocations_per_instance=most),
            output_config=_Config.AsyncInferenceOutputConfigProperty(
                s3_output_path=self.output.url,
                s3_failure_path=self.failure.url if self.failure else None,
                kms_key_id=_arn(self.encryption_key),
                notification_config=notification if topics else None,
            ),
        )

    @property
    def _written(self) -> list[S3Folder]:
        return [self.output, *([self.failure] if self.failure else [])]

    @property
    def _topics(self) -> dict[str, sns.ITopic]:
        topics = {"success": self.success_topic, "error": self.error_topic}
        return {outcome: topic for outcome, topic in topics.items() if topic is not None}


def _arn(key: kms.IKey | None) -> str | None:
    return None if key is None else key.key_arn
