"""The risk of a change for users, and a sentence that describes it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from triton_report.changes import Change, Effect


class Risk(enum.IntEnum):
    """The risk of a change, the highest first."""

    DOWNTIME = 1
    DATA = 2
    REPLACEMENT = 3
    NONE = 4

    @property
    def title(self) -> str:
        """As it stands in the table."""
        return {1: "🛑 downtime", 2: "🗄️ data", 3: "♻️ replacement", 4: "ordinary"}[self.value]


class Meaning(NamedTuple):
    """The meaning of a change of a resource."""

    risk: Risk
    text: str


_GONE = {Effect.REMOVED, Effect.REPLACED, Effect.RENAMED}

# What a reviewer calls a resource.
WORDS: Mapping[str, str] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "scaling target",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "scaling policy",
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::CloudWatch::CompositeAlarm": "alarm that pages",
    "AWS::CloudWatch::Dashboard": "dashboard",
    "AWS::CodeBuild::Fleet": "reserved build machines",
    "AWS::CodeBuild::Project": "build project",
    "AWS::EC2::SecurityGroup": "security group",
    "AWS::EC2::VPCEndpoint": "VPC endpoint",
    "AWS::Events::Rule": "event rule",
    "AWS::IAM::Policy": "policy",
    "AWS::IAM::Role": "role",
    "AWS::KMS::Key": "encryption key",
    "AWS::Lambda::Function": "function",
    "AWS::Logs::LogGroup": "log group",
    "AWS::Logs::MetricFilter": "metric filter",
    "AWS::S3::Bucket": "bucket",
    "AWS::S3::BucketPolicy": "bucket policy",
    "AWS::SNS::Subscription": "subscription",
    "AWS::SNS::Topic": "topic",
    "AWS::SSM::Parameter": "parameter",
    "AWS::SageMaker::Endpoint": "endpoint",
    "AWS::SageMaker::EndpointConfig": "endpoint configuration",
    "AWS::SageMaker::Model": "model server",
    "AWS::StepFunctions::StateMachine": "state machine",
}

# What is in them when they go.
_HOLD_DATA: Mapping[str, str] = {
    "AWS::S3::Bucket": "the objects in it",
    "AWS::KMS::Key": "everything that only it can decrypt",
    "AWS::Logs::LogGroup": "the logs in it",
    "AWS::SQS::Queue": "the messages in it",
    "AWS::DynamoDB::Table": "the items in it",
}

# Resources that may be missing briefly during a replacement.
_HARMLESS = frozenset(
    {
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "AWS::CloudWatch::CompositeAlarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::IAM::Policy",
        "AWS::Logs::MetricFilter",
        "AWS::SSM::Parameter",
    }
)

# Those of this library answer nothing to resources elsewhere.
_CUSTOM = "Custom::Triton"

# What it means that a resource becomes another one.
_BECOMES_ANOTHER: Mapping[str, str] = {
    "AWS::SageMaker::EndpointConfig": "a new fleet of instances starts next to the old one and takes over",
    "AWS::SageMaker::Model": "a new fleet of instances starts next to the old one and takes over",
    "AWS::ApplicationAutoScaling::ScalableTarget": "nothing scales until the new one exists",
    "AWS::IAM::Role": "policies elsewhere with the old role's ARN no longer apply",
    "AWS::SNS::Topic": "subscriptions must be confirmed again",
    "AWS::CodeBuild::Project": "the history of builds is lost, and callers of the old name fail",
    "AWS::CloudWatch::Alarm": "the history and the state are lost",
    "AWS::EC2::VPCEndpoint": "connections through it break until the new one exists",
    "AWS::EC2::SecurityGroup": "rules elsewhere with the old group no longer apply",
}


def meaning(change: Change) -> Meaning:
    """Return the meaning of a change."""
    nothing = Meaning(Risk.NONE, "")
    if change.effect not in _GONE:
        return nothing
    resource = change.before or change.resource
    removed = change.effect is not Effect.REPLACED  # of a renamed one the old id is removed
    if resource.type == "AWS::SageMaker::Endpoint":
        return _of_endpoint(change)
    if held := _HOLD_DATA.get(resource.type):
        if not (resource.kept_when_removed if removed else resource.kept_when_replaced):
            return Meaning(Risk.DATA, f"{held} will be lost")
        empty = "" if change.effect is Effect.REMOVED else "the new one starts empty; "
        return Meaning(Risk.DATA, f"{empty}the old one stays in the account, unmanaged")
    harmless = resource.type in _HARMLESS or resource.type.startswith(_CUSTOM)
    if change.effect is Effect.REMOVED or harmless:
        return nothing
    otherwise = "references to its name or ARN elsewhere must change"
    return Meaning(Risk.REPLACEMENT, _BECOMES_ANOTHER.get(resource.type, otherwise))


def _of_endpoint(change: Change) -> Meaning:
    if change.effect is Effect.REMOVED:
        return Meaning(Risk.DOWNTIME, "every later invocation fails")
    before, after = change.before, change.resource
    if before is not None and before.properties.get("EndpointName") == after.properties.get("EndpointName"):
        text = "SageMaker refuses a second endpoint with that name: the deployment fails and rolls back"
        return Meaning(Risk.DOWNTIME, text)
    text = (
        "an endpoint with another name; the old one serves until the new one does, and then callers of its "
    )
    return Meaning(Risk.REPLACEMENT, f"{text}name, instead of the alias, fail")
