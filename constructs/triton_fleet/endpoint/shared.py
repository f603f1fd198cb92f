"""The arguments of every endpoint besides its variants, and their problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

from triton_fleet.endpoint.hosting.deployment import Deployment, check_deployment
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.endpoint.hosting.variants import Hosting, resource_name
from triton_fleet.endpoint.instance_checks import host_ami, local_storage
from triton_fleet.parts.arguments.checks import literal_list, look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.base.checks import Check, Report
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import Release

CONTAINER_ENVIRONMENT = Check(
    id="container-environment",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
METRIC_INTERVAL = Check(
    id="metric-interval",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html",
)
_LARGEST_ENVIRONMENT = 32 * 1024
# Seconds. SageMaker also accepts 120, 180, 240 and 300. With gaps of minutes, the alarms and targets here,
# which read every minute, would consider an instance dead.
_INTERVALS = (10, 30, 60)


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
        metric_interval(report.at("metric_interval"), self.metric_interval)
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


def container_environment(report: Report, server: Mapping[str, str], extra: Mapping[str, str | None]) -> None:
    """Report problems with adding variables to those of the server's options."""
    for name in sorted(set(server) & set(extra)):
        report(
            CONTAINER_ENVIRONMENT,
            f"{name} is set to {extra[name]!r} here and to {server[name]!r} by the server's options",
            fix="use the option of TritonServer instead",
            why="one of the two values would be lost",
        )
    variables = {**server, **extra}
    size = sum(len(name.encode()) + len((value or "").encode()) for name, value in variables.items())
    if size > _LARGEST_ENVIRONMENT:
        report(
            CONTAINER_ENVIRONMENT,
            f"the environment has {size} bytes",
            fix=f"put long values into a file of the artifact: at most {_LARGEST_ENVIRONMENT} bytes in all",
            why="SageMaker refuses the model",
        )


def metric_interval(report: Report, interval: Duration | None) -> None:
    """Report problems with the interval of metrics; None is SageMaker's default of a minute."""
    if interval is None or interval.is_unresolved():
        return
    seconds = interval.to_seconds(integral=False)
    if seconds not in _INTERVALS:
        report(
            METRIC_INTERVAL,
            f"the interval of metrics is {seconds:g} s",
            fix=f"use {', '.join(map(str, _INTERVALS[:-1]))} or {_INTERVALS[-1]} s",
            why="alarms and auto scaling read metrics every minute",
        )
