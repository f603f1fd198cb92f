"""Application Auto Scaling as SageMaker endpoints use it.

moto's gaps:
- A target of a SageMaker variant registers whether or not the endpoint exists. AWS refuses, so a target that
  does not depend on its endpoint fails there and must fail here.
- A target registered without a role has none. AWS shows the service-linked role that it uses.
- The policies of a deregistered target stay. AWS deletes them with it.
"""

from __future__ import annotations

from typing import Any

from moto.applicationautoscaling.exceptions import AWSValidationException
from moto.applicationautoscaling.models import ApplicationAutoscalingBackend, FakeScalableTarget
from moto.sagemaker.models import sagemaker_backends

from rehearsal.moto_gaps import mend

_SERVICE_ROLE = (
    "arn:aws:iam::{account}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)

_moto_register = ApplicationAutoscalingBackend.register_scalable_target
_moto_deregister = ApplicationAutoscalingBackend.deregister_scalable_target


def _register(
    self: ApplicationAutoscalingBackend, namespace: str, r_id: str, dimension: str, **options: Any
) -> FakeScalableTarget:
    if namespace == "sagemaker" and dimension == "sagemaker:variant:DesiredInstanceCount":
        _check_variant(self, r_id)
        options["role_arn"] = options.get("role_arn") or _SERVICE_ROLE.format(account=self.account_id)
    target: FakeScalableTarget = _moto_register(self, namespace, r_id, dimension, **options)
    return target


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


def install() -> None:
    """Close the gaps."""
    mend.replace(
        ApplicationAutoscalingBackend,
        register_scalable_target=_register,
        deregister_scalable_target=_deregister,
    )
