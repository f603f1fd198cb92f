"""Builds started through the API run in the background, as in CodeBuild."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aws_for_tests.deployed_functions import running, until
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.small_projects import create_project
from triton_rehearsal.builds.runner import BuildRunner

GROUP = "the-log"
BEFORE = ["SUBMITTED", "QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE"]
PHASES = ["INSTALL", "PRE_BUILD", "BUILD", "POST_BUILD"]
AFTER = ["UPLOAD_ARTIFACTS", "FINALIZING", "COMPLETED"]
aws = aws_fixture(scope="module")


@pytest.fixture(scope="module")
def builds(aws: EmbeddedAws) -> Iterator[BuildRunner]:
    # A minute takes two tenths of a second, so that a build with a limit of five minutes can time out.
    with BuildRunner(aws, at_most=2, minute_s=0.2) as running:
        yield running


@pytest.fixture(scope="module")
def codebuild(aws: EmbeddedAws, builds: BuildRunner) -> Any:
    logs = {"cloudWatchLogs": {"status": "ENABLED", "groupName": GROUP}}
    declared = {"FLEET_MODELS": "declared"}
    create_project(aws, "builds", spec("true"), variables=declared, logsConfig=logs, timeoutInMinutes=2000)
    return aws.client("codebuild")


def spec(*commands: str, env: dict[str, Any] | None = None, **phases: Any) -> str:
    given = {"build": {"commands": list(commands)}, **phases}
    return json.dumps({"version": "0.2", "env": env or {"shell": "bash"}, "phases": given})


def start(codebuild: Any, *commands: str, **more: Any) -> str:
    request = {"buildspecOverride": spec(*commands), **more}
    identifier: str = codebuild.start_build(projectName="builds", **request)["build"]["id"]
    return identifier


def shown(codebuild: Any, identifier: str) -> Any:
    return codebuild.batch_get_builds(ids=[identifier])["builds"][0]


def ended(codebuild: Any, identifier: str) -> Any:
    until(lambda: bool(shown(codebuild, identifier)["buildComplete"]))
    return shown(codebuild, identifier)


def logged(aws: EmbeddedAws, build: Any) -> list[str]:
    events = aws.client("logs").get_log_events(
        logGroupName=build["logs"]["groupName"], logStreamName=build["logs"]["streamName"]
    )["events"]
    return [event["message"] for event in events]


def test_a_build_runs_after_its_start_was_answered_and_shows_every_phase(
    codebuild: Any, tmp_path: Path
) -> None:
    identifier = start(codebuild, f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    until(lambda: shown(codebuild, identifier)["currentPhase"] == "BUILD")
    before = shown(codebuild, identifier)
    (tmp_path / "go").touch()

    after = ended(codebuild, identifier)

    assert before["buildStatus"] == "IN_PROGRESS"
    assert after["buildStatus"] == "SUCCEEDED"
    assert [phase["phaseType"] for phase in after["phases"]] == [*BEFORE, *PHASES, *AFTER]
    assert {phase.get("phaseStatus", "SUCCEEDED") for phase in after["phases"]} == {"SUCCEEDED"}


def test_a_failed_command_is_its_phases_context_and_post_build_runs_after_it(
    aws: EmbeddedAws, codebuild: Any
) -> None:
    build = ended(codebuild, start(codebuild, "echo first", "(exit 7)", "echo never"))

    phases = {phase["phaseType"]: phase for phase in build["phases"]}
    assert build["buildStatus"] == "FAILED"
    assert phases["BUILD"]["phaseStatus"] == "FAILED"
    assert phases["BUILD"]["contexts"] == [
        {
            "statusCode": "COMMAND_EXECUTION_ERROR",
            "message": "Error while executing command: (exit 7). Reason: exit status 7",
        }
    ]
    assert phases["POST_BUILD"]["phaseStatus"] == "SUCCEEDED"
    lines = logged(aws, build)
    assert build["logs"]["groupName"] == GROUP
    assert "first" in lines
    assert "never" not in lines
    assert "[Container] Phase complete: BUILD State: FAILED" in lines


def test_a_command_sees_its_build_a_secret_and_the_variables_of_its_start_over_the_projects(
    aws: EmbeddedAws, codebuild: Any
) -> None:
    secret = aws.client("secretsmanager").create_secret(Name="any", SecretString="hidden")["ARN"]
    build = ended(
        codebuild,
        start(
            codebuild,
            'echo "$CODEBUILD_BUILD_ID $CODEBUILD_BUILD_NUMBER $CODEBUILD_LOG_PATH $AWS_REGION"',
            'echo "$FLEET_MODELS for $FLEET_GPU, portable: $FLEET_PORTABLE"',
            '[ "$PWD" = "$CODEBUILD_SRC_DIR" ]',
            'echo "$TOKEN"',
            environmentVariablesOverride=[
                {"name": "FLEET_MODELS", "value": "a b"},
                {"name": "FLEET_GPU", "value": "A10G"},
                {"name": "TOKEN", "value": secret, "type": "SECRETS_MANAGER"},
            ],
        ),
    )

    lines = logged(aws, build)
    stream = build["logs"]["streamName"]
    assert build["buildStatus"] == "SUCCEEDED"
    assert f"{build['id']} {build['buildNumber']} {stream} us-east-1" in lines
    # Without a GPU, a stand-in that describes the plan replaces it.
    assert "a b for A10G, portable: 1" in lines
    assert "hidden" in lines


def test_a_stopped_build_ends_with_everything_that_it_started(codebuild: Any, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    identifier = start(codebuild, f"setsid sleep 600 & echo $! > {mark}.new; mv {mark}.new {mark}; sleep 600")
    until(mark.exists)

    stopped = codebuild.stop_build(id=identifier)["build"]

    assert stopped["buildStatus"] == "STOPPED"
    until(lambda: not running(int(mark.read_text())))
    phases = {
        phase["phaseType"]: phase.get("phaseStatus") for phase in ended(codebuild, identifier)["phases"]
    }
    assert phases["BUILD"] == "STOPPED"
    assert "POST_BUILD" not in phases


def test_a_build_that_takes_too_long_is_timed_out(codebuild: Any) -> None:
    build = ended(codebuild, start(codebuild, "sleep 600", timeoutInMinutesOverride=5))

    assert build["buildStatus"] == "TIMED_OUT"
    last = next(phase for phase in build["phases"] if phase["phaseType"] == "BUILD")
    assert last["contexts"] == [{"statusCode": "BUILD_TIMED_OUT", "message": "Build has timed out."}]


def test_a_source_that_is_not_there_fails_the_build_before_its_commands(codebuild: Any) -> None:
    source = {"sourceTypeOverride": "S3", "sourceLocationOverride": "nowhere/source.zip"}
    build = ended(codebuild, start(codebuild, "true", **source))

    phases = {phase["phaseType"]: phase for phase in build["phases"]}
    assert build["buildStatus"] == "FAILED"
    message = phases["DOWNLOAD_SOURCE"]["contexts"][0]["message"]
    assert "NoSuchBucket" in message or "404" in message
    assert "BUILD" not in phases


def test_a_start_that_is_repeated_with_its_token_is_the_same_build(codebuild: Any) -> None:
    assert start(codebuild, "true", idempotencyToken="t") == start(codebuild, "true", idempotencyToken="t")
    assert start(codebuild, "true", idempotencyToken="other") != start(
        codebuild, "true", idempotencyToken="t"
    )


def test_closing_ends_what_runs_and_what_waits_for_room_and_later_builds_stay_queued(
    codebuild: Any, builds: BuildRunner
) -> None:
    started = [start(codebuild, "sleep 600") for _ in range(3)]
    until(lambda: [shown(codebuild, each)["currentPhase"] for each in started[:2]] == ["BUILD"] * 2)
    assert shown(codebuild, started[2])["currentPhase"] == "QUEUED"

    builds.close()

    assert [shown(codebuild, each)["buildStatus"] for each in started] == ["STOPPED"] * 3
    assert shown(codebuild, start(codebuild, "true"))["currentPhase"] == "QUEUED"
