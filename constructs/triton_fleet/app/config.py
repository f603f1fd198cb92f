"""The configuration of the app: the settings under the key tritonFleet in `cdk.json`, or `-c KEY=VALUE`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

from aws_cdk import Duration, Stack
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from triton_fleet.builds.build_runs import MOST_BUILDS
from triton_fleet.endpoint.hosting.deployment import (
    AllAtOnce,
    Canary,
    CapacitySize,
    Deployment,
    Linear,
    Replace,
    Rolling,
)
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.scaling.tracking import (
    CpuUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
)
from triton_fleet.operations.thresholds import Thresholds
from triton_fleet.operations.warm_up import WarmUpRequest
from triton_fleet.parts.images.image import CustomImage
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_fleet.parts.serving import Serving
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.quotas import DEFAULT_MAX_CAPACITY
from triton_models.facts.releases import DEFAULT_RELEASE

EVERY_MODEL = "*"
DECLARED: Literal["declared"] = "declared"
"""The warm-up with the request that the build of each model has stored: the smallest of its examples."""
OFF = "off"
"""Instead of a model's request: the model is not warmed up."""


def _json(given: object) -> object:
    """Read a value of the command line, where every value is a string, as in cdk.json."""
    if not isinstance(given, str):
        return given
    text = given.strip()
    try:
        return json.loads(text.lower() if text.lower() in {"true", "false"} else text) if text else None
    except ValueError:
        return given


def _names(given: object) -> object:
    listed = given.split(",") if isinstance(given, str) else given
    return tuple(filter(None, map(_stripped, listed))) if isinstance(listed, list | tuple) else given


def _stripped(given: object) -> object:
    return given.strip() if isinstance(given, str) else given


def _variables(given: object) -> object:
    if not isinstance(given, str):
        return given
    pairs = [each.partition("=") for each in given.split(",") if each.strip()]
    return (
        {name.strip(): value for name, mark, value in pairs} if all(mark for _, mark, _ in pairs) else given
    )


def _portion(given: object) -> CapacitySize | None:
    if given is None or isinstance(given, CapacitySize):
        return given
    parts = None if isinstance(given, bool) else re.fullmatch(r" *(?:([0-9]+)( ?%)?)? *", str(given))
    if parts is None:
        raise ValueError('percent of the fleet, such as "25%", or a number of instances')
    return CapacitySize(value=int(parts[1]), by_percent=parts[2] is not None) if parts[1] else None


def _requests(given: object) -> object:
    """Return the body of the request of each model: a JSON document, or a string that holds one."""
    if isinstance(given, str) and given != DECLARED:
        given = {} if given in {"", OFF} else _json(given)
    if isinstance(given, Mapping):
        return {name: each if isinstance(each, str) else json.dumps(each) for name, each in given.items()}
    if given != DECLARED:
        raise ValueError('an object of models and their requests, "declared" or "off"')
    return given


# The kinds of the settings, as in JSON. The command line gives strings, which are read first.
_JSON = BeforeValidator(_json)
Truth = Annotated[bool, _JSON]
Integer = Annotated[int, _JSON]
Number = Annotated[float, _JSON]
OptionalNumber = Annotated[float | None, _JSON]
OptionalText = Annotated[str | None, BeforeValidator(lambda given: given or None)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Variables = Annotated[Mapping[str, str], BeforeValidator(_variables)]
Portion = Annotated[
    InstanceOf[CapacitySize] | None,
    BeforeValidator(_portion),
    WithJsonSchema({"type": ["string", "integer"]}),
]
Requests = Annotated[
    Mapping[str, str] | Literal["declared"],
    BeforeValidator(_requests),
    WithJsonSchema({"anyOf": [{"enum": [DECLARED, OFF]}, {"type": "object"}]}),
]
Id = Annotated[
    str, BeforeValidator(lambda given: str(given).strip()), WithJsonSchema({"type": ["string", "integer"]})
]
_SERVING = ("image", "cpu_image", "inference_ami", "allow_unlisted_instance_type")
_SIZE = ("min_capacity", "max_capacity", "deployment", "deployment_size")
_DEPENDENT = {
    **dict.fromkeys(("instance_type", "release"), _SERVING),
    **dict.fromkeys(("min_capacity", "max_capacity"), _SIZE),
    **dict.fromkeys(("alarm_email", "alarm_topic"), ("monthly_budget_usd",)),
    "region": ("deployed_in",),
}
"""The settings that are checked against another one."""

Strategy = Literal["all_at_once", "canary", "linear", "rolling", "replace"]


class _Settings(BaseModel):
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        str_strip_whitespace=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class Vpc(_Settings):
    """An existing VPC, by ids, so that nothing is looked up."""

    id: str
    subnets: Names
    """The ids of private subnets, in two availability zones or more."""
    security_groups: Names = ()
    """The ids of security groups; empty for a new one, which lets HTTPS out."""

    def network(self, stack: Stack) -> EndpointNetwork:
        """Return its network in a stack."""
        return EndpointNetwork.from_ids(
            stack, "Network", vpc_id=self.id, subnet_ids=self.subnets, security_group_ids=self.security_groups
        )


class FleetConfig(_Settings):
    """The settings of a fleet.

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
    """Prefix of the stacks' names and name of the endpoint: 1 to 63 letters, digits and hyphens. In a stage,
    a hyphen and the stage's name follow, unless the stage sets a name itself."""
    account: OptionalText = None
    """The account of the stacks, 12 digits. Without it, one template serves every account."""
    region: OptionalText = None
    """The region of the stacks. Without it, one template serves every region."""
    instance_type: str = DEFAULT_INSTANCE_TYPE
    """The endpoint's instance type. It decides the GPU that models are compiled on; on a type without a GPU,
    such as ml.c7i.2xlarge, nothing is compiled."""
    allow_unlisted_instance_type: Truth = False
    """Try a type that AWS does not list for multi-model endpoints."""
    release: str = DEFAULT_RELEASE
    """The Triton release that serves and compiles."""
    inference_ami: str = ""
    """The host image of the endpoint, which brings the GPU's driver, such as
    al2-ami-sagemaker-inference-gpu-2-1. Empty for the release's own; name another one where SageMaker refuses
    that."""
    cpu_image: Truth = False
    """Use AWS's image for CPUs, whose tag ends in "-cpu", for an endpoint without a GPU and its builds. AWS
    lists only the image for GPUs, which is the default."""
    image: str = ""
    """The URI of an image in your registry, made from that of `release`, for instances and builds:
    ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG, or with @sha256:... It keeps the label of AWS's image for
    multi-model endpoints. Empty for AWS's image."""
    models: Names = ()
    """The models that the build job makes; `*` alone stands for every declared model. Empty for no build job:
    artifacts come from elsewhere."""
    retired_models: Names = ()
    """Models that the fleet may lose with another release or instance type, by published name. The fleet
    stays where it is while the new endpoint lacks an artifact of any other model."""
    weights: Variables = {}
    """Trained weights by the environment variable in which a model's build.py looks for their address:
    s3://bucket/key, s3://bucket/prefix/, or hf://owner/name@commit. On the command line `-c
    weights=T5_WEIGHTS=s3://bucket/t5.pt,BERT_WEIGHTS=hf://owner/name@commit`."""
    weights_from: Names = ()
    """The prefixes of S3, such as s3://bucket/checkpoints/, under which a build.py may name weights itself.
    An address elsewhere fails the synthesis, because builds may not read it."""
    hub_token: str = ""
    """The ARN of the secret with a token of the Hugging Face hub, for weights in a private repository. Empty
    without one."""
    bucket: str = ""
    """The name of an existing bucket for the models, such as that of a destroyed fleet. Empty for a new
    bucket."""
    encryption_key: str = ""
    """The ARN of the key that encrypts the bucket. Empty for a new key."""
    log_encryption_key: str = ""
    """The ARN of a key for log groups, and for the environment of functions. CloudWatch Logs must be allowed
    to use it. Empty for CloudWatch's own key."""
    vpc: Annotated[Vpc | None, _JSON] = None
    """The VPC in which instances and builds run, such as {"id": "vpc-...", "subnets": ["subnet-...",
    "subnet-..."]}, and optionally "security_groups". Its private subnets must reach S3, ECR, CloudWatch, KMS
    and SageMaker, by a NAT gateway or by VPC endpoints: none are created. Without it, the instances and
    builds have the services' own network."""
    endpoint_role: str = ""
    """The ARN of an existing role for the instances. Empty for a new role."""
    build_role: str = ""
    """The ARN of an existing role for builds. Empty for a new role."""
    build_environment: Variables = {}
    """Further environment variables of builds, such as PIP_INDEX_URL of an own package index, or HTTPS_PROXY
    and NO_PROXY. They are not secret."""
    promoted_by: Names = ()
    """The ARNs of roles of other accounts that may read the models, to promote them to the next stage with
    `fleet promote`. They need the same permissions in their own account."""
    asset_key: str = ""
    """The ARN of the KMS key that `cdk bootstrap --bootstrap-kms-key-id` was given, if any. Builds read their
    source with it."""
    build_on_deployment: Truth = True
    """Start a build in a deployment that changes what a build would make."""
    wait_for_build: Truth = False
    """Let a deployment wait up to an hour for the build that it starts, and fail with it, as a stage needs
    that is tested after its deployment."""
    build_on_new_weights: Truth = False
    """Build what has changed when weights arrive at an address of weights, or under a prefix of weights_from,
    without a deployment. Their bucket must send its events to EventBridge."""
    build_every_hours: Annotated[int | None, _JSON, Field(ge=1, le=8760)] = None
    """The interval at which to build what has changed, without a deployment. Without it, nothing is built at
    intervals."""
    parallel_builds: Annotated[int, _JSON, Field(ge=1, le=MOST_BUILDS)] = 1
    """The most builds at a time. 1 is one build of all models; more are a state machine that divides the
    models that changed among builds, and so is 1 with build_on_new_weights or build_every_hours."""
    min_capacity: Integer = 1
    """The fewest instances."""
    max_capacity: Integer = DEFAULT_MAX_CAPACITY
    """The most instances."""
    invocations_per_gpu_per_minute: Number = 600
    """Requests per minute for each GPU, which auto scaling keeps."""
    gpu_utilization_percent: Number = 60
    """Utilization of each GPU, 0 to 100, which auto scaling keeps."""
    invocations_per_instance_per_minute: OptionalNumber = None
    """On instance types without a GPU, the requests per minute for each instance, which auto scaling keeps.
    Without a default: it depends on the size of the instance."""
    cpu_utilization_percent: Number = 60
    """On instance types without a GPU, the utilization of each vCPU, which auto scaling keeps."""
    latency_p99_ms: Integer = 1000
    """The latency of the slowest hundredth above which to page, in milliseconds."""
    log_info: Truth = True
    """Log each load, unload and request, with the model's name. Off, only warnings and errors are logged,
    such as failed loads."""
    deployment: Strategy = "all_at_once"
    """The way to a new configuration: all_at_once, canary, linear, rolling or replace. See "Updates"."""
    deployment_size: Portion = None
    """The size of a canary, a linear step or a rolling batch: percent of the fleet ("25%") or a number of
    instances. By default 10 % for a canary and 25 % for the others."""
    deployment_wait_minutes: Annotated[int, _JSON, Field(ge=0, le=60)] = 10
    """The wait after each step, during which alarms are watched, 0 to 60."""
    rollback_alarms: Truth = True
    """Undo the update on failures during these waits. Adds four alarms."""
    server_error_percent: Number = 1
    """The percentage of 5XX answers above which to page and to roll back."""
    model_error_percent: Number = 5
    """The percentage of requests refused by a model above which to page and to roll back."""
    minimum_requests: Number = 10
    """The requests per minute from which percentages and percentiles count. An endpoint with fewer is never
    rolled back: lower it to what yours gets."""
    warm_up: Requests = DECLARED
    """Requests that load models on a new fleet while it is watched, and on a new endpoint before the alias
    moves there. "declared" sends each published model the smallest of its examples, which its build has
    stored next to it. An object of models and their requests replaces the requests of these models; "off"
    instead of a request leaves a model out, and {"*": "off"} all models without a request in it. On the
    command line `-c warm_up='{"minilm": {"inputs": [...]}, "resnet50": "off"}'`. Empty, or "off", sends
    nothing."""
    hot: Names = ()
    """The models that every instance has loaded: they are loaded before the alias moves to a new endpoint and
    once more instances serve, and kept in use. They have to fit into an instance next to the largest other
    model. On the command line `-c hot=minilm,resnet50`."""
    alarm_email: str = ""
    """An address that gets the alarms."""
    alarm_topic: str = ""
    """The ARN of an existing SNS topic that gets the alarms, instead of alarm_email. It must be in the region
    of the fleet, and CloudWatch must be allowed to publish to it and to use its key."""
    github_repository: str = ""
    """The repository on GitHub whose workflow deploys, as OWNER/NAME. Adds a stack with the role that it
    assumes in the environment of the stage's name. Empty without one."""
    github_owner_id: Id = ""
    """The number of the repository's owner on GitHub, and github_repository_id that of the repository: `gh
    api repos/OWNER/NAME --jq '.owner.id, .id'` prints both. GitHub adds them to the tokens of a repository
    that was created, renamed or transferred since 2026-07-15. Without them, the role trusts older
    repositories only."""
    github_repository_id: Id = ""
    """See github_owner_id."""
    github_provider: str = ""
    """The ARN of the account's identity provider for GitHub, of which an account can have one. Empty for a
    new one."""
    promoted_from: str = ""
    """The model repository of the stage before, s3://bucket/prefix/, if in another account, for the role of
    github_repository. That stage names the role in promoted_by. In the same account, the role reads that
    repository without this setting."""
    monthly_budget_usd: OptionalNumber = None
    """The limit per month for the cost of the instances. A budget warns alarm_email or alarm_topic before it
    is reached. Needs the tag triton-fleet:fleet as a cost allocation tag of the account, and a topic to which
    budgets.amazonaws.com may publish. Without it, no budget."""
    signals: Truth = False
    """Read what clients count of each model with `Client(signals=...)`, and show the worst models on the
    dashboard. An alarm goes off if any model fails. See "In the stack" in docs/signals.md, with the cost."""
    watch: Names = ()
    """The models that have alarms of their own: on failed calls above model_error_percent, and on calls that
    are slower than latency_p99_ms. By published name; 20 at most. Needs signals."""
    hourly_price_usd: OptionalNumber = None
    """The price of an instance per hour. By default the known price on demand."""

    deployed_in: SkipJsonSchema[str | None] = Field(default=None, exclude=True)
    """Derived: `region`, or the CLI's default region. It decides the machine of builds, because CodeBuild has
    GPUs on demand in few regions."""
    follows: SkipJsonSchema[FleetConfig | None] = Field(default=None, exclude=True)
    """Derived: the settings of the stage before, if it is in the same account."""
    stage: SkipJsonSchema[str | None] = Field(default=None, exclude=True)
    """Derived: the stage that these settings are of; None without stages."""

    @classmethod
    def settings(cls) -> list[str]:
        """Return the names of the settings."""
        return [name for name, each in cls.model_fields.items() if not each.exclude]

    def without(self, settings: Iterable[str]) -> FleetConfig:
        """Return this configuration with some settings, and those that depend on them, at their defaults."""
        dropped = {each for name in settings for each in (name, *_DEPENDENT.get(name, ()))}
        return FleetConfig(**{name: getattr(self, name) for name in self.model_fields_set - dropped})

    def serving(self, stack: Stack) -> Serving:
        """Return what serves models, with an image of your own known to a stack."""
        return Serving(
            instance_type=self.instance_type,
            release=self.release,
            image=CustomImage.from_uri(stack, "Image", self.image) if self.image else None,
            cpu_image=self.cpu_image,
            inference_ami=self.inference_ami or None,
            allow_unlisted_instance_type=self.allow_unlisted_instance_type,
        )

    @property
    def server(self) -> TritonServer:
        """The options of the Triton server."""
        return TritonServer(log_info=None if self.log_info else False)

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
        wait, size = Duration.minutes(self.deployment_wait_minutes), self.deployment_size
        strategies: dict[str, Callable[[], Deployment | Replace]] = {
            "all_at_once": lambda: AllAtOnce(wait=wait),
            "canary": lambda: Canary(wait=wait, size=size or Canary().size),
            "linear": lambda: Linear(wait=wait, step=size or Linear().step),
            "rolling": lambda: Rolling(wait=wait, batch=size or Rolling().batch),
            "replace": Replace,
        }
        return strategies[self.deployment]()

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
    def build_every(self) -> Duration | None:
        """The interval at which to build what has changed."""
        return None if self.build_every_hours is None else Duration.hours(self.build_every_hours)

    @property
    def built_models(self) -> tuple[str, ...] | None:
        """The models that the build job makes; None for every declared model."""
        return None if self.models == (EVERY_MODEL,) else self.models
