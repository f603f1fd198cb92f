"""The steps of an endpoint's deployment, by its configuration."""

from __future__ import annotations

from aws_for_tests.scaled_variant import blue_green, rolling, size
from embedded_aws.deployment import Step, steps


def shape(plan: tuple[Step, ...]) -> list[tuple[str, int, int, float]]:
    return [(step.status, step.active, step.kept, step.wait_s) for step in plan]


def test_a_canary_takes_traffic_before_the_rest_and_the_old_instances_wait_to_the_end() -> None:
    plan = steps(blue_green("CANARY", wait=60, last=30, CanarySize=size(10)), before=3, after=3)

    assert shape(plan) == [
        ("Creating", 0, 3, 0),
        ("ActivatingTraffic", 1, 3, 0),
        ("Baking", 1, 3, 60),
        ("ActivatingTraffic", 3, 3, 0),
        ("Baking", 3, 3, 60),
        ("Baking", 3, 3, 30),
    ]


def test_linear_steps_are_equal_but_for_a_smaller_last_one() -> None:
    plan = steps(blue_green("LINEAR", wait=60, LinearStepSize=size(40)), before=5, after=5)

    assert [step.active for step in plan if step.status == "Baking"] == [2, 4, 5]


def test_rolling_removes_an_old_batch_after_each_new_one_and_keeps_more_rather_than_less() -> None:
    plan = steps(rolling(wait=60, batch=2), before=5, after=5)
    fewer = steps(rolling(wait=60, batch=1), before=3, after=2)

    assert [(s.active, s.kept) for s in plan if s.status == "Baking"] == [(2, 5), (4, 3), (5, 1)]
    assert [(s.active, s.kept) for s in fewer if s.status == "Baking"] == [(1, 3), (2, 2)]
    assert [s.message for s in plan if s.status == "Creating"] == [
        "Launching 2 instance(s).",
        "Launching 2 instance(s).",
        "Launching 1 instance(s).",
    ]


def test_a_step_is_reported_in_the_words_of_aws() -> None:
    plan = steps(blue_green("CANARY", wait=600, last=300, CanarySize=size(25)), before=4, after=4)

    assert [step.message for step in plan] == [
        "Launching 4 instance(s).",
        "Activating traffic on canary capacity of 1 instance(s).",
        "Baking for 600 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity of "
        "1 instance(s).",
        "Activating traffic on full capacity of 4 instance(s).",
        "Baking for 600 seconds (WaitIntervalInSeconds) with traffic enabled on full capacity of "
        "4 instance(s).",
        "Baking for 300 seconds (TerminationWaitInSeconds) with traffic enabled on full capacity of "
        "4 instance(s).",
    ]
