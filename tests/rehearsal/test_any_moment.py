"""Deployments while something else changes the endpoint, or undoes what they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import Duration
from synthesised_stacks import small_stack, template_of

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import aliased, described, endpoints, instances, model_of, scale
from tests.rehearsal.test_instance_type_change import FLEET, deploy
from triton_fleet import (
    AllAtOnce,
    EndpointAlias,
    EndpointScaling,
    ModelRepository,
    MultiModelEndpoint,
    Serving,
    endpoint_name_for,
)
from triton_fleet.endpoint.functions import inline_function

pytestmark = pytest.mark.story

BEFORE, AFTER = "ml.g5.2xlarge", "ml.g4dn.xlarge"
OLD, NEW = endpoint_name_for(FLEET, BEFORE), endpoint_name_for(FLEET, AFTER)
# A change of capacity takes two seconds here, and an update five.
SPEED = 120.0


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedAws]:
    """An embedded AWS in which the first version of the fleet serves, and functions poll often."""
    written = inline_function.function_code
    faster = ("POLL_S = 5\n# CloudFormation", "POLL_S = 0.2\n# CloudFormation")
    monkeypatch.setattr(inline_function, "function_code", lambda source: written(source).replace(*faster))
    with EmbeddedAws(speed=SPEED) as opened:
        fire(opened, "notBreaching")
        assert deploy(opened, fleet(1)) == "CREATE_COMPLETE"
        yield opened


def fleet(version: int, instance_type: str = BEFORE) -> str:
    """Return the template of a version of a fleet, whose updates are watched by an alarm."""
    stack = small_stack()
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name=endpoint_name_for(FLEET, instance_type),
        serving=Serving(instance_type=instance_type),
        environment={"VERSION": str(version)},
        deployment=AllAtOnce(wait=Duration.minutes(10)),
        rollback_alarms=["errors"],
    )
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint)
    EndpointAlias(stack, "Alias", endpoint=endpoint, fleet=FLEET, scaling=[scaling])
    return template_of(stack)


def version(aws: EmbeddedAws, name: str = OLD) -> str:
    """Return the version that an endpoint serves."""
    return str(model_of(aws, name)["PrimaryContainer"]["Environment"]["VERSION"])


def begin_to_scale(aws: EmbeddedAws, count: int) -> None:
    scale(aws, OLD, count)
    assert described(aws, OLD)["EndpointStatus"] == "Updating"


def fire(aws: EmbeddedAws, missing: str = "breaching") -> None:
    """Let the alarm fire, which has no data, or not."""
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName="errors",
        Namespace="none",
        MetricName="none",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData=missing,
    )
    aws.evaluate()


def test_an_update_while_the_fleet_scales_waits_and_keeps_what_was_scaled(aws: EmbeddedAws) -> None:
    begin_to_scale(aws, 3)

    assert deploy(aws, fleet(2)) == "UPDATE_COMPLETE"
    assert version(aws) == "2"
    assert instances(aws, OLD) == 3


def test_an_update_that_sagemaker_undoes_fails(aws: EmbeddedAws) -> None:
    fire(aws)
    outcome = deploy(aws, fleet(2))
    fire(aws, "notBreaching")

    assert outcome.startswith("UPDATE_ROLLBACK_COMPLETE")
    assert "in ALARM during the baking period: errors" in outcome
    assert version(aws) == "1"
    assert deploy(aws, fleet(3)) == "UPDATE_COMPLETE"
    assert version(aws) == "3"


def test_a_new_endpoint_has_the_size_of_the_fleet_before_the_alias_moves_and_the_old_one_goes(
    aws: EmbeddedAws,
) -> None:
    """The old endpoint scales again after the alias has moved, so it cannot be deleted at once."""
    begin_to_scale(aws, 3)
    until(lambda: described(aws, OLD)["EndpointStatus"] == "InService")
    counts: list[int] = []

    def moved(model: Any, **_: Any) -> None:
        if model.name == "PutParameter" and aliased(aws).endpoint == NEW:
            counts.append(instances(aws, NEW))
            begin_to_scale(aws, 4)

    events = aws.client("ssm").meta.events
    events.register("after-call.ssm", moved)
    outcome = deploy(aws, fleet(1, AFTER))
    events.unregister("after-call.ssm", moved)

    assert outcome == "UPDATE_COMPLETE"
    assert counts == [3]
    assert endpoints(aws) == {NEW: AFTER}
    assert instances(aws, NEW) == 3
