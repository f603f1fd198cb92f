from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import CfnParameter, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from triton_fleet import FleetError, MultiModelEndpoint, SingleModelEndpoint

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/search"


def _statement(stack: Stack) -> dict[str, Any]:
    (policy,) = Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    return dict(statement)


@pytest.mark.parametrize("name", ["search", "Search"])  # SageMaker writes it in lower case in ARNs
def test_a_name_is_of_this_account_and_region(name: str, stack: Stack) -> None:
    endpoint = SingleModelEndpoint.from_endpoint_name(stack, "Imported", name)

    assert endpoint.endpoint_name == name
    assert stack.resolve(endpoint.endpoint_arn)["Fn::Join"][1][-1] == ":endpoint/search"


def test_a_name_may_be_known_only_at_deployment(stack: Stack) -> None:
    name = CfnParameter(stack, "Name").value_as_string
    endpoint = MultiModelEndpoint.from_endpoint_name(stack, "Imported", name)

    assert stack.resolve(endpoint.endpoint_name) == {"Ref": "Name"}


def test_an_arn_tells_name_account_and_region(stack: Stack) -> None:
    endpoint = MultiModelEndpoint.from_endpoint_arn(stack, "Imported", ARN)

    assert endpoint.endpoint_arn == ARN
    assert endpoint.endpoint_name == "search"
    assert endpoint.env.region == "eu-west-1"
    assert endpoint.env.account == "123456789012"


@pytest.mark.parametrize(
    "arn", ["search", "arn:aws:s3:::bucket", ARN.replace("endpoint/", "endpoint-config/")]
)
def test_what_is_no_arn_of_an_endpoint_is_a_mistake(stack: Stack, arn: str) -> None:
    with pytest.raises(FleetError, match="endpoint_arn of Fleet/Imported"):
        MultiModelEndpoint.from_endpoint_arn(stack, "Imported", arn)


def test_invoking_is_granted_for_some_models_or_all(stack: Stack) -> None:
    caller = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
    MultiModelEndpoint.from_endpoint_arn(stack, "Imported", ARN).grant_invoke(
        caller, target_models=["minilm-*"]
    )

    assert _statement(stack) == {
        "Action": "sagemaker:InvokeEndpoint",
        "Effect": "Allow",
        "Resource": ARN,
        "Condition": {"StringLike": {"sagemaker:TargetModel": ["minilm-*"]}},
    }


def test_it_has_the_metrics_of_a_variant_whose_instance_type_is_known(stack: Stack) -> None:
    endpoint = MultiModelEndpoint.from_endpoint_name(stack, "Imported", "search")
    variant = endpoint.variant(instance_type="ml.g5.12xlarge")

    utilization = variant.metric_gpu_utilization()

    assert isinstance(utilization, cloudwatch.MathExpression)
    assert utilization.expression == "raw_GPUUtilization_Average / 4"
    assert endpoint.metric_invocations().dimensions == {"EndpointName": "search", "VariantName": "AllTraffic"}
    with pytest.raises(FleetError, match="unknown instance type"):
        endpoint.variant(instance_type="ml.g5.xlrage")


def test_a_utilization_needs_the_instance_type(stack: Stack) -> None:
    endpoint = MultiModelEndpoint.from_endpoint_name(stack, "Imported", "search")

    with pytest.raises(FleetError) as raised:
        endpoint.variant("Second").metric_cpu_utilization()
    assert [problem.rule for problem in raised.value.problems] == ["unknown-hardware"]
