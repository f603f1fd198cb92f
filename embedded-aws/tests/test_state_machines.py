"""State machines run in the embedded AWS as in Step Functions."""

from __future__ import annotations

import json

import pytest

from aws_for_tests.executions import begin, distributed, end, run
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


def test_executions_without_a_name_each_run_under_their_own(aws: EmbeddedAws) -> None:
    first = begin(aws, {"Pass": {"Type": "Pass", "End": True}}, {})
    client = aws.client("stepfunctions")
    machine = client.describe_execution(executionArn=first)["stateMachineArn"]

    started = [client.start_execution(stateMachineArn=machine)["executionArn"] for _ in range(2)]

    assert {first, *started} == {
        each["executionArn"] for each in client.list_executions(stateMachineArn=machine)["executions"]
    }
    assert [end(aws, each)["status"] for each in started] == ["SUCCEEDED"] * 2


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


@pytest.mark.story
def test_a_thousand_children_run(aws: EmbeddedAws) -> None:
    state = distributed(aws, bad(*[False] * 1000), {"Pass": {"Type": "Pass", "End": True}})

    assert len(json.loads(run(aws, {"All": state})["output"])) == 1000


def test_items_that_cannot_be_read_fail_the_map(aws: EmbeddedAws) -> None:
    state = distributed(aws, [], {"Pass": {"Type": "Pass", "End": True}})
    state["ItemReader"]["Parameters"]["Key"] = "missing.json"

    ended = run(aws, {"All": state})

    assert ended["error"] == "States.ItemReaderFailed"
    assert "does not exist" in ended["cause"]


def test_an_object_is_written_and_read_as_json(aws: EmbeddedAws) -> None:
    place = {"Bucket": "items", "Key": "summary.json"}
    states = {
        "Write": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:s3:putObject",
            "Parameters": {**place, "Body": {"failed": 5}},
            "Next": "Read",
        },
        "Read": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
            "Parameters": place,
            "ResultSelector": {"read.$": "States.StringToJson($.Body)"},
            "End": True,
        },
    }

    assert json.loads(run(aws, states)["output"]) == {"read": {"failed": 5}}


def test_an_object_that_is_not_there_has_the_error_that_aws_has(aws: EmbeddedAws) -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
        "Parameters": {"Bucket": "items", "Key": "missing"},
        "End": True,
    }

    assert run(aws, {"Read": task})["error"] == "S3.NoSuchKeyException"
