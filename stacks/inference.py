"""The stack of the inference: the endpoint, and everything that keeps it serving."""

from __future__ import annotations

from aws_cdk import Aspects, CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet import LogEncryption, ModelLibrary, MultiModelFleet, Placement
from triton_fleet.app import FleetConfig


class InferenceStack(Stack):
    """The endpoint with its alias, scaling, alarms and dashboard."""

    def __init__(
        self, scope: Construct, construct_id: str, *, config: FleetConfig, library: ModelLibrary
    ) -> None:
        """Create the fleet of the models in a library."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=config.account, region=config.region),
            description="Triton Fleet: the multi-model endpoint, its scaling, alarms and dashboard",
        )
        self.fleet = MultiModelFleet(
            self,
            "Default",  # adds nothing to the names of what is in it
            library=library,
            fleet_name=config.name,
            min_capacity=config.min_capacity,
            max_capacity=config.max_capacity,
            targets=config.targets,
            deployment=config.update_strategy,
            rollback_alarms=config.rollback_alarms,
            thresholds=config.thresholds,
            warm_up=config.warm_up_requests,
            cold_models=config.cold_models,
            hot=config.hot,
            retired_models=config.retired_models,
            alarm_topic=self._topic(config.alarm_topic),
            alarm_email=config.alarm_email or None,
            hourly_price_usd=config.hourly_price_usd,
            monthly_budget_usd=config.monthly_budget_usd,
            signals=config.signals,
            watch=config.watch,
            placement=Placement(
                role=self._role(config.endpoint_role),
                network=config.vpc.network(self) if config.vpc else None,
            ),
            server=config.server,
        )
        if config.log_encryption_key:
            key = kms.Key.from_key_arn(self, "LogKey", config.log_encryption_key)
            Aspects.of(self).add(LogEncryption(key))
        self._put_out()

    def _put_out(self) -> None:
        fleet = self.fleet
        if fleet.dashboard.cost is not None:
            CfnOutput(
                self,
                "MonthlyCost",
                value=". ".join(fleet.dashboard.cost.lines()),
                description="What the instances cost, from the fewest to the most",
            )
        CfnOutput(
            self,
            "EndpointName",
            value=fleet.endpoint.endpoint_name,
            description="The endpoint of today; another release or instance type is another endpoint",
        )
        CfnOutput(
            self,
            "EndpointAlias",
            value=fleet.alias.parameter_name,
            description="What applications follow: the parameter that names today's endpoint and its target",
        )
        CfnOutput(
            self,
            "DashboardName",
            value=fleet.dashboard.dashboard.dashboard_name,
            description="What to look at in CloudWatch",
        )

    def _role(self, arn: str) -> iam.IRole | None:
        return iam.Role.from_role_arn(self, "EndpointRole", arn) if arn else None

    def _topic(self, arn: str) -> sns.ITopic | None:
        return sns.Topic.from_topic_arn(self, "AlarmTopic", arn) if arn else None
