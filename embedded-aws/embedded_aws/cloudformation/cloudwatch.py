"""AWS::CloudWatch: alarms, composite alarms and dashboards."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    Identity,
    Properties,
    PutType,
    changed_tags,
)

_NAME_LIMIT = 255


class _AlarmType(PutType):
    """Both kinds of alarm. They share their names and the call to delete, but not the call to write."""

    operation: str
    kind: str

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the alarm; its state survives."""
        cloudwatch = call.client("cloudwatch")
        name = physical_id or properties.get("AlarmName") or call.unique_name(limit=_NAME_LIMIT)
        request = api_request(cloudwatch, self.operation, {**properties, "AlarmName": name})
        getattr(cloudwatch, _METHODS[self.operation])(**request)
        arn = f"arn:aws:cloudwatch:{call.region}:{call.account}:alarm:{name}"
        return Identity(physical_id=name, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Write the alarm again. Tags need separate calls: a new write leaves them unchanged."""
        put, removed = changed_tags(before, after)
        cloudwatch = call.client("cloudwatch")
        if put:
            cloudwatch.tag_resource(ResourceARN=identity.attributes["Arn"], Tags=put)
        if removed:
            cloudwatch.untag_resource(ResourceARN=identity.attributes["Arn"], TagKeys=removed)
        return super().update(call, identity, before, after)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the alarm."""
        call.client("cloudwatch").delete_alarms(AlarmNames=[identity.physical_id])

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the alarm among those of its kind."""
        answer = call.client("cloudwatch").describe_alarms(
            AlarmNames=[identity.physical_id], AlarmTypes=[self.kind]
        )
        if not answer[f"{self.kind}s"]:
            msg = f"CloudWatch has no {self.kind} {identity.physical_id}"
            raise AbsentError(msg)


class Alarm(_AlarmType):
    """An alarm on a metric or on metric math."""

    name = "AWS::CloudWatch::Alarm"
    operation = "PutMetricAlarm"
    kind = "MetricAlarm"


class CompositeAlarm(_AlarmType):
    """An alarm on other alarms."""

    name = "AWS::CloudWatch::CompositeAlarm"
    operation = "PutCompositeAlarm"
    kind = "CompositeAlarm"


_METHODS = {"PutMetricAlarm": "put_metric_alarm", "PutCompositeAlarm": "put_composite_alarm"}


class Dashboard(PutType):
    """A dashboard. Its id is its name."""

    name = "AWS::CloudWatch::Dashboard"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the dashboard's body."""
        name = physical_id or properties.get("DashboardName") or call.unique_name(limit=_NAME_LIMIT)
        cloudwatch = call.client("cloudwatch")
        request = api_request(cloudwatch, "PutDashboard", {**properties, "DashboardName": name})
        cloudwatch.put_dashboard(**request)
        return Identity(physical_id=name)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the dashboard."""
        call.client("cloudwatch").delete_dashboards(DashboardNames=[identity.physical_id])

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the dashboard."""
        call.client("cloudwatch").get_dashboard(DashboardName=identity.physical_id)
