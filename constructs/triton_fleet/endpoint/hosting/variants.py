"""The variants of an endpoint: the groups of instances behind its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from aws_cdk import Duration, Size
from aws_cdk import aws_sagemaker as sagemaker

from triton_fleet.parts.arguments.checks import whole_quantity
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.facts import DEFAULT_VARIANT
from triton_fleet.parts.metrics.published import VariantMetrics
from triton_models.base.checks import Check, Report
from triton_models.facts.host_amis import default_ami
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType
from triton_models.facts.releases import Release


class Routing(str, Enum):
    """The strategy by which SageMaker chooses the instance for a request.

    PREFIX_AWARE and KV_AWARE, which the service has as well, look at the prompts of language models in
    containers that Triton is not among.
    """

    LEAST_OUTSTANDING_REQUESTS = "LEAST_OUTSTANDING_REQUESTS"
    """The instance that has the fewest requests under way: for requests that take unequally long."""
    RANDOM = "RANDOM"
    """Any instance, which is what SageMaker does by itself."""


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedVariant(VariantMetrics):
    """A deployed variant of an endpoint, for scaling, alarms and dashboards.

    Its metrics are those of `VariantMetrics`, such as `metric_invocations()`.

    Attributes:
        name: The variant's name, unique on its endpoint.
        instance: Its instance type with its facts; of several in a pool, the preferred one.
        literal_endpoint_name: The endpoint's name.
        initial_instance_count: Its instances at the first deployment.
        asynchronous: True if its requests wait in a queue: see `AsyncInference`.
    """

    name: str
    instance: InstanceType
    literal_endpoint_name: str
    initial_instance_count: int
    asynchronous: bool = False

    @property
    def _dimensions(self) -> Mapping[str, str]:
        return {"EndpointName": self.literal_endpoint_name, "VariantName": self.name}


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePool:
    """A further instance type of a variant, used if the preferred one has no capacity.

    Attributes:
        artifact: The artifact for its GPU, such as "resnet50-0123456789ab.tar.gz"; by default the variant's,
            which is only right if both have the same GPU model.
    """

    instance_type: str
    artifact: str | None = None


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """The instances behind a variant.

    Attributes:
        name: Unique on the endpoint.
        instance_type: Such as "ml.g5.2xlarge".
        initial_instance_count: Instances at the first deployment.
        weight: Its share of the requests, as a part of the sum of all weights. Zero means none, for a version
            that is to be invoked by its name only. Of a shadow variant: the share of requests that is copied
            to it, as a part of the production variant's weight.
        instance_pools: Types that stand in for instance_type when there is no capacity for it, in this order.
        routing: The distribution of requests over the instances; None for SageMaker's default.
        volume_size: Size of the volume, 1 to 512 GiB. Only for instance types without local NVMe.
        container_start_timeout: From starting a container to its first good ping, 60 to 3600 s. On a
            single-model endpoint the model is loaded within it.
        model_download_timeout: For downloading and unpacking model data, 60 to 3600 s.
        inference_ami: The host image, which brings the GPU's driver, such as
            "al2-ami-sagemaker-inference-gpu-3-1"; None for that of the release's CUDA.
    """

    name: str = DEFAULT_VARIANT
    instance_type: str = DEFAULT_INSTANCE_TYPE
    initial_instance_count: int = 1
    weight: float = 1
    instance_pools: Sequence[InstancePool] = ()
    routing: Routing | None = None
    volume_size: Size | None = None
    container_start_timeout: Duration = field(default_factory=lambda: Duration.minutes(10))
    model_download_timeout: Duration = field(default_factory=lambda: Duration.minutes(10))
    inference_ami: str | None = None

    @property
    def instance_types(self) -> tuple[str, ...]:
        """All its instance types, the preferred first."""
        return (self.instance_type, *(pool.instance_type for pool in self.instance_pools))

    def _check(self, report: Report) -> None:
        resource_name(report, known(self.name), what="the variant")
        whole_quantity(report, self.volume_size, name="volume_size", unit="gibibytes")
        whole_quantity(report, self.container_start_timeout, name="container_start_timeout")
        whole_quantity(report, self.model_download_timeout, name="model_download_timeout")


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Hosting):
    """A variant of a single-model endpoint: one artifact, and the instances that serve it.

    Attributes:
        artifact: The file name of the artifact in the repository, such as "resnet50-0123456789ab.tar.gz".
        default_model: The model to serve if the artifact holds several, which is the ensemble: the name of
            its folder in the artifact. Not needed for an artifact with one folder.
        routing: By default to the instance with the fewest requests under way: where requests take unequally
            long, random routing lets some queue while other instances idle.
    """

    artifact: str
    default_model: str | None = None
    routing: Routing | None = Routing.LEAST_OUTSTANDING_REQUESTS


def production_variant(
    variant: Hosting, *, instance: InstanceType, release: Release, models: Sequence[str | None]
) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
    """A variant as an endpoint configuration takes it."""
    pools = [
        sagemaker.CfnEndpointConfig.InstancePoolProperty(
            instance_type=instance_type,
            priority=priority,
            model_name_override=None if priority == 1 else model,
        )
        for priority, (instance_type, model) in enumerate(
            zip(variant.instance_types, models, strict=True), start=1
        )
    ]
    return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name=variant.name,
        # Pools stand in the place of the type: SageMaker takes one or the other.
        instance_type=instance.name if len(pools) == 1 else None,
        instance_pools=pools if len(pools) > 1 else None,
        initial_instance_count=variant.initial_instance_count,
        initial_variant_weight=variant.weight,
        # The default host's driver is of 2021: this image would not start on it, and leave no log.
        inference_ami_version=variant.inference_ami or default_ami(instance, release),
        model_name=models[0],
        volume_size_in_gb=variant.volume_size.to_gibibytes() if variant.volume_size else None,
        routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(
            routing_strategy=variant.routing.value
        )
        if variant.routing
        else None,
        container_startup_health_check_timeout_in_seconds=variant.container_start_timeout.to_seconds(),
        model_data_download_timeout_in_seconds=variant.model_download_timeout.to_seconds(),
    )


# Names of variants have the same pattern and length.
RESOURCE_NAME = Check(
    id="resource-name",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html",
)
# SageMaker's pattern does not limit the hyphens; the length is a separate limit.
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
LONGEST_RESOURCE_NAME = 63
"""Characters of a name, including hyphens."""


def resource_name(report: Report, name: str | None, *, what: str) -> None:
    """Report problems with a name."""
    if name is None:
        return
    too_long = len(name) > LONGEST_RESOURCE_NAME
    if too_long or not _RESOURCE_NAME.fullmatch(name):
        valid = f"use 1 to {LONGEST_RESOURCE_NAME} letters, digits and hyphens, such as search-g5"
        report(
            RESOURCE_NAME,
            f"{what} is named {name[:80]!a}" + f", with {len(name)} characters" * too_long,
            fix=f"shorten it to {LONGEST_RESOURCE_NAME} characters" if too_long else valid,
            why="SageMaker refuses the name, and the deployment fails part-way through",
        )
