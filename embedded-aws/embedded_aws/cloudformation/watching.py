"""AWS::CloudWatch, AWS::Logs, AWS::ApplicationAutoScaling and AWS::Budgets."""

from __future__ import annotations

from typing import Any

from embedded_aws.cloudformation.resource import (
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    changed,
    refuse_unknown,
    retag,
    without,
)


class Alarm(PutType):
    """An alarm on a metric, on metric math or on other alarms. Its id is its name."""

    service, keys, naming = "cloudwatch", "AlarmNames", "AlarmName"
    deletes, reads = "delete_alarms", "describe_alarms"

    def __init__(self, kind: str) -> None:
        self.name = "AWS::CloudWatch::Alarm" if kind == "Metric" else "AWS::CloudWatch::CompositeAlarm"
        self.lists, self._kind, self.puts = f"{kind}Alarms", f"{kind}Alarm", f"put_{kind.lower()}_alarm"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {"AlarmNames": identity.physical_id, "AlarmTypes": self._kind}

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        name = super().put(call, physical_id, properties).physical_id
        arn = f"arn:aws:cloudwatch:{call.region}:{call.account}:alarm:{name}"
        return Identity(physical_id=name, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        retag(call.client("cloudwatch"), before, after, ResourceARN=identity.attributes["Arn"])
        return super().update(call, identity, before, after)


class Dashboard(PutType):
    name, service, keys = "AWS::CloudWatch::Dashboard", "cloudwatch", "DashboardName DashboardNames"
    reads, puts, deletes, naming = "get_dashboard", "put_dashboard", "delete_dashboards", "DashboardName"


class LogGroup(ConfiguredType):
    name, service, keys = "AWS::Logs::LogGroup", "logs", "logGroupName logGroupNamePrefix"
    reads, lists, deletes = "describe_log_groups", "logGroups", "delete_log_group"
    naming, limit, supports = "LogGroupName", 512, "RetentionInDays KmsKeyId LogGroupClass"

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        options = {"logGroupClass": properties["LogGroupClass"]} if "LogGroupClass" in properties else {}
        call.client("logs").create_log_group(logGroupName=name, **options)
        arn = f"arn:aws:logs:{call.region}:{call.account}:log-group:{name}:*"
        return Identity(physical_id=name, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        group, differing = {"LogGroupName": identity.physical_id}, changed(before, after)
        for name, sets, removes in (
            ("RetentionInDays", "put_retention_policy", "delete_retention_policy"),
            ("KmsKeyId", "associate_kms_key", "disassociate_kms_key"),
        ):
            if name in differing and name in after:
                call.ask("logs", sets, {**group, name: after[name]})
            elif name in differing:
                call.ask("logs", removes, group)
        retag(call.client("logs"), before, after, resourceArn=identity.attributes["Arn"].removesuffix(":*"))


class MetricFilter(PutType):
    name, service, lists = "AWS::Logs::MetricFilter", "logs", "metricFilters"
    reads, puts, deletes = "describe_metric_filters", "put_metric_filter", "delete_metric_filter"
    naming, limit = "FilterName", 512

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        name = identity.physical_id
        return {"logGroupName": properties["LogGroupName"], "filterName": name, "filterNamePrefix": name}


class ResourcePolicy(PutType):
    name, service, keys, naming = "AWS::Logs::ResourcePolicy", "logs", "policyName", "PolicyName"
    reads, lists, deletes = "describe_resource_policies", "resourcePolicies", "delete_resource_policy"
    puts = "put_resource_policy"


_KEY = ("ResourceId", "ScalableDimension", "ServiceNamespace")
_BOUNDS = ("MinCapacity", "MaxCapacity", "RoleARN", "SuspendedState")
_SCALING = "application-autoscaling"


class ScalableTarget(PutType):
    """A scalable target with its bounds and schedule. Its id is `resource|dimension|namespace`."""

    name, service, deletes = (
        "AWS::ApplicationAutoScaling::ScalableTarget",
        _SCALING,
        "deregister_scalable_target",
    )
    reads, lists = "describe_scalable_targets", "ScalableTargets"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        target = _target(identity.physical_id)
        return {**target, "ResourceIds": target["ResourceId"]}

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        refuse_unknown(properties, {*_KEY, *_BOUNDS, "ScheduledActions", "Tags"})
        # Without the tags, which no operation here shows.
        call.ask(_SCALING, "register_scalable_target", without(properties, "ScheduledActions", "Tags"))
        scaling, target = call.client(_SCALING), {name: properties[name] for name in _KEY}
        for action in scaling.describe_scheduled_actions(**target)["ScheduledActions"]:
            scaling.delete_scheduled_action(**target, ScheduledActionName=action["ScheduledActionName"])
        for action in properties.get("ScheduledActions", ()):
            call.ask(_SCALING, "put_scheduled_action", {**action, **target})
        key = physical_id or "|".join(target.values())
        return Identity(physical_id=key, attributes={"Id": key})

    def listed_as(self, identity: Identity) -> str:
        return _target(identity.physical_id)["ResourceId"]


class ScalingPolicy(PutType):
    """The scaling policy of a target, which is given by its id or its three parts. Its id is its ARN."""

    name, service, deletes = "AWS::ApplicationAutoScaling::ScalingPolicy", _SCALING, "delete_scaling_policy"
    reads, lists = "describe_scaling_policies", "ScalingPolicies"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return _with_target(properties)

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        arn = call.ask(_SCALING, "put_scaling_policy", _with_target(properties))["PolicyARN"]
        return Identity(physical_id=arn, attributes={"Arn": arn})


def _target(physical_id: str) -> dict[str, str]:
    return dict(zip(_KEY, physical_id.split("|"), strict=True))


def _with_target(properties: Properties) -> dict[str, Any]:
    target = properties.get("ScalingTargetId")
    return {**without(properties, "ScalingTargetId"), **_target(target)} if target else dict(properties)


class Budget(PutType):
    name, service, naming, limit = "AWS::Budgets::Budget", "budgets", "BudgetName", 100
    reads, deletes = "describe_budget", "delete_budget"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {"AccountId": call.account, "BudgetName": identity.physical_id}

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Create the budget; moto has no call that changes one, so the old one is replaced."""
        name = physical_id or self.named(call, properties["Budget"])
        if physical_id is not None:
            self.delete(call, Identity(physical_id=name), properties)
        budget = {**properties["Budget"], "BudgetName": name}
        call.ask("budgets", "create_budget", {**properties, "AccountId": call.account, "Budget": budget})
        return Identity(physical_id=name)


TYPES = (
    Alarm("Metric"),
    Alarm("Composite"),
    Budget(),
    Dashboard(),
    LogGroup(),
    MetricFilter(),
    ResourcePolicy(),
    ScalableTarget(),
    ScalingPolicy(),
)
