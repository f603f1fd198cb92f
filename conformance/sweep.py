"""Removes what runs of this suite have left in an account: `python -m conformance.sweep --region REGION`.

Everything that a run creates is named `fleet-conformance-RUN-...`, with the run's eight hexadecimal digits.
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
    """A resource of a run. It is removed again and again, until it cannot be found any more."""

    kind: str
    name: str
    remove: Callable[[], Any]

    def __str__(self) -> str:
        return f"{self.name} of {self.kind}"


def _all(client: Any, operation: str, path: str, **asked: str) -> Iterator[Any]:
    """Yield what a JMESPath finds in the pages of a list."""
    found = client.get_paginator(operation).paginate(**asked).search(path)
    return (each for each in found if each is not None)


def _call(operation: str, parameter: str) -> Callable[[Any, str], Any]:
    return lambda client, name: getattr(client, operation)(**{parameter: name})


def _remove_target(scaling: Any, name: str) -> None:
    scaling.deregister_scalable_target(ResourceId=name, **VARIANT)


def _remove_endpoint(sagemaker: Any, name: str) -> None:
    if sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] != "Deleting":
        sagemaker.delete_endpoint(EndpointName=name)


def _remove_job(sagemaker: Any, name: str) -> None:
    status = sagemaker.describe_processing_job(ProcessingJobName=name)["ProcessingJobStatus"]
    if status == "InProgress":
        sagemaker.stop_processing_job(ProcessingJobName=name)
    elif status != "Stopping":
        sagemaker.delete_processing_job(ProcessingJobName=name)


def _remove_configuration(sagemaker: Any, name: str) -> None:
    sagemaker.delete_endpoint_config(EndpointConfigName=name)


def _remove_project(codebuild: Any, name: str) -> None:
    ids = codebuild.list_builds_for_project(projectName=name).get("ids", ())
    for build in codebuild.batch_get_builds(ids=ids)["builds"] if ids else ():
        if not build.get("buildComplete"):
            codebuild.stop_build(id=build["id"])
    codebuild.delete_project(name=name)


def _remove_machine(states: Any, name: str) -> None:
    states.delete_state_machine(stateMachineArn=name)


def _remove_alarm(cloudwatch: Any, name: str) -> None:
    cloudwatch.delete_alarms(AlarmNames=[name])


def _remove_rule(events: Any, name: str) -> None:
    if targets := [each["Id"] for each in events.list_targets_by_rule(Rule=name)["Targets"]]:
        events.remove_targets(Rule=name, Ids=targets)
    events.delete_rule(Name=name)


def _remove_bucket(s3: Any, name: str) -> None:
    for upload in _all(s3, "list_multipart_uploads", "Uploads[]", Bucket=name):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for found in _all(s3, "list_objects_v2", "Contents[]", Bucket=name):
        s3.delete_object(Bucket=name, Key=found["Key"])
    s3.delete_bucket(Bucket=name)


def _remove_role(iam: Any, name: str) -> None:
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


# The service, its operation that lists, the path to the names in its answers, and the removal.
Kind: TypeAlias = tuple[str, str, str, Callable[[Any, str], Any]]
# What is billed comes first. What it uses is removed when it is gone, because it may write to it until then.
_USERS: tuple[Kind, ...] = (
    ("application-autoscaling", "describe_scalable_targets", "ScalableTargets[].ResourceId", _remove_target),
    ("sagemaker", "list_endpoints", "Endpoints[].EndpointName", _remove_endpoint),
    ("sagemaker", "list_processing_jobs", "ProcessingJobSummaries[].ProcessingJobName", _remove_job),
    ("sagemaker", "list_endpoint_configs", "EndpointConfigs[].EndpointConfigName", _remove_configuration),
    ("sagemaker", "list_models", "Models[].ModelName", _call("delete_model", "ModelName")),
    ("codebuild", "list_projects", "projects[]", _remove_project),
    ("cloudformation", "describe_stacks", "Stacks[].StackName", _call("delete_stack", "StackName")),
    ("stepfunctions", "list_state_machines", "stateMachines[].stateMachineArn", _remove_machine),
    ("events", "list_rules", "Rules[].Name", _remove_rule),
)
_USED: tuple[Kind, ...] = (
    ("cloudwatch", "describe_alarms", "MetricAlarms[].AlarmName", _remove_alarm),
    ("sqs", "list_queues", "QueueUrls[]", _call("delete_queue", "QueueUrl")),
    ("logs", "describe_log_groups", "logGroups[].logGroupName", _call("delete_log_group", "logGroupName")),
    ("s3", "list_buckets", "Buckets[].Name", _remove_bucket),
    ("iam", "list_roles", "Roles[].RoleName", _remove_role),
)
_ASKED = {
    "application-autoscaling": {"ServiceNamespace": "sagemaker"},
    "sagemaker": {"NameContains": PREFIX},
    "s3": {"Prefix": PREFIX, "BucketRegion": "{region}"},
    "iam": {"PathPrefix": f"{ROLES}{{region}}/"},
}


def left(
    client: Client,
    region: str,
    name: str = PREFIX,
    *,
    kinds: tuple[Kind, ...] = (*_USERS, *_USED),
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
    for service, operation, path, remove in kinds:
        try:
            asked = {key: value.format(region=region) for key, value in _ASKED.get(service, {}).items()}
            for each in _all(client(service), operation, path, **asked):
                if _OURS.search(each) and name in each:
                    yield Left(path.partition("[")[0], each, partial(remove, client(service), each))
        except ClientError as error:  # such as a missing permission
            if wrong is not None:
                wrong[service] = str(error)


def sweep(
    client: Client,
    region: str,
    name: str = PREFIX,
    *,
    say: Callable[[str], Any] = lambda line: None,
    pause: Callable[[], Any] = lambda: time.sleep(5),
) -> list[str]:
    """Remove what runs have left, waiting for what is busy. Return what remains, with reasons."""
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
