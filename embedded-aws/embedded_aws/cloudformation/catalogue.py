"""Every resource type that the embedded CloudFormation supports. It refuses all others."""

from __future__ import annotations

from collections.abc import Mapping

from embedded_aws.cloudformation import access, compute, custom_resource, ec2, messaging, s3, watching
from embedded_aws.cloudformation.resource import CdkMetadata, ResourceType
from embedded_aws.cloudformation.schemas import is_custom

_MODULES = (access, compute, ec2, messaging, s3, watching)

TYPES: Mapping[str, ResourceType] = {
    kind.name: kind for kind in (CdkMetadata(), *(kind for module in _MODULES for kind in module.TYPES))
}


def is_supported(name: str) -> bool:
    return is_custom(name) or name in TYPES


def resource_type(name: str) -> ResourceType:
    return custom_resource.CustomResource(name) if is_custom(name) else TYPES[name]
