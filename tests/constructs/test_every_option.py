"""Every property of the services' resources is an argument of a construct, or left out for a reason.

The properties are those of CloudFormation's own schemas, which cfn-lint carries: a service that learns
something new fails the first test here, until there is an argument or a reason for it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import pytest
from aws_cdk import App, Duration, Size, Stack, Tags, TimeZone
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from aws_cdk.aws_applicationautoscaling import AdjustmentType, Schedule
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

import triton_fleet
from triton_fleet import (
    AsyncInference,
    Canary,
    CapacityReservation,
    CapacitySize,
    CoreDumps,
    DataCapture,
    Endpoint,
    EndpointNetwork,
    EndpointScaling,
    GpuUtilization,
    InstancePool,
    InvocationsPerGpu,
    Linear,
    MetricTarget,
    ModelRepository,
    MultiModelEndpoint,
    Rolling,
    Routing,
    S3Folder,
    ScalingStep,
    ScheduledCapacity,
    SingleModelEndpoint,
    StepScaling,
    SuspendedScaling,
    Variant,
)

ARTIFACT, OTHER = "resnet50-0123456789ab.tar.gz", "resnet50-ba9876543210.tar.gz"
CPU = "ml.m5.xlarge"  # has a volume, as no GPU type has
RESERVATION = "arn:aws:sagemaker:eu-west-1:123456789012:training-plan/reserved"


@dataclass(frozen=True)
class Reached:
    """A property that an argument sets.

    Attributes:
        by: The argument, as a user would write it.
        make: Puts a construct with that argument into a stack.
    """

    by: str
    make: Callable[[Stack], object]


@dataclass(frozen=True)
class LeftOut:
    """A property that no argument sets, and why."""

    reason: str


Table = Mapping[str, Reached | LeftOut]


def _repository(stack: Stack) -> ModelRepository:
    return ModelRepository(stack, "Repository")


def _single(stack: Stack, variant: Variant | None = None, **arguments: Any) -> SingleModelEndpoint:
    return SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=_repository(stack),
        variants=[variant or Variant(artifact=ARTIFACT)],
        endpoint_name="one",
        artifact_timeout=None,
        **arguments,
    )


def _multi(stack: Stack, **arguments: Any) -> MultiModelEndpoint:
    return MultiModelEndpoint(stack, "Endpoint", repository=_repository(stack), **arguments)


def _scaled(stack: Stack, **arguments: Any) -> EndpointScaling:
    return EndpointScaling(stack, "Scaling", endpoint=_single(stack), **arguments)


def _plain(stack: Stack) -> None:
    """One statement each, with nothing but what they cannot do without."""
    _scaled(stack)


def _tagged(stack: Stack) -> None:
    Tags.of(_scaled(stack)).add("team", "search")


def _tagged_endpoint(stack: Stack) -> None:
    Tags.of(_multi(stack)).add("team", "search")


def _network(stack: Stack) -> EndpointNetwork:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    return EndpointNetwork(stack, "Network", vpc=vpc)


def _folder(stack: Stack) -> S3Folder:
    bucket = stack.node.try_find_child("Bucket") or s3.Bucket(stack, "Bucket")
    assert isinstance(bucket, s3.Bucket)
    return S3Folder(bucket=bucket, prefix="folder/")


def _queued(stack: Stack) -> None:
    folder, topic = _folder(stack), sns.Topic(stack, "Topic")
    asynchronous = AsyncInference(
        requests=folder,
        output=folder,
        failure=folder,
        success_topic=topic,
        error_topic=topic,
        include_inference_in=["success"],
        max_concurrent_invocations=4,
        encryption_key=kms.Key(stack, "Key"),
    )
    _single(stack, async_inference=asynchronous)


def _captured(stack: Stack) -> None:
    capture = DataCapture(
        bucket=_folder(stack).bucket, encryption_key=kms.Key(stack, "Key"), csv_content_types=["text/csv"]
    )
    _single(stack, data_capture=capture)


def _expression(endpoint: Endpoint) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="busy / 2",
        using_metrics={
            "busy": cloudwatch.Metric(
                namespace="Own",
                metric_name="Busy",
                dimensions_map={"Endpoint": endpoint.literal_name},
                unit=cloudwatch.Unit.PERCENT,
            )
        },
    )


def _tracks_expression(stack: Stack) -> None:
    endpoint = _single(stack)
    target = MetricTarget(name="Own", metric=_expression(endpoint), target=3)
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[target])


def _steps(stack: Stack) -> None:
    endpoint = _single(stack)
    scaling = StepScaling(
        name="Busy",
        metric=endpoint.metric_gpu_utilization(),
        steps=[ScalingStep(at=80, change=20), ScalingStep(at=95, change=50)],
        adjustment=AdjustmentType.PERCENT_CHANGE_IN_CAPACITY,
        minimum_change=1,
    )
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[], steps=[scaling])


def _scheduled(stack: Stack) -> None:
    from datetime import datetime, timezone

    action = ScheduledCapacity(
        name="Morning",
        schedule=Schedule.cron(hour="7", minute="0"),
        min_capacity=2,
        max_capacity=4,
        time_zone=TimeZone.EUROPE_BERLIN,
        start=datetime(2027, 1, 1, tzinfo=timezone.utc),
        end=datetime(2028, 1, 1, tzinfo=timezone.utc),
    )
    _scaled(stack, schedules=[action])


PLAIN = Reached("the one statement", _plain)
TAGS = Reached("aws_cdk.Tags.of(endpoint).add(...)", _tagged_endpoint)
ONLY_COMPONENTS = LeftOut(
    "SageMaker takes it for inference components only, which serve without Triton's own caching"
)

MODEL: Table = {
    "ExecutionRoleArn": PLAIN,
    "PrimaryContainer": PLAIN,
    "PrimaryContainer.MultiModelConfig": Reached("MultiModelEndpoint(keep_models_cached=...)", _multi),
    "PrimaryContainer.ContainerHostname": LeftOut("the API ignores it for models with one container"),
    "PrimaryContainer.ImageConfig": LeftOut(
        "it is for Docker registries outside of ECR, where neither the pull can be granted to this role "
        "alone nor the label of a multi-model image be checked"
    ),
    "PrimaryContainer.InferenceSpecificationName": LeftOut("it is a part of a model package, see there"),
    "PrimaryContainer.ModelPackageName": LeftOut(
        "a package of the model registry brings an image and an artifact of its own, of which nothing here "
        "could be checked; the repository's manifest has the versions"
    ),
    "PrimaryContainer.ModelDataSource": LeftOut(
        "an uncompressed prefix can change while instances read it; an artifact is one object that never "
        "does, and multi-model endpoints take nothing else"
    ),
    "Containers": LeftOut(
        "Triton's ensembles are the pipeline: in one container, without HTTP between the steps"
    ),
    "InferenceExecutionConfig": LeftOut("it says how several containers work together, and there is one"),
    "EnableNetworkIsolation": Reached(
        "network_isolation=True", lambda stack: _multi(stack, network_isolation=True)
    ),
    "VpcConfig": Reached(
        "network=EndpointNetwork(...)", lambda stack: _multi(stack, network=_network(stack))
    ),
    "ModelName": LeftOut(
        "CloudFormation cannot replace a model with a name of its own, and any change replaces it"
    ),
    "Tags": TAGS,
}

# The options of a variant, which are the same for production and shadow variants.
VARIANT: Mapping[str, Mapping[str, Any] | LeftOut] = {
    "CapacityReservationConfig": {"capacity_reservation": CapacityReservation(arn=RESERVATION)},
    "CoreDumpConfig": {"core_dumps": ...},  # its bucket is of the stack
    "EnableSSMAccess": {"ssm_access": True},
    "InstancePools": {"instance_pools": [InstancePool(instance_type="ml.g5.4xlarge", artifact=OTHER)]},
    "RoutingConfig": {"routing": Routing.RANDOM},
    "RoutingConfig.PrefixAwareRoutingConfig": LeftOut(
        "it reads the prompts of language models in containers that Triton is not among"
    ),
    "VariantInstanceProvisionTimeoutInSeconds": {"provision_timeout": Duration.minutes(10)},
    "VolumeSizeInGB": {"volume_size": Size.gibibytes(50), "instance_type": CPU},
    "ManagedInstanceScaling": ONLY_COMPONENTS,
    "ServerlessConfig": LeftOut(
        "serverless inference has no GPU, no VPC and no instance type to check against"
    ),
}


def _variant(stack: Stack, name: str, arguments: Mapping[str, Any]) -> Variant:
    given = dict(arguments)
    if "core_dumps" in given:
        given["core_dumps"] = CoreDumps(folder=_folder(stack), encryption_key=kms.Key(stack, "Key"))
    return Variant(artifact=ARTIFACT, name=name, **given)


def _of_variants() -> Iterator[tuple[str, Reached | LeftOut]]:
    for name, given in VARIANT.items():
        if isinstance(given, LeftOut):
            yield f"ProductionVariants[].{name}", given
            yield f"ShadowProductionVariants[].{name}", given
            continue
        by = ", ".join(f"{argument}=..." for argument in given)
        yield (
            f"ProductionVariants[].{name}",
            Reached(
                f"Variant({by})", lambda stack, given=given: _single(stack, _variant(stack, "One", given))
            ),
        )
        yield (
            f"ShadowProductionVariants[].{name}",
            Reached(
                f"shadow_variant=Variant({by})",
                lambda stack, given=given: _single(stack, shadow_variant=_variant(stack, "Shadow", given)),
            ),
        )


def _shadowed(stack: Stack) -> None:
    _single(stack, shadow_variant=Variant(artifact=OTHER, name="Shadow"))


CONFIG: Table = {
    "ProductionVariants": PLAIN,
    "ShadowProductionVariants": Reached("SingleModelEndpoint(shadow_variant=...)", _shadowed),
    **dict(_of_variants()),
    "AsyncInferenceConfig": Reached("SingleModelEndpoint(async_inference=AsyncInference(...))", _queued),
    "DataCaptureConfig": Reached("SingleModelEndpoint(data_capture=DataCapture(...))", _captured),
    "EnableNetworkIsolation": ONLY_COMPONENTS,
    "ExecutionRoleArn": ONLY_COMPONENTS,
    "VpcConfig": ONLY_COMPONENTS,
    "EndpointConfigName": LeftOut(
        "CloudFormation cannot replace a configuration with a name of its own, and any change replaces it"
    ),
    "ExplainerConfig": LeftOut(
        "SageMaker Clarify explains containers that take CSV or JSON lines; Triton takes tensors"
    ),
    "KmsKeyId": Reached(
        "encryption_key=...",
        lambda stack: _multi(stack, instance_type=CPU, encryption_key=kms.Key(stack, "Key")),
    ),
    "MetricsConfig": PLAIN,
    "MetricsConfig.EnableEnhancedMetrics": Reached(
        "enhanced_metrics=True", lambda stack: _single(stack, enhanced_metrics=True)
    ),
    "MetricsConfig.MetricPublishFrequencyInSeconds": Reached(
        "metric_interval=Duration.seconds(10)",
        lambda stack: _multi(stack, metric_interval=Duration.seconds(10)),
    ),
    "Tags": TAGS,
}

_FOUR: Mapping[str, Any] = {"initial_instance_count": 4, "rollback_alarms": ["errors"]}
_ROUTING = "DeploymentConfig.BlueGreenUpdatePolicy.TrafficRoutingConfiguration"
ENDPOINT: Table = {
    "EndpointName": PLAIN,
    "EndpointConfigName": PLAIN,
    "RetainAllVariantProperties": PLAIN,
    "ExcludeRetainedVariantProperties": PLAIN,
    "RetainDeploymentConfig": LeftOut(
        "each deployment goes as it is declared, not as the one before it went"
    ),
    "DeploymentConfig": Reached(
        "deployment=Canary()", lambda stack: _multi(stack, deployment=Canary(), **_FOUR)
    ),
    f"{_ROUTING}.LinearStepSize": Reached(
        "deployment=Linear()", lambda stack: _multi(stack, deployment=Linear(), **_FOUR)
    ),
    "DeploymentConfig.RollingUpdatePolicy": Reached(
        "deployment=Rolling(rollback_batch=...)",
        lambda stack: _multi(stack, deployment=Rolling(rollback_batch=CapacitySize.percent(100)), **_FOUR),
    ),
    "Tags": TAGS,
}

TARGET: Table = {
    **dict.fromkeys(
        ("MinCapacity", "MaxCapacity", "ResourceId", "ScalableDimension", "ServiceNamespace"), PLAIN
    ),
    "RoleARN": LeftOut(
        "SageMaker has a service-linked role for it, which Application Auto Scaling makes and keeps"
    ),
    "ScheduledActions": Reached("EndpointScaling(schedules=[ScheduledCapacity(...)])", _scheduled),
    "SuspendedState": Reached(
        "EndpointScaling(suspended=SuspendedScaling(scale_in=True))",
        lambda stack: _scaled(stack, suspended=SuspendedScaling(scale_in=True)),
    ),
    "Tags": Reached("aws_cdk.Tags.of(scaling).add(...)", _tagged),
}

_CUSTOM = "TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification"
_PREDEFINED = "TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification"
POLICY: Table = {
    **dict.fromkeys(("PolicyName", "PolicyType", "ScalingTargetId"), PLAIN),
    **dict.fromkeys(
        ("ResourceId", "ScalableDimension", "ServiceNamespace"),
        LeftOut("they name the scalable target a second time, which ScalingTargetId has named already"),
    ),
    "TargetTrackingScalingPolicyConfiguration": PLAIN,
    "TargetTrackingScalingPolicyConfiguration.DisableScaleIn": Reached(
        "GpuUtilization(disable_scale_in=True)",
        lambda stack: _scaled(stack, targets=[GpuUtilization(disable_scale_in=True), InvocationsPerGpu()]),
    ),
    f"{_PREDEFINED}.ResourceLabel": LeftOut(
        "it names the target group of a load balancer; SageMaker has none"
    ),
    f"{_CUSTOM}.Metrics": Reached("MetricTarget(metric=MathExpression(...))", _tracks_expression),
    f"{_CUSTOM}.Metrics[].Label": LeftOut(
        "it is the name of a line in a chart, and a policy is shown in none"
    ),
    "StepScalingPolicyConfiguration": Reached("EndpointScaling(steps=[StepScaling(...)])", _steps),
    "PredictiveScalingPolicyConfiguration": LeftOut(
        "AWS documents predictive scaling through Application Auto Scaling for Amazon ECS alone"
    ),
}

TABLES: Mapping[str, Table] = {
    "AWS::SageMaker::Model": MODEL,
    "AWS::SageMaker::EndpointConfig": CONFIG,
    "AWS::SageMaker::Endpoint": ENDPOINT,
    "AWS::ApplicationAutoScaling::ScalableTarget": TARGET,
    "AWS::ApplicationAutoScaling::ScalingPolicy": POLICY,
}


@functools.cache
def _properties(resource_type: str) -> tuple[str, ...]:
    """Every property of a type that can be set, with those of nested types, such as "Tags[].Key"."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema
    read_only = {each.removeprefix("/properties/") for each in schema.get("readOnlyProperties", ())}
    own = {name: each for name, each in schema["properties"].items() if name not in read_only}
    return tuple(_nested(schema, {"properties": own}, ""))


def _nested(schema: Mapping[str, Any], node: Mapping[str, Any], path: str) -> Iterator[str]:
    if "$ref" in node:
        node = schema["definitions"][node["$ref"].rpartition("/")[2]]
    if "items" in node:
        yield from _nested(schema, node["items"], f"{path}[]")
    for name, each in node.get("properties", {}).items():
        inner = f"{path}.{name}".removeprefix(".")
        yield inner
        yield from _nested(schema, each, inner)


@functools.cache
def _set_by(make: Callable[[Stack], object]) -> Mapping[str, frozenset[str]]:
    """The properties in the template of a stack, by resource type."""
    stack = Stack(App(), "Fleet")
    make(stack)
    found: dict[str, set[str]] = {name: set() for name in TABLES}
    for resource in Template.from_stack(stack).to_json()["Resources"].values():
        if resource["Type"] in found:
            found[resource["Type"]].update(_paths(resource["Properties"], ""))
    return {name: frozenset(paths) for name, paths in found.items()}


def _paths(value: Any, path: str) -> Iterator[str]:
    if path:
        yield path
    if isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{path}[]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _paths(each, f"{path}.{name}".removeprefix("."))


def _row(table: Table, path: str) -> Reached | LeftOut | None:
    """The row of a property: its own, or that of the nearest property that it is a part of."""
    found = [row for row in table if path == row or path.startswith((f"{row}.", f"{row}[]"))]
    return table[max(found, key=len)] if found else None


def _rows(kind: type) -> list[tuple[str, str]]:
    return [
        (name, path)
        for name, table in TABLES.items()
        for path in _properties(name)
        if isinstance(_row(table, path), kind)
    ]


@pytest.mark.parametrize("resource_type", TABLES)
def test_every_property_has_an_argument_or_a_reason(resource_type: str) -> None:
    table = TABLES[resource_type]

    rows = {path: _row(table, path) for path in _properties(resource_type)}
    without = [path for path, row in rows.items() if row is None or row == LeftOut("")]
    assert without == []


@pytest.mark.parametrize("resource_type", TABLES)
def test_no_row_is_about_a_property_that_is_gone(resource_type: str) -> None:
    assert set(TABLES[resource_type]) - set(_properties(resource_type)) == set()


@pytest.mark.parametrize("resource_type", TABLES)
def test_the_argument_of_a_row_sets_the_property(resource_type: str) -> None:
    missing = []
    for path in _properties(resource_type):
        row = _row(TABLES[resource_type], path)
        if isinstance(row, Reached) and path not in _set_by(row.make)[resource_type]:
            missing.append(f"{path} by {row.by}")

    assert missing == []


@pytest.mark.parametrize("resource_type", TABLES)
def test_without_the_argument_it_is_not_set(resource_type: str) -> None:
    table, plain = TABLES[resource_type], _set_by(_plain)[resource_type]
    chosen = {"RoutingConfig", "MultiModelConfig"}  # set to a value of its own by default
    rows = [path for path, row in table.items() if isinstance(row, Reached) and row is not PLAIN]

    assert [path for path in rows if path in plain and path.rpartition(".")[2] not in chosen] == []


@pytest.mark.parametrize("resource_type", TABLES)
def test_nothing_that_is_left_out_is_set_after_all(resource_type: str) -> None:
    table = TABLES[resource_type]
    makes = {row.make for each in TABLES.values() for row in each.values() if isinstance(row, Reached)}
    found = frozenset().union(*(_set_by(make)[resource_type] for make in makes))

    left_out = [path for path in _properties(resource_type) if isinstance(_row(table, path), LeftOut)]
    assert [path for path in left_out if path in found] == []


def test_the_arguments_that_rows_name_exist() -> None:
    rows = [row for table in TABLES.values() for row in table.values()]
    said = {row.by for row in rows if isinstance(row, Reached)}
    classes = {name for by in said for name in re.findall(r"([A-Z]\w+)\(", by)} & set(triton_fleet.__all__)
    known = {
        argument
        for name in classes
        for argument in signature(getattr(triton_fleet, name).__init__).parameters
    }

    assert {argument for by in said for argument in re.findall(r"(\w+)=", by)} - known == set()


def test_the_walk_sees_nested_properties() -> None:
    assert "ProductionVariants[].CoreDumpConfig.DestinationS3Uri" in _properties(
        "AWS::SageMaker::EndpointConfig"
    )
    assert len(_rows(Reached)) + len(_rows(LeftOut)) == sum(len(_properties(name)) for name in TABLES)
