from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Duration, Stack, Token
from aws_cdk import aws_sagemaker as sagemaker
from synthesised import Resources, refusals

from triton_fleet.endpoint.hosting.deployment import (
    AllAtOnce,
    Canary,
    CapacitySize,
    Deployment,
    Linear,
    Rolling,
    check_deployment,
    deployment_advice,
)
from triton_models.base.checks import Report

EVERY_WAY = [AllAtOnce(), Canary(), Linear(), Rolling()]


@pytest.fixture
def rendered(stack: Stack, resources: Resources) -> Callable[..., Any]:
    """Return the deployment of an endpoint in its template."""

    def of(deployment: Deployment, *alarms: str) -> Any:
        sagemaker.CfnEndpoint(
            stack,
            "Endpoint",
            endpoint_name="fleet",
            endpoint_config_name="config",
            deployment_config=deployment._render(rollback_alarms=alarms),
        )
        return resources("AWS::SageMaker::Endpoint")[0]["DeploymentConfig"]

    return of


def _rules(deployment: Deployment | None, capacity: int | None = 4, **given: Any) -> list[str]:
    arguments = {"rollback_alarms": ("fleet-rollback",) if deployment else (), "variants": 1, **given}
    report = Report("here")
    check_deployment(report, deployment, capacity=capacity, **arguments)
    return [problem.rule for problem in report.problems]


def test_a_canary_is_a_part_and_then_the_rest(rendered: Callable[..., Any]) -> None:
    assert rendered(Canary(size=CapacitySize.instances(1), wait=Duration.minutes(5))) == {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "CANARY",
                "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1},
                "WaitIntervalInSeconds": 300,
            },
            "TerminationWaitInSeconds": 0,
            "MaximumExecutionTimeoutInSeconds": 2 * 300 + 1800,
        }
    }


def test_linear_steps_are_equal_except_for_a_smaller_last_one(rendered: Callable[..., Any]) -> None:
    policy = rendered(Linear(step=CapacitySize.percent(30)))["BlueGreenUpdatePolicy"]

    assert policy["TrafficRoutingConfiguration"] == {
        "Type": "LINEAR",
        "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 30},
        "WaitIntervalInSeconds": 600,
    }
    assert policy["MaximumExecutionTimeoutInSeconds"] == 4 * 600 + 1800


def test_rolling_starts_instances_with_every_batch(rendered: Callable[..., Any]) -> None:
    assert rendered(Rolling(rollback_batch=CapacitySize.percent(50))) == {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
            "WaitIntervalInSeconds": 600,
            "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "MaximumExecutionTimeoutInSeconds": 4 * (600 + 1800),
        }
    }


def test_batches_of_instances_get_the_longest_time_for_their_number_is_not_known(
    rendered: Callable[..., Any],
) -> None:
    policy = rendered(Rolling(batch=CapacitySize.instances(2)))["RollingUpdatePolicy"]

    assert policy["MaximumExecutionTimeoutInSeconds"] == 28_800


@pytest.mark.parametrize("deployment", EVERY_WAY, ids=lambda way: type(way).__name__)
def test_the_defaults_are_what_the_service_accepts(
    deployment: Deployment, stack: Stack, rendered: Callable[..., Any]
) -> None:
    rendered(deployment, "errors")

    assert _rules(deployment) == []
    assert refusals(stack) == []


@pytest.mark.parametrize(
    ("deployment", "capacity", "fits"),
    [
        (Canary(size=CapacitySize.percent(50)), 4, True),
        (Canary(size=CapacitySize.percent(51)), 4, False),
        (Canary(size=CapacitySize.instances(3)), 4, False),
        (Canary(size=CapacitySize.instances(1)), 1, False),
        (Linear(step=CapacitySize.percent(10)), 4, True),
        (Linear(step=CapacitySize.percent(9)), 4, False),
        (Linear(step=CapacitySize.percent(51)), 4, False),
        (Rolling(batch=CapacitySize.percent(5)), 4, True),
        (Rolling(batch=CapacitySize.percent(4)), 4, False),
        (Rolling(batch=CapacitySize.instances(1)), 20, True),
        (Rolling(batch=CapacitySize.instances(1)), 21, False),
        (Rolling(rollback_batch=CapacitySize.percent(101)), 4, False),
        (Rolling(rollback_batch=CapacitySize.instances(5)), 4, False),
    ],
)
def test_a_portion_is_within_what_the_service_accepts(
    deployment: Deployment, capacity: int, fits: bool
) -> None:
    assert _rules(deployment, capacity) == ([] if fits else ["deployment-portion"])


@pytest.mark.parametrize("deployment", [Canary, Linear, Rolling])
def test_a_portion_or_a_time_known_at_deployment_is_let_pass(deployment: Any) -> None:
    number = Token.as_number({"Ref": "Number"})
    argument = {Canary: "size", Linear: "step", Rolling: "batch"}[deployment]
    given = {
        argument: CapacitySize.percent(number),  # type: ignore[arg-type]
        "wait": Duration.seconds(number),
        "maximum_time": Duration.seconds(number),
    }

    assert _rules(deployment(**given)) == []


def test_the_way_out_of_too_many_instances_names_how_many_fit() -> None:
    def fix(capacity: int) -> str:
        report = Report("here")
        Canary(size=CapacitySize.instances(9))._check(report, capacity=capacity)
        return report.problems[0].fix

    assert "1 to 3 instances" in fix(6)
    assert "AllAtOnce" in fix(1)


def test_waits_that_leave_no_time_for_the_last_step_are_refused() -> None:
    hour = Duration.hours(1)

    assert _rules(AllAtOnce(wait=hour, maximum_time=hour)) == ["deployment-times"]
    assert _rules(AllAtOnce(wait=hour, maximum_time=Duration.minutes(61))) == []
    assert _rules(Canary(wait=hour, maximum_time=Duration.minutes(61))) == ["deployment-times"]
    assert _rules(Rolling(wait=hour, batch=CapacitySize.percent(5))) == ["deployment-times"]
    assert _rules(Rolling(wait=hour, batch=CapacitySize.instances(1)), 9) == ["deployment-times"]
    assert _rules(AllAtOnce(termination_wait=hour, maximum_time=hour)) == ["deployment-times"]


def test_all_mistakes_are_found_together() -> None:
    deployment = Rolling(
        batch=CapacitySize.percent(80), rollback_batch=CapacitySize.percent(200), wait=Duration.hours(9)
    )

    assert _rules(deployment, variants=2, rollback_alarms=["same", "same"]) == [
        "rollback-alarms",
        "deployment-portion",
        "deployment-portion",
        "deployment-times",
        "rolling-one-variant",
    ]


@pytest.mark.parametrize(
    ("deployment", "alarms", "capacity", "advice"),
    [
        (Canary(), [], 4, ["triton-fleet:deployment-without-rollback"]),
        (Linear(), [], 4, ["triton-fleet:deployment-without-rollback"]),
        (
            Rolling(),
            ["errors"],
            1,
            ["triton-fleet:long-without-scaling", "triton-fleet:deployment-of-one-instance"],
        ),
        (Rolling(), ["errors"], 4, ["triton-fleet:long-without-scaling"]),
        (Canary(), ["errors"], 4, []),
        (AllAtOnce(), [], 1, []),
        (None, [], 1, []),
    ],
)
def test_a_trial_that_nobody_watches_or_that_is_all_of_the_fleet_is_worth_a_word(
    deployment: Deployment | None, alarms: list[str], capacity: int, advice: list[str]
) -> None:
    given = deployment_advice(deployment, rollback_alarms=alarms, capacity=capacity)

    assert [each for each, _ in given] == advice


@pytest.mark.parametrize(
    ("deployment", "capacity", "minutes"),
    [
        (AllAtOnce(), None, 25),
        (Canary(termination_wait=Duration.minutes(5)), None, 40),
        (Linear(), 4, 55),
        (Rolling(), 4, 100),
        (Rolling(batch=CapacitySize.instances(1)), None, None),
    ],
)
def test_a_deployment_says_for_how_long_auto_scaling_is_suspended(
    deployment: Deployment, capacity: int | None, minutes: float | None
) -> None:
    suspended = deployment.time_without_scaling(capacity=capacity)

    assert (suspended and suspended.to_minutes()) == minutes
