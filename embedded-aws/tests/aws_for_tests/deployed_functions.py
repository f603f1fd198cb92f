"""Templates with functions, and helpers that wait, for tests of the embedded AWS."""

from __future__ import annotations

import contextlib
import json
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import WaiterError

from embedded_aws import EmbeddedAws

ACCOUNT = "123456789012"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
_OFTEN = {"Delay": 0.05, "MaxAttempts": 1200}


def function_arn(name: str) -> str:
    return f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:{name}"


def functions(**sources: str) -> dict[str, Any]:
    """Return resources: a function for each source, under its name, and one role for all."""
    return {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        **{name.capitalize(): _function(name, source) for name, source in sources.items()},
    }


def _function(name: str, source: str) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": name,
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Timeout": 30,
            "Code": {"ZipFile": textwrap.dedent(source)},
        },
    }


def begin(
    aws: EmbeddedAws, resources: dict[str, Any], *, stack: str = "s", verb: str = "create", **more: Any
) -> str:
    """Begin to create or update a stack. Returns its id."""
    operation = getattr(aws.client("cloudformation"), f"{verb}_stack")
    body = json.dumps({"Resources": resources, **more})
    return str(operation(StackName=stack, TemplateBody=body)["StackId"])


def settle(aws: EmbeddedAws, resources: dict[str, Any], *, verb: str = "create", **more: Any) -> str:
    """Create or update the stack `s` and wait for the end. Returns its status and the reason."""
    return ended(aws, begin(aws, resources, verb=verb, **more), verb=verb)


def destroy(aws: EmbeddedAws) -> str:
    """Delete the stack `s` and wait for the end. Returns its status and the reason."""
    cloudformation = aws.client("cloudformation")
    [stack] = cloudformation.describe_stacks(StackName="s")["Stacks"]
    cloudformation.delete_stack(StackName="s")
    return ended(aws, stack["StackId"], verb="delete")


def ended(aws: EmbeddedAws, stack: str, *, verb: str = "create") -> str:
    """Wait until the operation has ended. Returns the stack's status and the reason."""
    cloudformation = aws.client("cloudformation")
    # The waiter treats a rollback as a failure. Here it is an end like any other.
    with contextlib.suppress(WaiterError):
        cloudformation.get_waiter(f"stack_{verb}_complete").wait(StackName=stack, WaiterConfig=_OFTEN)
    return status(aws, stack)


def status(aws: EmbeddedAws, stack: str = "s") -> str:
    """Return the stack's status and the reason."""
    [found] = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return f"{found['StackStatus']} {found.get('StackStatusReason', '')}".strip()


def outputs(aws: EmbeddedAws, stack: str = "s") -> dict[str, str]:
    """Return the stack's outputs."""
    [found] = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return {row["OutputKey"]: row["OutputValue"] for row in found.get("Outputs", [])}


def physical_ids(aws: EmbeddedAws, type_name: str, *, stack: str = "s") -> list[str]:
    """Return the physical ids of the stack's resources of a type."""
    rows = aws.client("cloudformation").list_stack_resources(StackName=stack)["StackResourceSummaries"]
    return [row["PhysicalResourceId"] for row in rows if row["ResourceType"] == type_name]


def reasons(aws: EmbeddedAws, stack: str) -> str:
    """Return the reasons of all events of a stack."""
    events = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return " ".join(each.get("ResourceStatusReason") or "" for each in events)


def noted(aws: EmbeddedAws, key: str) -> Any:
    """Wait until a function has put a JSON object into the bucket `notes`. Returns the object."""
    s3 = aws.client("s3")
    s3.get_waiter("object_exists").wait(Bucket="notes", Key=key, WaiterConfig=_OFTEN)
    return json.loads(s3.get_object(Bucket="notes", Key=key)["Body"].read())


def notes(aws: EmbeddedAws) -> list[str]:
    """Return the keys of the objects that functions have put into the bucket `notes`."""
    found = aws.client("s3").list_objects_v2(Bucket="notes").get("Contents", [])
    return [each["Key"] for each in found]


def logged(aws: EmbeddedAws, words: str) -> int:
    """Return the number of log lines that contain the words."""
    logs = aws.client("logs")
    groups = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
    events = [event for name in groups for event in logs.filter_log_events(logGroupName=name)["events"]]
    return sum(words in event["message"] for event in events)


def until(reached: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail after two minutes."""
    moment = threading.Event()
    for _ in range(2400):
        if reached():
            return
        moment.wait(0.05)
    raise AssertionError(reached)


def running(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
