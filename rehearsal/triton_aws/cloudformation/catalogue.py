"""Every resource type that the embedded CloudFormation supports: its own, and some of moto's classes."""

from __future__ import annotations

from collections.abc import Mapping

from triton_aws.cloudformation import (
    application_autoscaling,
    bootstrap,
    budgets,
    cloudwatch,
    codebuild,
    custom_resource,
    events,
    iam,
    kms,
    lambda_,
    logs,
    messaging,
    s3,
    sagemaker,
    stepfunctions,
)
from triton_aws.cloudformation.moto_type import MOTO_TYPES, moto_type
from triton_aws.cloudformation.resource import ResourceType
from triton_aws.cloudformation.schemas import is_custom

_TYPES: tuple[ResourceType, ...] = (
    application_autoscaling.ScalableTarget(),
    application_autoscaling.ScalingPolicy(),
    bootstrap.CdkMetadata(),
    bootstrap.Parameter(),
    bootstrap.Repository(),
    budgets.Budget(),
    cloudwatch.Alarm(),
    cloudwatch.CompositeAlarm(),
    cloudwatch.Dashboard(),
    codebuild.Fleet(),
    codebuild.Project(),
    events.Rule(),
    iam.ManagedPolicy(),
    iam.OIDCProvider(),
    iam.Policy(),
    iam.Role(),
    kms.Alias(),
    kms.Key(),
    lambda_.EventInvokeConfig(),
    lambda_.Function(),
    lambda_.Permission(),
    logs.LogGroup(),
    logs.MetricFilter(),
    messaging.Queue(),
    messaging.QueuePolicy(),
    messaging.Subscription(),
    messaging.Topic(),
    messaging.TopicPolicy(),
    s3.Bucket(),
    s3.BucketPolicy(),
    sagemaker.Endpoint(),
    sagemaker.EndpointConfig(),
    sagemaker.Model(),
    stepfunctions.StateMachine(),
)

TYPES: Mapping[str, ResourceType] = {kind.name: kind for kind in _TYPES}


def is_supported(name: str) -> bool:
    """Return True if stacks can have resources of a type."""
    return is_custom(name) or name in TYPES or name in MOTO_TYPES


def resource_type(name: str) -> ResourceType:
    """Return the implementation of a supported type."""
    if is_custom(name):
        return custom_resource.CustomResource(name)
    return TYPES.get(name) or moto_type(name)
