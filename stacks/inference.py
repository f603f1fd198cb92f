"""The inference: the endpoint, and everything that keeps it serving."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.config import FleetConfig
from triton_fleet import (
    AlarmTopic,
    CpuUtilization,
    EndpointAlarms,
    EndpointAlias,
    EndpointDashboard,
    EndpointScaling,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
    ModelRepository,
    MultiModelEndpoint,
    Target,
    Thresholds,
    endpoint_name_for,
)
from triton_models.instances import instance_type


class InferenceStack(Stack):
    """An endpoint with its auto scaling, alarms and dashboard.

    Attributes:
        endpoint: Serves the models.
        scaling: Decides how many instances do.
        alias: Names the endpoint of today for applications.
        notifications: Who is told about alarms; None if nobody is.
        alarms: What they are told about.
        dashboard: What they look at.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: FleetConfig,
        repository: ModelRepository,
        models: int = 0,
    ) -> None:
        """Wire the stack.

        Args:
            scope: The app.
            construct_id: The stack's name.
            config: The fleet's configuration.
            repository: The models to serve.
            models: How many those are, where it is known: what one of them costs is told.
        """
        super().__init__(
            scope,
            construct_id,
            env=Environment(region=config.region),
            description="Triton Fleet: the multi-model endpoint, its scaling, alarms and dashboard",
        )
        self.endpoint = MultiModelEndpoint(
            self,
            "Endpoint",
            repository=repository,
            endpoint_name=endpoint_name_for(config.name, config.instance_type),
            instance_type=config.instance_type,
            undocumented_instance_type=config.undocumented_instance_type,
            release=config.release,
            initial_instance_count=config.min_capacity,
            encryption_key=_volume_key(config, repository),
        )
        self.scaling = EndpointScaling(
            self,
            "Scaling",
            endpoint=self.endpoint,
            min_capacity=config.min_capacity,
            max_capacity=config.max_capacity,
            targets=_targets(config),
        )
        self.alias = EndpointAlias(
            self, "Alias", endpoint=self.endpoint, fleet=config.name, scaling=[self.scaling]
        )
        self.notifications = (
            AlarmTopic(self, "Notifications", email=config.alarm_email) if config.alarm_email else None
        )
        self.alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint=self.endpoint,
            scaling=self.scaling,
            thresholds=Thresholds(latency_p99_ms=config.latency_p99_ms),
            topic=self.notifications.topic if self.notifications else None,
            log_group=self.endpoint.log_group,
        )
        self.dashboard = EndpointDashboard(
            self,
            "Dashboard",
            endpoint=self.endpoint,
            alarms=self.alarms,
            scaling=self.scaling,
            models=models,
            hourly_price_usd=config.hourly_price_usd,
        )
        if self.dashboard.cost is not None:
            CfnOutput(
                self,
                "MonthlyCost",
                value=". ".join(self.dashboard.cost.lines()),
                description="What the instances cost, from the fewest to the most",
            )
        CfnOutput(
            self,
            "EndpointName",
            value=self.endpoint.endpoint_name,
            description="The endpoint of today; another instance type is another endpoint",
        )
        CfnOutput(
            self,
            "EndpointAlias",
            value=self.alias.parameter_name,
            description="What applications follow: the parameter that names the endpoint of today",
        )
        CfnOutput(
            self,
            "DashboardName",
            value=self.dashboard.dashboard.dashboard_name,
            description="What to look at in CloudWatch",
        )


def _targets(config: FleetConfig) -> list[Target]:
    """What auto scaling keeps constant, by the hardware."""
    if instance_type(config.instance_type).gpu is not None:
        return [
            InvocationsPerGpu(per_minute=config.invocations_per_gpu_per_minute),
            GpuUtilization(percent=config.gpu_utilization_percent),
        ]
    requests = config.invocations_per_instance_per_minute
    busy = CpuUtilization(percent=config.cpu_utilization_percent)
    return [busy] if requests is None else [InvocationsPerInstance(per_minute=requests), busy]


def _volume_key(config: FleetConfig, repository: ModelRepository) -> kms.IKey | None:
    """What encrypts the copies of models on a volume; NVMe is encrypted by its hardware, and takes no key."""
    return None if instance_type(config.instance_type).nvme_gb else repository.key
