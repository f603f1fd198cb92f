"""Starts and awaits the state machines of tests."""

from __future__ import annotations

import itertools
import json
from typing import Any

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws

ROLE = "arn:aws:iam::123456789012:role/any"
_numbers = itertools.count()


def begin(aws: EmbeddedAws, states: dict[str, Any], given: Any) -> str:
    """Start a state machine that begins with its first state. Returns the execution's ARN."""
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
