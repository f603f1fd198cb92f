"""Where instances run, and what they may do: what travels together from a fleet to its endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.endpoint_network import EndpointNetwork


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The network, the role and the key of the instances.

    Attributes:
        network: The private subnets that the containers reach other services from. By default SageMaker's
            own network.
        role: An existing role for the instances, which SageMaker may assume; permissions are added to it. By
            default a new one.
        encryption_key: Encrypts the instances' volumes, on types without local NVMe only. The NVMe of the
            others is encrypted by their hardware.
        network_isolation: Cut the containers off from any network. SageMaker still reads the models, but a
            Python model cannot call anything.
    """

    network: EndpointNetwork | None = None
    role: iam.IRole | None = None
    encryption_key: kms.IKey | None = None
    network_isolation: bool = False
