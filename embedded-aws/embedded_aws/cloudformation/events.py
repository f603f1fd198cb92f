"""AWS::Events: rules of EventBridge."""

from __future__ import annotations

import json
from typing import Any

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import Call, ConfiguredType, Identity, Properties

_NAME_LIMIT = 64


class Rule(ConfiguredType):
    """A rule with its targets. Its id is its name, after the bus's name unless that is the default bus."""

    name = "AWS::Events::Rule"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the rule, without targets."""
        name = properties.get("Name") or call.unique_name(limit=_NAME_LIMIT)
        arn = _put(call, name, properties)
        return Identity(physical_id=arn.partition(":rule/")[2], attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update the rule and its targets to match the properties."""
        events, name = call.client("events"), _name(identity)
        if before:
            _put(call, name, after)
        kept = {target["Id"] for target in after.get("Targets", ())}
        gone = [target["Id"] for target in before.get("Targets", ()) if target["Id"] not in kept]
        if gone:
            events.remove_targets(Rule=name, Ids=gone, **_bus(after))
        if after.get("Targets"):
            wanted = {"Rule": name, "Targets": after["Targets"], **_bus(after)}
            events.put_targets(**api_request(events, "PutTargets", wanted))

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the targets, then the rule: the API requires this order."""
        events, name = call.client("events"), _name(identity)
        targets = events.list_targets_by_rule(Rule=name, **_bus(properties))["Targets"]
        if targets:
            events.remove_targets(Rule=name, Ids=[target["Id"] for target in targets], **_bus(properties))
        events.delete_rule(Name=name, **_bus(properties))

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the rule."""
        call.client("events").describe_rule(Name=_name(identity), **_bus(properties))


def _put(call: Call, name: str, properties: Properties) -> str:
    """Write the rule and return its ARN."""
    events = call.client("events")
    wanted = {key: value for key, value in properties.items() if key != "Targets"}
    if "EventPattern" in wanted and not isinstance(wanted["EventPattern"], str):
        wanted["EventPattern"] = json.dumps(wanted["EventPattern"])
    arn: str = events.put_rule(**api_request(events, "PutRule", {**wanted, "Name": name}))["RuleArn"]
    return arn


def _name(identity: Identity) -> str:
    return identity.physical_id.rsplit("/", 1)[-1]


def _bus(properties: Properties) -> dict[str, Any]:
    return {"EventBusName": properties["EventBusName"]} if "EventBusName" in properties else {}
