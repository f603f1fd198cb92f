"""What rules say of a mistake is about that mistake: the reason is true of it, and the fix removes it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from tests.constructs.rule_cases import Arguments, Rule, given
from triton_fleet.rules.alarm_thresholds import alarm_threshold
from triton_fleet.rules.async_features import async_features
from triton_fleet.rules.async_topics import async_topics
from triton_fleet.rules.build_processing import processing_instance
from triton_fleet.rules.container_environment import container_environment
from triton_fleet.rules.content_types import content_types
from triton_fleet.rules.deployment_portion import deployment_portion
from triton_fleet.rules.hourly_price import hourly_price
from triton_fleet.rules.inline_code import inline_code
from triton_fleet.rules.multi_model_features import EXCLUDED, multi_model_features
from triton_fleet.rules.network_subnets import some_subnets
from triton_fleet.rules.repository_prefix import repository_prefix
from triton_fleet.rules.reservation_arn import reservation_arn
from triton_fleet.rules.resource_name import resource_name
from triton_fleet.rules.rollback_alarms import rollback_alarms
from triton_fleet.rules.scaling_numbers import scaling_number
from triton_fleet.rules.scaling_steps import scaling_steps
from triton_fleet.rules.scheduled_capacity import scheduled_period
from triton_fleet.rules.secret_arn import secret_arn
from triton_fleet.rules.statistic_name import statistic_name
from triton_models.base.errors import Problem
from triton_models.facts.instances import instance_type

DAY = datetime(2026, 12, 1, tzinfo=timezone.utc)
NEXT_DAY = datetime(2026, 12, 2, tzinfo=timezone.utc)


def _problem(rule: Rule, arguments: Arguments) -> Problem:
    told: Any = rule(**arguments, where="here")
    (problem,) = [told] if isinstance(told, Problem) else told
    assert isinstance(problem, Problem)
    return problem


def _portion(value: float, *, of: int | None) -> Arguments:
    return given(value=value, by_percent=of is None, lowest_percent=5, highest_percent=50, capacity=of)


def _exactly(change: int, *, has_queue: bool) -> Arguments:
    return given(bounds=[5], changes=[change], grows=False, adjustment="ExactCapacity", has_queue=has_queue)


@pytest.mark.parametrize(
    ("rule", "arguments", "field", "text"),
    [
        (resource_name, given(name="-".join(33 * "a"), what="the endpoint"), "what", "with 65 characters"),
        (resource_name, given(name=64 * "a", what="the endpoint"), "fix", "shorten it to 63 characters"),
        (resource_name, given(name="a_b", what="the endpoint"), "fix", "begin and end with a letter"),
        (content_types, given(types=["a/" + 255 * "b"], name="csv"), "expected", "up to 256 letters"),
        (
            statistic_name,
            given(statistic="p100.5"),
            "expected",
            "p90 or p99.9, and likewise tm, wm, tc or ts",
        ),
        (
            deployment_portion,
            _portion(1, of=21),
            "fix",
            "give 2 to 10 instances, or a percentage, which follows the fleet's size",
        ),
        (deployment_portion, _portion(11, of=21), "fix", "give 2 to 10 instances"),
        (deployment_portion, _portion(2, of=3), "fix", "give 1 instance, or a percentage"),
        (deployment_portion, _portion(1, of=1), "fix", "cannot be divided"),
        (deployment_portion, _portion(4, of=None), "fix", "give 5 to 50 %"),
        (deployment_portion, _portion(0, of=None), "why", "moves nothing at a time"),
        (deployment_portion, _portion(0, of=None), "fix", "give 5 to 50 %"),
        (deployment_portion, _portion(0, of=21), "fix", "give 2 to 10 instances"),
        (deployment_portion, _portion(0.5, of=4), "why", "no fractions"),
        (deployment_portion, _portion(12.5, of=None), "why", "no fractions"),
        (scaling_steps, _exactly(0, has_queue=False), "why", "unless it is asynchronous"),
        (scaling_steps, _exactly(0, has_queue=False), "fix", "set it to 1"),
        (scaling_steps, _exactly(-1, has_queue=True), "fix", "set it to 0"),
        (
            processing_instance,
            given(name="ml.g6.xlarge", instance=instance_type("ml.p5.48xlarge")),
            "expected",
            "a type with the GPU of ml.p5.48xlarge, H100: ml.p5.4xlarge",
        ),
        (
            processing_instance,
            given(name="ml.g6.xlarge", instance=instance_type("ml.p5.48xlarge")),
            "fix",
            "leave the job's instance_type out, which takes ml.p5.4xlarge",
        ),
        (inline_code, given(size=0), "fix", "write the function into its file"),
        (inline_code, given(size=1_000_000), "fix", "shorten the code"),
        (scheduled_period, given(start=DAY, end=DAY), "fix", "give a later end"),
        (scheduled_period, given(start=NEXT_DAY, end=DAY), "fix", "exchange them"),
        (
            multi_model_features,
            given(arguments=["managed_instance_scaling"]),
            "why",
            "to scale to zero an endpoint needs inference components, which a multi-model endpoint lacks",
        ),
        (
            multi_model_features,
            given(arguments=["variants"]),
            "why",
            "a multi-model endpoint has one production variant only",
        ),
        (
            async_features,
            given(variants=2, has_shadow=False, has_capture=False),
            "why",
            "an asynchronous endpoint has one production variant only",
        ),
        (some_subnets, given(chosen=0, vpc_has_public=True), "expected", "one private subnet or more"),
        (
            alarm_threshold,
            given(value=100, lowest=0, below=100, unit="%"),
            "fix",
            "give a threshold of 0 % or more, and below 100 %",
        ),
        (
            alarm_threshold,
            given(value=0, lowest=1, below=None, unit="ms"),
            "fix",
            "threshold of 1 ms or more",
        ),
        (hourly_price, given(usd=float("inf")), "expected", "a finite number above 0"),
        (scaling_number, given(value=float("nan"), deferred=False, name="at"), "fix", "give a finite number"),
        (
            scaling_number,
            given(value=0.5, deferred=False, whole=True, name="change"),
            "fix",
            "give an integer, such as 1",
        ),
        (scaling_number, given(value="2", deferred=False, name="at"), "fix", "without quotes"),
        (scaling_number, given(value=True, deferred=False, name="at"), "fix", "True and False are none"),
        (rollback_alarms, given(names=["a"], has_deployment=False), "what", "1 rollback alarm, and no"),
        (rollback_alarms, given(names=["a", "b"], has_deployment=False), "what", "2 rollback alarms, and no"),
        (rollback_alarms, given(names=["a", "a"], has_deployment=True), "why", "takes one of 10 places"),
        (async_topics, given(included=2 * ["error"], given=["error"]), "why", "again changes nothing"),
        (
            container_environment,
            given(server={}, extra={f"OPTION_{number}": "1" for number in range(101)}),
            "fix",
            "put settings that belong together into one variable",
        ),
        (
            container_environment,
            given(server={}, extra={f"T_{number:02}": 1024 * "1" for number in range(32)}),
            "fix",
            "put what is long into a file of the artifact",
        ),
        (container_environment, given(server={}, extra={"5_BEAMS": "4"}), "fix", "write names like"),
        (reservation_arn, given(arn="name"), "expected", "at most 258 characters"),
        (reservation_arn, given(arn=300 * "n"), "what", "goes on to 300 characters"),
        (repository_prefix, given(prefix="*"), "expected", "at most 512 characters"),
        (repository_prefix, given(prefix=513 * "m"), "what", "goes on to 513 characters"),
        (repository_prefix, given(prefix=513 * "m"), "fix", "shorten it to 512 characters"),
    ],
)
def test_a_text_is_about_the_mistake(rule: Rule, arguments: Arguments, field: str, text: str) -> None:
    assert text in getattr(_problem(rule, arguments), field)


def test_what_may_be_the_secret_itself_is_not_told() -> None:
    assert "hf_abc" not in str(_problem(secret_arn, given(arn="hf_abc")))


def test_a_fraction_or_no_number_at_all_is_not_called_a_text() -> None:
    for value in (0.5, float("nan"), float("inf"), None):
        problem = _problem(scaling_number, given(value=value, deferred=False, whole=True, name="change"))
        assert "text" not in problem.fix
        assert "quotes" not in problem.fix


@pytest.mark.parametrize("argument", EXCLUDED)
def test_what_a_shared_endpoint_cannot_do_is_said_in_a_sentence(argument: str) -> None:
    why = _problem(multi_model_features, given(arguments=[argument])).why

    assert "multi-model endpoint" in why
    assert "has no several" not in why
