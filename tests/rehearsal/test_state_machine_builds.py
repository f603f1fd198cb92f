"""State machines that wait for builds on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import until
from aws_for_tests.executions import begin, distributed, end, run
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.small_projects import create_project
from triton_rehearsal.builds.runner import BuildRunner

BUILD = "arn:aws:states:::codebuild:startBuild.sync"
aws = aws_fixture(scope="module", bucket="items")


@pytest.fixture(scope="module")
def builds(aws: EmbeddedAws) -> Iterator[None]:
    """A project whose build prints $WHAT and runs it."""
    commands = ['echo "$WHAT"', 'eval "$WHAT"']
    spec = {"version": "0.2", "phases": {"build": {"commands": commands}}}
    create_project(aws, "builds", json.dumps(spec))
    with BuildRunner(aws):
        yield


def build(what: str, **more: Any) -> dict[str, Any]:
    variables = [{"Name": "WHAT", "Type": "PLAINTEXT", "Value": what}]
    parameters = {"ProjectName": "builds", "EnvironmentVariablesOverride": variables}
    return {"Type": "Task", "Resource": BUILD, "Parameters": parameters, "End": True, **more}


def test_a_build_is_waited_for_and_is_the_tasks_result(aws: EmbeddedAws, builds: None) -> None:
    result = json.loads(run(aws, {"Build": build("true")})["output"])["Build"]

    assert (result["BuildStatus"], result["ProjectName"]) == ("SUCCEEDED", "builds")
    assert result["Environment"]["EnvironmentVariables"][0]["Value"] == "true"
    assert isinstance(result["StartTime"], int)


def test_a_build_that_fails_is_the_cause_of_the_tasks_failure(aws: EmbeddedAws, builds: None) -> None:
    catch = [{"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.error", "Next": "Caught"}]
    states = {"Build": build("false", Catch=catch), "Caught": {"Type": "Pass", "End": True}}

    error = json.loads(run(aws, states)["output"])["error"]

    assert error["Error"] == "States.TaskFailed"
    assert '"BuildStatus":"FAILED"' in error["Cause"]
    assert "Reason: exit status 1" in error["Cause"]


def test_a_build_that_cannot_be_started_has_codebuilds_error_and_an_unknown_task_is_refused(
    aws: EmbeddedAws,
) -> None:
    missing = build("true", Parameters={"ProjectName": "missing"})
    unknown = build("true", Resource="arn:aws:states:::codebuild:startBuild.waitForTaskToken")

    assert run(aws, {"Build": missing})["error"] == "CodeBuild.ResourceNotFoundException"
    with pytest.raises(ClientError, match="not recognized"):
        begin(aws, {"Build": unknown}, {})


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
