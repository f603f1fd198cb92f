"""Removes what runs of this suite have left in an account: `python -m conformance.sweep --region REGION`.

Everything that a run creates is named `fleet-conformance-RUN-...` and carries the tag `fleet-conformance`. A
resource is removed if it has such a name, and the tag or no tag at all: a crash may come between both.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from botocore.exceptions import ClientError

TAG = "fleet-conformance"
PREFIX = "fleet-conformance-"
ROLES = "/fleet-conformance/{region}/"
"""The path of a region's roles, which IAM keeps for all regions."""

VARIANT = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}

Client: TypeAlias = Callable[[str], Any]
Tags: TypeAlias = Mapping[str, str]

_OURS = re.compile(rf"(?:^|[/:]){PREFIX}([0-9a-f]{{8}})-")
_ABSENT = re.compile(
    r"NoSuch|NotFound|DoesNotExist|NonExistent|Could not find|does not exist|No scalable target found"
)
_BUSY = re.compile(r"in-progress|_IN_PROGRESS|ResourceInUse|ConflictException")
_LOGS = ("/aws/sagemaker/Endpoints/", "/aws/codebuild/", "")
_PATIENCE_MINUTES = 45.0  # an endpoint that does not start takes half an hour to fail


def absent(error: ClientError) -> bool:
    """Return True if an error says that a resource does not exist."""
    return _ABSENT.search(str(error)) is not None or error.response["Error"]["Code"] == "404"


def busy(error: ClientError) -> bool:
    """Return True if an error says that an operation in progress prevents a change."""
    return _BUSY.search(str(error)) is not None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of resource.

    Attributes:
        label: Its name in messages.
        found: Yields names of this kind that may be ours, with what `tags` needs.
        tags: Returns the tags of one.
        remove: Removes one by name. Returns False if it must be looked at again.
    """

    label: str
    found: Callable[[Client, str], Iterator[tuple[str, Any]]]
    tags: Callable[[Client, Any], Any]
    remove: Callable[[Client, str], bool]


def _listed(service: str, operation: str, key: str, name: str, detail: str = "", **asked: Any) -> Any:
    """Return a function that lists names, each with the named detail, or with the whole row."""

    def found(client: Client, region: str) -> Iterator[tuple[str, Any]]:
        given = {k: v.format(region=region) if isinstance(v, str) else v for k, v in asked.items()}
        listing = client(service)
        if listing.can_paginate(operation):
            pages = listing.get_paginator(operation).paginate(**given)
        else:
            pages = [getattr(listing, operation)(**given)]
        for page in pages:
            for row in page.get(key) or ():
                own = row if isinstance(row, str) else row[name]
                yield own, (row[detail] if detail else row)

    return found


def _deleted(service: str, operation: str, argument: str, *, many: bool = False) -> Any:
    def remove(client: Client, name: str) -> bool:
        getattr(client(service), operation)(**{argument: [name] if many else name})
        return True

    return remove


def _tags_of(service: str, operation: str, argument: str, key: str = "Tags") -> Any:
    def tags(client: Client, detail: Any) -> Any:
        return getattr(client(service), operation)(**{argument: detail}).get(key)

    return tags


def _sagemaker(label: str, what: str, listed: str, name: str, remove: Any = None) -> Kind:
    own = f"{name}Name"
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return Kind(
        label=label,
        found=_listed("sagemaker", f"list_{what}", listed, own, f"{name}Arn", NameContains=PREFIX),
        tags=_tags_of("sagemaker", "list_tags", "ResourceArn"),
        remove=remove or _deleted("sagemaker", f"delete_{snake}", own),
    )


def _remove_endpoint(client: Client, name: str) -> bool:
    """Delete an endpoint. While SageMaker creates or updates it, that is refused."""
    sagemaker = client("sagemaker")
    if sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] != "Deleting":
        sagemaker.delete_endpoint(EndpointName=name)
    return False  # until it cannot be found any more


def _remove_job(client: Client, name: str) -> bool:
    sagemaker = client("sagemaker")
    status = sagemaker.describe_processing_job(ProcessingJobName=name)["ProcessingJobStatus"]
    if status == "InProgress":
        sagemaker.stop_processing_job(ProcessingJobName=name)
    if status in {"InProgress", "Stopping"}:
        return False
    sagemaker.delete_processing_job(ProcessingJobName=name)
    return True


def _remove_project(client: Client, name: str) -> bool:
    codebuild = client("codebuild")
    running = codebuild.list_builds_for_project(projectName=name).get("ids", ())
    for build in codebuild.batch_get_builds(ids=running)["builds"] if running else ():
        if not build.get("buildComplete"):
            codebuild.stop_build(id=build["id"])
    codebuild.delete_project(name=name)
    return True


def _remove_stack(client: Client, name: str) -> bool:
    cloudformation = client("cloudformation")
    [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    status = stack["StackStatus"]
    if status == "REVIEW_IN_PROGRESS" or not status.endswith("_IN_PROGRESS"):
        cloudformation.delete_stack(StackName=name)
    return False  # until it cannot be found any more


def _remove_state_machine(client: Client, name: str) -> bool:
    states = client("stepfunctions")
    for found in states.list_state_machines()["stateMachines"]:
        if found["name"] == name:
            states.delete_state_machine(stateMachineArn=found["stateMachineArn"])
    return True


def _remove_rule(client: Client, name: str) -> bool:
    events = client("events")
    targets = [each["Id"] for each in events.list_targets_by_rule(Rule=name)["Targets"]]
    if targets:
        events.remove_targets(Rule=name, Ids=targets)
    events.delete_rule(Name=name)
    return True


def _remove_bucket(client: Client, name: str) -> bool:
    s3 = client("s3")
    for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", ()):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for found in page.get("Contents", ()):
            s3.delete_object(Bucket=name, Key=found["Key"])
    s3.delete_bucket(Bucket=name)
    return True


def _remove_role(client: Client, name: str) -> bool:
    iam = client("iam")
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)
    return True


def _queues(client: Client, _: str) -> Iterator[tuple[str, Any]]:
    for url in client("sqs").list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", ()):
        yield url.rpartition("/")[2], url


def _log_groups(client: Client, region: str) -> Iterator[tuple[str, Any]]:
    for folder in _LOGS:
        asked = {"logGroupNamePrefix": f"{folder}{PREFIX}"}
        yield from _listed("logs", "describe_log_groups", "logGroups", "logGroupName", "arn", **asked)(
            client, region
        )


def _no_tags(_: Client, __: Any) -> Any:
    """Return no tags: a scalable target is known by its endpoint's name."""


# In the order of removal: what is billed and uses others first.
KINDS = (
    Kind(
        label="scalable target",
        found=_listed(
            "application-autoscaling",
            "describe_scalable_targets",
            "ScalableTargets",
            "ResourceId",
            ServiceNamespace="sagemaker",
        ),
        tags=_no_tags,
        remove=lambda client, name: bool(
            client("application-autoscaling").deregister_scalable_target(ResourceId=name, **VARIANT)
        ),
    ),
    _sagemaker("endpoint", "endpoints", "Endpoints", "Endpoint", _remove_endpoint),
    _sagemaker("endpoint configuration", "endpoint_configs", "EndpointConfigs", "EndpointConfig"),
    _sagemaker("model", "models", "Models", "Model"),
    _sagemaker("Processing job", "processing_jobs", "ProcessingJobSummaries", "ProcessingJob", _remove_job),
    Kind(
        label="CodeBuild project",
        found=_listed("codebuild", "list_projects", "projects", "", sortBy="NAME"),
        tags=lambda client, name: (
            client("codebuild").batch_get_projects(names=[name])["projects"][0].get("tags")
        ),
        remove=_remove_project,
    ),
    Kind(
        label="stack",
        found=_listed("cloudformation", "describe_stacks", "Stacks", "StackName"),
        tags=lambda _, stack: stack.get("Tags"),
        remove=_remove_stack,
    ),
    Kind(
        label="state machine",
        found=_listed("stepfunctions", "list_state_machines", "stateMachines", "name", "stateMachineArn"),
        tags=_tags_of("stepfunctions", "list_tags_for_resource", "resourceArn", "tags"),
        remove=_remove_state_machine,
    ),
    Kind(
        label="alarm",
        found=_listed(
            "cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName", "AlarmArn", AlarmNamePrefix=PREFIX
        ),
        tags=_tags_of("cloudwatch", "list_tags_for_resource", "ResourceARN"),
        remove=_deleted("cloudwatch", "delete_alarms", "AlarmNames", many=True),
    ),
    Kind(
        label="rule",
        found=_listed("events", "list_rules", "Rules", "Name", "Arn", NamePrefix=PREFIX),
        tags=_tags_of("events", "list_tags_for_resource", "ResourceARN"),
        remove=_remove_rule,
    ),
    Kind(
        label="queue",
        found=_queues,
        tags=_tags_of("sqs", "list_queue_tags", "QueueUrl"),
        remove=lambda client, name: bool(
            client("sqs").delete_queue(QueueUrl=client("sqs").get_queue_url(QueueName=name)["QueueUrl"])
        ),
    ),
    Kind(
        label="log group",
        found=_log_groups,
        tags=lambda client, arn: (
            client("logs").list_tags_for_resource(resourceArn=arn.removesuffix(":*")).get("tags")
        ),
        remove=_deleted("logs", "delete_log_group", "logGroupName"),
    ),
    Kind(
        label="bucket",
        found=_listed("s3", "list_buckets", "Buckets", "Name", Prefix=PREFIX, BucketRegion="{region}"),
        tags=lambda client, bucket: client("s3").get_bucket_tagging(Bucket=bucket["Name"])["TagSet"],
        remove=_remove_bucket,
    ),
    Kind(
        label="role",
        found=_listed("iam", "list_roles", "Roles", "RoleName", "RoleName", PathPrefix=ROLES),
        tags=_tags_of("iam", "list_role_tags", "RoleName"),
        remove=_remove_role,
    ),
)
_USED = KINDS[-7:]
"""What others use: it is removed when those are gone, which may write to it until then."""


def _tag(given: Any) -> Tags:
    """Return tags, in any service's form, by lower-case key."""
    if isinstance(given, Mapping):
        return {key: str(value) for key, value in given.items()}
    rows = [{key.lower(): value for key, value in row.items()} for row in given or ()]
    return {row["key"]: row["value"] for row in rows}


@contextmanager
def _unless_absent() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if not absent(error):
            raise


def left(client: Client, region: str, *, name: str = PREFIX) -> Iterator[tuple[Kind, str]]:
    """Yield what runs have left in a region: kind and name.

    Args:
        client: Returns the client of a service.
        region: The region.
        name: The beginning of the names, such as that of one run.
    """
    for kind in KINDS:
        for found, detail in kind.found(client, region):
            if not _OURS.search(found) or name not in found:
                continue
            tags: Tags = {}
            with _unless_absent():
                tags = _tag(kind.tags(client, detail))
            if TAG in tags or not tags:
                yield kind, found


def sweep(
    client: Client,
    region: str,
    *,
    name: str = PREFIX,
    say: Callable[[str], Any] = lambda line: None,
    pause: Callable[[], Any] = lambda: time.sleep(5),
) -> list[str]:
    """Remove what runs have left, and wait for what cannot be removed yet.

    Returns:
        What could not be removed, with the reason.
    """
    end = time.monotonic() + _PATIENCE_MINUTES * 60
    removed: set[str] = set()
    while found := list(left(client, region, name=name)):
        wrong = []
        waits = False
        for kind, each in found:
            if waits and kind in _USED:
                continue
            what = f"{kind.label} {each}"
            try:
                done = kind.remove(client, each)
            except ClientError as error:
                if absent(error):
                    continue
                if not busy(error):
                    wrong.append(f"{what}: {error}")
                    continue
                done = False
            waits = waits or not done
            if what not in removed:
                removed.add(what)
                say(f"removes {what}")
        if wrong and not waits:
            return wrong
        if time.monotonic() > end:
            return [*wrong, *(f"{kind.label} {each}: still there" for kind, each in found)]
        pause()
    return []


def main(arguments: list[str] | None = None) -> int:
    """List what is left, ask, and remove it."""
    import boto3.session

    parser = argparse.ArgumentParser(prog="python -m conformance.sweep", description=__doc__)
    parser.add_argument("--region", required=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)
    clients: dict[str, Any] = {}
    session: Any = boto3.session.Session(region_name=given.region)

    def client(service: str) -> Any:
        return clients.setdefault(service, session.client(service))

    found = [f"{kind.label} {name}" for kind, name in left(client, given.region)]
    sys.stdout.write("".join(f"{each}\n" for each in found or ["Nothing is left of any run."]))
    if not found:
        return 0
    if not given.yes:
        sys.stdout.write("Remove all of this? It may belong to a run that is in progress. [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            return 1
    wrong = sweep(client, given.region, say=lambda line: sys.stdout.write(f"{line}\n"))
    sys.stdout.write("".join(f"not removed: {each}\n" for each in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
