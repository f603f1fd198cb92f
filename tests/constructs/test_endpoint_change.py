# ruff: noqa: N803 (boto3's clients have these arguments)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError
from function_world import Clock, Context, Requests, asked, web_server

from triton_fleet import AllAtOnce, Canary, Deployment, ModelRepository, MultiModelEndpoint
from triton_fleet.endpoint.functions.code import endpoint_change, successor


def configurations(deployment: Deployment | None, *alarms: str) -> list[str]:
    """The logical ids of the configurations of an endpoint that moves to new ones in a way."""
    stack = Stack(App(), "Fleet")
    endpoint = MultiModelEndpoint(
        stack, "Endpoint", repository=ModelRepository(stack, "Repository"), deployment=deployment
    )
    if alarms:
        endpoint.roll_back_on(alarms)
    return list(Template.from_stack(stack).find_resources("AWS::SageMaker::EndpointConfig"))


def test_another_strategy_wait_or_alarm_is_another_configuration() -> None:
    found = [
        configurations(None),
        configurations(AllAtOnce()),
        configurations(AllAtOnce(wait=Duration.minutes(5))),
        configurations(Canary()),
        configurations(AllAtOnce(), "errors"),
        configurations(AllAtOnce(), "errors", "latency"),
    ]

    assert [len(each) for each in found] == [1] * len(found)
    assert len({name for each in found for name in each}) == len(found)
    assert configurations(AllAtOnce(), "errors") == found[4]


class World:
    """SageMaker, Systems Manager and Lambda as the function meets them."""

    def __init__(self, cloudformation: Requests) -> None:
        self.cloudformation = cloudformation
        self.clock = Clock()
        self.endpoints: dict[str, dict[str, Any]] = {}
        self.alias: str | None = None
        self.invoked: list[dict[str, Any]] = []
        self.asked: list[Any] = []
        self.refused = 0
        self.granted = True

    def put(self, name: str, *, count: int = 1, status: str = "InService", config: str = "c2") -> None:
        variant = {"VariantName": "AllTraffic", "DesiredInstanceCount": count, "CurrentInstanceCount": count}
        self.endpoints[name] = {
            "EndpointStatus": status,
            "EndpointConfigName": config,
            "ProductionVariants": [variant],
        }

    def describe_endpoint(self, *, EndpointName: str) -> Any:
        if self.refused:
            self.refused -= 1
            raise ClientError(
                {"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeEndpoint"
            )
        if EndpointName not in self.endpoints:
            error = {"Code": "ValidationException", "Message": f'Could not find endpoint "{EndpointName}".'}
            raise ClientError({"Error": error}, "DescribeEndpoint")
        return self.endpoints[EndpointName]

    def get_parameter(self, **_: Any) -> Any:
        if self.alias is None:
            raise ClientError({"Error": {"Code": "ParameterNotFound", "Message": "no"}}, "GetParameter")
        return {"Parameter": {"Value": json.dumps({"endpoint": self.alias, "target": "any"})}}

    def update_endpoint_weights_and_capacities(
        self, *, EndpointName: str, DesiredWeightsAndCapacities: Any
    ) -> None:
        self.asked.append((EndpointName, DesiredWeightsAndCapacities))
        self.endpoints[EndpointName]["EndpointStatus"] = "Updating"
        (change,) = DesiredWeightsAndCapacities
        count = change["DesiredInstanceCount"] if self.granted else 1
        self.clock.at(self.clock.now + 600, lambda: self.put(EndpointName, count=count))

    def invoke(self, *, Payload: bytes, **_: Any) -> None:
        self.invoked.append(json.loads(Payload))

    def ask(self, kind: str, *, request: str = "Create", **properties: Any) -> Any:
        given = {"Endpoint": "new", "Config": "c2", **properties}
        return asked(endpoint_change, self.cloudformation, self.clock, kind, given, request=request)

    def settle(self, request: str = "Create", **properties: Any) -> Any:
        return self.ask("TritonEndpointSettled", request=request, **properties)

    def take_over(self, most: int) -> Any:
        return self.settle(Alias="/a", MaxCapacity={"AllTraffic": str(most)})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with web_server() as cloudformation:
        world = World(cloudformation)
        for module in (endpoint_change, successor):
            monkeypatch.setattr(module.boto3, "client", lambda *_, **__: world)
        yield world


@pytest.mark.parametrize("request_type", ["Create", "Update"])
@pytest.mark.parametrize("status", ["Updating", "RollingBack", "Deleting"])
def test_an_endpoint_is_changed_once_nothing_else_changes_it(
    world: World, request_type: str, status: str
) -> None:
    world.put("new", status=status, config="c1")
    world.clock.at(600, lambda: world.put("new", config="c1"))

    assert world.ask("TritonEndpointIdle", request=request_type)["Status"] == "SUCCESS"
    assert world.clock.now == pytest.approx(600, abs=endpoint_change.POLL_S)


def test_an_endpoint_that_is_not_there_can_be_created(world: World) -> None:
    world.refused = 2
    assert world.ask("TritonEndpointIdle")["Status"] == "SUCCESS"


def test_a_wait_goes_on_in_another_invocation_and_ends_before_cloudformation_gives_up(world: World) -> None:
    world.put("new", status="Updating")
    answer = world.ask("TritonEndpointIdle")
    while answer is None:
        event = world.invoked.pop()
        endpoint_change.handler(event, Context(world.clock), clock=world.clock, sleep=world.clock.sleep)
        answers = world.cloudformation.bodies("/answer")
        answer = answers[-1] if answers else None

    assert answer["Status"] == "FAILED"
    assert "new is still Updating after 58 minutes" in answer["Reason"]
    assert world.clock.now < 3600


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_an_update_that_sagemaker_has_undone_fails_with_its_reason(world: World, request_type: str) -> None:
    world.put("new", config="c1")
    world.endpoints["new"]["FailureReason"] = "the alarm errors fired"

    answer = world.settle(request_type)

    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == "new is InService with c1, not with c2: the alarm errors fired"


@pytest.mark.parametrize(
    ("alias", "own", "most", "count"),
    [("old", 1, 4, 3), ("old", 1, 2, 2), ("old", 4, 4, None), ("new", 1, 4, None), (None, 1, 4, None)],
    ids=["as many", "up to its maximum", "it has more", "it serves already", "nothing serves"],
)
def test_a_new_endpoint_gets_the_instances_of_the_one_that_serves_up_to_its_maximum(
    world: World, alias: str | None, own: int, most: int, count: int | None
) -> None:
    world.put("old", count=3, status="Updating")
    world.put("new", count=own)
    world.alias = alias
    asked = [("new", [{"VariantName": "AllTraffic", "DesiredInstanceCount": count}])]

    assert world.take_over(most)["Status"] == "SUCCESS"
    assert world.asked == (asked if count else [])
    assert world.clock.now == pytest.approx(600 if count else 0, abs=endpoint_change.POLL_S)


def test_a_new_endpoint_without_capacity_does_not_take_over(world: World) -> None:
    world.put("old", count=3)
    world.put("new")
    world.alias, world.granted = "old", False

    answer = world.take_over(4)

    assert answer["Status"] == "FAILED"
    assert "new does not get the instances that the fleet has now, {'AllTraffic': 3}" in answer["Reason"]


@pytest.mark.parametrize("there", [True, False])
def test_a_removal_waits_until_the_endpoint_can_be_deleted(world: World, there: bool) -> None:
    if there:
        world.put("new", status="Updating", config="c1")
        world.clock.at(600, lambda: world.put("new", config="c1"))

    assert world.settle("Delete")["Status"] == "SUCCESS"
    assert world.clock.now >= 600 * there


def test_the_removal_of_what_was_before_waits_for_nothing(world: World) -> None:
    world.put("new", status="Updating")
    assert world.ask("TritonEndpointIdle", request="Delete")["Status"] == "SUCCESS"
    assert world.clock.now == 0
