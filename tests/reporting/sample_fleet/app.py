"""A fleet for the tests of the report; each commit changes it somewhere."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from triton_fleet import (
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    ModelBuildProject,
    ModelRepository,
    MultiModelEndpoint,
    Serving,
    Thresholds,
)

app = App()
models = app.node.get_context("models")
stack = Stack(app, "Fleet")
repository = ModelRepository(stack, "Repository")
ModelBuildProject(
    stack,
    "Builds",
    repository=repository,
    source=Path(__file__).parent / "model_builds",
    models=models,
    serving=Serving(instance_type="ml.g5.2xlarge", release="25.09"),
)
endpoint = MultiModelEndpoint(
    stack,
    "Endpoint",
    repository=repository,
    endpoint_name="search",
    serving=Serving(instance_type="ml.g5.2xlarge", release="25.09"),
)
scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=1, max_capacity=4)
alarms = EndpointAlarms(
    stack,
    "Alarms",
    endpoint=endpoint,
    scaling=scaling,
    thresholds=Thresholds(latency_p99=Duration.millis(500)),
)
EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms, scaling=scaling, models=len(models))
captured = s3.Bucket(stack, "Captured", removal_policy=RemovalPolicy.DESTROY)
caller = iam.Role(stack, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
endpoint.grant_invoke(caller)
app.synth()
