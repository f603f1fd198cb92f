"""Keys of log groups: CloudWatch Logs uses only those whose policy lets it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

ALLOWED = {"Effect": "Allow", "Principal": {"Service": "logs.us-east-1.amazonaws.com"}}

aws = aws_fixture(scope="module")


def key(aws: EmbeddedAws, **statement: Any) -> str:
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Action": "kms:*", "Resource": "*"}]}
    made = aws.client("kms").create_key(Policy=json.dumps(policy))
    return str(made["KeyMetadata"]["Arn"])


def shown(aws: EmbeddedAws, group: str) -> str | None:
    (found,) = aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    return found.get("kmsKeyId")


def test_a_group_gets_a_key_and_loses_it(aws: EmbeddedAws) -> None:
    logs, allowed = aws.client("logs"), key(aws, **ALLOWED)
    logs.create_log_group(logGroupName="kept")

    logs.associate_kms_key(logGroupName="kept", kmsKeyId=allowed)
    assert shown(aws, "kept") == allowed

    logs.disassociate_kms_key(logGroupName="kept")
    assert shown(aws, "kept") is None


@pytest.mark.parametrize("principal", [{"AWS": "*"}, {"Service": "logs.eu-west-1.amazonaws.com"}])
def test_a_key_that_does_not_let_logs_use_it_is_refused(aws: EmbeddedAws, principal: dict[str, str]) -> None:
    logs = aws.client("logs")
    refused = key(aws, Effect="Allow", Principal=principal)
    logs.create_log_group(logGroupName=refused[-20:])

    with pytest.raises(logs.exceptions.InvalidParameterException):
        logs.associate_kms_key(logGroupName=refused[-20:], kmsKeyId=refused)
