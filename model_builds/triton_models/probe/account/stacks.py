"""Probes of CloudFormation: failing stacks and replaced resources."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from triton_models.probe.account import trouble
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.resources import role_path
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import UndecidedError, Verdict, decide, undecided

_MINUTES = 10.0
_CLEANS_UP = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
_REMOVAL = ("Replaced", "DELETE_IN_PROGRESS")
_SHOWN = 8
_REQUESTS = "requests/"

# Answers CloudFormation, names the resource after its property, and stores each request in S3.
_FUNCTION = """\
import json
import time
import urllib.request

import boto3


def handler(event, context):
    name = event["ResourceProperties"]["Name"]
    physical = event["PhysicalResourceId"] if event["RequestType"] == "Delete" else name
    said = {"type": event["RequestType"], "id": event.get("PhysicalResourceId", ""), "name": name}
    key = f"{event['ResourceProperties']['Requests']}{time.time_ns()}"
    boto3.client("s3").put_object(
        Bucket=event["ResourceProperties"]["Bucket"], Key=key, Body=json.dumps(said)
    )
    same = {each: event[each] for each in ("StackId", "RequestId", "LogicalResourceId")}
    answer = {"Status": "SUCCESS", "PhysicalResourceId": physical, **same}
    request = urllib.request.Request(
        event["ResponseURL"], data=json.dumps(answer).encode(), method="PUT", headers={"Content-Type": ""}
    )
    urllib.request.urlopen(request, timeout=30).close()
"""


def _failed(work: Work) -> Steps:
    """Create a stack that fails and is rolled back, and one that fails, stays, and is then updated."""
    retained = yield from _retained(work)
    return [retained, (yield from _continued(work))]


def _retained(work: Work) -> Generator[None, None, Verdict]:
    """Decide if a bucket with RetainExceptOnCreate remains after a failed creation."""
    belief, bucket = "retain-except-on-create", work.name("kept")
    work.journal.intend("bucket", bucket, work.owner, {})
    kept = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"BucketName": bucket},
    }
    resources = {"Kept": kept, "Failing": _failing(work, "Kept")}
    status = yield from _created(work, work.name("fails"), resources)
    if status != "ROLLBACK_COMPLETE":
        return undecided(belief, f"a stack with a resource that fails is {status}")
    there = _has_bucket(work, bucket)
    return decide(belief, f"after the rollback the bucket is {'there' if there else 'gone'}", holds=not there)


def _has_bucket(work: Work, bucket: str) -> bool:
    from botocore.exceptions import ClientError

    try:
        work.clients("s3").head_bucket(Bucket=bucket)
    except ClientError as error:
        if not trouble.absent(error):
            raise
        return False
    return True


def _continued(work: Work) -> Generator[None, None, Verdict]:
    """Decide if a stack can be updated after its creation failed without a rollback."""
    from botocore.exceptions import ClientError

    belief, name = "no-rollback-continues", work.name("stays")
    first = {"First": _log_group()}
    status = yield from _changed(work, name, "CREATE", {**first, "Failing": _failing(work, "First")})
    if status != "CREATE_FAILED":
        return undecided(belief, f"a stack with a resource that fails is {status}")
    try:
        status = yield from _changed(work, name, "UPDATE", first)
    except ClientError as error:
        if trouble.denied(error) or trouble.signed_out(error):
            raise
        return decide(belief, f"{error.operation_name}: {trouble.message(error)}", holds=False)
    return decide(belief, f"CREATE_FAILED, then {status}", holds=status == "UPDATE_COMPLETE")


def _changed(work: Work, name: str, kind: str, resources: Mapping[str, Any]) -> Generator[None, None, str]:
    """Change a stack without a rollback, as `cdk deploy --no-rollback` does, and return its final status."""
    cloudformation = work.clients("cloudformation")
    change = {"StackName": name, "ChangeSetName": f"{name}-{kind.lower()}"}

    def make() -> None:
        cloudformation.create_change_set(
            **change, TemplateBody=_template(resources), ChangeSetType=kind, Tags=work.tags
        )

    def planned() -> str | None:
        status = str(cloudformation.describe_change_set(**change)["Status"])
        return None if status in {"CREATE_PENDING", "CREATE_IN_PROGRESS"} else status

    if kind == "CREATE":
        work.create("stack", name, make)
    else:
        make()
    status = yield from work.until(planned, minutes=_MINUTES, what="the change set")
    if status != "CREATE_COMPLETE":
        return f"without a change set: {status}"
    cloudformation.execute_change_set(**change, DisableRollback=True)
    return (yield from _status(work, name))


def _replaced(work: Work) -> Steps:
    """Replace a log group that another resource depends on, and read the order of the events."""
    belief, name = "old-endpoint-removed-last", work.name("replaces")
    yield from _created(work, name, _log_groups(work, "first", days=1))
    status = yield from _updated(work, name, _log_groups(work, "second", days=3))
    found = work.clients("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    events = [(each["LogicalResourceId"], each["ResourceStatus"]) for each in reversed(found)]
    if status != "UPDATE_COMPLETE" or _REMOVAL not in events:
        msg = f"the stack is {status}, and has removed nothing"
        raise UndecidedError(msg)
    before = events[: events.index(_REMOVAL)]
    last = all(each in before for each in ((name, _CLEANS_UP), ("Last", "UPDATE_COMPLETE")))
    seen = ", ".join(f"{what} {status}" for what, status in events[-_SHOWN:])
    return [decide(belief, seen, holds=last)]


def _log_groups(work: Work, suffix: str, *, days: int) -> dict[str, Any]:
    """Return a log group that a new name replaces, and a later one that changes in place."""
    return {
        "Replaced": _log_group(LogGroupName=work.name(suffix)),
        "Last": {**_log_group(LogGroupName=work.name("last"), RetentionInDays=days), "DependsOn": "Replaced"},
    }


def _log_group(**properties: object) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Delete", "Properties": properties}


def _custom(work: Work) -> Steps:
    """Replace a custom resource in an update that then fails, and read the requests to its function."""
    belief, bucket, name = "rollback-of-custom-resources", work.bucket(), work.name("custom")
    status = yield from _created(work, name, _custom_resource(work, bucket, "one"))
    if status == "CREATE_COMPLETE":
        failing = {"Failing": _failing(work, "Made")}
        status = yield from _updated(work, name, {**_custom_resource(work, bucket, "two"), **failing})
    if status != "UPDATE_ROLLBACK_COMPLETE":
        msg = f"the stack is {status}"
        raise UndecidedError(msg)
    asked = list(_requests(work, bucket))
    work.observe("rollback-of-custom-resources", {"replaced": True}, {"requests": asked})
    seen = ", ".join(f"{each['type']} of {each['id'] or 'none'} to {each['name']}" for each in asked)
    undone = [(each["type"], each["id"]) for each in asked[2:]]
    return [decide(belief, seen, holds=undone == [("Delete", "two")])]


def _custom_resource(work: Work, bucket: str, physical_id: str) -> dict[str, Any]:
    """Return a custom resource, with its function and the function's role."""
    properties = {
        "ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]},
        "ServiceTimeout": 120,
        "Bucket": bucket,
        "Requests": _REQUESTS,
        "Name": physical_id,
    }
    return {**_function(work, bucket), "Made": {"Type": "Custom::Probe", "Properties": properties}}


def _requests(work: Work, bucket: str) -> Generator[dict[str, str], None, None]:
    """Yield the requests to the function, in order."""
    s3 = work.clients("s3")
    for found in s3.list_objects_v2(Bucket=bucket, Prefix=_REQUESTS).get("Contents", ()):
        yield json.loads(s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read())


def _function(work: Work, bucket: str) -> dict[str, Any]:
    """Return the custom resource's function and its role, as resources of a stack."""
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    objects = f"arn:{work.place.partition}:s3:::{bucket}/{_REQUESTS}*"
    writes = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": objects}
    role = {
        "RoleName": work.name("function"),
        "Path": role_path(work.place.region),
        "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
        "Policies": [
            {"PolicyName": "probe", "PolicyDocument": {"Version": "2012-10-17", "Statement": [writes]}}
        ],
    }
    function = {
        "Runtime": "python3.12",
        "Handler": "index.handler",
        "Timeout": 60,
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": _FUNCTION},
    }
    return {
        "Role": {"Type": "AWS::IAM::Role", "Properties": role},
        "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
    }


def _failing(work: Work, after: str) -> dict[str, Any]:
    """Return a resource whose creation fails: an endpoint configuration with a missing model."""
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": work.name("absent"),
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1.0,
        "InstanceType": work.place.instance.name,
    }
    properties = {"ProductionVariants": [variant]}
    return {"Type": "AWS::SageMaker::EndpointConfig", "DependsOn": after, "Properties": properties}


def _created(work: Work, name: str, resources: Mapping[str, Any]) -> Generator[None, None, str]:
    """Create a stack, unless an earlier process has done so, and return its final status."""
    cloudformation, request = work.clients("cloudformation"), _request(work, name, resources)
    work.create("stack", name, lambda: cloudformation.create_stack(**request))
    return (yield from _status(work, name))


def _updated(work: Work, name: str, resources: Mapping[str, Any]) -> Generator[None, None, str]:
    """Update a stack, unless an earlier process has done so, and return its final status."""
    from botocore.exceptions import ClientError

    try:
        work.clients("cloudformation").update_stack(**_request(work, name, resources))
    except ClientError as error:
        if "No updates" not in trouble.message(error):
            raise
    return (yield from _status(work, name))


def _request(work: Work, name: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "StackName": name,
        "TemplateBody": _template(resources),
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
        "Tags": work.tags,
    }


def _status(work: Work, name: str) -> Generator[None, None, str]:
    """Wait until a stack's operation has ended, and return its status."""
    cloudformation = work.clients("cloudformation")

    def ended() -> str | None:
        [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
        status = str(stack["StackStatus"])
        return None if status.endswith("_IN_PROGRESS") else status

    return (yield from work.until(ended, minutes=_MINUTES, what=f"the stack {name}"))


def _template(resources: Mapping[str, Any]) -> str:
    return json.dumps({"Resources": dict(resources)})


_STACKS = (
    "cloudformation:CreateStack",
    "cloudformation:UpdateStack",
    "cloudformation:DeleteStack",
    "cloudformation:DescribeStacks",
    "logs:CreateLogGroup",
    "logs:DeleteLogGroup",
    "sagemaker:CreateEndpointConfig",
)

PROBES = (
    AccountProbe(
        id="failed-stack",
        what="creates stacks that fail",
        decides=("retain-except-on-create", "no-rollback-continues"),
        run=_failed,
        creates="stacks, a bucket, a log group",
        allowed=(
            *_STACKS,
            "cloudformation:CreateChangeSet",
            "cloudformation:DescribeChangeSet",
            "cloudformation:ExecuteChangeSet",
            "s3:CreateBucket",
        ),
        minutes=5,
        cheap=True,
    ),
    AccountProbe(
        id="replaced",
        what="replaces a resource of a stack",
        decides=("old-endpoint-removed-last",),
        run=_replaced,
        creates="a stack, log groups",
        allowed=(*_STACKS, "cloudformation:DescribeStackEvents", "logs:PutRetentionPolicy"),
        minutes=4,
        cheap=True,
    ),
    AccountProbe(
        id="custom-resource",
        what="replaces a custom resource in an update that fails",
        decides=("rollback-of-custom-resources",),
        run=_custom,
        creates="a stack, a role, a function, a bucket",
        allowed=(
            *_STACKS,
            "iam:CreateRole",
            "iam:PutRolePolicy",
            "iam:PassRole",
            "lambda:CreateFunction",
            "lambda:DeleteFunction",
            "lambda:GetFunction",
            "lambda:InvokeFunction",
            "s3:GetObject",
        ),
        minutes=5,
        cheap=True,
    ),
)
