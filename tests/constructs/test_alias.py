from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from synthesised import Resources

from triton_fleet import EndpointScaling, FleetError, ModelRepository, MultiModelEndpoint, Serving
from triton_fleet.operations.scaling.alias import FLEET_TAG, EndpointAlias, endpoint_name_for

FLEET = "TritonFleet"
TYPE = "ml.g5.2xlarge"


@pytest.fixture
def named(stack: Stack, repository: ModelRepository) -> MultiModelEndpoint:
    """An endpoint that is named after its instance type."""
    name = endpoint_name_for(FLEET, TYPE)
    return MultiModelEndpoint(
        stack, "Endpoint", repository=repository, endpoint_name=name, serving=Serving(instance_type=TYPE)
    )


@pytest.fixture
def alias(stack: Stack, named: MultiModelEndpoint) -> EndpointAlias:
    scaling = EndpointScaling(stack, "Scaling", endpoint=named)
    return EndpointAlias(stack, "Alias", endpoint=named, fleet=FLEET, scaling=[scaling])


@pytest.fixture
def application(stack: Stack) -> iam.Role:
    return iam.Role(stack, "Application", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def statements(resources: Resources) -> dict[str, Any]:
    """Return the permissions of the application: the resources of each action."""
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
        (["ml.g5.2xlarge"], "TritonFleet-g5-2xlarge-25-09"),
        (["ml.g4dn.xlarge"], "TritonFleet-g4dn-xlarge-25-09"),
        (["ml.g5.xlarge", "ml.c5.xlarge", "ml.g5.xlarge"], "TritonFleet-g5-xlarge-c5-xlarge-25-09"),
    ],
)
def test_an_endpoints_name_says_what_it_is_and_so_what_it_loads(types: list[str], name: str) -> None:
    assert endpoint_name_for(FLEET, *types) == name
    assert endpoint_name_for(FLEET, *types, release="26.05") == name.replace("25-09", "26-05")


def test_a_name_may_have_63_characters_and_no_more() -> None:
    room = 63 - len("-g5-2xlarge-25-09")

    assert len(endpoint_name_for("f" * room, TYPE)) == 63
    with pytest.raises(FleetError, match="limits names to 63") as raised:
        endpoint_name_for("f" * (room + 1), TYPE)
    assert raised.value.problems[0].fix == f"shorten the fleet's name to {room} characters"


def test_another_release_is_checked_by_resources_of_its_own(stack: Stack, alias: EndpointAlias) -> None:
    """CloudFormation then creates them; a rollback deletes them, and invokes none of those before."""
    names = Template.from_stack(stack).find_resources("Custom::TritonNames")

    assert all("TritonFleetg52xlarge2509" in each for each in names), names


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


@pytest.mark.parametrize("name", ["fleet", "TritonFleet-g5-2xlarge-25-091"])
def test_an_endpoint_whose_name_would_stay_is_refused(
    name: str, stack: Stack, repository: ModelRepository
) -> None:
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository, endpoint_name=name)

    with pytest.raises(FleetError, match=f"the endpoint is named '{name}'") as raised:
        EndpointAlias(stack, "Alias", endpoint=endpoint, fleet=FLEET)

    [problem] = raised.value.problems
    assert problem.rule == "alias-endpoint-name"
    assert problem.fix.startswith("name it 'TritonFleet-g5-2xlarge-25-09'")
