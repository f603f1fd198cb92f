"""The log of a container in CloudWatch Logs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from triton_rehearsal.hosting.container_log import ContainerLog, may_log

aws = aws_fixture(scope="module")

GROUP, STREAM = "/aws/sagemaker/Endpoints/e", "AllTraffic/i-1"


@pytest.fixture
def logs(aws: EmbeddedAws) -> Iterator[Any]:
    client = aws.client("logs")
    yield client
    for group in client.describe_log_groups()["logGroups"]:
        client.delete_log_group(logGroupName=group["logGroupName"])


def follow(logs: Any, path: Path) -> ContainerLog:
    return ContainerLog(path, logs=logs, group=GROUP, stream=STREAM)


def lines(logs: Any) -> list[str]:
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=GROUP, logStreamNames=[STREAM])
    return [event["message"] for page in pages for event in page["events"]]


def test_every_line_arrives_once_and_in_order_even_if_the_file_is_gone_at_the_end(
    logs: Any, tmp_path: Path
) -> None:
    path = tmp_path / "triton.log"
    path.write_text("first\n\nlast of ")
    log = follow(logs, path)
    with path.open("a") as file:
        file.write("two\n" + "".join(f"line {number}\n" for number in range(12_000)) + "unfinished")
    path.unlink()
    log.close()

    assert lines(logs) == [
        "first",
        "last of two",
        *(f"line {number}" for number in range(12_000)),
        "unfinished",
    ]


def test_a_line_longer_than_an_event_is_cut(logs: Any, tmp_path: Path) -> None:
    path = tmp_path / "triton.log"
    path.write_text("x" * 600_000 + "\nend\n")
    follow(logs, path).close()

    found = lines(logs)
    assert "".join(found[:-1]) == "x" * 600_000
    assert max(len(line) for line in found) < 256 * 1024
    assert found[-1] == "end"


def test_lines_arrive_while_the_container_runs_and_a_deleted_group_stays_deleted(
    logs: Any, tmp_path: Path
) -> None:
    path = tmp_path / "triton.log"
    path.write_text("first\n")
    log = follow(logs, path)
    deadline = time.monotonic() + 60
    while not logs.describe_log_groups()["logGroups"] or not lines(logs):
        assert time.monotonic() < deadline
    assert lines(logs) == ["first"]  # while the container runs
    logs.delete_log_group(logGroupName=GROUP)
    with path.open("a") as file:
        file.write("second\n")
    log.close()

    assert logs.describe_log_groups()["logGroups"] == []


def test_the_agent_needs_the_permission_with_which_it_begins_unless_iam_does_not_know_its_role(
    aws: EmbeddedAws,
) -> None:
    iam, name = aws.client("iam"), "instances"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    found = []
    for actions in ("logs:CreateLogGroup", ["s3:GetObject", "logs:*"], ["logs:PutLogEvents"]):
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_role_policy(RoleName=name, PolicyName="logs", PolicyDocument=document)
        found.append(may_log(iam, role))

    assert found == [True, True, False]
    assert may_log(iam, "arn:aws:iam::123456789012:role/any")
