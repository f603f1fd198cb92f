"""The kinds of resources that probes create: how to remove one, and how to find those of all runs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from triton_models.probe.account import trouble
from triton_models.probe.account.journal import PREFIX

OURS = re.compile(rf"(?:^|[/:]){PREFIX}[0-9a-f]{{8}}(?:-|$)")
"""The names of runs' resources; no others are touched."""

Clients: TypeAlias = Callable[[str], Any]
_LOGS = ("/aws/sagemaker/Endpoints/", "/aws/codebuild/", "")
_NEW_STACK = "REVIEW_IN_PROGRESS"  # its change set was not executed
_ENDED = ("Completed", "Failed", "Stopped")


def role_path(region: str) -> str:
    """Return the path of the roles of a region's runs, by which they are found."""
    return f"/fleet-probe/{region}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of resource.

    Attributes:
        label: The name for messages.
        remove: Removes a resource by name; returns True when it is gone, False if it cannot be removed yet.
        names: Yields the names of all runs' resources of this kind in the region.
    """

    label: str
    remove: Callable[[Clients, str, Mapping[str, str]], bool]
    names: Callable[[Clients, str], Iterator[str]]


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignore the error that a resource does not exist."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if not trouble.absent(error):
            raise


def _pages(client: Any, operation: str, key: str, **asked: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(key) or ()


def _remove_bucket(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    s3 = clients("s3")
    with _unless_gone():
        for upload in list(_pages(s3, "list_multipart_uploads", "Uploads", Bucket=name)):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for found in list(_pages(s3, "list_objects_v2", "Contents", Bucket=name)):
            s3.delete_object(Bucket=name, Key=found["Key"])
        s3.delete_bucket(Bucket=name)
    return True


def _buckets(clients: Clients, region: str) -> Iterator[str]:
    for found in clients("s3").list_buckets(Prefix=PREFIX, BucketRegion=region).get("Buckets", ()):
        yield found["Name"]


def _remove_role(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    iam = clients("iam")
    with _unless_gone():
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            with _unless_gone():
                iam.delete_role_policy(RoleName=name, PolicyName=policy)
        iam.delete_role(RoleName=name)
    return True


def _roles(clients: Clients, region: str) -> Iterator[str]:
    for found in _pages(clients("iam"), "list_roles", "Roles", PathPrefix=role_path(region)):
        yield found["RoleName"]


def _remove_model(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    with _unless_gone():
        clients("sagemaker").delete_model(ModelName=name)
    return True


def _models(clients: Clients, _: str) -> Iterator[str]:
    for found in _pages(clients("sagemaker"), "list_models", "Models", NameContains=PREFIX):
        yield found["ModelName"]


def _remove_endpoint_config(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    with _unless_gone():
        clients("sagemaker").delete_endpoint_config(EndpointConfigName=name)
    return True


def _endpoint_configs(clients: Clients, _: str) -> Iterator[str]:
    asked = {"NameContains": PREFIX}
    for found in _pages(clients("sagemaker"), "list_endpoint_configs", "EndpointConfigs", **asked):
        yield found["EndpointConfigName"]


def _remove_endpoint(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    """Delete an endpoint; False while SageMaker creates or updates it, which prevents its deletion."""
    from botocore.exceptions import ClientError

    sagemaker = clients("sagemaker")
    with _unless_gone():
        status = sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"]
        if status == "Deleting":
            return False
        try:
            sagemaker.delete_endpoint(EndpointName=name)
        except ClientError as error:
            if not trouble.busy(error):
                raise
        return False  # until it cannot be found any more
    return True


def _endpoints(clients: Clients, _: str) -> Iterator[str]:
    for found in _pages(clients("sagemaker"), "list_endpoints", "Endpoints", NameContains=PREFIX):
        yield found["EndpointName"]


def _remove_log_group(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    with _unless_gone():
        clients("logs").delete_log_group(logGroupName=name)
    return True


def _log_groups(clients: Clients, _: str) -> Iterator[str]:
    for folder in _LOGS:
        asked = {"logGroupNamePrefix": f"{folder}{PREFIX}"}
        for found in _pages(clients("logs"), "describe_log_groups", "logGroups", **asked):
            yield found["logGroupName"]


def _remove_project(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    codebuild = clients("codebuild")
    with _unless_gone():
        running = codebuild.list_builds_for_project(projectName=name).get("ids", ())
        for build in codebuild.batch_get_builds(ids=running)["builds"] if running else ():
            if not build.get("buildComplete"):
                codebuild.stop_build(id=build["id"])
        codebuild.delete_project(name=name)
    return True


def _projects(clients: Clients, _: str) -> Iterator[str]:
    for name in _pages(clients("codebuild"), "list_projects", "projects", sortBy="NAME"):
        if name.startswith(PREFIX):
            yield name


def _remove_job(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    sagemaker = clients("sagemaker")
    with _unless_gone():
        status = sagemaker.describe_processing_job(ProcessingJobName=name)["ProcessingJobStatus"]
        if status in _ENDED:
            sagemaker.delete_processing_job(ProcessingJobName=name)
            return True
        if status == "InProgress":
            sagemaker.stop_processing_job(ProcessingJobName=name)
        return False
    return True


def _jobs(clients: Clients, _: str) -> Iterator[str]:
    asked = {"NameContains": PREFIX}
    for found in _pages(clients("sagemaker"), "list_processing_jobs", "ProcessingJobSummaries", **asked):
        yield found["ProcessingJobName"]


def _remove_rule(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    events = clients("events")
    with _unless_gone():
        targets = [each["Id"] for each in events.list_targets_by_rule(Rule=name)["Targets"]]
        if targets:
            events.remove_targets(Rule=name, Ids=targets)
        events.delete_rule(Name=name)
    return True


def _rules(clients: Clients, _: str) -> Iterator[str]:
    for found in clients("events").list_rules(NamePrefix=PREFIX)["Rules"]:
        yield found["Name"]


def _remove_queue(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    sqs = clients("sqs")
    with _unless_gone():
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])
    return True


def _queues(clients: Clients, _: str) -> Iterator[str]:
    for url in clients("sqs").list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", ()):
        yield url.rpartition("/")[2]


_TARGET = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}


def _remove_scaling(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    """Deregister a scalable target, which also deletes its policies and their alarms."""
    with _unless_gone():
        clients("application-autoscaling").deregister_scalable_target(ResourceId=name, **_TARGET)
    return True


def _scaling(clients: Clients, _: str) -> Iterator[str]:
    client = clients("application-autoscaling")
    for found in _pages(client, "describe_scalable_targets", "ScalableTargets", ServiceNamespace="sagemaker"):
        if OURS.search(found["ResourceId"]):
            yield found["ResourceId"]


def _remove_alarm(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    with _unless_gone():
        clients("cloudwatch").delete_alarms(AlarmNames=[name])
    return True


def _alarms(clients: Clients, _: str) -> Iterator[str]:
    asked = {"AlarmNamePrefix": PREFIX}
    for found in _pages(clients("cloudwatch"), "describe_alarms", "MetricAlarms", **asked):
        yield found["AlarmName"]


def _remove_state_machine(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    states = clients("stepfunctions")
    for found in _pages(states, "list_state_machines", "stateMachines"):
        if found["name"] == name:
            with _unless_gone():
                states.delete_state_machine(stateMachineArn=found["stateMachineArn"])
    return True


def _state_machines(clients: Clients, _: str) -> Iterator[str]:
    for found in _pages(clients("stepfunctions"), "list_state_machines", "stateMachines"):
        if found["name"].startswith(PREFIX):
            yield found["name"]


def _remove_stack(clients: Clients, name: str, _: Mapping[str, str]) -> bool:
    """Delete a stack; False while an operation is in progress, which prevents its deletion."""
    from botocore.exceptions import ClientError

    cloudformation = clients("cloudformation")
    with _unless_gone():
        [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
        try:
            if stack["StackStatus"] == _NEW_STACK or not stack["StackStatus"].endswith("_IN_PROGRESS"):
                cloudformation.delete_stack(StackName=name)
        except ClientError as error:
            if not trouble.busy(error):
                raise
        return False  # until it cannot be found any more
    return True


def _stacks(clients: Clients, _: str) -> Iterator[str]:
    for found in _pages(clients("cloudformation"), "describe_stacks", "Stacks"):
        if found["StackName"].startswith(PREFIX):
            yield found["StackName"]


# `--clean` removes resources in this order: users before the resources that they use.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "scaling": Kind(label="scalable target", remove=_remove_scaling, names=_scaling),
        "endpoint": Kind(label="endpoint", remove=_remove_endpoint, names=_endpoints),
        "endpoint-config": Kind(
            label="endpoint configuration", remove=_remove_endpoint_config, names=_endpoint_configs
        ),
        "model": Kind(label="SageMaker model", remove=_remove_model, names=_models),
        "job": Kind(label="Processing job", remove=_remove_job, names=_jobs),
        "project": Kind(label="CodeBuild project", remove=_remove_project, names=_projects),
        "stack": Kind(label="CloudFormation stack", remove=_remove_stack, names=_stacks),
        "state-machine": Kind(label="state machine", remove=_remove_state_machine, names=_state_machines),
        "alarm": Kind(label="alarm", remove=_remove_alarm, names=_alarms),
        "rule": Kind(label="EventBridge rule", remove=_remove_rule, names=_rules),
        "queue": Kind(label="SQS queue", remove=_remove_queue, names=_queues),
        "log-group": Kind(label="log group", remove=_remove_log_group, names=_log_groups),
        "bucket": Kind(label="bucket", remove=_remove_bucket, names=_buckets),
        "role": Kind(label="role", remove=_remove_role, names=_roles),
    }
)

USERS = frozenset({"scaling", "endpoint", "job", "project", "stack", "state-machine", "rule"})
"""The kinds that use others and are billed by time: removed first."""


def found_in(clients: Clients, region: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of every resource in the account that any run created."""
    for key, kind in KINDS.items():
        for name in kind.names(clients, region):
            if OURS.search(name):
                yield key, name
