from __future__ import annotations

from pathlib import Path

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from triton_fleet import (
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    ModelBuilds,
    ModelRepository,
    MultiModelEndpoint,
)


def test_twenty_lines_declare_a_fleet(source: Path) -> None:
    app = App()
    stack = Stack(app, "Fleet")
    repository = ModelRepository(stack, "Repository")
    ModelBuilds(stack, "Builds", repository=repository, source=source, models=["minilm", "resnet50"])
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository)
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, max_capacity=4)
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms, scaling=scaling)

    template = Template.from_stack(stack)
    for resource_type, count in {
        "AWS::S3::Bucket": 1,
        "AWS::CodeBuild::Project": 1,
        "AWS::SageMaker::Endpoint": 1,
        "AWS::ApplicationAutoScaling::ScalingPolicy": 2,
        "AWS::CloudWatch::Alarm": 9,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::CloudWatch::Dashboard": 1,
    }.items():
        template.resource_count_is(resource_type, count)


def test_everything_is_made_inside_its_construct(source: Path) -> None:
    stack = Stack(App(), "Fleet")
    repository = ModelRepository(stack, "Repository")
    MultiModelEndpoint(stack, "Endpoint", repository=repository)

    # Beside them only the accounts of the image, which every construct of the stack shares.
    assert {child.node.id for child in stack.node.children} == {"Repository", "Endpoint", "TritonImage2509"}
