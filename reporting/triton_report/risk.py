"""The risk of a change for users, and a sentence that describes it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
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
    if change.effect not in _GONE:
        return Meaning(risk=Risk.NONE, text="")
    resource = change.before or change.resource
    if resource.type == "AWS::SageMaker::Endpoint":
        return _of_endpoint(change)
    if held := _HOLD_DATA.get(resource.type):
        removed = change.effect is not Effect.REPLACED  # of a renamed one the old id is removed
        return _of_data(
            change, held, kept=resource.kept_when_removed if removed else resource.kept_when_replaced
        )
    harmless = resource.type in _HARMLESS or resource.type.startswith(_CUSTOM)
    if change.effect is Effect.REMOVED or harmless:
        return Meaning(risk=Risk.NONE, text="")
    text = _BECOMES_ANOTHER.get(resource.type, "references to its name or ARN elsewhere must change")
    return Meaning(risk=Risk.REPLACEMENT, text=text)


def _of_endpoint(change: Change) -> Meaning:
    if change.effect is Effect.REMOVED:
        return Meaning(risk=Risk.DOWNTIME, text="every later invocation fails")
    before, after = change.before, change.resource
    if before is not None and before.properties.get("EndpointName") == after.properties.get("EndpointName"):
        text = "SageMaker refuses a second endpoint with that name: the deployment fails and rolls back"
        return Meaning(risk=Risk.DOWNTIME, text=text)
    return Meaning(
        risk=Risk.REPLACEMENT,
        text="an endpoint with another name; the old one serves until the new one does, and then callers of "
        "its name, instead of the alias, fail",
    )


def _of_data(change: Change, held: str, *, kept: bool) -> Meaning:
    if kept:
        left = "the old one stays in the account, unmanaged"
        if change.effect is Effect.REMOVED:
            return Meaning(risk=Risk.DATA, text=left)
        return Meaning(risk=Risk.DATA, text=f"the new one starts empty; {left}")
    return Meaning(risk=Risk.DATA, text=f"{held} will be lost")
