"""AWS::SageMaker: models, endpoint configurations and endpoints."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import time
from typing import Any

from botocore import xform_name

from embedded_aws.cloudformation.resource import ApiType, Call, Identity, Properties, retag, without

# The interval at which an update is polled, in seconds.
_POLL_S = 0.05
_UPDATE_ONLY = ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig")


class Immutable(ApiType):
    """A resource whose properties, except its tags, are all create-only. Its id is its ARN."""

    service, limit, stack_in_name = "sagemaker", 63, False

    def __init__(self, kind: str) -> None:
        self.name, self.naming, self._kind = f"AWS::SageMaker::{kind}", f"{kind}Name", kind
        noun = xform_name(kind)
        self.deletes, self.reads, self._creates = f"delete_{noun}", f"describe_{noun}", f"create_{noun}"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {self.naming: identity.attributes[self.naming]}

    def create(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        answer = call.ask(
            "sagemaker", self._creates, {**without(properties, *_UPDATE_ONLY), self.naming: name}
        )
        arn = answer[f"{self._kind}Arn"]
        return Identity(physical_id=arn, attributes={self.naming: name, f"{self._kind}Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the tags; any other change replaces the resource."""
        sagemaker = call.client("sagemaker")
        retag(sagemaker, before, after, tag="add_tags", untag="delete_tags", ResourceArn=identity.physical_id)
        return identity


class UpdateUndoneError(Exception):
    """An update that SageMaker rolled back. The message is the reason."""


class Endpoint(Immutable):
    """An endpoint, which moves to another configuration with the deployment and retain properties."""

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Update the endpoint, unless SageMaker has undone the update that a rollback wants to undo."""
        super().update(call, identity, before, after)
        if without(before, "Tags") != without(after, "Tags"):
            where, config = self.where(call, identity, after), after["EndpointConfigName"]
            live = call.client("sagemaker").describe_endpoint(**where)
            there = (live["EndpointStatus"], live["EndpointConfigName"]) == ("InService", config)
            if there and before["EndpointConfigName"] != config:
                return identity
            call.ask("sagemaker", "update_endpoint", {**without(after, "Tags"), **where})
            _wait_for_update(call, where["EndpointName"], config=config)
        return identity


def _wait_for_update(call: Call, name: str, *, config: str) -> None:
    sagemaker = call.client("sagemaker")
    while (found := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] not in (
        "InService",
        "Failed",
    ):
        call.answer()
        call.go_on()
        time.sleep(_POLL_S)
    if found["EndpointConfigName"] != config:
        raise UpdateUndoneError(found.get("FailureReason", f"the endpoint has not moved to {config}"))


TYPES = (Endpoint("Endpoint"), Immutable("EndpointConfig"), Immutable("Model"))
