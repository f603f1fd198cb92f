"""Mistakes in arguments: a wrong type, a value that comes too late, or one that the services refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Stack, Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from declared import Build
from synthesised import Resources

from tests.reported import reported
from triton_fleet import (
    AlarmTopic,
    Canary,
    CapacitySize,
    Cooldowns,
    EndpointAlarms,
    EndpointNetwork,
    EndpointScaling,
    FleetError,
    InvocationsPerGpu,
    ModelBuildProject,
    ModelLatency,
    ModelRepository,
    MonthlyBudget,
    MultiModelEndpoint,
    RollbackAlarms,
    SingleModelEndpoint,
    Thresholds,
    TritonServer,
    Variant,
)
from triton_fleet.arguments.match import fits
from triton_fleet.arguments.typed import type_problems


@pytest.mark.parametrize(
    ("make", "given", "what"),
    [
        (MultiModelEndpoint, {"repository": None}, ["repository is None"]),
        (MultiModelEndpoint, {"initial_instance_count": True}, ["initial_instance_count is True (bool)"]),
        (
            MultiModelEndpoint,
            {"environment": {"A": 1, 2: "b"}},
            ["environment['A'] is 1 (int)", "a key of environment is 2 (int)"],
        ),
        (SingleModelEndpoint, {"variants": "AllTraffic"}, ["variants is 'AllTraffic' (str)"]),
        (EndpointNetwork, {"vpc": "vpc-1"}, ["vpc is 'vpc-1' (str)"]),
        (
            ModelRepository,
            {"prefix": 5, "encryption_key": "key"},
            ["prefix is 5 (int)", "encryption_key is 'key' (str)"],
        ),
        (ModelBuildProject, {"models": "minilm"}, ["models is 'minilm' (str)"]),
        (EndpointAlarms, {"endpoint": "search"}, ["endpoint is 'search' (str)"]),
        (EndpointScaling, {"max_capacity": "4"}, ["max_capacity is '4' (str)"]),
        (MonthlyBudget, {"limit_usd": "100"}, ["limit_usd is '100' (str)"]),
    ],
)
def test_a_construct_names_each_argument_of_a_wrong_type_before_it_is_created(
    make: Callable[..., object],
    given: dict[str, Any],
    what: list[str],
    repository: ModelRepository,
    endpoint: MultiModelEndpoint,
) -> None:
    needed = {
        MultiModelEndpoint: {"repository": repository},
        SingleModelEndpoint: {"repository": repository},
        ModelBuildProject: {"repository": repository, "source": "model_builds"},
        EndpointScaling: {"endpoint": endpoint},
        MonthlyBudget: {"fleet": "search"},
    }
    stack = Stack.of(endpoint)
    before = stack.node.children

    with reported(*["argument-type"] * len(what)) as problems:
        make(stack, "Wrong", **{**needed.get(make, {}), **given})

    assert [problem.what for problem in problems] == what
    assert {problem.where.rpartition(" of ")[2] for problem in problems} == {"Fleet/Wrong"}
    assert stack.node.children == before


@pytest.mark.parametrize(
    ("make", "given", "where"),
    [
        (Variant, {"artifact": b"a.tar.gz"}, ["artifact of Variant"]),
        (Variant, {"artifact": "a.tar.gz", "routing": "FASTEST"}, ["routing of Variant"]),
        (TritonServer, {"log_verbose": 1}, ["log_verbose of TritonServer"]),
        (Cooldowns, {"scale_out": 300, "scale_in": 600}, ["scale_out of Cooldowns", "scale_in of Cooldowns"]),
        (
            InvocationsPerGpu.from_load_test,
            {"requests_per_second": "5"},
            ["requests_per_second of InvocationsPerGpu.from_load_test"],
        ),
    ],
)
def test_a_value_names_each_argument_of_a_wrong_type(
    make: Callable[..., object], given: dict[str, Any], where: list[str]
) -> None:
    with reported(*["argument-type"] * len(where)) as problems:
        make(**given)

    assert [problem.where for problem in problems] == where


@pytest.mark.parametrize(
    ("given", "wanted", "what", "fix"),
    [
        (True, int, "a is True (bool)", "give an integer"),
        (True, float, "a is True (bool)", "give a number"),
        (1, bool, "a is 1 (int)", "give True or False"),
        (2.5, int, "a is 2.5 (float)", "give an integer"),
        ("5", int | None, "a is '5' (str)", "write the number without quotes"),
        (float("inf"), int, "a is inf (not finite)", "give a finite number, up to 2**53"),
        (2**60, int, "a is 1152921504606846976 (beyond 2**53)", "give a finite number, up to 2**53"),
        ("\ud800", str, "a is '\\ud800' (half a character)", "give a string"),
        (30, Duration, "a is 30 (int)", "write Duration.seconds(30), or another unit of Duration"),
        ("Dockerfile", Path, "a is 'Dockerfile' (str)", "write Path('Dockerfile')"),
        ("HighLatency", Sequence[str], "a is 'HighLatency' (str)", "write ['HighLatency']"),
        (["--a"], tuple[str, ...], "a is ['--a'] (list)", "write it with round brackets, or as tuple(...)"),
        (kms.Key, kms.IKey, "a is Key (class)", "give an aws_kms.IKey"),
        (5, str | None, "a is 5 (int)", "give a string, or omit it"),
    ],
)
def test_a_mistake_says_what_was_given_and_what_to_write(
    given: object, wanted: Any, what: str, fix: str
) -> None:
    (problem,) = type_problems("a", given, wanted, of="Here")

    assert (problem.what, problem.where, problem.fix) == (what, "a of Here", fix)


def test_a_method_is_reported_with_its_constructs_path(endpoint: MultiModelEndpoint) -> None:
    grantee: Any = "role"
    option: Any = {"period": 300}

    with pytest.raises(FleetError, match="grantee of grant_invoke, Fleet/Endpoint"):
        endpoint.grant_invoke(grantee)
    with pytest.raises(FleetError, match="period of metric, Fleet/Endpoint"):
        endpoint.metric_invocations(**option)


def test_another_interface_of_the_cdk_is_refused(stack: Stack, repository: ModelRepository) -> None:
    bucket: Any = s3.Bucket(stack, "Bucket")

    with pytest.raises(FleetError, match="encryption_key is a Bucket"):
        MultiModelEndpoint(stack, "Endpoint", repository=repository, encryption_key=bucket)


def test_a_misspelt_argument_remains_pythons_own_mistake() -> None:
    wrong: Any = {"milliseconds": 5}

    with pytest.raises(TypeError, match="unexpected keyword argument 'milliseconds'"):
        Thresholds(**wrong)


def test_what_implements_an_interface_is_taken_however_it_was_made() -> None:
    stack = Stack(App(), "Fleet")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-1",
        availability_zones=["a"],
        isolated_subnet_ids=["subnet-1"],
        isolated_subnet_route_table_ids=["rtb-1"],
    )
    arn = "arn:aws:kms:us-east-1:123456789012:key/1"
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::123456789012:role/a", mutable=False)

    assert fits(kms.Key.from_key_arn(stack, "Imported", arn), kms.IKey)
    assert fits(kms.Alias.from_alias_name(stack, "Alias", "alias/a"), kms.IKey)
    assert fits(vpc, ec2.IVpc)
    assert fits(vpc.isolated_subnets[0], ec2.ISubnet)
    assert fits(role, iam.IGrantable)
    assert fits(iam.ServicePrincipal("sagemaker.amazonaws.com"), iam.IGrantable)


def test_a_token_is_of_the_type_that_it_stands_for(stack: Stack) -> None:
    number = CfnParameter(stack, "Number", type="Number")
    texts = CfnParameter(stack, "Texts", type="CommaDelimitedList")

    assert fits(number.value_as_number, int)
    assert fits(int(number.value_as_number), int)
    assert fits(number.value_as_number, float)
    assert fits(Token.as_string(number.value), str)
    assert fits(texts.value_as_list, Sequence[str])
    assert not fits(number.value, str)
    assert not fits(number.value_as_number, bool)


def test_a_token_without_its_type_is_reported_how_to_get_one(stack: Stack) -> None:
    wrong: Any = CfnParameter(stack, "Number", type="Number").value

    with pytest.raises(FleetError, match=r"Token\.as_number\(\.\.\.\) of it"):
        CapacitySize.percent(wrong)


def _later(stack: Stack, kind: str) -> CfnParameter:
    return CfnParameter(stack, f"Later{kind}", type=kind)


def test_a_list_known_only_at_deployment_is_reported(stack: Stack, repository: ModelRepository) -> None:
    names = _later(stack, "CommaDelimitedList").value_as_list
    with reported("literal-needed"):
        MultiModelEndpoint(
            stack, "Endpoint", repository=repository, deployment=Canary(), rollback_alarms=names
        )


def test_minutes_known_only_at_deployment_are_reported(stack: Stack, repository: ModelRepository) -> None:
    wait = Duration.minutes(_later(stack, "Number").value_as_number)
    with reported("whole-time"):
        MultiModelEndpoint(stack, "Endpoint", repository=repository, container_start_timeout=wait)


def test_numbers_that_may_come_later_are_references(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    number = int(_later(stack, "Number").value_as_number)
    MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        initial_instance_count=number,
        container_start_timeout=Duration.seconds(number),
    )
    variant = resources("AWS::SageMaker::EndpointConfig")[0]["ProductionVariants"][0]

    assert variant["InitialInstanceCount"] == {"Ref": "LaterNumber"}
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == {"Ref": "LaterNumber"}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"cooldowns": Cooldowns(scale_out=Duration.millis(1), scale_in=Duration.days(1))}, ["whole-time"]),
        ({"max_capacity": 2**31}, ["number-range"]),
        ({"targets": [ModelLatency(latency=Duration.millis(5), statistic="p")]}, ["statistic-name"]),
    ],
)
def test_a_value_that_scaling_refuses_is_refused_here(
    stack: Stack, endpoint: MultiModelEndpoint, given: dict[str, Any], rules: list[str]
) -> None:
    with reported(*rules):
        EndpointScaling(stack, "Scaling", endpoint=endpoint, **given)


def test_an_address_without_a_host_is_refused(stack: Stack) -> None:
    with reported("email-address"):
        AlarmTopic(stack, "Topic", email="")


@pytest.mark.parametrize(
    ("timeout", "rules"),
    [
        (Duration.seconds(90), ["whole-time"]),
        (Duration.minutes(4), ["number-range"]),
        (Duration.days(2), ["number-range"]),
    ],
)
def test_a_builds_time_is_whole_minutes_in_a_range(build: Build, timeout: Duration, rules: list[str]) -> None:
    with reported(*rules):
        build(timeout=timeout)


def test_the_owner_of_a_vpc_is_an_account(stack: Stack) -> None:
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1)

    with reported("account-id"):
        EndpointNetwork(stack, "Network", vpc=vpc, vpc_owner="me")


def test_names_of_rollback_alarms_are_names_of_endpoints(stack: Stack) -> None:
    with reported("resource-name", "resource-name"):
        RollbackAlarms(stack, "Rollback", endpoint_name="a b", variant_name="")


def test_a_prefix_is_folders(stack: Stack) -> None:
    with reported("repository-prefix"):
        ModelRepository(stack, "Repository", prefix="a//b")


def test_an_imported_endpoint_has_a_name_that_one_can_have(stack: Stack) -> None:
    with reported("resource-name"):
        MultiModelEndpoint.from_endpoint_name(stack, "Imported", "a_b")


@pytest.mark.parametrize(
    ("argument", "first", "last"),
    [
        ("min_capacity=0", '  File "', "  fix:      set the minimum to 1"),
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
