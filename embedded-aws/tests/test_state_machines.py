"""State machines run in the embedded AWS as in Step Functions."""

from __future__ import annotations

import json

import pytest

from aws_for_tests.executions import distributed, run
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

aws = aws_fixture(scope="module", bucket="items")


FAIL_IF_BAD = {
    "Look": {
        "Type": "Choice",
        "Choices": [{"Variable": "$.bad", "BooleanEquals": True, "Next": "Fail"}],
        "Default": "Pass",
    },
    "Fail": {"Type": "Fail", "Error": "Bad", "Cause": "it is"},
    "Pass": {"Type": "Pass", "End": True},
}


def bad(*flags: bool) -> list[dict[str, bool]]:
    return [{"bad": flag} for flag in flags]


def test_a_map_gives_each_child_its_item_in_the_maps_own_words(aws: EmbeddedAws) -> None:
    selector = {"item.$": "$$.Map.Item.Value", "run.$": "$$.Execution.Name", "given.$": "$.given"}
    state = distributed(aws, [1, 2], {"Pass": {"Type": "Pass", "End": True}}, ItemSelector=selector)

    output = json.loads(run(aws, {"All": state}, {"given": "g"})["output"])

    assert output == [{"item": 1, "run": "one", "given": "g"}, {"item": 2, "run": "one", "given": "g"}]


@pytest.mark.parametrize(
    ("tolerated", "status"),
    [
        ({"ToleratedFailurePercentage": 50}, "SUCCEEDED"),
        ({"ToleratedFailurePercentage": 49}, "FAILED"),
        ({"ToleratedFailureCount": 2}, "SUCCEEDED"),
        ({"ToleratedFailureCount": 1}, "FAILED"),
    ],
)
def test_a_map_tolerates_as_many_failures_as_it_says(
    aws: EmbeddedAws, tolerated: dict[str, int], status: str
) -> None:
    state = distributed(aws, bad(True, False, True, False), FAIL_IF_BAD, **tolerated)

    assert run(aws, {"All": state})["status"] == status


def test_items_that_cannot_be_read_fail_the_map(aws: EmbeddedAws) -> None:
    state = distributed(aws, [], {"Pass": {"Type": "Pass", "End": True}})
    state["ItemReader"]["Parameters"]["Key"] = "missing.json"

    ended = run(aws, {"All": state})

    assert ended["error"] == "States.ItemReaderFailed"
    assert "does not exist" in ended["cause"]


def test_an_object_that_is_not_there_has_the_error_that_aws_has(aws: EmbeddedAws) -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
        "Parameters": {"Bucket": "items", "Key": "missing"},
        "End": True,
    }

    assert run(aws, {"Read": task})["error"] == "S3.NoSuchKeyException"
