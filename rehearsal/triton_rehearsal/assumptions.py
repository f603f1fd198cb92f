"""Assumptions about AWS that were never observed: each is a switch, so that both answers can be rehearsed.

Those of hosting and those of the embedded AWS are in one table. The ids are those of beliefs, with
underscores; `fleet probe account` decides them in an account, and its tests let it find either answer here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

ASSUMPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "alarm_before_update_ends_it": "An update is undone for an alarm that was in ALARM before it",
        "alarms_read_with_execution_role": "An update reads its alarms with the endpoint's role",
        "ami_fits_instance_family": "CreateEndpointConfig takes any AMI with any instance type",
        "ami_with_multi_model": "CreateEndpoint takes an InferenceAmiVersion with a multi-model Model",
        "bake_announcement": "Events of a deployment name the endpoint as it was given",
        "build_host_driver": "CodeBuild's GPU hosts have a driver that runs CUDA 13",
        "build_role_propagation": "A role that was just created may start a build",
        "codebuild_image_python": "CodeBuild's own image has python3",
        "cpu_images_exist": "AWS's registries have the images for CPUs",
        "data_capture_excluded": "A multi-model Model is refused with data capture and with other variants",
        "deployment_config_alone": "UpdateEndpoint takes the configuration that an endpoint has",
        "endpoint_arn_lower_case": "The name in an endpoint's ARN is in lower case",
        "endpoint_config_dimension": "Metrics of requests come a second time with EndpointConfigName",
        "endpoint_creating_not_deletable": "An endpoint that is Creating or Updating is not deleted",
        "endpoint_logs_after_rollback": "An endpoint's log group outlives it",
        "error_wording": "InvokeEndpoint's errors are worded as AWS's documents and public records say",
        "eviction_order": "The least recently used model is unloaded first",
        "executable_bits_kept": "An artifact's executable files stay executable",
        "exit_message": "A Processing job's message is in its description",
        "gpu_ami_on_cpu_refused": "A host image for GPUs is refused on types without one",
        "gpu_image_without_gpu": "The image for GPUs starts on types without one",
        "guardrails_with_multi_model": "A deployment of a multi-model endpoint moves to its end",
        "head_bucket_returns_region": "HeadBucket names the region to a role that may not list the bucket",
        "images_in_every_region": "AWS's registries of all regions have the images",
        "instance_pools_single_model": "Instance pools are refused with a multi-model Model",
        "list_bucket_by_prefix": "SageMaker fetches artifacts with ListBucket for the prefix alone",
        "local_storage_refused": "A volume size is refused with an instance type that has a disk of its own",
        "log_agent_creates_group": "Without CreateLogGroup a host logs nothing",
        "metric_publication_interval": "Metrics come in the interval of MetricsConfig",
        "model_on_empty_prefix": "CreateModel accepts a multi-model prefix without an object",
        "multi_model_instance_types": "A multi-model Model is accepted on types that AWS lists",
        "multi_model_undocumented_types": "A multi-model Model is accepted on types that AWS does not list",
        "newer_releases_published": "AWS's registries have the images after those that its SDK lists",
        "no_rollback_continues": "A stack in CREATE_FAILED can be updated",
        "not_ready_answer": "A request for a model that is still loading is answered with 429",
        "object_overwritten": "An instance keeps its copy of an object that changes",
        "old_endpoint_deletion": "Requests under way are answered when their endpoint is deleted",
        "old_endpoint_removed_last": "A replaced resource is removed in the clean-up of its stack",
        "payload_limit": "A request of more than 6 MiB is refused",
        "prices": "The price list says what the price table says",
        "processing_host_driver": "The hosts of Processing jobs have a driver that runs CUDA 13",
        "processing_job_log": "A Processing job reads its name in its configuration",
        "pytorch_index": "Builds reach PyTorch's own index",
        "quota_names": "Service quotas have the names that AWS's documents give them",
        "refused_input_text": "OriginalMessage is what the container has answered",
        "registry_answers_any_account": "AWS's registries answer BatchGetImage to any account",
        "retain_except_on_create": "RetainExceptOnCreate keeps nothing of a creation that fails",
        "retained_instance_count": "RetainAllVariantProperties keeps a variant's count",
        "rollback_of_custom_resources": "A replaced custom resource gets no Update in a rollback",
        "s3_refuses_taken_key": "S3 refuses If-None-Match where an object is, and a wrong checksum",
        "s3_source_permissions": "CodeBuild reads its source with the permissions of a fleet's role",
        "scaling_blocked_in_updates": "Auto scaling does nothing while an endpoint is updated",
        "session_not_pinned": "No container answers with a session id",
        "start_script_variables": "The start script passes SAGEMAKER_TRITON_* on to the server",
        "step_functions_rule_name": "A state machine that waits for builds needs its managed rule alone",
        "topic_same_region": "An alarm with a topic of another region is refused",
        "undocumented_features": "A multi-model Model is accepted with routing and detailed observability",
        "unpacker_takes_stored_blocks": "SageMaker unpacks gzip streams of stored blocks",
        "update_with_scaling_refused": "UpdateEndpoint refuses another type for a scalable variant",
        "verdict_names_log": "CODEBUILD_LOG_PATH names the log stream",
    }
)
"""What each assumption says; all of them hold unless a rehearsal says otherwise."""

_false: set[str] = set()


def holds(name: str) -> bool:
    """Whether an assumption holds in this rehearsal.

    Raises:
        KeyError: There is no such assumption.
    """
    ASSUMPTIONS[name]  # a misspelt one must not hold
    return name not in _false


@contextmanager
def assume(**assumptions: bool) -> Iterator[None]:
    """Let assumptions hold or not, until the end of the `with`.

    Raises:
        KeyError: There is no such assumption.
    """
    for name in assumptions:
        ASSUMPTIONS[name]
    before = set(_false)
    _false.difference_update(name for name, value in assumptions.items() if value)
    _false.update(name for name, value in assumptions.items() if not value)
    try:
        yield
    finally:
        _false.clear()
        _false.update(before)
