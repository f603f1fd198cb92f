"""The configuration of the app: the settings under the key tritonFleet in `cdk.json`, or `-c KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from aws_cdk import Duration, Stack

from triton_fleet.hosting.deployment import (
    AllAtOnce,
    Canary,
    CapacitySize,
    Deployment,
    Linear,
    Replace,
    Rolling,
)
from triton_fleet.network.endpoint_network import EndpointNetwork
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.operations.warm_up import WarmUpRequest
from triton_fleet.scaling.target import ScalingTarget
from triton_fleet.scaling.tracking import (
    CpuUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
)
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.quota_needs import DEFAULT_MAX_CAPACITY
from triton_models.facts.releases import DEFAULT_RELEASE

EVERY_MODEL = "*"
DECLARED: Literal["declared"] = "declared"
"""The warm-up with the request that the build of each model has stored: the smallest of its examples."""

OFF = "off"
"""Instead of a model's request: the model is not warmed up."""

Requests: TypeAlias = Mapping[str, str] | Literal["declared"]
"""The body of a request for each model, or where those come from."""

BY_PART: Mapping[str, Callable[[Duration, CapacitySize], Deployment]] = MappingProxyType(
    {
        "canary": lambda wait, part: Canary(wait=wait, size=part),
        "linear": lambda wait, part: Linear(wait=wait, step=part),
        "rolling": lambda wait, part: Rolling(wait=wait, batch=part),
    }
)
"""The strategies of updates that divide the fleet."""

_PARTS = MappingProxyType({"canary": Canary().size, "linear": Linear().step, "rolling": Rolling().batch})
ALL_AT_ONCE = "all_at_once"
REPLACE = "replace"
STRATEGIES = (ALL_AT_ONCE, *BY_PART, REPLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """An existing VPC, by ids, so that nothing is looked up.

    Attributes:
        id: Its id.
        subnets: The ids of private subnets, in two availability zones or more.
        security_groups: The ids of security groups; empty for a new one, which lets HTTPS out.
    """

    id: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...] = ()

    def network(self, stack: Stack) -> EndpointNetwork:
        """Return its network in a stack."""
        return EndpointNetwork.from_ids(
            stack, "Network", vpc_id=self.id, subnet_ids=self.subnets, security_group_ids=self.security_groups
        )


@dataclass(frozen=True)
class FleetConfig:
    """The configuration of a fleet.

    Attributes:
        name: Prefix of the stacks' names and name of the endpoint: 1 to 63 letters, digits and hyphens. In a
            stage, a hyphen and the stage's name follow, unless the stage sets a name itself.
        account: The account of the stacks, 12 digits. Without it, one template serves every account.
        region: The region of the stacks. Without it, one template serves every region.
        instance_type: The endpoint's instance type. It decides the GPU that models are compiled on; on a type
            without a GPU, such as ml.c7i.2xlarge, nothing is compiled.
        allow_unlisted_instance_type: Try a type that AWS does not list for multi-model endpoints.
        release: The Triton release that serves and compiles.
        inference_ami: The host image of the endpoint, which brings the GPU's driver, such as
            al2-ami-sagemaker-inference-gpu-2-1. Empty for the release's own; name another one where SageMaker
            refuses that.
        cpu_image: Use AWS's image for CPUs, whose tag ends in "-cpu", for an endpoint without a GPU and its
            builds. AWS lists only the image for GPUs, which is the default.
        image: The URI of an image in your registry, made from that of `release`, for instances and builds:
            ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG, or with @sha256:... It keeps the label of AWS's
            image for multi-model endpoints. Empty for AWS's image.
        models: The models that the build job makes; `*` alone stands for every declared model. Empty for no
            build job: artifacts come from elsewhere.
        retired_models: Models that the fleet may lose with another release or instance type, by published
            name. The fleet stays where it is while the new endpoint lacks an artifact of any other model.
        weights: Trained weights by the environment variable in which a model's build.py looks for their
            address: s3://bucket/key, s3://bucket/prefix/, or hf://owner/name@commit. On the command line
            `-c weights=T5_WEIGHTS=s3://bucket/t5.pt,BERT_WEIGHTS=hf://owner/name@commit`.
        weights_from: The prefixes of S3, such as s3://bucket/checkpoints/, under which a build.py may name
            weights itself. An address elsewhere fails the synthesis, because builds may not read it.
        hub_token: The ARN of the secret with a token of the Hugging Face hub, for weights in a private
            repository. Empty without one.
        bucket: The name of an existing bucket for the models, such as that of a destroyed fleet. Empty for a
            new bucket.
        encryption_key: The ARN of the key that encrypts the bucket. Empty for a new key.
        log_encryption_key: The ARN of a key for log groups, and for the environment of functions. CloudWatch
            Logs must be allowed to use it. Empty for CloudWatch's own key.
        vpc: The VPC in which instances and builds run, such as {"id": "vpc-...", "subnets": ["subnet-...",
            "subnet-..."]}, and optionally "security_groups". Its private subnets must reach S3, ECR,
            CloudWatch, KMS and SageMaker, by a NAT gateway or by VPC endpoints: none are created. Without it,
            the instances and builds have the services' own network.
        endpoint_role: The ARN of an existing role for the instances. Empty for a new role.
        build_role: The ARN of an existing role for builds. Empty for a new role.
        build_environment: Further environment variables of builds, such as PIP_INDEX_URL of an own package
            index, or HTTPS_PROXY and NO_PROXY. They are not secret.
        promoted_by: The ARNs of roles of other accounts that may read the models, to promote them to the next
            stage with `fleet promote`. They need the same permissions in their own account.
        asset_key: The ARN of the KMS key that `cdk bootstrap --bootstrap-kms-key-id` was given, if any.
            Builds read their source with it.
        build_on_deployment: Start a build in a deployment that changes what a build would make.
        wait_for_build: Let a deployment wait up to an hour for the build that it starts, and fail with it, as
            a stage needs that is tested after its deployment.
        parallel_builds: The most builds at a time. 1 is one build of all models; more are a state machine
            that divides the models that changed among builds.
        min_capacity: The fewest instances.
        max_capacity: The most instances.
        invocations_per_gpu_per_minute: Requests per minute for each GPU, which auto scaling keeps.
        gpu_utilization_percent: Utilization of each GPU, 0 to 100, which auto scaling keeps.
        invocations_per_instance_per_minute: On instance types without a GPU, the requests per minute for each
            instance, which auto scaling keeps. Without a default: it depends on the size of the instance.
        cpu_utilization_percent: On instance types without a GPU, the utilization of each vCPU, which auto
            scaling keeps.
        latency_p99_ms: The latency of the slowest hundredth above which to page, in milliseconds.
        deployment: The way to a new configuration: all_at_once, canary, linear, rolling or replace. See
            "Updates".
        deployment_size: The size of a canary, a linear step or a rolling batch: percent of the fleet ("25%")
            or a number of instances. By default 10 % for a canary and 25 % for the others.
        deployment_wait_minutes: The wait after each step, during which alarms are watched, 0 to 60.
        rollback_alarms: Undo the update on failures during these waits. Adds four alarms.
        server_error_percent: The percentage of 5XX answers above which to page and to roll back.
        model_error_percent: The percentage of requests refused by a model above which to page and to roll
            back.
        minimum_requests: The requests per minute from which percentages and percentiles count. An endpoint
            with fewer is never rolled back: lower it to what yours gets.
        warm_up: Requests that load models on a new fleet while it is watched, and on a new endpoint before
            the alias moves there. "declared" sends each published model the smallest of its examples, which
            its build has stored next to it. An object of models and their requests replaces the requests of
            these models; "off" instead of a request leaves a model out, and {"*": "off"} all models without a
            request in it. On the command line
            `-c warm_up='{"minilm": {"inputs": [...]}, "resnet50": "off"}'`. Empty, or "off", sends nothing.
        alarm_email: An address that gets the alarms.
        alarm_topic: The ARN of an existing SNS topic that gets the alarms, instead of alarm_email. It must be
            in the region of the fleet, and CloudWatch must be allowed to publish to it and to use its key.
        github_repository: The repository on GitHub whose workflow deploys, as OWNER/NAME. Adds a stack with
            the role that it assumes in the environment of the stage's name. Empty without one.
        github_owner_id: The number of the repository's owner on GitHub, and github_repository_id that of the
            repository: `gh api repos/OWNER/NAME --jq '.owner.id, .id'` prints both. GitHub adds them to the
            tokens of a repository that was created, renamed or transferred since 2026-07-15. Without them,
            the role trusts older repositories only.
        github_repository_id: See github_owner_id.
        github_provider: The ARN of the account's identity provider for GitHub, of which an account can have
            one. Empty for a new one.
        promoted_from: The model repository of the stage before, s3://bucket/prefix/, if in another account,
            for the role of github_repository. That stage names the role in promoted_by. In the same account,
            the role reads that repository without this setting.
        monthly_budget_usd: The limit per month for the cost of the instances. A budget warns alarm_email or
            alarm_topic before it is reached. Needs the tag triton-fleet:fleet as a cost allocation tag of the
            account, and a topic to which budgets.amazonaws.com may publish. Without it, no budget.
        hourly_price_usd: The price of an instance per hour. By default the known price on demand.
        deployed_in: Derived: `region`, or the CLI's default region. It decides the machine of builds, because
            CodeBuild has GPUs on demand in few regions.
        follows: No key: the settings of the stage before, if it is in the same account.
        stage: No key: the stage that these settings are of, or None without stages. See "Stages".

    Stages: the key `stages` next to the others holds an object for each stage, such as {"staging":
    {"account": "111111111111", "region": "eu-west-1", "max_capacity": 2}, "production": {...}}, in the order
    of promotion. A stage has every shared setting that it does not set itself. `-c stage=production` selects
    one, and `-c stage='*'` all of them, in one synthesis.

    Updates: every strategy but rolling starts a second fleet next to the first. The quota of the instance
    type must hold both, and both are billed until the old one is gone. SageMaker suspends auto scaling
    meanwhile. All at once is the default, because it alone works with a single instance: the others divide
    the fleet. An update takes about 25 minutes: 15 to start the instances, and 10 to watch them. With
    min_capacity 2 or more, canary shows a bad version to a part of the requests only, and waits twice.
    Rolling needs quota for one more batch instead of a second fleet; for batches of half the fleet it needs
    min_capacity 2.
    """

    name: str = "TritonFleet"
    account: str | None = None
    region: str | None = None
    instance_type: str = DEFAULT_INSTANCE_TYPE
    allow_unlisted_instance_type: bool = False
    release: str = DEFAULT_RELEASE
    inference_ami: str = ""
    cpu_image: bool = False
    image: str = ""
    models: tuple[str, ...] = ()
    retired_models: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    weights_from: tuple[str, ...] = ()
    hub_token: str = ""
    bucket: str = ""
    encryption_key: str = ""
    log_encryption_key: str = ""
    vpc: Vpc | None = None
    endpoint_role: str = ""
    build_role: str = ""
    build_environment: Mapping[str, str] = field(default_factory=dict)
    promoted_by: tuple[str, ...] = ()
    asset_key: str = ""
    build_on_deployment: bool = True
    wait_for_build: bool = False
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
    github_repository: str = ""
    github_owner_id: str | int = ""
    github_repository_id: str | int = ""
    github_provider: str = ""
    promoted_from: str = ""
    monthly_budget_usd: float | None = None
    hourly_price_usd: float | None = None
    deployed_in: str | None = field(default=None, metadata={"key": False})
    follows: FleetConfig | None = field(default=None, metadata={"key": False})
    stage: str | None = field(default=None, metadata={"key": False})

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the alarms, including those that roll an update back."""
        return Thresholds(
            server_error_percent=self.server_error_percent,
            model_error_percent=self.model_error_percent,
            latency_p99=Duration.millis(self.latency_p99_ms),
            minimum_requests=self.minimum_requests,
        )

    @property
    def update_strategy(self) -> Deployment | Replace:
        """The strategy for moving the endpoint to a new configuration."""
        if self.deployment == REPLACE:
            return Replace()
        wait = Duration.minutes(self.deployment_wait_minutes)
        if self.deployment == ALL_AT_ONCE:
            return AllAtOnce(wait=wait)
        return BY_PART[self.deployment](wait, self.deployment_size or _PARTS[self.deployment])

    @property
    def targets(self) -> list[ScalingTarget]:
        """The values that auto scaling keeps, which depend on the hardware."""
        if find_instance_type(self.instance_type).gpu is not None:
            return [
                InvocationsPerGpu(per_minute=self.invocations_per_gpu_per_minute),
                GpuUtilization(percent=self.gpu_utilization_percent),
            ]
        requests = self.invocations_per_instance_per_minute
        busy = CpuUtilization(percent=self.cpu_utilization_percent)
        return [busy] if requests is None else [InvocationsPerInstance(per_minute=requests), busy]

    @property
    def warm_up_requests(self) -> list[WarmUpRequest] | None:
        """The requests that replace those of the builds; None without any, empty for no warm-up."""
        if isinstance(self.warm_up, str):
            return None
        requests = [
            WarmUpRequest(model=model, body=body) for model, body in self.warm_up.items() if body != OFF
        ]
        return requests or (None if self.warm_up else [])

    @property
    def cold_models(self) -> list[str]:
        """The models that are not warmed up."""
        given = {} if isinstance(self.warm_up, str) else self.warm_up
        return [model for model, body in given.items() if body == OFF]

    @property
    def built_models(self) -> tuple[str, ...] | None:
        """The models that the build job makes; None for every declared model."""
        return None if self.models == (EVERY_MODEL,) else self.models
