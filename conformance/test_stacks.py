"""Beliefs about CloudFormation: stacks that fail, and resources that are replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from conformance.account import Account
from conformance.beliefs import account
from conformance.records import Asked
from conformance.sweep import absent

Resources = Mapping[str, Any]


def log_group(**properties: object) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Delete", "Properties": properties}


def failing(aws: Account, after: str) -> dict[str, Any]:
    """Return a resource whose creation fails: an endpoint configuration with a missing model."""
    properties = {"ProductionVariants": [aws.variant(aws.name("absent"))]}
    return {"Type": "AWS::SageMaker::EndpointConfig", "DependsOn": after, "Properties": properties}


def deployed(aws: Account, suffix: str, kind: str, resources: Resources, *, rollback: bool = True) -> str:
    """Create or update a stack with a change set, as `cdk deploy` does, and return its status."""
    cloudformation, stack = aws.client("cloudformation"), {"StackName": aws.name(suffix)}
    change = {**stack, "ChangeSetName": f"{aws.name(suffix)}-{kind.lower()}"}
    body = json.dumps({"Resources": resources})
    cloudformation.create_change_set(**change, TemplateBody=body, ChangeSetType=kind, Tags=aws.tags)

    def planned() -> str | None:
        found = str(cloudformation.describe_change_set(**change)["Status"])
        return None if found in {"CREATE_PENDING", "CREATE_IN_PROGRESS"} else found

    def ended() -> str | None:
        status = str(cloudformation.describe_stacks(**stack)["Stacks"][0]["StackStatus"])
        return None if status.endswith("_IN_PROGRESS") else status

    assert aws.until(planned, minutes=10, what="the change set") == "CREATE_COMPLETE"
    cloudformation.execute_change_set(**change, DisableRollback=not rollback)
    return aws.until(ended, minutes=10, what=f"the stack {suffix}")


@account(cheap=True, minutes=3, creates="a stack, a bucket")
def test_nothing_is_retained_of_a_creation_that_fails(aws: Account, ask: Asked) -> None:
    bucket = aws.name("kept")
    kept = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"BucketName": bucket, "Tags": aws.tags},
    }
    resources = {"Kept": kept, "Failing": failing(aws, "Kept")}
    assert deployed(aws, "fails", "CREATE", resources) == "ROLLBACK_COMPLETE"

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
    assert deployed(aws, "stays", "CREATE", both, rollback=False) == "CREATE_FAILED"
    assert ask(lambda: deployed(aws, "stays", "UPDATE", first, rollback=False)) == "UPDATE_COMPLETE"


@account(cheap=True, minutes=4, creates="a stack, log groups")
def test_a_replaced_resource_is_removed_after_the_update_of_all_others(aws: Account, ask: Asked) -> None:
    def groups(suffix: str, days: int) -> Resources:
        later = log_group(LogGroupName=aws.name("last"), RetentionInDays=days)
        return {
            "Replaced": log_group(LogGroupName=aws.name(suffix)),
            "Last": {**later, "DependsOn": "Replaced"},
        }

    deployed(aws, "replaces", "CREATE", groups("first", 1))
    assert deployed(aws, "replaces", "UPDATE", groups("second", 3)) == "UPDATE_COMPLETE"
    name = aws.name("replaces")

    def before_the_removal() -> list[bool]:
        found = aws.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        events = [(each["LogicalResourceId"], each["ResourceStatus"]) for each in reversed(found)]
        before = events[: events.index(("Replaced", "DELETE_IN_PROGRESS"))]
        cleans_up = (name, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        return [each in before for each in (cleans_up, ("Last", "UPDATE_COMPLETE"))]

    assert ask(before_the_removal, "before it") == [True, True]
