"""The arguments of every endpoint besides its variants, and their problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

from triton_fleet.endpoint.checks import container_environment, metric_interval
from triton_fleet.endpoint.hosting.checks import resource_name
from triton_fleet.endpoint.hosting.deployment import Deployment, check_deployment
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.endpoint.hosting.variants import Hosting
from triton_fleet.endpoint.instance_checks import host_ami, local_storage
from triton_fleet.parts.arguments.checks import literal_list, look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.images.serving import Serving
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.base.checks import Report
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import Release


def alarm_names(alarms: Sequence[cloudwatch.IAlarm | str]) -> Sequence[str]:
    """The names of alarms; a list that is known only at deployment remains one, to be refused."""
    return [each if isinstance(each, str) else each.alarm_name for each in alarms]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The arguments of every endpoint; each construct explains its own."""

    endpoint_name: str | None
    repository: ModelRepository
    serving: Serving
    server: TritonServer
    environment: Mapping[str, str]
    placement: Placement
    deployment: Deployment | None
    rollback_alarms: Sequence[str]
    metric_interval: Duration | None
    log_retention: logs.RetentionDays

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
        """Note what is wrong with these arguments; gives the release if that is known."""
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
        release = self.serving._release(report, region=region, multi_model=multi_model)
        check_deployment(
            report.at("deployment"),
            self.deployment,
            rollback_alarms=self.rollback_alarms,
            capacity=capacity,
            variants=variants,
        )
        return release

    def hardware_problems(
        self, report: Report, place: Report, hosting: Hosting, instance: InstanceType, release: Release | None
    ) -> None:
        """Report problems with serving from an instance type, which `place` names."""
        self.serving._fits(report, place, instance, release)
        local_storage(
            place,
            instance,
            has_volume_size=hosting.volume_size is not None,
            has_key=self.placement.encryption_key is not None,
        )
        self.server._check_machine(place, instance)
        if release is not None:
            host_ami(place, known(hosting.inference_ami), instance, release)
