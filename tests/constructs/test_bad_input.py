from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from declared import Build
from synthesised import Resources

from tests.reported import reported
from triton_fleet import (
    Cooldowns,
    CpuUtilization,
    EndpointMetrics,
    EndpointScaling,
    InvocationsPerInstance,
    ModelBuildProject,
    ModelLatency,
    ModelRepository,
    MonthlyBudget,
    MultiModelEndpoint,
    RollbackAlarms,
    SingleModelEndpoint,
)


@pytest.mark.parametrize(
    ("make", "given", "fix"),
    [
        (MultiModelEndpoint, {"initial_instance_count": "2"}, "type of initial_instance_count must be int"),
        (MultiModelEndpoint, {"repository": None}, "type of repository must be triton_fleet.parts"),
        (SingleModelEndpoint, {"variants": "AllTraffic"}, "write ['AllTraffic']"),
        (ModelBuildProject, {"models": ["minilm", 5]}, "type of models[1] must be str"),
        (MultiModelEndpoint, {"rollback_alarms": [None]}, "type of rollback_alarms[0] must be one of"),
    ],
)
def test_a_construct_names_an_argument_of_a_wrong_type_before_it_is_created(
    make: Callable[..., object],
    given: dict[str, Any],
    fix: str,
    repository: ModelRepository,
    endpoint: MultiModelEndpoint,
) -> None:
    needed = {
        MultiModelEndpoint: {"repository": repository},
        SingleModelEndpoint: {"repository": repository},
        ModelBuildProject: {"repository": repository, "source": "model_builds"},
    }
    stack = Stack.of(endpoint)
    before = stack.node.children

    with reported("argument-type") as problems:
        make(stack, "Wrong", **{**needed.get(make, {}), **given})

    (name,) = given
    assert problems[0].fix.startswith(fix)
    assert problems[0].where == f"{name} of Fleet/Wrong"
    assert stack.node.children == before


def test_a_value_names_each_argument_of_a_wrong_type() -> None:
    wrong: Any = {"scale_out": 300, "scale_in": 600}

    with reported("argument-type", "argument-type") as problems:
        Cooldowns(**wrong)

    assert [problem.where for problem in problems] == ["scale_out of Cooldowns", "scale_in of Cooldowns"]


_METRICS = EndpointMetrics(endpoint_name="search")


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda stack, number: CpuUtilization(percent=number),
        lambda stack, number: InvocationsPerInstance(per_minute=number),
        lambda stack, number: MonthlyBudget(stack, "Budget", fleet="search", limit_usd=number),
        lambda stack, number: _METRICS.metric_error_rate(min_requests=number),
    ],
)
def test_a_number_is_finite(make: Callable[[Stack, Any], object], number: float, stack: Stack) -> None:
    with reported("number-range") as problems:
        make(stack, number)

    assert problems[0].fix == "give a finite number"


def _later(stack: Stack, kind: str) -> CfnParameter:
    return CfnParameter(stack, f"Later{kind}", type=kind)


def test_numbers_that_may_come_later_are_references(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    number: Any = _later(stack, "Number").value_as_number  # a float, to the CDK
    MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        initial_instance_count=number,
        container_start_timeout=Duration.seconds(int(number)),
    )
    variant = resources("AWS::SageMaker::EndpointConfig")[0]["ProductionVariants"][0]

    assert variant["InitialInstanceCount"] == {"Ref": "LaterNumber"}
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == {"Ref": "LaterNumber"}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"cooldowns": Cooldowns(scale_out=Duration.millis(1), scale_in=Duration.days(1))}, ["whole-time"]),
        ({"targets": [ModelLatency(latency=Duration.millis(5), statistic="p")]}, ["statistic-name"]),
    ],
)
def test_a_value_that_scaling_refuses_is_refused_here(
    stack: Stack, endpoint: MultiModelEndpoint, given: dict[str, Any], rules: list[str]
) -> None:
    with reported(*rules):
        EndpointScaling(stack, "Scaling", endpoint=endpoint, **given)


@pytest.mark.parametrize(
    ("timeout", "rules"), [(Duration.seconds(90), ["whole-time"]), (Duration.minutes(4), ["number-range"])]
)
def test_a_builds_time_is_whole_minutes_in_a_range(build: Build, timeout: Duration, rules: list[str]) -> None:
    with reported(*rules):
        build(timeout=timeout)


def test_names_of_rollback_alarms_are_names_of_endpoints(stack: Stack) -> None:
    with reported("resource-name", "resource-name"):
        RollbackAlarms(stack, "Rollback", endpoint_name="a b", variant_name="")


@pytest.mark.parametrize(
    ("argument", "first", "last"),
    [
        ("min_capacity=0", '  File "', "  fix:      set the minimum to 1 or more"),
        ("min_capacity=1 / 0", "Traceback", "ZeroDivisionError: division by zero"),
    ],
    ids=["a mistake", "another exception"],
)
def test_an_app_ends_with_the_message_of_a_mistake_and_its_own_line(
    argument: str, first: str, last: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(
        "from aws_cdk import App, Stack\n"
        "from triton_fleet import MultiModelFleet\n"
        f'MultiModelFleet(Stack(App(), "Search"), "Fleet", {argument})\n'
    )
    run = subprocess.run(
        [sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    lines = run.stderr.splitlines()

    assert (run.returncode, lines[0].startswith(first), lines[-1]) == (1, True, last), run.stderr
    assert sum(line.startswith("  File") for line in lines) == 1
