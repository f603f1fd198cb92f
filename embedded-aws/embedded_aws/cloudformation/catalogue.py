"""Every resource type that the embedded CloudFormation supports. It refuses all others."""

from __future__ import annotations

from collections.abc import Mapping

from embedded_aws.cloudformation import (
    application_autoscaling,
    bootstrap,
    budgets,
    cloudwatch,
    codebuild,
    custom_resource,
    ec2,
    events,
    iam,
    kms,
    lambda_,
    logs,
    messaging,
    s3,
    sagemaker,
    secretsmanager,
    stepfunctions,
)
from embedded_aws.cloudformation.resource import ResourceType
from embedded_aws.cloudformation.schemas import is_custom

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
    *ec2.TYPES,
    events.Rule(),
    iam.ManagedPolicy(),
    iam.OIDCProvider(),
    iam.Policy(),
    iam.Role(),
    kms.Alias(),
    kms.Key(),
    lambda_.EventInvokeConfig(),
    lambda_.EventSourceMapping(),
    lambda_.Function(),
    lambda_.Permission(),
    logs.LogGroup(),
    logs.MetricFilter(),
    logs.ResourcePolicy(),
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
    secretsmanager.Secret(),
    stepfunctions.StateMachine(),
)

TYPES: Mapping[str, ResourceType] = {kind.name: kind for kind in _TYPES}


def is_supported(name: str) -> bool:
    """Return True if stacks can have resources of a type."""
    return is_custom(name) or name in TYPES


def resource_type(name: str) -> ResourceType:
    """Return the implementation of a supported type."""
    return custom_resource.CustomResource(name) if is_custom(name) else TYPES[name]
