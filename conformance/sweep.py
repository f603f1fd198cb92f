"""Removes what runs of this suite have left in an account: `python -m conformance.sweep --region REGION`.

Everything that a run creates is named `fleet-conformance-RUN-...` and carries the tag `fleet-conformance`. A
resource is removed if it has such a name, and the tag or no tag at all: a crash may come between both.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from botocore.exceptions import ClientError

TAG = "fleet-conformance"
PREFIX = "fleet-conformance-"
ROLES = "/fleet-conformance/"
"""The path of roles, before the region: IAM keeps them for all regions."""

VARIANT = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}

Client: TypeAlias = Callable[[str], Any]

_OURS = re.compile(rf"(?:^|[/:]){PREFIX}[0-9a-f]{{8}}-")
_ABSENT = re.compile(
    r"NoSuch|NotFound|DoesNotExist|NonExistent|Could not find|does not exist|No scalable target found|\(404\)"
)
_BUSY = re.compile(r"in-progress|_IN_PROGRESS|ResourceInUse|ConflictException")
_PATIENCE_S = 45 * 60.0  # an endpoint that does not start takes half an hour to fail


def absent(error: ClientError) -> bool:
    return _ABSENT.search(str(error)) is not None


def busy(error: ClientError) -> bool:
    return _BUSY.search(str(error)) is not None


class Left(NamedTuple):
    """A resource that may be a run's.

    Attributes:
        kind: Its kind, for messages.
        name: Its name.
        tags: Returns a response with its tags.
        remove: Removes it, or begins to: it is called until it cannot be found any more.
    """

    kind: str
    name: str
    tags: Callable[[], Any]
    remove: Callable[[], Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def _pages(client: Any, operation: str, key: str, **asked: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(key) or ()


def _scalable_targets(client: Client, _: str) -> Iterator[Left]:
    scaling = client("application-autoscaling")
    asked = {"ServiceNamespace": "sagemaker"}
    for each in _pages(scaling, "describe_scalable_targets", "ScalableTargets", **asked):
        name = each["ResourceId"]  # which has the name of the endpoint
        remove = partial(scaling.deregister_scalable_target, ResourceId=name, **VARIANT)
        yield Left("scalable target", name, dict, remove)


def _of_sagemaker(client: Client, _: str) -> Iterator[Left]:
    sagemaker = client("sagemaker")
    removes = {
        ("Endpoint", "list_endpoints", "Endpoints"): partial(_remove_endpoint, sagemaker),
        ("ProcessingJob", "list_processing_jobs", "ProcessingJobSummaries"): partial(_remove_job, sagemaker),
        ("EndpointConfig", "list_endpoint_configs", "EndpointConfigs"): sagemaker.delete_endpoint_config,
        ("Model", "list_models", "Models"): sagemaker.delete_model,
    }
    for (kind, operation, key), remove in removes.items():
        for each in _pages(sagemaker, operation, key, NameContains=PREFIX):
            name, tags = each[f"{kind}Name"], partial(sagemaker.list_tags, ResourceArn=each[f"{kind}Arn"])
            yield Left(kind, name, tags, partial(remove, **{f"{kind}Name": name}))


def _remove_endpoint(sagemaker: Any, EndpointName: str) -> None:  # noqa: N803
    """Delete an endpoint. While SageMaker creates or updates it, that is refused."""
    if sagemaker.describe_endpoint(EndpointName=EndpointName)["EndpointStatus"] != "Deleting":
        sagemaker.delete_endpoint(EndpointName=EndpointName)


def _remove_job(sagemaker: Any, ProcessingJobName: str) -> None:  # noqa: N803
    job = {"ProcessingJobName": ProcessingJobName}
    status = sagemaker.describe_processing_job(**job)["ProcessingJobStatus"]
    if status == "InProgress":
        sagemaker.stop_processing_job(**job)
    elif status != "Stopping":
        sagemaker.delete_processing_job(**job)


def _projects(client: Client, _: str) -> Iterator[Left]:
    codebuild = client("codebuild")
    names = [each for each in _pages(codebuild, "list_projects", "projects") if _OURS.search(each)]
    for each in codebuild.batch_get_projects(names=names)["projects"] if names else ():
        yield Left(
            "project", each["name"], partial(dict, each), partial(_remove_project, codebuild, each["name"])
        )


def _remove_project(codebuild: Any, name: str) -> None:
    running = codebuild.list_builds_for_project(projectName=name).get("ids", ())
    for build in codebuild.batch_get_builds(ids=running)["builds"] if running else ():
        if not build.get("buildComplete"):
            codebuild.stop_build(id=build["id"])
    codebuild.delete_project(name=name)


def _stacks(client: Client, _: str) -> Iterator[Left]:
    cloudformation = client("cloudformation")
    for each in _pages(cloudformation, "describe_stacks", "Stacks"):
        yield Left(
            "stack", each["StackName"], partial(dict, each), partial(_remove_stack, cloudformation, each)
        )


def _remove_stack(cloudformation: Any, stack: Any) -> None:
    status = stack["StackStatus"]
    if status == "REVIEW_IN_PROGRESS" or not status.endswith("_IN_PROGRESS"):
        cloudformation.delete_stack(StackName=stack["StackName"])


def _state_machines(client: Client, _: str) -> Iterator[Left]:
    states = client("stepfunctions")
    for each in _pages(states, "list_state_machines", "stateMachines"):
        arn = each["stateMachineArn"]
        tags = partial(states.list_tags_for_resource, resourceArn=arn)
        yield Left(
            "state machine", each["name"], tags, partial(states.delete_state_machine, stateMachineArn=arn)
        )


def _alarms(client: Client, _: str) -> Iterator[Left]:
    cloudwatch = client("cloudwatch")
    for each in _pages(cloudwatch, "describe_alarms", "MetricAlarms", AlarmNamePrefix=PREFIX):
        tags = partial(cloudwatch.list_tags_for_resource, ResourceARN=each["AlarmArn"])
        yield Left(
            "alarm",
            each["AlarmName"],
            tags,
            partial(cloudwatch.delete_alarms, AlarmNames=[each["AlarmName"]]),
        )


def _rules(client: Client, _: str) -> Iterator[Left]:
    events = client("events")
    for each in events.list_rules(NamePrefix=PREFIX)["Rules"]:
        tags = partial(events.list_tags_for_resource, ResourceARN=each["Arn"])
        yield Left("rule", each["Name"], tags, partial(_remove_rule, events, each["Name"]))


def _remove_rule(events: Any, name: str) -> None:
    if targets := [each["Id"] for each in events.list_targets_by_rule(Rule=name)["Targets"]]:
        events.remove_targets(Rule=name, Ids=targets)
    events.delete_rule(Name=name)


def _queues(client: Client, _: str) -> Iterator[Left]:
    sqs = client("sqs")
    for url in sqs.list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", ()):
        tags = partial(sqs.list_queue_tags, QueueUrl=url)
        yield Left("queue", url.rpartition("/")[2], tags, partial(sqs.delete_queue, QueueUrl=url))


def _log_groups(client: Client, _: str) -> Iterator[Left]:
    logs = client("logs")
    for folder in ("/aws/sagemaker/Endpoints/", "/aws/codebuild/", ""):
        asked = {"logGroupNamePrefix": f"{folder}{PREFIX}"}
        for each in _pages(logs, "describe_log_groups", "logGroups", **asked):
            name, arn = each["logGroupName"], each["arn"].removesuffix(":*")
            tags = partial(logs.list_tags_for_resource, resourceArn=arn)
            yield Left("log group", name, tags, partial(logs.delete_log_group, logGroupName=name))


def _buckets(client: Client, region: str) -> Iterator[Left]:
    s3 = client("s3")
    for each in _pages(s3, "list_buckets", "Buckets", Prefix=PREFIX, BucketRegion=region):
        tags = partial(s3.get_bucket_tagging, Bucket=each["Name"])
        yield Left("bucket", each["Name"], tags, partial(_remove_bucket, s3, each["Name"]))


def _remove_bucket(s3: Any, name: str) -> None:
    for upload in _pages(s3, "list_multipart_uploads", "Uploads", Bucket=name):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for found in _pages(s3, "list_objects_v2", "Contents", Bucket=name):
        s3.delete_object(Bucket=name, Key=found["Key"])
    s3.delete_bucket(Bucket=name)


def _roles(client: Client, region: str) -> Iterator[Left]:
    iam = client("iam")
    for each in _pages(iam, "list_roles", "Roles", PathPrefix=f"{ROLES}{region}/"):
        tags = partial(iam.list_role_tags, RoleName=each["RoleName"])
        yield Left("role", each["RoleName"], tags, partial(_remove_role, iam, each["RoleName"]))


def _remove_role(iam: Any, name: str) -> None:
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


# What is billed comes first. What it uses is removed when it is gone, because it may write to it until then.
_USERS = (_scalable_targets, _of_sagemaker, _projects, _stacks, _state_machines, _rules)
_USED = (_alarms, _queues, _log_groups, _buckets, _roles)


def left(
    client: Client,
    region: str,
    name: str = PREFIX,
    *,
    kinds: Any = (*_USERS, *_USED),
    wrong: dict[str, str] | None = None,
) -> Iterator[Left]:
    """Yield what runs have left in a region.

    Args:
        client: Returns the client of a service.
        region: The region.
        name: The beginning of the names, such as that of one run.
        kinds: The kinds to look for.
        wrong: Receives the reason why a kind cannot be listed.
    """
    for kind in kinds:
        try:
            named = [each for each in kind(client, region) if _OURS.search(each.name) and name in each.name]
            yield from [each for each in named if _tagged(each)]
        except ClientError as error:  # such as a missing permission
            if wrong is not None:
                wrong[kind.__name__] = str(error)


def _tagged(found: Left) -> bool:
    """Return whether a resource has our tag, or none at all."""
    try:
        tags = _tags(found.tags())
    except ClientError as error:  # a bucket without tags, or what is gone by now
        if not absent(error):
            raise
        return True
    return TAG in tags or not tags


def _tags(response: Any) -> set[str]:
    """Return the keys of the tags in a response, in any service's form."""
    given = next((response[key] for key in ("Tags", "tags", "TagSet") if key in response), ())
    return set(given) if isinstance(given, dict) else {each.get("Key") or each.get("key") for each in given}


def sweep(
    client: Client,
    region: str,
    name: str = PREFIX,
    *,
    say: Callable[[str], Any] = lambda line: None,
    pause: Callable[[], Any] = lambda: time.sleep(5),
) -> list[str]:
    """Remove what runs have left, and wait for what cannot be removed yet.

    Returns:
        What could not be removed, with the reason.
    """
    end, wrong, said = time.monotonic() + _PATIENCE_S, dict[str, str](), set[str]()
    for kinds in (_USERS, _USED):
        while found := [
            each for each in left(client, region, name, kinds=kinds, wrong=wrong) if str(each) not in wrong
        ]:
            if time.monotonic() > end:
                wrong |= {str(each): "still there" for each in found}
            for each in found:
                if str(each) not in said:
                    say(f"removes {each}")
                said.add(str(each))
                try:
                    each.remove()
                except ClientError as error:
                    if not (absent(error) or busy(error)):
                        wrong[str(each)] = str(error)
            pause()
    return [f"{what}: {why}" for what, why in wrong.items()]


def main(arguments: list[str] | None = None) -> int:
    import boto3.session

    parser = argparse.ArgumentParser(prog="python -m conformance.sweep", description=__doc__)
    parser.add_argument("--region", required=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)
    session: Any = boto3.session.Session(region_name=given.region)
    found = [str(each) for each in left(session.client, given.region)]
    sys.stdout.write("\n".join([*(found or ["Nothing is left of any run."]), ""]))
    if found and not given.yes:
        sys.stdout.write("Remove all of this? It may belong to a run that is in progress. [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            return 1
    wrong = sweep(session.client, given.region, say=lambda line: sys.stdout.write(f"{line}\n"))
    sys.stdout.write("".join(f"not removed: {each}\n" for each in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
