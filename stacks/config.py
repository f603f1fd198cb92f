"""The configuration of the app: the settings under the key tritonFleet in `cdk.json`, or `-c KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aws_cdk import Duration

from triton_fleet import CapacitySize, Thresholds
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE
from triton_models.facts.quota_needs import DEFAULT_MAX_CAPACITY
from triton_models.facts.releases import DEFAULT_RELEASE

EVERY_MODEL = "*"
DECLARED: Literal["declared"] = "declared"
"""The warm-up with a request for each model that is built, derived from its declaration."""

Requests: TypeAlias = Mapping[str, str] | Literal["declared"]
"""The body of a request for each model, or where those come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """The configuration of a fleet.

    Attributes:
        name: Prefix of the stacks' names and name of the endpoint: 1 to 63 letters, digits and hyphens.
        region: The region of the stacks; None leaves it to the deployment, so that one template serves all.
        instance_type: The endpoint's instance type; it decides the GPU that models are compiled on, and on a
            type without one, such as ml.c7i.2xlarge, that they are not.
        allow_unlisted_instance_type: Whether to try a type that AWS does not list for multi-model endpoints.
        release: The Triton release that serves and compiles.
        inference_ami: The host image of the endpoint, which brings the GPU's driver, where SageMaker refuses
            the release's own: such as al2-ami-sagemaker-inference-gpu-2-1. Empty for the release's own.
        cpu_image: Whether an endpoint without a GPU and its builds take AWS's image for CPUs, whose tag ends
            in "-cpu". The default is the image for GPUs, which is the one that AWS lists.
        models: The model builds that the build job makes; `*` alone stands for every one that is declared.
            Empty: no build job, artifacts come from elsewhere.
        retired_models: Models that the fleet may lose when its release or its instance type changes: their
            names as published, of those that are no longer built. Any other that the new endpoint has no
            artifact of keeps the fleet where it is.
        weights: Trained weights by the environment variable in which a model's build.py looks for their
            address: s3://bucket/key of one object, or hf://owner/name@commit. On the command line
            `-c weights=T5_WEIGHTS=s3://bucket/t5.pt,BERT_WEIGHTS=hf://owner/name@commit`.
        hub_token: The ARN of the secret with a token of the Hugging Face hub, for weights in a private
            repository; empty for none.
        bucket: The name of an existing bucket for the models, such as the one that a destroyed fleet
            has left; empty for a new one.
        encryption_key: The ARN of the key that encrypts it, or a new bucket; empty for a new key.
        asset_key: The ARN of the KMS key that `cdk bootstrap --bootstrap-kms-key-id` was given, if it was:
            builds read their source under it.
        build_on_deployment: Whether a deployment starts a build when it changes what a build would make.
        parallel_builds: How many builds at a time: 1 is one build of all models, more are a state machine
            that divides those that changed among them.
        min_capacity: The fewest instances.
        max_capacity: The most instances.
        invocations_per_gpu_per_minute: Requests a minute for each GPU that auto scaling keeps.
        gpu_utilization_percent: How busy auto scaling keeps each GPU, 0 to 100.
        invocations_per_instance_per_minute: Of instance types without a GPU: requests a minute that auto
            scaling keeps for each instance. None for no such target: what one sustains depends on its size.
        cpu_utilization_percent: Of instance types without a GPU: how busy auto scaling keeps each vCPU.
        latency_p99_ms: The latency of the slowest hundredth above which to page, in milliseconds.
        deployment: How a new configuration takes over: all_at_once, canary, linear or rolling. See "Updates".
        deployment_size: What a canary, a linear step or a rolling batch is: percent of the fleet ("25%") or a
            number of instances. None for the strategy's own: 10 % for a canary, 25 % for the others.
        deployment_wait_minutes: How long the alarms are watched after each step, 0 to 60.
        rollback_alarms: Whether failures during these waits undo the update. Four alarms.
        server_error_percent: 5XX answers, of all requests, above which to page and to roll back.
        model_error_percent: Requests that a model refuses, above which to page and to roll back.
        minimum_requests: Requests per minute from which shares and percentiles of them count. An endpoint
            with fewer is never rolled back: lower it to what yours gets.
        warm_up: What loads models on a new fleet while it is watched, and on a new endpoint before the alias
            moves there. "declared" sends each model that is built the smallest request that fits its
            declaration. Otherwise a request for each model, on the command line
            `-c warm_up='{"minilm": {"inputs": [...]}}'`; empty, or "off", for none.
        alarm_email: An address that gets the alarms; empty for none.
        alarm_topic: The ARN of an existing SNS topic that gets the alarms, instead of alarm_email; empty for
            none. It has to be in the region of the fleet, and to let CloudWatch publish; if it is encrypted,
            with a key that CloudWatch may use.
        hourly_price_usd: What an instance costs you for an hour; None for the price on demand that is known.
        deployed_in: No key: `region`, or else where the CDK's command line would deploy. It decides what
            models are built on, because CodeBuild has GPUs on demand in few regions.

    Updates: every strategy but rolling starts a second fleet next to the first, so that the quota of the
    instance type has to hold twice the instances there are, and both are billed until the old one goes.
    Auto scaling is suspended by SageMaker meanwhile. All at once is the default, because it alone works with
    a single instance: the others divide the fleet. An update then takes about 25 minutes, 15 to start the
    instances and 10 to watch them, and costs one more instance for that time. With min_capacity 2 or
    more, canary shows a bad version to a part of the requests only, and waits twice; rolling needs
    quota for one batch more instead of a second fleet, and min_capacity 2 at least for batches of half of it.
    """

    name: str = "TritonFleet"
    region: str | None = None
    instance_type: str = DEFAULT_INSTANCE_TYPE
    allow_unlisted_instance_type: bool = False
    release: str = DEFAULT_RELEASE
    inference_ami: str = ""
    cpu_image: bool = False
    models: tuple[str, ...] = ()
    retired_models: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    hub_token: str = ""
    bucket: str = ""
    encryption_key: str = ""
    asset_key: str = ""
    build_on_deployment: bool = True
    parallel_builds: int = 1
    min_capacity: int = 1
    max_capacity: int = DEFAULT_MAX_CAPACITY
    invocations_per_gpu_per_minute: float = 600
    gpu_utilization_percent: float = 60
    invocations_per_instance_per_minute: float | None = None
    cpu_utilization_percent: float = 60
    latency_p99_ms: int = 1000
    deployment: str = "all_at_once"
    deployment_size: CapacitySize | None = None
    deployment_wait_minutes: int = 10
    rollback_alarms: bool = True
    server_error_percent: float = 1
    model_error_percent: float = 5
    minimum_requests: float = 10
    warm_up: Requests = DECLARED
    alarm_email: str = ""
    alarm_topic: str = ""
    hourly_price_usd: float | None = None
    deployed_in: str | None = field(default=None, metadata={"key": False})

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the alarms, including those that roll an update back."""
        return Thresholds(
            server_error_percent=self.server_error_percent,
            model_error_percent=self.model_error_percent,
            latency_p99=Duration.millis(self.latency_p99_ms),
            minimum_requests=self.minimum_requests,
        )
