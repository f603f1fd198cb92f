"""Custom resources in the embedded AWS: the requests to their function, and the effect of its answers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from aws_for_tests.deployed_functions import begin, destroy, ended, function_arn, functions, running, settle
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

pytestmark = pytest.mark.story

# Notes every request, and answers as the resource's properties say. Without boto3 a call takes a fifth of the
# time.
MAKER = """
    import json, os, time, urllib.request

    def put(url, value):
        body = json.dumps(value).encode()
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT"))

    def handler(event, context):
        key = os.environ["AWS_ACCESS_KEY_ID"]
        put(f"{os.environ['AWS_ENDPOINT_URL']}/notes/{time.time_ns()}?AWSAccessKeyId={key}", event)
        wanted = event["ResourceProperties"]
        former = event.get("PhysicalResourceId", "made-0")
        answer = {
            "Status": "FAILED" if wanted.get("FailOn") == event["RequestType"] else "SUCCESS",
            "Reason": "there is no such artifact",
            "PhysicalResourceId": wanted.get("Id", former),
            "Data": {"Size": 7, "Ready": True},
            **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
        }
        put(event["ResponseURL"], answer)
"""
SILENT = "def handler(event, context): pass"
CRASHING = "def handler(event, context): raise KeyError('Artifacts')"
TOPIC = {"Type": "AWS::SNS::Topic", "DependsOn": "Made"}
BAD_ENDPOINT = {
    "Type": "AWS::SageMaker::Endpoint",
    "DependsOn": "Made",
    "Properties": {"EndpointConfigName": "nowhere"},
}
aws = aws_fixture(bucket="notes")


def made(function: str = "maker", **properties: Any) -> dict[str, Any]:
    """Return a template's resources: the functions, and one resource that one of them creates."""
    return {
        **functions(maker=MAKER, silent=SILENT, crashing=CRASHING),
        "Made": {
            "Type": "Custom::Thing",
            "DependsOn": [function.capitalize()],
            "Properties": {"ServiceToken": function_arn(function), **properties},
        },
    }


def requests(aws: EmbeddedAws) -> list[dict[str, Any]]:
    """Return the requests to the function, in order."""
    s3 = aws.client("s3")
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="notes").get("Contents", [])]
    return [json.loads(s3.get_object(Bucket="notes", Key=key)["Body"].read()) for key in sorted(keys)]


def asked(aws: EmbeddedAws) -> list[tuple[str, str]]:
    """Return the type and physical id of each request."""
    return [(each["RequestType"], each.get("PhysicalResourceId", "")) for each in requests(aws)]


def test_the_function_is_asked_as_cloudformation_asks(aws: EmbeddedAws) -> None:
    settle(aws, made(Count=3, Enabled=True, Ratio=0.5, Names=["a", 1], Nested={"Deep": False}))

    [request] = requests(aws)
    assert request["RequestType"] == "Create"
    assert request["ResourceType"] == "Custom::Thing"
    assert request["LogicalResourceId"] == "Made"
    assert request["StackId"].startswith("arn:aws:cloudformation:us-east-1:123456789012:stack/s/")
    assert "PhysicalResourceId" not in request
    assert request["ResourceProperties"] == {
        "ServiceToken": function_arn("maker"),
        "Count": "3",
        "Enabled": "true",
        "Ratio": "0.5",
        "Names": ["a", "1"],
        "Nested": {"Deep": "false"},
    }


def test_another_physical_id_replaces_the_resource_and_the_old_one_is_deleted_last(aws: EmbeddedAws) -> None:
    settle(aws, made(Id="thing-1", Count=1))

    assert settle(aws, {**made(Id="thing-2", Count=2), "Topic": TOPIC}, verb="update") == "UPDATE_COMPLETE"

    assert asked(aws) == [("Create", ""), ("Update", "thing-1"), ("Delete", "thing-1")]
    assert requests(aws)[2]["ResourceProperties"]["Count"] == "1"
    destroy(aws)
    assert asked(aws)[3:] == [("Delete", "thing-2")]


def test_the_function_cannot_change(aws: EmbeddedAws) -> None:
    settle(aws, made())
    changed = {**made(), "Made": made("silent")["Made"]}

    assert "Modifying service token is not allowed" in settle(aws, changed, verb="update")


def test_a_failure_fails_the_stack_with_the_functions_reason_and_is_rolled_back(aws: EmbeddedAws) -> None:
    status = settle(aws, made(FailOn="Create", Id="half"))

    assert status.startswith("ROLLBACK_COMPLETE")
    assert "Received response status [FAILED] from custom resource." in status
    assert "Message returned: there is no such artifact" in status
    assert asked(aws) == [("Create", ""), ("Delete", "half")]


def test_a_resource_that_failed_without_rollback_is_made_anew_by_the_next_update(aws: EmbeddedAws) -> None:
    cloudformation = aws.client("cloudformation")
    body = json.dumps({"Resources": made(FailOn="Create", Id="half")})
    change = {"StackName": "s", "ChangeSetName": "c"}
    stack = cloudformation.create_change_set(**change, TemplateBody=body, ChangeSetType="CREATE")["StackId"]
    cloudformation.execute_change_set(**change, DisableRollback=True)
    failed = ended(aws, stack)
    kept = asked(aws)
    updated = settle(aws, made(Id="complete"), verb="update")

    assert failed.startswith("CREATE_FAILED")
    assert kept == [("Create", "")]
    assert updated == "UPDATE_COMPLETE"
    assert asked(aws) == [("Create", ""), ("Delete", "half"), ("Create", "")]


def test_a_failed_update_of_the_stack_takes_the_resource_back(aws: EmbeddedAws) -> None:
    settle(aws, made(Count=1))

    status = settle(aws, {**made(Count=2), "Endpoint": BAD_ENDPOINT}, verb="update")

    assert status.startswith("UPDATE_ROLLBACK_COMPLETE")
    request = requests(aws)[2]
    assert request["ResourceProperties"]["Count"] == "1"
    assert request["OldResourceProperties"]["Count"] == "2"


def test_a_replacement_that_is_taken_back_leaves_only_the_former_resource(aws: EmbeddedAws) -> None:
    settle(aws, made(Id="thing-1"))

    settle(aws, {**made(Id="thing-2"), "Endpoint": BAD_ENDPOINT}, verb="update")

    assert asked(aws)[2:] == [("Delete", "thing-2")]
    destroy(aws)
    assert asked(aws)[-1:] == [("Delete", "thing-1")]


def test_a_function_that_crashes_is_reported_at_once_with_its_error(aws: EmbeddedAws) -> None:
    began = time.monotonic()

    status = settle(aws, made("crashing"))

    assert "the function ended with KeyError: 'Artifacts' and has not answered" in status
    assert time.monotonic() - began < 120


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"PhysicalResourceId": ""}, "Invalid PhysicalResourceId"),
        ({"RequestId": "another"}, "RequestId must be copied from the request"),
        ({"Data": {"Text": "x" * 4096}}, "Response object is too long"),
        (None, "Invalid response object"),
    ],
)
def test_an_answer_that_is_none_fails_the_resource(
    aws: EmbeddedAws, answer: dict[str, Any] | None, complaint: str
) -> None:
    careless = f"""
        import json, urllib.request

        def handler(event, context):
            copied = {{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}}
            given = json.loads({json.dumps(answer)!r})
            answer = given and {{"Status": "SUCCESS", "PhysicalResourceId": "thing", **copied, **given}}
            body = json.dumps(answer).encode()
            request = urllib.request.Request(
                event["ResponseURL"], data=body, method="PUT", headers={{"Content-Type": ""}}
            )
            urllib.request.urlopen(request)
    """

    status = settle(aws, {**functions(maker=careless), "Made": made()["Made"]})

    assert complaint in status


def test_nothing_runs_on_when_it_closes_while_a_stack_waits(tmp_path: Path) -> None:
    written = tmp_path / "pids"
    os.mkfifo(written)
    endless = f"""
        import os, subprocess, sys, time

        def handler(event, context):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            with open({str(written)!r}, "w") as stream:
                stream.write(f"{{os.getpid()}} {{child.pid}}")
            time.sleep(600)
    """
    with EmbeddedAws() as aws:
        begin(aws, {**functions(maker=endless), "Made": made()["Made"]})
        pids = [int(pid) for pid in written.read_text().split()]
        began = time.monotonic()

    assert time.monotonic() - began < 120
    assert [pid for pid in pids if running(pid)] == []
