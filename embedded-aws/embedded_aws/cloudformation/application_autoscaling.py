"""AWS::ApplicationAutoScaling: scalable targets and their policies."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embedded_aws.cloudformation.request import api_request, refuse_unknown
from embedded_aws.cloudformation.resource import AbsentError, Call, Client, Identity, Properties, PutType

_KEY = ("ResourceId", "ScalableDimension", "ServiceNamespace")
_SERVICE = "application-autoscaling"
_ACTIONS = "ScheduledActions"


class ScalableTarget(PutType):
    """A scalable target with its bounds and schedule. Its id is `resource|dimension|namespace`."""

    name = "AWS::ApplicationAutoScaling::ScalableTarget"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Register the target, or change its bounds, with its scheduled actions."""
        settings = {"MinCapacity", "MaxCapacity", "RoleARN", "SuspendedState"}
        refuse_unknown(properties, {*_KEY, *settings, _ACTIONS, "Tags"})
        scaling = call.client(_SERVICE)
        # Without the tags, which no operation here shows.
        bounds = {name: properties[name] for name in properties if name in {*_KEY, *settings}}
        scaling.register_scalable_target(**api_request(scaling, "RegisterScalableTarget", bounds))
        _schedule(scaling, {name: properties[name] for name in _KEY}, properties.get(_ACTIONS, ()))
        key = physical_id or "|".join(properties[name] for name in _KEY)
        return Identity(physical_id=key, attributes={"Id": key})

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Deregister the target."""
        call.client(_SERVICE).deregister_scalable_target(**_target(identity.physical_id))

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the target among the registered ones."""
        target = _target(identity.physical_id)
        answer = call.client(_SERVICE).describe_scalable_targets(
            ServiceNamespace=target["ServiceNamespace"],
            ScalableDimension=target["ScalableDimension"],
            ResourceIds=[target["ResourceId"]],
        )
        if not answer["ScalableTargets"]:
            msg = f"no scalable target {identity.physical_id} is registered"
            raise AbsentError(msg)


class ScalingPolicy(PutType):
    """The scaling policy of a target. Its id is the policy's ARN."""

    name = "AWS::ApplicationAutoScaling::ScalingPolicy"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the policy for a target, which is given by its id or its three parts."""
        scaling = call.client(_SERVICE)
        request = api_request(scaling, "PutScalingPolicy", _with_target(properties))
        arn = scaling.put_scaling_policy(**request)["PolicyARN"]
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the policy."""
        flat = _with_target(properties)
        call.client(_SERVICE).delete_scaling_policy(
            PolicyName=flat["PolicyName"], **{name: flat[name] for name in _KEY}
        )

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the policy among those of its target."""
        flat = _with_target(properties)
        answer = call.client(_SERVICE).describe_scaling_policies(**{name: flat[name] for name in _KEY})
        if identity.physical_id not in (policy["PolicyARN"] for policy in answer["ScalingPolicies"]):
            msg = f"the target has no scaling policy {identity.physical_id}"
            raise AbsentError(msg)


def _schedule(scaling: Client, target: dict[str, str], actions: Sequence[Properties]) -> None:
    """Replace a target's scheduled actions."""
    former = scaling.describe_scheduled_actions(**target)[_ACTIONS]
    for action in former:
        scaling.delete_scheduled_action(**target, ScheduledActionName=action["ScheduledActionName"])
    for action in actions:
        scaling.put_scheduled_action(**api_request(scaling, "PutScheduledAction", {**action, **target}))


def _target(physical_id: str) -> dict[str, str]:
    return dict(zip(_KEY, physical_id.split("|"), strict=True))


def _with_target(properties: Properties) -> dict[str, Any]:
    """Return the policy's properties; a target's id is split into its three parts."""
    flat = dict(properties)
    target = flat.pop("ScalingTargetId", None)
    return {**flat, **_target(target)} if target else flat
