"""AWS::Logs: log groups, their metric filters and policies of services."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from embedded_aws.cloudformation.request import api_request, refuse_unknown
from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    changed_tags,
)

_NAME_LIMIT = 512


class LogGroup(ConfiguredType):
    """A log group. Its id is its name."""

    name = "AWS::Logs::LogGroup"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the log group."""
        refuse_unknown(properties, {"LogGroupName", "RetentionInDays", "KmsKeyId", "LogGroupClass", "Tags"})
        name = properties.get("LogGroupName") or call.unique_name(limit=_NAME_LIMIT)
        options = {"logGroupClass": properties["LogGroupClass"]} if "LogGroupClass" in properties else {}
        call.client("logs").create_log_group(logGroupName=name, **options)
        arn = f"arn:aws:logs:{call.region}:{call.account}:log-group:{name}:*"
        return Identity(physical_id=name, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update retention, key and tags to match the properties."""
        logs, group = call.client("logs"), identity.physical_id
        if before.get("RetentionInDays") != after.get("RetentionInDays"):
            if "RetentionInDays" in after:
                logs.put_retention_policy(logGroupName=group, retentionInDays=int(after["RetentionInDays"]))
            else:
                logs.delete_retention_policy(logGroupName=group)
        if before.get("KmsKeyId") != after.get("KmsKeyId"):
            if "KmsKeyId" in after:
                logs.associate_kms_key(logGroupName=group, kmsKeyId=after["KmsKeyId"])
            else:
                logs.disassociate_kms_key(logGroupName=group)
        put, removed = changed_tags(before, after)
        arn = identity.attributes["Arn"].removesuffix(":*")
        if put:
            logs.tag_resource(resourceArn=arn, tags={tag["Key"]: tag["Value"] for tag in put})
        if removed:
            logs.untag_resource(resourceArn=arn, tagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the log group and its logs."""
        call.client("logs").delete_log_group(logGroupName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the log group."""
        found = call.client("logs").describe_log_groups(logGroupNamePrefix=identity.physical_id)
        if identity.physical_id not in (group["logGroupName"] for group in found["logGroups"]):
            msg = f"there is no log group {identity.physical_id}"
            raise AbsentError(msg)


class MetricFilter(PutType):
    """A filter that turns lines of a log group into a metric. Its id is its name."""

    name = "AWS::Logs::MetricFilter"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the filter."""
        logs = call.client("logs")
        name = physical_id or properties.get("FilterName") or call.unique_name(limit=_NAME_LIMIT)
        logs.put_metric_filter(**api_request(logs, "PutMetricFilter", {**properties, "FilterName": name}))
        return Identity(physical_id=name)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the filter; the metric keeps its data."""
        call.client("logs").delete_metric_filter(
            logGroupName=properties["LogGroupName"], filterName=identity.physical_id
        )

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the filter in its log group."""
        found = call.client("logs").describe_metric_filters(
            logGroupName=properties["LogGroupName"], filterNamePrefix=identity.physical_id
        )
        if identity.physical_id not in (each["filterName"] for each in found["metricFilters"]):
            msg = f"the log group {properties['LogGroupName']} has no filter {identity.physical_id}"
            raise AbsentError(msg)


class ResourcePolicy(PutType):
    """A policy by which other services write logs. Its id is its name."""

    name = "AWS::Logs::ResourcePolicy"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the policy."""
        logs = call.client("logs")
        logs.put_resource_policy(**api_request(logs, "PutResourcePolicy", properties))
        return Identity(physical_id=properties["PolicyName"])

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the policy."""
        call.client("logs").delete_resource_policy(policyName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the policy."""
        found = call.client("logs").describe_resource_policies()["resourcePolicies"]
        if identity.physical_id not in (each["policyName"] for each in found):
            msg = f"there is no resource policy {identity.physical_id}"
            raise AbsentError(msg)
