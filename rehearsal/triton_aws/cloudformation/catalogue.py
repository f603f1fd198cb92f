"""Every resource type that the embedded CloudFormation supports: its own table first, then moto's classes."""

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
from triton_aws.cloudformation.moto_type import moto_type
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


def resource_type(name: str) -> ResourceType | None:
    """Return the implementation of a type; None if neither this table nor moto has it."""
    if is_custom(name):
        return custom_resource.CustomResource(name)
    return TYPES.get(name) or moto_type(name)
