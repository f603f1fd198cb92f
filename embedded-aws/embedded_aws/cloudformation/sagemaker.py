"""AWS::SageMaker: models, endpoint configurations and endpoints."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import time
from typing import Any, ClassVar

from embedded_aws.assumptions import holds
from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import Call, Identity, Properties, ResourceType, changed_tags

_NAME_LIMIT = 63

_SETTLED = ("InService", "Failed")

# The interval at which an update is polled, in seconds.
_POLL_S = 0.05


def _retag(call: Call, arn: str, before: Properties, after: Properties) -> None:
    put, removed = changed_tags(before, after)
    sagemaker = call.client("sagemaker")
    if put:
        sagemaker.add_tags(ResourceArn=arn, Tags=put)
    if removed:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=removed)


class _Immutable(ResourceType):
    """A resource whose properties, except its tags, are all create-only. Its id is its ARN.

    Attributes:
        noun: The type's name in the API's actions: `model` for CreateModel.
        kind: The type's name in the API's fields: `Model` for ModelName.
    """

    noun: ClassVar[str]
    kind: ClassVar[str]

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the resource."""
        key, sagemaker = f"{self.kind}Name", call.client("sagemaker")
        name = properties.get(key) or call.unique_name(limit=_NAME_LIMIT, stack=False)
        request = api_request(sagemaker, f"Create{self.kind}", {**properties, key: name})
        arn = getattr(sagemaker, f"create_{self.noun}")(**request)[f"{self.kind}Arn"]
        return Identity(physical_id=arn, attributes={key: name, f"{self.kind}Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the tags; any other change replaces the resource."""
        _retag(call, identity.physical_id, before, after)
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the resource."""
        self._act("delete", call, identity)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the resource."""
        self._act("describe", call, identity)

    def _act(self, action: str, call: Call, identity: Identity) -> None:
        key = f"{self.kind}Name"
        getattr(call.client("sagemaker"), f"{action}_{self.noun}")(**{key: identity.attributes[key]})


class Model(_Immutable):
    """A model: an image, the location of its data, and its role."""

    name, noun, kind = "AWS::SageMaker::Model", "model", "Model"


class EndpointConfig(_Immutable):
    """An endpoint's configuration: its variants and what is recorded about them."""

    name, noun, kind = "AWS::SageMaker::EndpointConfig", "endpoint_config", "EndpointConfig"


class UpdateUndoneError(Exception):
    """An update that SageMaker rolled back. The message is the reason."""


class Endpoint(ResourceType):
    """An endpoint. Its id is its ARN."""

    name = "AWS::SageMaker::Endpoint"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the endpoint; the retain properties only affect updates."""
        sagemaker = call.client("sagemaker")
        name = properties.get("EndpointName") or call.unique_name(limit=_NAME_LIMIT, stack=False)
        request = api_request(
            sagemaker, "CreateEndpoint", {**_without(properties, _UPDATE_ONLY), "EndpointName": name}
        )
        arn = sagemaker.create_endpoint(**request)["EndpointArn"]
        return Identity(physical_id=arn, attributes={"EndpointName": name, "EndpointArn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Move the endpoint to its configuration, with the deployment and retain properties.

        After an update that SageMaker has undone, a rollback finds the endpoint as it should be.

        Raises:
            UpdateUndoneError: SageMaker has returned the endpoint to its previous configuration.
        """
        sagemaker = call.client("sagemaker")
        _retag(call, identity.physical_id, before, after)
        if _without(before, {"Tags"}) != _without(after, {"Tags"}):
            name, config = identity.attributes["EndpointName"], after["EndpointConfigName"]
            live = sagemaker.describe_endpoint(EndpointName=name)
            there = (live["EndpointStatus"], live["EndpointConfigName"]) == ("InService", config)
            if there and before["EndpointConfigName"] != config and holds("rollback_of_undone_update"):
                return identity
            wanted = {**_without(after, {"Tags"}), "EndpointName": name}
            sagemaker.update_endpoint(**api_request(sagemaker, "UpdateEndpoint", wanted))
            _wait_for_update(call, name, config=config)
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the endpoint."""
        call.client("sagemaker").delete_endpoint(EndpointName=identity.attributes["EndpointName"])

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the endpoint."""
        call.client("sagemaker").describe_endpoint(EndpointName=identity.attributes["EndpointName"])


_UPDATE_ONLY = {"RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig"}


def _wait_for_update(call: Call, name: str, *, config: str) -> None:
    """Wait until the endpoint is in service; another configuration than the requested one is a failure."""
    sagemaker = call.client("sagemaker")
    while (found := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] not in _SETTLED:
        call.answer()
        call.go_on()
        time.sleep(_POLL_S)
    if found["EndpointConfigName"] != config and holds("undone_update_fails"):
        raise UpdateUndoneError(found.get("FailureReason", f"the endpoint has not moved to {config}"))


def _without(properties: Properties, names: set[str]) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in names}
