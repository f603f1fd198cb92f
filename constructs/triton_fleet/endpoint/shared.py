"""The arguments of every endpoint besides its variants, and their problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs

from triton_fleet.arguments.checks import literal_list
from triton_fleet.arguments.collector import Problem, ProblemCollector
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
        collector: ProblemCollector,
        *,
        region: str,
        capacity: int | None,
        variants: int,
        multi_model: bool,
        reserved: Mapping[str, str] = MappingProxyType({}),
    ) -> Release | None:
        """Note what is wrong with these arguments; gives the release if that is known.

        Args:
            collector: The collector of problems.
            region: The stack's, which may be a token.
            capacity: The fewest instances of a variant at the first deployment.
            variants: The number of production variants.
            multi_model: True if the container serves many models.
            reserved: Variables that the variants set.
        """
        where = collector.where
        if self.endpoint_name is not None:
            collector.look_up("endpoint_name", self.endpoint_name, str)
            collector.add(
                resource_name(known(self.endpoint_name), what="the endpoint", where=where("endpoint_name"))
            )
        collector.add(
            literal_list(self.rollback_alarms, name="rollback_alarms", where=where("rollback_alarms"))
        )
        collector.add(self.server._problems(where=where("server")))
        extra = {name: known(value) for name, value in self.environment.items()}
        collector.add(
            container_environment(
                {**self.server._environment(), **reserved}, extra, where=where("environment")
            )
        )
        interval = self.metric_interval
        if interval is not None:
            seconds = None if interval.is_unresolved() else interval.to_milliseconds() / 1000
            collector.add(metric_interval(seconds, where=where("metric_interval")))
        release = collector.look_up("release", self.release, find_release)
        if self.image is not None:
            collector.add(self.image._problems(where=where("image"), region=region, multi_model=multi_model))
        elif release is not None:
            collector.add(
                image_published(release, where=where("release")),
                image_region(release, known(region), where=where("release")),
            )
        collector.add(
            deployment_problems(
                self.deployment,
                rollback_alarms=self.rollback_alarms,
                capacity=capacity,
                where=where("deployment"),
                variants=variants,
            )
        )
        return release

    def image_problems(self, types: Iterable[InstanceType], collector: ProblemCollector) -> None:
        """Note what is wrong with the image for CPUs on these instance types."""
        own, where = self.image is not None, collector.where("cpu_image")
        found = (cpu_image(each, asked=self.cpu_image, own=own, where=where) for each in types)
        collector.add(dict.fromkeys(chain.from_iterable(found)))

    def hardware_problems(
        self, hosting: Hosting, instance: InstanceType, release: Release | None, *, where: str
    ) -> Iterable[Problem]:
        """Yield the problems with serving from an instance type.

        Args:
            hosting: The instances and their type.
            instance: The instance type.
            release: The release, if it is known.
            where: The place that the problems name.
        """
        yield from local_storage(
            instance,
            has_volume_size=hosting.volume_size is not None,
            has_key=self.encryption_key is not None,
            where=where,
        )
        yield from self.server._machine_problems(instance, where=where)
        if release is None:
            return
        yield from host_ami(known(hosting.inference_ami), instance, release, where=where)
        if instance.gpu is not None:
            yield from gpu_generation(instance.gpu, release, where=where)
