"""State machines run in the embedded AWS as Step Functions runs them, where the fleet's need it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from deployed_functions import until

from triton_aws.embedded import EmbeddedAws
from triton_rehearsal.builds import Builds

ROLE = "arn:aws:iam::123456789012:role/any"
BUILD = "arn:aws:states:::codebuild:startBuild.sync"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws() as embedded:
        embedded.client("s3").create_bucket(Bucket="items")
        yield embedded


@pytest.fixture(scope="module")
def builds(aws: EmbeddedAws) -> Iterator[None]:
    """A project whose build says $WHAT, and runs it."""
    commands = ['echo "$WHAT"', 'eval "$WHAT"']
    spec = {"version": "0.2", "phases": {"build": {"commands": commands}}}
    aws.client("codebuild").create_project(
        name="builds",
        source={"type": "NO_SOURCE", "buildspec": json.dumps(spec)},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "any", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=ROLE,
    )
    with Builds(aws):
        yield


def begin(aws: EmbeddedAws, states: dict[str, Any], given: Any) -> str:
    """Start a state machine that begins with its first state; the execution's ARN."""
    client = aws.client("stepfunctions")
    machine = client.create_state_machine(
        name=f"machine-{next(_numbers)}",
        definition=json.dumps({"StartAt": next(iter(states)), "States": states}),
        roleArn=ROLE,
    )
    started = client.start_execution(
        stateMachineArn=machine["stateMachineArn"], name="one", input=json.dumps(given)
    )
    execution: str = started["executionArn"]
    return execution


def end(aws: EmbeddedAws, execution: str) -> Any:
    client = aws.client("stepfunctions")
    until(lambda: client.describe_execution(executionArn=execution)["status"] != "RUNNING")
    return client.describe_execution(executionArn=execution)


def run(aws: EmbeddedAws, states: dict[str, Any], given: Any = None) -> Any:
    return end(aws, begin(aws, states, given or {}))


def build(what: str, **more: Any) -> dict[str, Any]:
    variables = [{"Name": "WHAT", "Type": "PLAINTEXT", "Value": what}]
    parameters = {"ProjectName": "builds", "EnvironmentVariablesOverride": variables}
    return {"Type": "Task", "Resource": BUILD, "Parameters": parameters, "End": True, **more}


def distributed(aws: EmbeddedAws, items: list[Any], children: dict[str, Any], **more: Any) -> dict[str, Any]:
    aws.client("s3").put_object(Bucket="items", Key="items.json", Body=json.dumps(items).encode())
    return {
        "Type": "Map",
        "Label": "All",
        "MaxConcurrency": 2,
        "ItemReader": {
            "Resource": "arn:aws:states:::s3:getObject",
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": "items", "Key": "items.json"},
        },
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": next(iter(children)),
            "States": children,
        },
        "End": True,
        **more,
    }


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


def test_a_build_is_waited_for_and_is_the_tasks_result(aws: EmbeddedAws, builds: None) -> None:
    ended = run(aws, {"Build": build("true")})

    assert ended["status"] == "SUCCEEDED"
    result = json.loads(ended["output"])["Build"]
    assert (result["BuildStatus"], result["ProjectName"]) == ("SUCCEEDED", "builds")
    variables = {each["Name"]: each["Value"] for each in result["Environment"]["EnvironmentVariables"]}
    assert variables == {"WHAT": "true"}
    assert isinstance(result["StartTime"], int)


def test_a_build_that_fails_is_the_cause_of_the_tasks_failure(aws: EmbeddedAws, builds: None) -> None:
    catch = [{"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.error", "Next": "Caught"}]
    states = {"Build": build("false", Catch=catch), "Caught": {"Type": "Pass", "End": True}}

    error = json.loads(run(aws, states)["output"])["error"]

    assert error["Error"] == "States.TaskFailed"
    assert '"BuildStatus":"FAILED"' in error["Cause"]
    assert "Reason: exit status 1" in error["Cause"]


def test_a_build_that_cannot_be_started_has_codebuilds_error(aws: EmbeddedAws) -> None:
    task = build("true", Parameters={"ProjectName": "missing"})

    assert run(aws, {"Build": task})["error"] == "CodeBuild.ResourceNotFoundException"


def test_a_parameter_that_codebuild_does_not_have_fails_the_task(aws: EmbeddedAws, builds: None) -> None:
    task = build("true", Parameters={"ProjectName": "builds", "Typo": "1"})

    assert "typo" in run(aws, {"Build": task})["cause"]


def test_a_task_that_codebuild_does_not_have_is_refused(aws: EmbeddedAws) -> None:
    task = build("true", Resource="arn:aws:states:::codebuild:startBuild.waitForTaskToken")

    with pytest.raises(ClientError, match="not recognized"):
        begin(aws, {"Build": task}, {})


def test_stopping_an_execution_stops_its_build(aws: EmbeddedAws, builds: None, tmp_path: Path) -> None:
    execution = begin(aws, {"Build": build(f"touch {tmp_path}/began; sleep 600")}, {})
    until((tmp_path / "began").exists)

    aws.client("stepfunctions").stop_execution(executionArn=execution)

    codebuild = aws.client("codebuild")
    newest = codebuild.list_builds()["ids"]
    until(
        lambda: (
            "STOPPED" in {each["buildStatus"] for each in codebuild.batch_get_builds(ids=newest)["builds"]}
        )
    )
    assert end(aws, execution)["status"] == "ABORTED"


def test_a_map_gives_each_child_its_item_in_the_maps_own_words(aws: EmbeddedAws) -> None:
    selector = {"item.$": "$$.Map.Item.Value", "run.$": "$$.Execution.Name", "given.$": "$.given"}
    state = distributed(aws, [1, 2], {"Pass": {"Type": "Pass", "End": True}}, ItemSelector=selector)

    output = json.loads(run(aws, {"All": state}, {"given": "g"})["output"])

    assert output == [{"item": 1, "run": "one", "given": "g"}, {"item": 2, "run": "one", "given": "g"}]


def test_a_map_tolerates_no_failure_unless_it_says_so(aws: EmbeddedAws) -> None:
    ended = run(aws, {"All": distributed(aws, bad(False, True, False), FAIL_IF_BAD)})

    assert (ended["status"], ended["error"]) == ("FAILED", "States.ExceedToleratedFailureThreshold")


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


def test_the_children_of_a_map_are_counted(aws: EmbeddedAws) -> None:
    state = distributed(aws, bad(True, False, False), FAIL_IF_BAD, ToleratedFailurePercentage=100)
    execution = run(aws, {"All": state})["executionArn"]
    client = aws.client("stepfunctions")

    [listed] = client.list_map_runs(executionArn=execution)["mapRuns"]
    counts = client.describe_map_run(mapRunArn=listed["mapRunArn"])["itemCounts"]

    assert (counts["total"], counts["succeeded"], counts["failed"], counts["running"]) == (3, 2, 1, 0)


def test_a_thousand_children_run(aws: EmbeddedAws) -> None:
    state = distributed(aws, bad(*[False] * 1000), {"Pass": {"Type": "Pass", "End": True}})

    assert len(json.loads(run(aws, {"All": state})["output"])) == 1000


def test_no_more_children_run_at_a_time_than_the_map_says(
    aws: EmbeddedAws, builds: None, tmp_path: Path
) -> None:
    task = build("")
    task["Parameters"]["EnvironmentVariablesOverride"] = [{"Name": "WHAT", "Value.$": "$.what"}]
    what = f"ls {tmp_path} | wc -l > {tmp_path}/../most; mktemp -p {tmp_path}"
    state = distributed(aws, [{"what": what}] * 3, {"Build": task}, MaxConcurrency=1)

    run(aws, {"All": state})

    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path.parent / "most").read_text().strip() == "2"


def test_items_that_cannot_be_read_fail_the_map(aws: EmbeddedAws) -> None:
    state = distributed(aws, [], {"Pass": {"Type": "Pass", "End": True}})
    state["ItemReader"]["Parameters"]["Key"] = "missing.json"

    ended = run(aws, {"All": state})

    assert ended["error"] == "States.ItemReaderFailed"
    assert "does not exist" in ended["cause"]


def test_no_item_is_no_child(aws: EmbeddedAws) -> None:
    state = distributed(aws, [], FAIL_IF_BAD)

    assert json.loads(run(aws, {"All": state})["output"]) == []


def test_a_result_writer_writes_how_each_child_came_out(aws: EmbeddedAws) -> None:
    writer = {
        "Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "items", "Prefix": "results"},
    }
    state = distributed(
        aws, bad(True, False), FAIL_IF_BAD, ToleratedFailurePercentage=100, ResultWriter=writer
    )
    where = json.loads(run(aws, {"All": state})["output"])["ResultWriterDetails"]

    def read(key: str) -> Any:
        return json.loads(aws.client("s3").get_object(Bucket=where["Bucket"], Key=key)["Body"].read())

    files = read(where["Key"])["ResultFiles"]
    [[failed]], [[succeeded]] = (
        [read(each["Key"]) for each in files[name]] for name in ("FAILED", "SUCCEEDED")
    )
    assert (failed["Status"], failed["Error"], failed["Cause"]) == ("FAILED", "Bad", "it is")
    assert json.loads(succeeded["Output"]) == {"bad": False}


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
