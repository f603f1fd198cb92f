"""The arguments of every endpoint besides its variants, and their problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs

from triton_fleet.arguments.checks import literal_list
from triton_fleet.arguments.collector import look_up
from triton_fleet.arguments.tokens import known
from triton_fleet.endpoint.checks import container_environment, metric_interval
from triton_fleet.endpoint.instance_checks import host_ami, local_storage
from triton_fleet.hosting.checks import resource_name
from triton_fleet.hosting.deployment import Deployment, deployment_problems
from triton_fleet.hosting.server import TritonServer
from triton_fleet.hosting.variants import Hosting
from triton_fleet.images.checks import cpu_image, gpu_generation, image_published, image_region
from triton_fleet.images.image import CustomImage
from triton_fleet.network.endpoint_network import EndpointNetwork
from triton_fleet.repository.model_repository import ModelRepository
from triton_models.base.checks import Report
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import Release
from triton_models.facts.releases import release as find_release


def alarm_names(alarms: Sequence[cloudwatch.IAlarm | str]) -> Sequence[str]:
    """The names of alarms; a list that is known only at deployment remains one, to be refused."""
    return [each if isinstance(each, str) else each.alarm_name for each in alarms]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The arguments of every endpoint; each construct explains its own."""

    endpoint_name: str | None
    repository: ModelRepository
    release: str
    server: TritonServer
    environment: Mapping[str, str]
    image: CustomImage | None
    cpu_image: bool
    network: EndpointNetwork | None
    network_isolation: bool
    encryption_key: kms.IKey | None
    deployment: Deployment | None
    rollback_alarms: Sequence[str]
    detailed_observability: bool
    enhanced_metrics: bool
    metric_interval: Duration | None
    log_retention: logs.RetentionDays
    role: iam.IRole | None

    def check(
        self,
        report: Report,
        *,
        region: str,
        capacity: int | None,
        variants: int,
        multi_model: bool,
        reserved: Mapping[str, str] = MappingProxyType({}),
    ) -> Release | None:
        """Note what is wrong with these arguments; gives the release if that is known.

        Args:
            report: The report of problems.
            region: The stack's, which may be a token.
            capacity: The fewest instances of a variant at the first deployment.
            variants: The number of production variants.
            multi_model: True if the container serves many models.
            reserved: Variables that the variants set.
        """
        if self.endpoint_name is not None:
            look_up(report, "endpoint_name", self.endpoint_name, str)
            resource_name(report.at("endpoint_name"), known(self.endpoint_name), what="the endpoint")
        literal_list(report.at("rollback_alarms"), self.rollback_alarms, name="rollback_alarms")
        self.server._check(report.at("server"))
        extra = {name: known(value) for name, value in self.environment.items()}
        container_environment(report.at("environment"), {**self.server._environment(), **reserved}, extra)
        interval = self.metric_interval
        if interval is not None:
            seconds = None if interval.is_unresolved() else interval.to_milliseconds() / 1000
            metric_interval(report.at("metric_interval"), seconds)
        release = look_up(report, "release", self.release, find_release)
        if self.image is not None:
            self.image._check(report.at("image"), region=region, multi_model=multi_model)
        elif release is not None:
            image_published(report.at("release"), release)
            image_region(report.at("release"), release, known(region))
        deployment_problems(
            report.at("deployment"),
            self.deployment,
            rollback_alarms=self.rollback_alarms,
            capacity=capacity,
            variants=variants,
        )
        return release

    def image_problems(self, types: Iterable[InstanceType], report: Report) -> None:
        """Note what is wrong with the image for CPUs on these instance types."""
        for each in types:
            cpu_image(report.at("cpu_image"), each, asked=self.cpu_image, own=self.image is not None)

    def hardware_problems(
        self, report: Report, hosting: Hosting, instance: InstanceType, release: Release | None
    ) -> None:
        """Report problems with serving from an instance type."""
        local_storage(
            report,
            instance,
            has_volume_size=hosting.volume_size is not None,
            has_key=self.encryption_key is not None,
        )
        self.server._machine_problems(report, instance)
        if release is None:
            return
        host_ami(report, known(hosting.inference_ami), instance, release)
        if instance.gpu is not None:
            gpu_generation(report, instance.gpu, release)
