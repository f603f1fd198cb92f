"""Findings of rule packs that ask for what the service refuses, acknowledged by the constructs themselves.

Only findings of that kind are here: whoever uses a construct cannot fix them, and would have to find out
why. What can be fixed, or is a matter of judgement, is left to the app, which may see it otherwise.

An acknowledgement changes no template, and means nothing to an app without rule packs.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_sagemaker as sagemaker

from triton_models.facts.instances import InstanceType

# The packs of cdk-nag 3.0.2 that hold the rule, read in its sources on 2026-11-21.
_KEY_PACKS = ("HIPAA.Security", "NIST.800.53.R4", "NIST.800.53.R5", "PCI.DSS.321")
_KEY_RULE = "SageMakerEndpointConfigurationKMSKeyConfigured"


def acknowledge_local_storage(
    config: sagemaker.CfnEndpointConfig, *, instances: Iterable[InstanceType]
) -> None:
    """Acknowledge that an endpoint configuration has no KMS key, if an instance type of it has local NVMe.

    SageMaker refuses a key for such a type, and encrypts its storage in hardware. On any other type the
    finding stays: there a key can be given.

    Source, read on 2026-11-21: KmsKeyId in
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-sagemaker-endpointconfig.html

    Args:
        config: The endpoint configuration.
        instances: The instance types of all its variants.
    """
    local = sorted({instance.name for instance in instances if instance.nvme_gb})
    if not local:
        return
    reason = (
        f"SageMaker refuses a KMS key for instance types with local storage, such as {', '.join(local)}. "
        "That storage is encrypted in hardware, with a key that is gone when the instance stops."
    )
    for pack in _KEY_PACKS:
        Validations.of(config).acknowledge(Acknowledgment(id=f"{pack}-{_KEY_RULE}", reason=reason))
