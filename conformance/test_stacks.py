"""Beliefs about CloudFormation: stacks that fail, and resources that are replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from conformance.account import Account, allow
from conformance.beliefs import account
from conformance.records import Asked
from conformance.sweep import absent

MINUTES = 10.0
REQUESTS = "requests/"

# Stores each request in S3, and names the resource after its property.
FUNCTION = """\
import json
import time

import boto3
import cfnresponse


def handler(event, context):
    given, old = event["ResourceProperties"], event.get("PhysicalResourceId", "")
    said = {"type": event["RequestType"], "id": old, "name": given["Name"]}
    key = f"{given['Requests']}{time.time_ns()}"
    boto3.client("s3").put_object(Bucket=given["Bucket"], Key=key, Body=json.dumps(said))
    name = old if event["RequestType"] == "Delete" else given["Name"]
    cfnresponse.send(event, context, cfnresponse.SUCCESS, {}, name)
"""

Resources = Mapping[str, Any]


def log_group(**properties: object) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Delete", "Properties": properties}


def failing(aws: Account, after: str) -> dict[str, Any]:
    """Return a resource whose creation fails: an endpoint configuration with a missing model."""
    properties = {"ProductionVariants": [aws.variant(aws.name("absent"))]}
    return {"Type": "AWS::SageMaker::EndpointConfig", "DependsOn": after, "Properties": properties}


def request(aws: Account, suffix: str, resources: Resources) -> dict[str, Any]:
    return {
        "StackName": aws.name(suffix),
        "TemplateBody": json.dumps({"Resources": resources}),
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
        "Tags": aws.tags,
    }


def status(aws: Account, suffix: str) -> str:
    def ended() -> str | None:
        [stack] = aws.client("cloudformation").describe_stacks(StackName=aws.name(suffix))["Stacks"]
        return None if stack["StackStatus"].endswith("_IN_PROGRESS") else str(stack["StackStatus"])

    return aws.until(ended, minutes=MINUTES, what=f"the stack {suffix}")


def created(aws: Account, suffix: str, resources: Resources) -> str:
    aws.client("cloudformation").create_stack(**request(aws, suffix, resources))
    return status(aws, suffix)


def updated(aws: Account, suffix: str, resources: Resources) -> str:
    aws.client("cloudformation").update_stack(**request(aws, suffix, resources))
    return status(aws, suffix)


def changed(aws: Account, suffix: str, kind: str, resources: Resources) -> str:
    """Change a stack without a rollback, as `cdk deploy --no-rollback` does, and return its status."""
    cloudformation = aws.client("cloudformation")
    change = {"StackName": aws.name(suffix), "ChangeSetName": f"{aws.name(suffix)}-{kind.lower()}"}
    cloudformation.create_change_set(**request(aws, suffix, resources) | change, ChangeSetType=kind)

    def planned() -> str | None:
        found = str(cloudformation.describe_change_set(**change)["Status"])
        return None if found in {"CREATE_PENDING", "CREATE_IN_PROGRESS"} else found

    assert aws.until(planned, minutes=MINUTES, what="the change set") == "CREATE_COMPLETE"
    cloudformation.execute_change_set(**change, DisableRollback=True)
    return status(aws, suffix)


@account(cheap=True, minutes=3, creates="a stack, a bucket")
def test_nothing_is_retained_of_a_creation_that_fails(aws: Account, ask: Asked) -> None:
    bucket = aws.name("kept")
    kept = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"BucketName": bucket, "Tags": aws.tags},
    }
    ended = created(aws, "fails", {"Kept": kept, "Failing": failing(aws, "Kept")})
    assert ended == "ROLLBACK_COMPLETE"

    def remains() -> bool:
        try:
            aws.client("s3").head_bucket(Bucket=bucket)
        except ClientError as error:
            if not absent(error):
                raise
            return False
        return True

    assert not ask(remains, "remains")


@account(cheap=True, minutes=3, creates="a stack, a log group")
def test_a_stack_in_create_failed_can_be_updated(aws: Account, ask: Asked) -> None:
    first = {"First": log_group()}
    both = {**first, "Failing": failing(aws, "First")}
    assert changed(aws, "stays", "CREATE", both) == "CREATE_FAILED"
    assert ask(lambda: changed(aws, "stays", "UPDATE", first)) == "UPDATE_COMPLETE"


@account(cheap=True, minutes=4, creates="a stack, log groups")
def test_a_replaced_resource_is_removed_after_the_update_of_all_others(aws: Account, ask: Asked) -> None:
    def groups(suffix: str, days: int) -> Resources:
        later = log_group(LogGroupName=aws.name("last"), RetentionInDays=days)
        return {
            "Replaced": log_group(LogGroupName=aws.name(suffix)),
            "Last": {**later, "DependsOn": "Replaced"},
        }

    created(aws, "replaces", groups("first", 1))
    assert updated(aws, "replaces", groups("second", 3)) == "UPDATE_COMPLETE"
    name = aws.name("replaces")

    def before_the_removal() -> list[bool]:
        found = aws.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        events = [(each["LogicalResourceId"], each["ResourceStatus"]) for each in reversed(found)]
        before = events[: events.index(("Replaced", "DELETE_IN_PROGRESS"))]
        cleans_up = (name, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        return [each in before for each in (cleans_up, ("Last", "UPDATE_COMPLETE"))]

    assert ask(before_the_removal, "before it") == [True, True]


@account(cheap=True, minutes=5, creates="a stack, a role, a function, a bucket")
def test_a_replaced_custom_resource_gets_no_update_in_a_rollback(aws: Account, ask: Asked) -> None:
    objects = f"arn:{aws.partition}:s3:::{aws.bucket}/{REQUESTS}*"
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    writes = {"Version": "2012-10-17", "Statement": [allow(["s3:PutObject"], objects)]}
    role = {
        "RoleName": aws.name("function"),
        "Path": aws.role_path,
        "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
        "Policies": [{"PolicyName": "conformance", "PolicyDocument": writes}],
        "Tags": aws.tags,
    }
    function = {
        "Runtime": "python3.12",
        "Handler": "index.handler",
        "Timeout": 60,
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": FUNCTION},
    }

    def resources(name: str) -> dict[str, Any]:
        properties = {
            "ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]},
            "ServiceTimeout": 120,
            "Bucket": aws.bucket,
            "Requests": REQUESTS,
            "Name": name,
        }
        return {
            "Role": {"Type": "AWS::IAM::Role", "Properties": role},
            "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
            "Made": {"Type": "Custom::Conformance", "Properties": properties},
        }

    assert created(aws, "custom", resources("one")) == "CREATE_COMPLETE"
    fails = {**resources("two"), "Failing": failing(aws, "Made")}
    assert updated(aws, "custom", fails) == "UPDATE_ROLLBACK_COMPLETE"

    def requests() -> list[dict[str, str]]:
        s3 = aws.client("s3")
        found = s3.list_objects_v2(Bucket=aws.bucket, Prefix=REQUESTS)["Contents"]
        return [
            json.loads(s3.get_object(Bucket=aws.bucket, Key=each["Key"])["Body"].read()) for each in found
        ]

    asked = [(each["type"], each["id"]) for each in ask(requests, "requests to the function")]
    assert asked[2:] == [("Delete", "two")]
