"""The inference: the endpoint, and everything that keeps it serving."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Annotations, CfnOutput, Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks import warm_up
from stacks.config import FleetConfig
from stacks.models import SOURCE
from stacks.updates import deployment
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
    NewFleetAlarms,
    RollbackAlarms,
    Target,
    WarmUp,
    endpoint_name_for,
)
from triton_models.facts.instances import instance_type

SILENT_ALARMS = "triton-fleet:alarms-notify-no-one"
"""The id of the warning of a fleet whose alarms go nowhere."""


class InferenceStack(Stack):
    """An endpoint with its auto scaling, alarms and dashboard.

    Attributes:
        endpoint: Serves the models.
        scaling: Decides how many instances do.
        alias: Names the endpoint of today for applications.
        rollback: What undoes an update, of the endpoint and of its newest fleet alone; empty if nothing does.
        warm_up: Loads models on a new fleet; None if nothing does.
        notifications: The topic made for the alarms; None without an address.
        alarms: What they are about.
        dashboard: What they look at.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: FleetConfig,
        repository: ModelRepository,
        built: Sequence[str] = (),
    ) -> None:
        """Wire the stack.

        Args:
            scope: The app.
            construct_id: The stack's name.
            config: The fleet's configuration.
            repository: The models to serve.
            built: Those that the fleet builds: they are warmed up, and what one of them costs is shown.
        """
        super().__init__(
            scope,
            construct_id,
            env=Environment(region=config.region),
            description="Triton Fleet: the multi-model endpoint, its scaling, alarms and dashboard",
        )
        name = endpoint_name_for(config.name, config.instance_type, release=config.release)
        limits = config.thresholds
        watched = (
            RollbackAlarms(self, "Rollback", endpoint_name=name, thresholds=limits)
            if config.rollback_alarms
            else None
        )
        self.endpoint = MultiModelEndpoint(
            self,
            "Endpoint",
            repository=repository,
            endpoint_name=name,
            instance_type=config.instance_type,
            undocumented_instance_type=config.undocumented_instance_type,
            release=config.release,
            inference_ami=config.inference_ami or None,
            cpu_image=config.cpu_image,
            initial_instance_count=config.min_capacity,
            encryption_key=_volume_key(config, repository),
            deployment=deployment(config),
            rollback_alarms=watched.names if watched else (),
        )
        self.rollback: tuple[RollbackAlarms | NewFleetAlarms, ...] = ()
        if watched is not None:
            new_fleet = NewFleetAlarms(self, "NewFleet", endpoint=self.endpoint, thresholds=limits)
            self.rollback = (watched, new_fleet)
        self.scaling = EndpointScaling(
            self,
            "Scaling",
            endpoint=self.endpoint,
            min_capacity=config.min_capacity,
            max_capacity=config.max_capacity,
            targets=_targets(config),
        )
        self.alias = EndpointAlias(
            self,
            "Alias",
            endpoint=self.endpoint,
            fleet=config.name,
            scaling=[self.scaling],
            not_needed=config.retired_models,
        )
        sent = warm_up.requests(self, config, built=built, models=SOURCE / "models")
        self.warm_up = (
            WarmUp(self, "WarmUp", endpoint=self.endpoint, requests=sent, alias=self.alias) if sent else None
        )
        self.notifications = (
            AlarmTopic(self, "Notifications", email=config.alarm_email) if config.alarm_email else None
        )
        self.alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint=self.endpoint,
            scaling=self.scaling,
            thresholds=limits,
            topic=self._topic(config.alarm_topic),
            log_group=self.endpoint.log_group,
        )
        if not (config.alarm_topic or config.alarm_email):
            Annotations.of(self.alarms).add_warning_v2(
                SILENT_ALARMS, "The alarms notify no one. Give alarm_topic or alarm_email."
            )
        self.dashboard = EndpointDashboard(
            self,
            "Dashboard",
            endpoint=self.endpoint,
            alarms=self.alarms,
            scaling=self.scaling,
            models=len(built),
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
            description="The endpoint of today; another release or instance type is another endpoint",
        )
        CfnOutput(
            self,
            "EndpointAlias",
            value=self.alias.parameter_name,
            description="What applications follow: the parameter that names today's endpoint and its target",
        )
        CfnOutput(
            self,
            "DashboardName",
            value=self.dashboard.dashboard.dashboard_name,
            description="What to look at in CloudWatch",
        )

    def _topic(self, arn: str) -> sns.ITopic | None:
        """Where alarms go."""
        if arn:
            return sns.Topic.from_topic_arn(self, "AlarmTopic", arn)
        return self.notifications.topic if self.notifications else None


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
    """What encrypts the copies of models on a volume; NVMe is encrypted by its hardware, without a key."""
    return None if instance_type(config.instance_type).nvme_gb else repository.key
