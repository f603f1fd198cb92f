"""Application Auto Scaling as SageMaker endpoints use it.

moto's gaps:
- A target of a SageMaker variant can be registered without the endpoint. AWS refuses, so a target that does
  not depend on its endpoint fails there and must fail here.
- A target registered without a role does not show one. AWS shows the service-linked role that it uses.
- The policies and scheduled actions of a deregistered target stay. AWS deletes them with the target.
- A policy that is written again gets a new ARN. In AWS it keeps its ARN.
"""

from __future__ import annotations

from typing import Any

from moto.applicationautoscaling.exceptions import AWSValidationException
from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeApplicationAutoscalingPolicy,
    FakeScalableTarget,
)
from moto.sagemaker.models import sagemaker_backends

from triton_aws.assumptions import holds
from triton_aws.moto_gaps import patch

_SERVICE_ROLE = (
    "arn:aws:iam::{account}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)

_moto_register = ApplicationAutoscalingBackend.register_scalable_target
_moto_put_policy = ApplicationAutoscalingBackend.put_scaling_policy
_moto_deregister = ApplicationAutoscalingBackend.deregister_scalable_target


def _register(
    self: ApplicationAutoscalingBackend, namespace: str, r_id: str, dimension: str, **options: Any
) -> FakeScalableTarget:
    if namespace == "sagemaker" and dimension == "sagemaker:variant:DesiredInstanceCount":
        _check_variant(self, r_id)
        options["role_arn"] = options.get("role_arn") or _SERVICE_ROLE.format(account=self.account_id)
    target: FakeScalableTarget = _moto_register(self, namespace, r_id, dimension, **options)
    if namespace == "sagemaker" and not holds("scaling_blocked_in_updates"):
        _scale_in_update(self, r_id, target.min_capacity or 0)
    return target


def _scale_in_update(backend: ApplicationAutoscalingBackend, resource_id: str, least: int) -> None:
    """Scale an endpoint that is Updating to its target's minimum. AWS is assumed not to do this."""
    endpoints = sagemaker_backends[backend.account_id][backend.region_name].endpoints
    endpoint = endpoints[resource_id.split("/")[1]]
    if endpoint.endpoint_status == "Updating":
        for variant in endpoint.production_variants:
            variant["DesiredInstanceCount"] = max(variant["DesiredInstanceCount"], least)


def _check_variant(backend: ApplicationAutoscalingBackend, resource_id: str) -> None:
    _, endpoint_name, _, variant = resource_id.split("/")
    endpoint = sagemaker_backends[backend.account_id][backend.region_name].endpoints.get(endpoint_name)
    if endpoint is None:
        msg = f"No endpoint found for resource ID: {resource_id}"
        raise AWSValidationException(msg)
    if variant not in (found["VariantName"] for found in endpoint.production_variants):
        msg = f"No production variant found for resource ID: {resource_id}"
        raise AWSValidationException(msg)


def _deregister(self: ApplicationAutoscalingBackend, namespace: str, r_id: str, dimension: str) -> None:
    _moto_deregister(self, namespace, r_id, dimension)
    for key, policy in list(self.policies.items()):
        if (policy.service_namespace, policy.resource_id, policy.scalable_dimension) == (
            namespace,
            r_id,
            dimension,
        ):
            policy.delete_alarms(self.account_id, self.region_name)
            del self.policies[key]
    for action in self.describe_scheduled_actions("", namespace, r_id, dimension):
        self.delete_scheduled_action(namespace, action.scheduled_action_name, r_id, dimension)


def _put_policy(self: ApplicationAutoscalingBackend, **request: Any) -> FakeApplicationAutoscalingPolicy:
    names = ("service_namespace", "resource_id", "scalable_dimension", "policy_name")
    key = FakeApplicationAutoscalingPolicy.formulate_key(*(request[name] for name in names))
    former = self.policies.get(key)
    policy = _moto_put_policy(self, **request)
    if former is not None:
        policy.policy_arn, policy.creation_time = former.policy_arn, former.creation_time
    return policy


def install() -> None:
    """Close the gaps."""
    patch.replace(
        ApplicationAutoscalingBackend,
        register_scalable_target=_register,
        deregister_scalable_target=_deregister,
        put_scaling_policy=_put_policy,
    )
