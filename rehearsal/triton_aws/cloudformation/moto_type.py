"""Resource types that moto's own classes create, for types that the catalogue lacks.

Those classes use only some properties, and `confirm` does not ask the service's API: it only sees the object
that moto created. If a type matters to you, add it to the catalogue instead.
"""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from functools import cache
from typing import Any

from moto.cloudformation.parsing import get_model_map

from triton_aws.cloudformation.resource import AbsentError, Call, Identity, Properties, ResourceType

_NETWORK = (
    *("EIP", "InternetGateway", "NatGateway", "Route", "RouteTable", "SecurityGroup", "SecurityGroupIngress"),
    *("Subnet", "SubnetRouteTableAssociation", "VPC", "VPCEndpoint", "VPCGatewayAttachment"),
)

MOTO_TYPES = frozenset(
    {
        "AWS::Kinesis::Stream",
        "AWS::Lambda::EventSourceMapping",
        "AWS::Logs::ResourcePolicy",
        "AWS::SageMaker::NotebookInstance",
        "AWS::SageMaker::NotebookInstanceLifecycleConfig",
        *(f"AWS::EC2::{name}" for name in _NETWORK),
    }
)
"""The types whose classes create, update and delete. moto's other classes leave resources behind."""


class _Attributes(dict[str, str]):
    """The attributes of a moto resource, read on access."""

    def __init__(self, resource: Any) -> None:
        super().__init__()
        self.resource = resource

    def __contains__(self, name: object) -> bool:
        return bool(self.resource.has_cfn_attr(name))

    def __missing__(self, name: str) -> str:
        value: str = self.resource.get_cfn_attribute(name)
        return value


class MotoType(ResourceType):
    """A type whose resources one of moto's classes creates."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def create(self, call: Call, properties: Properties) -> Identity:
        """Let moto create the resource, under the template's name or a new one."""
        name_property = self._name_property()
        name = properties.get(name_property) or call.unique_name(limit=64)
        resource = self._model.create_from_cloudformation_json(
            name,
            self._json(properties),
            call.account,
            call.region,
            LogicalId=call.logical_id,
            StackId=call.stack_id,
            ResourceType=self._model.cloudformation_type(),
        )
        return _identity(resource)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Let moto update the resource."""
        name = after.get(self._name_property()) or identity.physical_id
        resource = self._model.update_from_cloudformation_json(
            original_resource=_resource(identity),
            new_resource_name=name,
            cloudformation_json=self._json(after),
            account_id=call.account,
            region_name=call.region,
        )
        if resource is None:
            msg = f"moto cannot update {self._model.cloudformation_type()}"
            raise NotImplementedError(msg)
        return _identity(resource)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Let moto delete the resource: through the object if its class can, otherwise by its id."""
        resource = _resource(identity)
        if hasattr(resource, "delete"):
            resource.delete(call.account, call.region)
        else:
            self._model.delete_from_cloudformation_json(
                identity.physical_id, self._json(properties), call.account, call.region
            )

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Check that moto created an object with an id."""
        if not identity.physical_id:
            msg = "moto gave it no physical id"
            raise AbsentError(msg)

    def _name_property(self) -> str:
        return self._model.cloudformation_name_type() or ""

    def _json(self, properties: Properties) -> dict[str, Any]:
        return {"Type": self._model.cloudformation_type(), "Properties": dict(properties)}


def _identity(resource: Any) -> Identity:
    return Identity(physical_id=resource.physical_resource_id or "", attributes=_Attributes(resource))


def _resource(identity: Identity) -> Any:
    attributes = identity.attributes
    return attributes.resource if isinstance(attributes, _Attributes) else None


@cache
def moto_type(name: str) -> ResourceType:
    """Return the type of moto's class for a name of `MOTO_TYPES`."""
    return MotoType(get_model_map()[name])
