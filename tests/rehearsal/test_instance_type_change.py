"""A new instance type for a scaled endpoint: the alias moves to a new endpoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from botocore.exceptions import ClientError
from synthesised_stacks import deploy_stack, small_stack, template_of

from aws_for_tests.deployed_functions import ended
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import aliased, described, endpoints, model_of
from tests.stacks.fleet_app import fleet_app
from triton_fleet import (
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    ModelRepository,
    MultiModelEndpoint,
    Serving,
)
from triton_fleet.operations.scaling.alias import EndpointAlias, endpoint_name_for
from triton_models.repository.alias import alias_name

pytestmark = pytest.mark.story

FLEET = "Fleet"
BEFORE, AFTER = "ml.g5.2xlarge", "ml.g4dn.xlarge"
OLD, NEW = "Fleet-g5-2xlarge-25-09", "Fleet-g4dn-xlarge-25-09"
ALIAS = alias_name(FLEET)
SERVICES = ("sagemaker", "application-autoscaling", "ssm", "cloudwatch", "logs", "iam")


@cache
def fleet(instance_type: str) -> str:
    """Return the template of a fleet."""
    stack = small_stack()
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name=endpoint_name_for(FLEET, instance_type),
        serving=Serving(instance_type=instance_type),
    )
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint)
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms, scaling=scaling)
    EndpointAlias(stack, "Alias", endpoint=endpoint, fleet=FLEET, scaling=[scaling])
    return template_of(stack)


def deploy(aws: EmbeddedAws, template: str) -> str:
    """Create or update the stack, and return the outcome."""
    cloudformation = aws.client("cloudformation")
    exists = any(each["StackName"] == "s" for each in cloudformation.describe_stacks()["Stacks"])
    act = cloudformation.update_stack if exists else cloudformation.create_stack
    stack = act(StackName="s", TemplateBody=template, Capabilities=["CAPABILITY_IAM"])["StackId"]
    return ended(aws, stack, verb="update" if exists else "create")


def registered(aws: EmbeddedAws) -> list[str]:
    scaling = aws.client("application-autoscaling")
    found = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    return [target["ResourceId"].split("/")[1] for target in found]


def policies(aws: EmbeddedAws) -> list[str]:
    scaling = aws.client("application-autoscaling")
    found = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    return sorted(policy["PolicyName"] for policy in found)


class Watch:
    """Records every call of a deployment and, after each, the state that applications find."""

    _READS = ("Describe", "Get", "List")

    def __init__(self, aws: EmbeddedAws) -> None:
        self._aws = aws
        self._looking = False
        self.left: tuple[str, dict[str, str], list[str], list[str]]
        self.mute: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.found: list[tuple[str, bool, bool, int]] = []
        for service in SERVICES:
            events = aws.client(service).meta.events
            events.register("before-parameter-build", self._called)
            events.register("after-call", self._look)

    def _called(self, params: dict[str, Any], model: Any, **_more: Any) -> None:
        if not model.name.startswith(self._READS):
            keys = ("EndpointName", "ResourceId", "Name")
            self.calls.append((model.name, str(next((params[key] for key in keys if key in params), ""))))

    def _look(self, model: Any, **_more: Any) -> None:
        if self._looking or model.name.startswith(self._READS):
            return
        self._looking = True
        name = aliased(self._aws).endpoint
        serving = described(self._aws, name)["EndpointStatus"]
        mine = sum(policy.startswith(f"{name}-") for policy in policies(self._aws))
        self.found.append((name, serving == "InService", name in registered(self._aws), mine))
        self.mute += mute(self._aws)
        self._looking = False


def mute(aws: EmbeddedAws) -> list[str]:
    """Return the endpoints whose role cannot write to their log group."""
    iam, found = aws.client("iam"), []
    for name in endpoints(aws):
        role = model_of(aws, name)["ExecutionRoleArn"].split("/")[-1]
        [policy] = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        [logging] = [each for each in document["Statement"] if each.get("Sid") == "Logs"]
        if f"/aws/sagemaker/Endpoints/{name}:" not in logging["Resource"]:
            found.append(name)
    return found


@pytest.fixture(scope="module")
def changed() -> Watch:
    """A watched change of the instance type, and what there is afterwards."""
    with EmbeddedAws() as aws:
        assert deploy(aws, fleet(BEFORE)) == "CREATE_COMPLETE"
        assert aliased(aws).endpoint == OLD
        watch = Watch(aws)
        assert deploy(aws, fleet(AFTER)) == "UPDATE_COMPLETE"
        assert aws.missing_resources("s") == []
        watch.left = (aliased(aws).endpoint, endpoints(aws), registered(aws), policies(aws))
    return watch


def test_with_an_alias_it_is_an_ordinary_deployment(changed: Watch) -> None:
    scaling = [f"{NEW}-GpuUtilization", f"{NEW}-Invocations"]

    assert changed.left == (NEW, {NEW: AFTER}, [NEW], scaling)


def test_the_alias_moves_between_the_new_endpoints_scaling_and_the_old_ones_removal(changed: Watch) -> None:
    new, old = (f"endpoint/{name}/variant/AllTraffic" for name in (NEW, OLD))
    relevant = ("Endpoint", "ScalableTarget", "ScalingPolicy", "Parameter")
    assert [call for call in changed.calls if call[0].endswith(relevant)] == [
        ("CreateEndpoint", NEW),
        ("RegisterScalableTarget", new),
        ("PutScalingPolicy", new),
        ("PutScalingPolicy", new),
        ("PutParameter", ALIAS),
        ("DeleteScalingPolicy", old),
        ("DeleteScalingPolicy", old),
        ("DeregisterScalableTarget", old),
        ("DeleteEndpoint", OLD),
    ]


def test_at_every_moment_the_alias_names_an_endpoint_that_serves_scales_and_logs(changed: Watch) -> None:
    assert len(changed.found) > 15
    assert {name for name, _, _, _ in changed.found} == {OLD, NEW}
    assert {(serving, scaled, mine) for _, serving, scaled, mine in changed.found} == {(True, True, 2)}
    assert changed.mute == []


@pytest.mark.parametrize("call", ["CreateEndpoint", "PutScalingPolicy"])
def test_a_new_endpoint_that_fails_leaves_the_old_one_serving(aws: EmbeddedAws, call: str) -> None:
    deploy(aws, fleet(BEFORE))
    watch = Watch(aws)
    service = "sagemaker" if call == "CreateEndpoint" else "application-autoscaling"
    events = aws.client(service).meta.events
    refuse = _refusing(call)
    events.register("before-call", refuse)

    outcome = deploy(aws, fleet(AFTER))

    events.unregister("before-call", refuse)
    assert outcome.startswith("UPDATE_ROLLBACK_COMPLETE")
    assert "ResourceLimitExceeded" in outcome
    assert (aliased(aws).endpoint, endpoints(aws), registered(aws)) == (OLD, {OLD: BEFORE}, [OLD])
    assert policies(aws) == [f"{OLD}-GpuUtilization", f"{OLD}-Invocations"]
    assert {name for name, serving, scaled, _ in watch.found if serving and scaled} == {OLD}
    assert ("PutParameter", ALIAS) not in watch.calls


def _refusing(call: str) -> Callable[..., None]:
    def refuse(model: Any, **_more: Any) -> None:
        if model.name == call:
            error = {"Code": "ResourceLimitExceeded", "Message": "the account's quota is 0 instances"}
            raise ClientError({"Error": error}, call)

    return refuse


def test_where_the_fleet_is_replaced_a_setting_makes_another_endpoint(aws: EmbeddedAws) -> None:
    names, outcome = [], ""
    for verb, capacity in (("create", 1), ("update", 2)):
        app = fleet_app(models="", deployment="replace", min_capacity=capacity)
        if verb == "create":
            deploy_stack(aws, app.models, verb)
        outcome = deploy_stack(aws, app.inference, verb)
        names += endpoints(aws)

    assert outcome.startswith("UPDATE_COMPLETE")
    assert len(set(names)) == 2
