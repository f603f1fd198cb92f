"""A fleet whose endpoint is attached to private subnets."""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from fleet_app import CONTEXT, FleetApp

from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet import EndpointAlarms, ModelRepository, MultiModelEndpoint, Placement
from triton_fleet.app import fleet_configs
from triton_fleet.fleet import multi_model_fleet
from triton_fleet.fleet.accepted_findings import in_endpoint
from triton_fleet.parts.network.endpoint_network import EndpointNetwork


class VpcInferenceStack(Stack):
    """An endpoint in isolated subnets of another team's VPC, and a caller next to it."""

    def __init__(self, scope: App, construct_id: str, *, repository: ModelRepository) -> None:
        super().__init__(scope, construct_id)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=["eu-west-1a", "eu-west-1b"],
            isolated_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            isolated_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
        )
        self.network = EndpointNetwork(self, "Network", vpc=vpc)
        self.endpoint = MultiModelEndpoint(
            self,
            "Endpoint",
            repository=repository,
            endpoint_name="private",
            placement=Placement(network=self.network),
        )
        self.network.allow_callers(ec2.SecurityGroup(self, "Caller", vpc=vpc, allow_all_outbound=False))
        self.alarms = EndpointAlarms(self, "Alarms", endpoint=self.endpoint)
        multi_model_fleet.accept(in_endpoint(self.endpoint, repository))


def vpc_fleet() -> FleetApp:
    """Two models, served from a VPC."""
    context: dict[str, Any] = dict(CONTEXT)
    app = App(context=context)
    (config,) = fleet_configs(app.node, environment={})
    models = ModelsStack(app, "PrivateModels", config=config)
    inference = VpcInferenceStack(app, "PrivateInference", repository=models.library.repository)
    return FleetApp(app=app, models=models, inference=cast("InferenceStack", inference))
