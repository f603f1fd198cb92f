"""Assumptions about AWS that no record settles. Each is a switch: a test can cover both answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Assumptions(Mapping[str, str]):
    """Assumptions by name, each a sentence. All of them hold by default."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        self._sentences = dict(sentences)
        self._false: set[str] = set()

    def __getitem__(self, name: str) -> str:
        return self._sentences[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sentences)

    def __len__(self) -> int:
        return len(self._sentences)

    def declare(self, assumptions: Mapping[str, str]) -> None:
        """Add the assumptions of code that builds on the embedded AWS."""
        self._sentences.update(assumptions)

    def holds(self, name: str) -> bool:
        """Return True if an assumption holds now."""
        self[name]  # a misspelled name must not count as true
        return name not in self._false

    @contextmanager
    def assume(self, **assumptions: bool) -> Iterator[None]:
        """Set assumptions to true or false until the end of the `with`."""
        for name in assumptions:
            self[name]
        before = set(self._false)
        self._false.difference_update(name for name, value in assumptions.items() if value)
        self._false.update(name for name, value in assumptions.items() if not value)
        try:
            yield
        finally:
            self._false.clear()
            self._false.update(before)


ASSUMPTIONS = Assumptions(
    {
        "alarm_before_update_ends_it": "An update is undone for an alarm that was in ALARM before it",
        "alarms_read_with_execution_role": "An update reads its alarms with the endpoint's role",
        "ami_fits_instance_family": "CreateEndpointConfig takes any AMI with any instance type",
        "ami_with_multi_model": "CreateEndpoint takes an InferenceAmiVersion with a multi-model Model",
        "bake_announcement": "Events of a deployment name the endpoint as it was given",
        "build_role_propagation": "A role that was just created may start a build",
        "configuration_in_use_refused": "UpdateEndpoint refuses the configuration that an endpoint has",
        "data_capture_excluded": "A multi-model Model is refused with data capture and with other variants",
        "endpoint_arn_lower_case": "The name in an endpoint's ARN is in lower case",
        "endpoint_creating_not_deletable": "An endpoint that is Creating or Updating is not deleted",
        "endpoint_logs_after_rollback": "An endpoint's log group outlives it",
        "exit_message": "A Processing job's message is in its description",
        "gpu_ami_on_cpu_refused": "A host image for GPUs is refused on types without one",
        "guardrails_with_multi_model": "A deployment of a multi-model endpoint moves to its end",
        "head_bucket_returns_region": "HeadBucket names the region to a role that may not list the bucket",
        "instance_pools_single_model": "Instance pools are refused with a multi-model Model",
        "local_storage_refused": "A volume size is refused with an instance type that has a disk of its own",
        "log_agent_creates_group": "Without CreateLogGroup a host logs nothing",
        "model_on_empty_prefix": "CreateModel accepts a multi-model prefix without an object",
        "multi_model_instance_types": "A multi-model Model is accepted on types that AWS lists",
        "multi_model_undocumented_types": "A multi-model Model is accepted on types that AWS does not list",
        "no_rollback_continues": "A stack in CREATE_FAILED can be updated",
        "old_endpoint_removed_last": "A replaced resource is removed in the clean-up of its stack",
        "quota_names": "Service quotas have the names that AWS's documents give them",
        "registry_answers_any_account": "AWS's registries answer BatchGetImage to any account",
        "retain_except_on_create": "RetainExceptOnCreate keeps nothing of a creation that fails",
        "retained_instance_count": "RetainAllVariantProperties keeps a variant's count",
        "rollback_of_custom_resources": "A replaced custom resource gets no Update in a rollback",
        "rollback_of_undone_update": "A rollback does not update an endpoint that has its configuration",
        "s3_refuses_taken_key": "S3 refuses If-None-Match where an object is, and a wrong checksum",
        "scaling_blocked_in_updates": "Auto scaling does nothing while an endpoint is updated",
        "step_functions_rule_name": "A state machine that waits for builds needs its managed rule alone",
        "topic_same_region": "An alarm with a topic of another region is refused",
        "undocumented_features": "A multi-model Model is accepted with routing and detailed observability",
        "undone_update_fails": "An endpoint that SageMaker has returned to its configuration has failed",
        "update_with_scaling_refused": "UpdateEndpoint refuses another type for a scalable variant",
    }
)
"""The assumptions of this process: the embedded AWS's, and those that were declared."""

holds = ASSUMPTIONS.holds
