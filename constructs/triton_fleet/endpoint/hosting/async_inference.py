"""Asynchronous inference: requests wait in a queue, and answers are written to S3.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-create-endpoint-prerequisites.html, for what
  the role needs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns

from triton_fleet.endpoint.hosting.s3_folder import S3Folder
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_models.base.checks import Check, Report

Outcome = Literal["success", "error"]

_TOPICS = {"success": "SUCCESS_NOTIFICATION_TOPIC", "error": "ERROR_NOTIFICATION_TOPIC"}
_Config = sagemaker.CfnEndpointConfig.AsyncInferenceConfigProperty
_Client = sagemaker.CfnEndpointConfig.AsyncInferenceClientConfigProperty
_Output = sagemaker.CfnEndpointConfig.AsyncInferenceOutputConfigProperty
_Notification = sagemaker.CfnEndpointConfig.AsyncInferenceNotificationConfigProperty


ASYNC_TOPICS = Check(
    id="async-topics",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AsyncInferenceNotificationConfig.html",
)
"""Answers are included only in notifications of an existing topic."""


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
        """Report problems with the values."""
        included = self.include_inference_in
        for outcome in sorted(set(included) - set(self._topics())):
            report(
                ASYNC_TOPICS,
                f"include_inference_in names {outcome!r}, and there is no {outcome}_topic",
                fix=f"add {outcome}_topic, or remove {outcome!r}",
                why="without a topic, no notification is sent",
            )
        for outcome in sorted({each for each in included if included.count(each) > 1}):
            what = f"include_inference_in names {outcome!r} {included.count(outcome)} times"
            report(ASYNC_TOPICS, what, fix="keep one of them")

    def _grant(self, role: iam.IRole) -> None:
        """Let the endpoint's role read requests, write answers and publish notices of them."""
        self.requests.grant_read(role)
        for folder in self._written():
            folder.grant_write(role)
        for topic in self._topics().values():
            topic.grant_publish(role)
            if topic.master_key is not None:
                topic.master_key.grant(role, "kms:Decrypt", "kms:GenerateDataKey")
        if self.encryption_key is not None:
            self.encryption_key.grant_encrypt_decrypt(role)

    def _grant_caller(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to put requests, and to read what came of them."""
        grant = self.requests.grant_write(grantee)
        for folder in self._written():
            grant = grant.combine(folder.grant_read(grantee))
        key = self.encryption_key
        return grant if key is None else grant.combine(key.grant_decrypt(grantee))

    def _allow_through(self, network: EndpointNetwork) -> None:
        """Let requests and answers through the S3 endpoint of the instances' network."""
        self.requests._allow_through(network, "s3:GetObject")
        for folder in self._written():
            folder._allow_through(network, "s3:PutObject", "s3:AbortMultipartUpload")

    def _render(self) -> _Config:
        """As CloudFormation takes it."""
        topics = {outcome: topic.topic_arn for outcome, topic in self._topics().items()}
        notification = _Notification(
            success_topic=topics.get("success"),
            error_topic=topics.get("error"),
            include_inference_response_in=[_TOPICS[each] for each in self.include_inference_in] or None,
        )
        most = self.max_concurrent_invocations
        return _Config(
            client_config=None if most is None else _Client(max_concurrent_invocations_per_instance=most),
            output_config=_Output(
                s3_output_path=self.output.url,
                s3_failure_path=self.failure.url if self.failure else None,
                kms_key_id=self.encryption_key.key_arn if self.encryption_key else None,
                notification_config=notification if topics else None,
            ),
        )

    def _written(self) -> Iterator[S3Folder]:
        yield self.output
        if self.failure is not None:
            yield self.failure

    def _topics(self) -> dict[str, sns.ITopic]:
        topics = {"success": self.success_topic, "error": self.error_topic}
        return {outcome: topic for outcome, topic in topics.items() if topic is not None}
