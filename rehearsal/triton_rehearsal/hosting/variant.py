"""The deployment behind an endpoint's name, read from the endpoint's AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from botocore.exceptions import ClientError

from triton_rehearsal.hosting.metrics import Source
from triton_rehearsal.hosting.model_data import ModelData, model_data, split
from triton_rehearsal.hosting.runtime_api import validation_error
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.server import START_LIMIT_S


class Aws(Protocol):
    """The AWS in which endpoints are deployed."""

    def client(self, service: str) -> Any:
        """Return the boto3 client of a service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The model repository of a multi-model endpoint."""

    bucket: str
    prefix: str  # to which target models are relative, with a slash at the end
    keep_models: bool = True  # in memory after use (ModelCacheSetting)

    def key(self, target: str) -> str:
        """Return the key of a target model. A slash before the target model is that behind the prefix."""
        return self.prefix + target.removeprefix("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The production variant of an endpoint."""

    endpoint: str
    arn: str  # of the endpoint, with region and account
    config: str  # the endpoint configuration
    name: str
    instances: int
    repository: Repository | None  # of a multi-model endpoint
    data: ModelData | None  # of a single model; None if the image contains it
    environment: Mapping[str, str]  # of the container
    machine: Machine
    role: str
    instance_type: str | None
    at_random: bool  # any instance may get a request (RoutingStrategy)
    ready_limit_s: float  # in which a container must answer its first ping

    @property
    def source(self) -> Source:
        """The source of the variant's metrics."""
        return Source(endpoint=self.endpoint, variant=self.name, config=self.config)

    @property
    def log_group(self) -> str:
        """The log group of the containers."""
        return f"/aws/sagemaker/Endpoints/{self.endpoint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleets:
    """The variants that currently answer for an endpoint."""

    blue: Variant  # the current configuration
    green: Variant | None = None  # that with which a deployment in progress replaces it
    share: float = 0.0  # of the traffic that goes to green, 0 to 1
    coming: int = 0  # instances of green, including those without traffic so far


def look_up(aws: Aws, endpoint: str, known: Fleets | None = None) -> Fleets:
    """Read the current deployment of an endpoint. An unchanged configuration is not read again.

    An endpoint that does not exist, or of a kind that the rehearsal does not serve, raises an ApiError.
    """
    found = _describe(aws, endpoint)
    live = found["ProductionVariants"][0]
    blue = _read(aws, found, found["EndpointConfigName"], live.get("CurrentInstanceCount", 1), known)
    pending = found.get("PendingDeploymentSummary")
    if pending is None or pending["EndpointConfigName"] == blue.config:
        return Fleets(blue=blue)
    coming = pending["ProductionVariants"][0]
    # An instance of the new fleet counts as current once it takes traffic.
    active, wanted = coming.get("CurrentInstanceCount", 0), coming.get("DesiredInstanceCount", 1)
    green = _read(aws, found, pending["EndpointConfigName"], active, known)
    return Fleets(blue=blue, green=green, share=active / wanted if wanted else 0.0, coming=wanted)


def read_variant(aws: Aws, endpoint: str, config: str) -> Variant:
    """Read the fleet that an endpoint gets from a configuration, with all of its instances."""
    found = _describe(aws, endpoint)
    pending = found.get("PendingDeploymentSummary") or found
    return _read(aws, found, config, pending["ProductionVariants"][0].get("DesiredInstanceCount", 1), None)


def _describe(aws: Aws, endpoint: str) -> Mapping[str, Any]:
    try:
        return dict(aws.client("sagemaker").describe_endpoint(EndpointName=endpoint))
    except ClientError as error:
        account = aws.client("sts").get_caller_identity()["Account"]
        raise validation_error(f"Endpoint {endpoint} of account {account} not found.") from error


def _read(aws: Aws, found: Mapping[str, Any], config: str, instances: int, known: Fleets | None) -> Variant:
    for variant in (known.blue, known.green) if known else ():
        if variant and (variant.arn, variant.config) == (found["EndpointArn"], config):
            return replace(variant, instances=max(1, instances))
    sagemaker = aws.client("sagemaker")
    described = sagemaker.describe_endpoint_config(EndpointConfigName=config)
    declared = _only(described, found["EndpointName"])
    model = sagemaker.describe_model(ModelName=declared["ModelName"])
    container = model.get("PrimaryContainer") or model["Containers"][0]
    repository = _repository(container) if container.get("Mode") == "MultiModel" else None
    strategy = declared.get("RoutingConfig", {}).get("RoutingStrategy", "RANDOM")
    return Variant(
        endpoint=found["EndpointName"],
        arn=found["EndpointArn"],
        config=config,
        name=declared["VariantName"],
        instances=max(1, instances),
        repository=repository,
        data=None if repository else model_data(container),
        environment=dict(container.get("Environment") or {}),
        machine=Machine.of(image=container.get("Image", ""), instance_type=declared.get("InstanceType")),
        role=model["ExecutionRoleArn"],
        instance_type=declared.get("InstanceType"),
        at_random=repository is None and strategy == "RANDOM",
        ready_limit_s=float(declared.get("ContainerStartupHealthCheckTimeoutInSeconds", START_LIMIT_S)),
    )


def _only(config: Mapping[str, Any], endpoint: str) -> Mapping[str, Any]:
    if "AsyncInferenceConfig" in config:
        message = f"Endpoint {endpoint} is asynchronous; the rehearsal serves endpoints that answer at once."
        raise validation_error(message)
    variants: Sequence[Mapping[str, Any]] = config["ProductionVariants"]
    if len(variants) > 1:
        message = (
            f"Endpoint {endpoint} has {len(variants)} variants; the rehearsal serves endpoints with one."
        )
        raise validation_error(message)
    return variants[0]


def _repository(container: Mapping[str, Any]) -> Repository:
    bucket, prefix = split(container["ModelDataUrl"])
    caching = container.get("MultiModelConfig", {}).get("ModelCacheSetting", "Enabled")
    return Repository(
        bucket=bucket,
        prefix=prefix if not prefix or prefix.endswith("/") else f"{prefix}/",
        keep_models=caching != "Disabled",
    )
