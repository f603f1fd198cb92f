from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App

from triton_fleet import CapacitySize
from triton_fleet.app.config import FleetConfig
from triton_fleet.app.context import fleet_config
from triton_models.base.errors import FleetError, Problem

TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"


def _read(nested: object = None, *, environment: dict[str, str] | None = None, **flat: Any) -> FleetConfig:
    context = flat if nested is None else flat | {"tritonFleet": nested}
    return fleet_config(App(context=context).node, environment=environment or {})


def _problems(*arguments: Any, **keywords: Any) -> list[Problem]:
    with pytest.raises(FleetError) as raised:
        _read(*arguments, **keywords)
    return list(raised.value.problems)


def test_an_empty_context_gives_the_defaults() -> None:
    assert _read() == FleetConfig()


def test_the_command_line_wins_over_cdk_json() -> None:
    assert _read({"max_capacity": 3, "name": "one"}, max_capacity="9") == FleetConfig(
        name="one", max_capacity=9
    )


def test_the_command_line_gives_text_for_everything() -> None:
    config = _read(
        models=" minilm, resnet50,",
        min_capacity="2",
        gpu_utilization_percent="55.5",
        region="",
        release="26.05",
    )

    assert config == FleetConfig(
        models=("minilm", "resnet50"), min_capacity=2, gpu_utilization_percent=55.5, release="26.05"
    )


def test_the_command_line_gives_builds_as_text_too() -> None:
    commit = "0" * 40
    given = f"T5_WEIGHTS=s3://weights/t5.pt, BERT_WEIGHTS=hf://google/bert@{commit}"
    config = _read(weights=given, build_on_deployment="False", parallel_builds="8")

    assert config == FleetConfig(
        weights={"T5_WEIGHTS": "s3://weights/t5.pt", "BERT_WEIGHTS": f"hf://google/bert@{commit}"},
        build_on_deployment=False,
        parallel_builds=8,
    )


def test_what_is_wrong_about_builds_is_reported() -> None:
    problems = _problems({"weights": {"T5_WEIGHTS": "t5.pt"}, "parallel_builds": 0})

    assert [problem.what for problem in problems] == [
        "the weights of T5_WEIGHTS are at 't5.pt'",
        "parallel_builds is 0",
    ]


def test_the_command_line_gives_updates_as_text_too() -> None:
    config = _read(
        deployment="canary", deployment_size="1", min_capacity="4", warm_up='{"minilm": {"inputs": []}}'
    )

    assert config == FleetConfig(
        deployment="canary",
        deployment_size=CapacitySize.instances(1),
        min_capacity=4,
        warm_up={"minilm": '{"inputs": []}'},
    )
    assert _read(deployment="linear", deployment_size="50 %").deployment_size == CapacitySize.percent(50)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("max_capacity", "many", "an integer"),
        ("max_capacity", 2.5, "an integer"),
        ("max_capacity", True, "an integer"),
        ("latency_p99_ms", "fast", "an integer"),
        ("models", 3, "a list of names"),
        ("build_on_deployment", "maybe", "true or false"),
        ("weights", "s3://weights/t5.pt", "an object of variables and addresses"),
        ("weights", ["a"], "an object of variables and addresses"),
        ("release", 25.09, "a string"),
        ("rollback_alarms", "never", "true or false"),
        ("deployment_size", "a quarter", "percent of the fleet"),
        ("deployment_size", 0.25, "percent of the fleet"),
        ("warm_up", "on", "an object of models and their requests"),
        ("warm_up", ["minilm"], "an object of models and their requests"),
    ],
)
def test_a_value_of_the_wrong_kind_is_reported(key: str, value: object, expected: str) -> None:
    (problem,) = _problems({key: value})

    assert problem.rule == "config-value-kind"
    assert problem.where.startswith(f"{key} of the context 'tritonFleet'")
    assert problem.expected.startswith(expected)


@pytest.mark.parametrize("given", [{"models": []}, {"models": ["minilm"], "build_on_deployment": False}])
def test_waiting_for_a_build_that_no_deployment_starts_is_reported(given: dict[str, Any]) -> None:
    (problem,) = _problems(given | {"wait_for_build": True})

    assert problem.rule == "wait-for-build"


def test_models_that_are_left_out_need_no_wait() -> None:
    assert _read(warm_up='{"minilm": "off"}', deployment_wait_minutes="0").cold_models == ["minilm"]


def test_something_else_than_an_object_is_reported() -> None:
    (problem,) = _problems(["ml.g5.2xlarge"])

    assert problem.rule == "config-value-kind"


def test_an_unknown_key_is_reported_with_the_close_one() -> None:
    (problem,) = _problems({"instancetype": "ml.g5.2xlarge"})

    assert problem.rule == "unknown-config-key"
    assert "did you mean instance_type" in problem.fix


@pytest.mark.parametrize("key", ["max_capcity", "instance-type", "tritonfleet"])
def test_a_mistyped_key_on_the_command_line_is_reported(key: str) -> None:
    (problem,) = _problems(**{key: "x"})

    assert problem.rule == "unknown-config-key"


def test_context_of_others_is_none_of_our_business() -> None:
    others: dict[str, Any] = {
        "@aws-cdk/core:stackRelativeExports": True,
        "vpcId": "vpc-1",
        "aws:cdk:bundling-stacks": [],
    }

    assert _read(**others) == FleetConfig()


def test_every_mistake_is_reported_at_once() -> None:
    problems = _problems(
        {
            "instance_type": "ml.g5.12xlarge",
            "release": "25.06",
            "min_capacity": 5,
            "gpu_utilization_percent": 170,
            "name": "my_fleet",
            "colour": "green",
        }
    )

    assert {problem.rule for problem in problems} == {
        "multi-model-one-gpu",
        "release-not-on-sagemaker",
        "capacity-range",
        "scaling-target-reachable",
        "fleet-name",
        "unknown-config-key",
    }


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"instance_type": "ml.g5.2xlrage"}, ["unknown-instance-type"]),
        ({"release": "25.9"}, ["unknown-release"]),
        ({"region": "eu-west-9"}, ["release-not-in-region"]),
        ({"instance_type": "ml.p3.2xlarge"}, ["gpu-generation-supported"]),
        (
            {"instance_type": "ml.p4d.24xlarge", "models": ["minilm"]},
            ["multi-model-one-gpu", "build-gpu-is-serving-gpu"],
        ),
        ({"min_capacity": 0}, ["capacity-range"]),
        ({"invocations_per_gpu_per_minute": 0}, ["scaling-target-reachable"]),
        ({"name": "a" * 64}, ["fleet-name"]),
        ({"name": "-".join("a" * 33)}, ["fleet-name"]),
        ({"hub_token": "hub-token"}, ["secret-arn"]),
        ({"asset_key": "alias/company"}, ["key-arn"]),
        ({"instance_type": "ml.g6.2xlarge"}, ["multi-model-type"]),
        ({"deployment": "cannary"}, ["unknown-deployment"]),
        ({"deployment_size": "50%"}, ["deployment-size"]),
        ({"deployment": "replace", "deployment_size": "50%"}, ["deployment-size"]),
        ({"deployment": "canary", "deployment_size": "60%"}, ["deployment-portion"]),
        ({"deployment": "rolling", "deployment_size": 1}, ["deployment-portion"]),
        ({"deployment_wait_minutes": 61}, ["number-range"]),
        (
            {"deployment": "linear", "deployment_size": "10%", "deployment_wait_minutes": 60},
            ["deployment-times"],
        ),
        ({"server_error_percent": 100}, ["alarm-threshold"]),
        ({"model_error_percent": -1}, ["alarm-threshold"]),
        ({"minimum_requests": 0}, ["alarm-threshold"]),
        ({"warm_up": {"minilm": "{"}}, ["warm-up-requests"]),
        ({"warm_up": {"minilm": {}}, "deployment_wait_minutes": 0}, ["warm-up-without-wait"]),
        ({"alarm_topic": "alarms"}, ["topic-arn"]),
        ({"inference_ami": "gpu-4-1"}, ["host-ami"]),
        ({"inference_ami": "al2-ami-sagemaker-inference-gpu-3-1"}, ["host-ami"]),
        ({"cpu_image": True}, ["cpu-image"]),
        ({"alarm_topic": TOPIC, "region": "eu-central-1"}, ["topic-arn"]),
        ({"alarm_topic": TOPIC, "alarm_email": "a@b.c"}, ["alarm-destination"]),
        ({"models": ["minilm"], "retired_models": ["bert", "minilm"]}, ["retired-model"]),
        ({"models": ["minilm:b"], "retired_models": ["minilm:a"]}, ["retired-form"]),
        ({"models": ["minilm:a"], "retired_models": ["minilm:a"]}, ["retired-model"]),
        ({"models": ["minilm"], "retired_models": ['a"b', "x\ny", "日本", "ok"]}, ["retired-form"] * 3),
    ],
)
def test_a_mistake_names_its_rule_and_a_key(given: dict[str, object], rules: list[str]) -> None:
    problems = _problems(given)

    assert [problem.rule for problem in problems] == rules
    assert {name for name in given if name in str([each.where for each in problems])}


def test_a_retired_form_is_named_as_it_is_published() -> None:
    (problem,) = _problems({"models": ["minilm"], "retired_models": ["score:acme"]})

    assert problem.what == "retired_models has 'score:acme'"
    assert problem.fix == "write score_acme, the name under which the form is published"
    assert _read({"models": ["minilm"], "retired_models": ["score_acme"]}).retired_models == ("score_acme",)


def test_a_type_that_aws_does_not_list_can_be_asked_for() -> None:
    given = {"instance_type": "ml.g6.2xlarge", "allow_unlisted_instance_type": "true"}

    assert _read(given).allow_unlisted_instance_type


@pytest.mark.parametrize("given", [{"instance_type": "ml.g4dn.xlarge"}, {"region": "eu-north-1"}])
def test_what_the_build_job_lacks_does_not_matter_without_one(given: dict[str, object]) -> None:
    assert _read({**given, "models": []}).models == ()


def test_the_region_of_the_deployment_is_checked_and_not_written_into_the_template() -> None:
    (problem,) = _problems(environment={"CDK_DEFAULT_REGION": "cn-north-1"})

    assert problem.where.startswith("CDK_DEFAULT_REGION")
    assert _read(environment={"CDK_DEFAULT_REGION": "eu-west-1"}).region is None


def test_a_region_in_the_context_wins_over_that_of_the_deployment() -> None:
    assert (
        _read({"region": "eu-west-1"}, environment={"CDK_DEFAULT_REGION": "cn-north-1"}).region == "eu-west-1"
    )
