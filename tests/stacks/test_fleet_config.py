from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from aws_cdk import App
from fleet_app import mistakes

from triton_fleet import CapacitySize, TritonServer
from triton_fleet.app import FleetConfig, fleet_configs
from triton_models.base.errors import Problem

TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"


def _read(nested: object = None, *, environment: dict[str, str] | None = None, **flat: Any) -> FleetConfig:
    context = flat if nested is None else flat | {"tritonFleet": nested}
    (config,) = fleet_configs(App(context=context).node, environment=environment or {})
    return config


def _problems(nested: object = None, **flat: Any) -> list[Problem]:
    return mistakes(**(flat if nested is None else flat | {"tritonFleet": nested}))


def test_an_empty_context_and_nulls_give_the_defaults() -> None:
    assert _read() == FleetConfig()
    assert _read({"max_capacity": None, "stages": None}) == FleetConfig()


def test_the_command_line_wins_over_cdk_json() -> None:
    assert _read({"max_capacity": 3, "name": "one"}, max_capacity="9") == FleetConfig(
        name="one", max_capacity=9
    )


def test_the_command_line_gives_strings_for_everything() -> None:
    commit = "0" * 40
    config = _read(
        models=" minilm, resnet50,",
        min_capacity="4",
        gpu_utilization_percent="55.5",
        region="",
        release="26.05",
        weights=f"T5_WEIGHTS=s3://weights/t5.pt, BERT_WEIGHTS=hf://google/bert@{commit}",
        build_on_deployment="False",
        log_info="false",
        signals="true",
        watch="minilm, resnet50",
        deployment="canary",
        deployment_size="50 %",
        warm_up='{"minilm": {"inputs": []}, "resnet50": "off"}',
        vpc='{"id": "vpc-1", "subnets": "a, b"}',
    )

    assert (config.models, config.min_capacity, config.gpu_utilization_percent) == (
        ("minilm", "resnet50"),
        4,
        55.5,
    )
    assert (config.region, config.release, config.build_on_deployment) == (None, "26.05", False)
    assert config.server == TritonServer(log_info=False)
    assert (config.signals, config.watch) == (True, ("minilm", "resnet50"))
    assert config.weights == {
        "T5_WEIGHTS": "s3://weights/t5.pt",
        "BERT_WEIGHTS": f"hf://google/bert@{commit}",
    }
    assert config.deployment_size == CapacitySize.percent(50)
    assert config.warm_up == {"minilm": '{"inputs": []}', "resnet50": "off"}
    assert config.cold_models == ["resnet50"]
    assert config.vpc is not None
    assert config.vpc.subnets == ("a", "b")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("max_capacity", "many", "an integer"),
        ("max_capacity", 2.5, "an integer"),
        ("gpu_utilization_percent", "nan", "a number"),
        ("models", 3, "a list of names"),
        ("build_on_deployment", "maybe", "true or false"),
        ("weights", "s3://weights/t5.pt", "an object of names and values"),
        ("release", 25.09, "a string"),
        ("deployment_size", "a quarter", "percent of the fleet"),
        ("warm_up", "on", "an object of models and their requests"),
        ("vpc", "vpc-1", "an object"),
    ],
)
def test_a_value_of_the_wrong_kind_is_reported(key: str, value: object, expected: str) -> None:
    (problem,) = _problems({key: value})

    assert (problem.rule, problem.where) == ("config-value-kind", f"{key} of cdk.json")
    assert problem.fix.startswith(f"give {expected}")


def test_something_else_than_an_object_is_reported() -> None:
    assert [each.rule for each in _problems(["ml.g5.2xlarge"])] == ["config-value-kind"]


def test_an_unknown_key_is_reported_with_the_close_one() -> None:
    (problem,) = _problems({"instancetype": "ml.g5.2xlarge"})

    assert problem.rule == "unknown-config-key"
    assert "did you mean instance_type" in problem.fix


@pytest.mark.parametrize("key", ["max_capcity", "instance-type", "tritonfleet"])
def test_a_mistyped_key_on_the_command_line_is_reported(key: str) -> None:
    (problem,) = _problems(**{key: "x"})

    assert (problem.rule, problem.where) == ("unknown-config-key", f"{key} of the command line")


def test_context_of_others_is_none_of_our_business() -> None:
    others: dict[str, Any] = {"@aws-cdk/core:stackRelativeExports": True, "vpcId": "vpc-1"}

    assert _read(**others) == FleetConfig()


VPC = {"id": "vpc", "subnets": ["subnet-0123456789abcdef0"]}

# Mistakes that are found together: each by its rule, at its setting, wherever a construct finds it.
TOGETHER: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "names, numbers and ARNs": (
        {
            "instance_type": "ml.g5.2xlrage",
            "colour": "green",
            "deployment": "cannary",
            "deployment_wait_minutes": 61,
            "parallel_builds": 0,
            "server_error_percent": 100,
            "model_error_percent": 100,
            "invocations_per_gpu_per_minute": 0,
            "latency_p99_ms": 0,
            "hub_token": "hub-token",
            "asset_key": "alias/company",
            "alarm_topic": "alarms",
            "gpu_utilization_percent": 170,
            "hourly_price_usd": -1,
            "vpc": VPC,
        },
        {
            "instance_type": "unknown-instance-type",
            "colour": "unknown-config-key",
            "deployment": "unknown-deployment",
            "deployment_wait_minutes": "number-range",
            "parallel_builds": "number-range",
            "server_error_percent": "alarm-threshold",
            "model_error_percent": "alarm-threshold",
            "invocations_per_gpu_per_minute": "scaling-target-reachable",
            "latency_p99_ms": "alarm-threshold",
            "hub_token": "secret-arn",
            "asset_key": "key-arn",
            "alarm_topic": "topic-arn",
            "gpu_utilization_percent": "scaling-target-reachable",
            "hourly_price_usd": "hourly-price",
            "vpc": "network-id",
        },
    ),
    "builds": (
        {
            "models": ["minilm"],
            "retired_models": ["minilm"],
            "weights": {"MINE": "t5.pt"},
            "weights_from": ["mine"],
            "build_environment": {"FLEET_MINE": "1"},
            "instance_type": "ml.p4d.24xlarge",
            "promoted_by": ["mine"],
            "wait_for_build": True,
            "build_every_hours": 0,
            "build_on_deployment": False,
            "min_capacity": 5,
            "monthly_budget_usd": 10,
        },
        {
            "retired_models": "retired-model",
            "weights": "build-weights",
            "weights_from": "build-weights",
            "build_environment": "build-environment",
            "instance_type": "build-gpu-is-serving-gpu",
            "promoted_by": "role-arn",
            "wait_for_build": "wait-for-build",
            "build_every_hours": "number-range",
            "min_capacity": "capacity-range",
            "monthly_budget_usd": "budget-destination",
        },
    ),
    "builds without a deployment": (
        {"models": ["minilm"], "build_on_new_weights": True},
        {"build_on_new_weights": "automatic-builds"},
    ),
    "builds of nothing": ({"models": [], "build_every_hours": 4}, {"build_every_hours": "fleet-models"}),
    "release": (
        {"release": "25.06", "name": "my_fleet", "account": "production"},
        {"release": "release-not-on-sagemaker", "name": "fleet-name", "account": "account-id"},
    ),
    "image": (
        {"image": "mine", "instance_type": "ml.p3.2xlarge"},
        {"image": "own-image-version", "instance_type": "gpu-generation-supported"},
    ),
    "host": (
        {"inference_ami": "gpu-4-1", "deployment": "canary", "deployment_size": "60%"},
        {"inference_ami": "host-ami", "deployment_size": "deployment-portion"},
    ),
    "warm-up": (
        {"warm_up": {"minilm": "{"}, "deployment_size": "50%"},
        {"warm_up": "warm-up-requests", "deployment_size": "deployment-size"},
    ),
    "times": (
        {"deployment": "linear", "deployment_size": "10%", "deployment_wait_minutes": 60, "cpu_image": True},
        {"deployment_wait_minutes": "deployment-times", "cpu_image": "cpu-image"},
    ),
    "destination": (
        {"alarm_topic": TOPIC, "alarm_email": "a@b.c", "instance_type": "ml.g6.2xlarge"},
        {"alarm_topic": "alarm-destination", "instance_type": "multi-model-type"},
    ),
    "existing": (
        {"region": "eu-central-1", "alarm_topic": TOPIC, "bucket": "models-of-mine", "min_capacity": 0},
        {"alarm_topic": "topic-arn", "bucket": "existing-bucket", "min_capacity": "capacity-range"},
    ),
    "nothing that only follows from another mistake": (
        {
            "instance_type": "ml.g5.2xlrage",
            "inference_ami": "al2-ami-sagemaker-inference-gpu-3-1",
            "alarm_email": "mine",
            "monthly_budget_usd": 10,
        },
        {"instance_type": "unknown-instance-type", "alarm_email": "email-address"},
    ),
    "signals": (
        {"signals": True, "watch": ["minilm", "minilm"], "max_capacity": 0},
        {"watch": "watched-models", "max_capacity": "capacity-range"},
    ),
    "no signals": (
        {"watch": ["minilm"], "max_capacity": 0},
        {"watch": "watched-models", "max_capacity": "capacity-range"},
    ),
    "no wait": (
        {"warm_up": {"minilm": {}}, "deployment_wait_minutes": 0, "region": "eu-west-9"},
        {"warm_up": "warm-up-without-wait", "region": "release-not-in-region"},
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_every_mistake_is_reported_at_once_at_its_setting(name: str) -> None:
    given, rules = TOGETHER[name]

    found = {each.where.partition(" ")[0]: each.rule for each in _problems(given)}

    assert found == rules


def test_the_place_of_what_a_construct_refuses_is_where_it_was_given() -> None:
    (problem,) = _problems(tritonFleet={"max_capacity": 3}, min_capacity="4")

    assert (problem.rule, problem.where) == ("capacity-range", "min_capacity of the command line")


@pytest.mark.parametrize(
    ("retired", "fix"),
    [
        ("score:acme", "write score_acme, the name under which the form is published"),
        ('a"b', ""),
        ("x\ny", ""),
    ],
)
def test_retired_models_are_named_as_they_are_published(retired: str, fix: str) -> None:
    (problem,) = _problems({"models": ["minilm"], "retired_models": [retired, "ok"]})

    assert problem.rule == "retired-form"
    assert fix in problem.fix


def test_models_that_are_left_out_need_no_wait() -> None:
    assert _read(warm_up='{"minilm": "off"}', deployment_wait_minutes="0").cold_models == ["minilm"]


def test_the_region_of_the_deployment_is_checked_and_not_written_into_the_template() -> None:
    (problem,) = mistakes(environment={"CDK_DEFAULT_REGION": "cn-north-1"})

    assert problem.where.startswith("CDK_DEFAULT_REGION")
    assert _read(environment={"CDK_DEFAULT_REGION": "eu-west-1"}).region is None
    assert _read({"region": "eu-west-1"}, environment={"CDK_DEFAULT_REGION": "cn-north-1"}).region


def test_an_editor_gets_the_schema_of_cdk_json() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "triton_fleet.app.schema"], capture_output=True, check=True, text=True
    )

    settings = json.loads(printed.stdout)["properties"]["context"]["properties"]["tritonFleet"]["properties"]
    assert settings["max_capacity"]["type"] == "integer"
    assert settings["deployment"]["enum"][0] == "all_at_once"
    assert "description" in settings["weights"]
    assert "max_capacity" in settings["stages"]["additionalProperties"]["properties"]
    assert "deployed_in" not in settings
