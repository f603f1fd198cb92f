from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from botocore_model import violations
from synthesised import Resources

from triton_fleet import EndpointScaling, FleetError, ModelRepository, MultiModelEndpoint
from triton_fleet.scaling.alias import FLEET_TAG, EndpointAlias, endpoint_name_for

FLEET = "TritonFleet"
TYPE = "ml.g5.2xlarge"


@pytest.fixture
def named(stack: Stack, repository: ModelRepository) -> MultiModelEndpoint:
    """An endpoint that is named after its instance type."""
    name = endpoint_name_for(FLEET, TYPE)
    return MultiModelEndpoint(
        stack, "Endpoint", repository=repository, endpoint_name=name, instance_type=TYPE
    )


@pytest.fixture
def alias(stack: Stack, named: MultiModelEndpoint) -> EndpointAlias:
    scaling = EndpointScaling(stack, "Scaling", endpoint=named)
    return EndpointAlias(stack, "Alias", endpoint=named, fleet=FLEET, scaling=[scaling])


@pytest.fixture
def application(stack: Stack) -> iam.Role:
    return iam.Role(stack, "Application", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def statements(resources: Resources) -> dict[str, Any]:
    """What the application may do: the resources of each action."""
    policies = [each for each in resources("AWS::IAM::Policy") if "Application" in each["PolicyName"]]
    return {
        each["Action"]: each["Resource"]
        for policy in policies
        for each in policy["PolicyDocument"]["Statement"]
    }


def joined(arn: dict[str, Any]) -> str:
    _, parts = arn["Fn::Join"]
    return "".join(part if isinstance(part, str) else "*" for part in parts)


@pytest.mark.parametrize(
    ("types", "name"),
    [
        (["ml.g5.2xlarge"], "TritonFleet-g5-2xlarge"),
        (["ml.g4dn.xlarge"], "TritonFleet-g4dn-xlarge"),
        (["ml.g5.xlarge", "ml.c5.xlarge", "ml.g5.xlarge"], "TritonFleet-g5-xlarge-c5-xlarge"),
    ],
)
def test_an_endpoints_name_says_which_instance_type_it_is_on(types: list[str], name: str) -> None:
    assert endpoint_name_for(FLEET, *types) == name


def test_a_name_may_have_63_characters_and_no_more() -> None:
    room = 63 - len("-g5-2xlarge")

    assert len(endpoint_name_for("f" * room, TYPE)) == 63
    with pytest.raises(FleetError, match="at most 63") as raised:
        endpoint_name_for("f" * (room + 1), TYPE)
    assert raised.value.problems[0].fix == f"give the fleet a name of at most {room} characters"


def test_the_alias_names_the_endpoint(alias: EndpointAlias, resources: Resources) -> None:
    [parameter] = resources("AWS::SSM::Parameter")

    assert parameter["Name"] == alias.parameter_name == "/triton-fleet/TritonFleet/endpoint"
    assert parameter["Type"] == "String"
    assert parameter["Value"]["Fn::GetAtt"][1] == "EndpointName"


def test_the_alias_moves_only_after_the_endpoint_can_scale(stack: Stack, alias: EndpointAlias) -> None:
    template = Template.from_stack(stack)
    [parameter] = template.find_resources("AWS::SSM::Parameter").values()
    targets = template.find_resources("AWS::ApplicationAutoScaling::ScalableTarget")
    policies = template.find_resources("AWS::ApplicationAutoScaling::ScalingPolicy")
    [endpoint] = template.find_resources("AWS::SageMaker::Endpoint")

    assert set(parameter["DependsOn"]) == {*targets, *policies}
    assert parameter["Properties"]["Value"]["Fn::GetAtt"][0] == endpoint


def test_whoever_reads_it_may_read_it_and_nothing_else(
    alias: EndpointAlias, application: iam.Role, resources: Resources
) -> None:
    alias.grant_read(application)
    [(action, arn)] = statements(resources).items()

    assert action == "ssm:GetParameter"
    assert joined(arn) == "arn:*:ssm:*:*:parameter/triton-fleet/TritonFleet/endpoint"


def test_an_application_may_invoke_the_endpoint_before_and_the_one_after(
    alias: EndpointAlias, application: iam.Role, resources: Resources
) -> None:
    alias.grant_invoke(application)
    found = statements(resources)

    assert set(found) == {"ssm:GetParameter", "sagemaker:InvokeEndpoint"}
    assert [joined(arn) for arn in found["sagemaker:InvokeEndpoint"]] == [
        "arn:*:sagemaker:*:*:endpoint/TritonFleet-*",
        "arn:*:sagemaker:*:*:endpoint/tritonfleet-*",
    ]


def test_a_fleet_whose_name_begins_the_same_way_is_another_fleet(
    stack: Stack, alias: EndpointAlias, application: iam.Role, resources: Resources
) -> None:
    alias.grant_invoke(application)

    [invoking] = [
        statement
        for policy in resources("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "sagemaker:InvokeEndpoint"
    ]
    [endpoint] = resources("AWS::SageMaker::Endpoint")
    assert invoking["Condition"] == {"StringEquals": {f"aws:ResourceTag/{FLEET_TAG}": FLEET}}
    assert endpoint["Tags"] == [{"Key": FLEET_TAG, "Value": FLEET}]


def test_an_endpoint_whose_name_would_stay_is_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    with pytest.raises(FleetError, match="the endpoint is named 'fleet'") as raised:
        EndpointAlias(stack, "Alias", endpoint=endpoint, fleet=FLEET)

    [problem] = raised.value.problems
    assert problem.rule == "alias-endpoint-name"
    assert problem.expected == "the name 'TritonFleet-g5-2xlarge'"


def test_two_fleets_of_one_stack_have_an_alias_each(
    stack: Stack, repository: ModelRepository, alias: EndpointAlias, resources: Resources
) -> None:
    name = endpoint_name_for("Second", TYPE)
    endpoint = MultiModelEndpoint(stack, "Second", repository=repository, endpoint_name=name)
    EndpointAlias(stack, "SecondAlias", endpoint=endpoint, fleet="Second")

    assert {each["Name"] for each in resources("AWS::SSM::Parameter")} == {
        "/triton-fleet/TritonFleet/endpoint",
        "/triton-fleet/Second/endpoint",
    }


def test_the_parameter_is_one_that_its_service_accepts(stack: Stack, alias: EndpointAlias) -> None:
    assert violations(Template.from_stack(stack).to_json()) == []
