"""A fleet's life with the real CDK command line: deployed, changed under traffic, rolled back, destroyed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from embedded_aws import EmbeddedAws
from tests.rehearsal.cdk_apps import cdk_of, write_app
from tests.rehearsal.deployed_endpoints import described, model_of, scale
from tests.rehearsal.served_models import FLEET, python_model, tarball
from tests.rehearsal.traffic import Traffic, runtime_of
from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story


# A user's app. The user edits the context between deployments.
APP = """
from aws_cdk import App, CfnOutput, Duration, Stack
from triton_fleet import (
    Canary, EndpointAlarms, EndpointScaling, GpuUtilization, ModelRepository, MultiModelEndpoint,
    GreenFleetAlarms, CapacitySize, RollbackAlarms, Thresholds, TritonServer,
)

app = App()
stack = Stack(app, "Fleet")
value = app.node.get_context
repository = ModelRepository(stack, "Repository")
rollback = RollbackAlarms(stack, "Rollback", endpoint_name="search")
endpoint = MultiModelEndpoint(
    stack,
    "Endpoint",
    repository=repository,
    endpoint_name="search",
    initial_instance_count=4,
    server=TritonServer(log_verbose=value("verbose") == "true"),
    environment={"FLEET": value("fleet")},
    deployment=Canary(size=CapacitySize.percent(25), wait=Duration.minutes(int(value("wait")))),
    rollback_alarms=rollback.names,
)
GreenFleetAlarms(stack, "NewFleet", endpoint=endpoint)
scaling = EndpointScaling(
    stack,
    "Scaling",
    endpoint=endpoint,
    min_capacity=int(value("fewest")),
    max_capacity=8,
    targets=[GpuUtilization(percent=int(value("busy")))],
)
slow = Duration.millis(int(value("slow")))
EndpointAlarms(stack, "Alarms", endpoint=endpoint, thresholds=Thresholds(latency_p99=slow))
CfnOutput(stack, "Bucket", value=repository.bucket.bucket_name)
app.synth()
"""
FIRST = {"fleet": "1", "verbose": "false", "wait": "1", "fewest": "4", "busy": "60", "slow": "1000"}
SECOND = {"fleet": "2", "verbose": "true", "wait": "1", "fewest": "5", "busy": "70", "slow": "500"}
# A wait of an hour, which the alarm ends early.
FAILING = {**SECOND, "fleet": "3", "wait": "60", "slow": "250"}

# A minute's wait takes one second.
SPEED = 60.0
SCALED_OUT = 6
ALARM = "search-rollback-NewFleetServerErrors"
BODY = json.dumps({"inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()


class Application(Traffic):
    """An application whose answers are the version, and an operator who sees the third version fail."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting) -> None:
        super().__init__()
        self._cloudwatch = aws.client("cloudwatch")
        self._runtime = runtime_of(aws, hosting)

    def ask(self) -> float:
        answer = self._runtime.invoke_endpoint(EndpointName="search", TargetModel="m.tar.gz", Body=BODY)
        version: float = json.loads(answer["Body"].read())["outputs"][0]["data"][0]
        if version == float(FAILING["fleet"]):
            self._cloudwatch.set_alarm_state(
                AlarmName=ALARM, StateValue="ALARM", StateReason="version 3 fails"
            )
        return version


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state after a deployment."""

    status: str
    endpoint: dict[str, Any]
    environment: dict[str, str]
    target: dict[str, Any]
    policy: dict[str, Any]
    slow: float
    watched_configs: set[str]
    configs: int
    answered_by: set[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The observations over the fleet's life."""

    first: Seen
    second: Seen
    undone: Seen
    reason: str
    failures: list[Exception]
    left: dict[str, list[str]]
    uncreated: list[Any]


def look(aws: EmbeddedAws, answered_by: set[float]) -> Seen:
    sagemaker, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
    [target] = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    [policy] = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    alarms = aws.client("cloudwatch").describe_alarms(AlarmNames=["search-page-Latency", ALARM])
    latency, new_fleet = sorted(alarms["MetricAlarms"], key=lambda alarm: alarm["AlarmName"])
    [stack] = aws.client("cloudformation").describe_stacks(StackName="Fleet")["Stacks"]
    return Seen(
        status=stack["StackStatus"],
        endpoint=described(aws, "search"),
        environment=model_of(aws, "search")["PrimaryContainer"]["Environment"],
        target=target,
        policy=policy,
        slow=latency["Threshold"],
        watched_configs={
            dimension["Value"]
            for query in new_fleet["Metrics"]
            for dimension in query.get("MetricStat", {}).get("Metric", {}).get("Dimensions", ())
            if dimension["Name"] == "EndpointConfigName"
        },
        configs=len(sagemaker.list_endpoint_configs()["EndpointConfigs"]),
        answered_by=answered_by,
    )


def remains(
    aws: EmbeddedAws, besides: Mapping[str, list[str]] = MappingProxyType({})
) -> dict[str, list[str]]:
    """Return what there is by kind, besides what there was before."""
    sagemaker, cloudwatch = aws.client("sagemaker"), aws.client("cloudwatch")
    scaling = aws.client("application-autoscaling")
    found = {
        "stack": [each["StackName"] for each in aws.client("cloudformation").describe_stacks()["Stacks"]],
        "endpoint": [each["EndpointName"] for each in sagemaker.list_endpoints()["Endpoints"]],
        "config": [
            each["EndpointConfigName"] for each in sagemaker.list_endpoint_configs()["EndpointConfigs"]
        ],
        "model": [each["ModelName"] for each in sagemaker.list_models()["Models"]],
        "alarm": [each["AlarmName"] for each in cloudwatch.describe_alarms()["MetricAlarms"]],
        "target": scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"],
        "role": [each["RoleName"] for each in aws.client("iam").list_roles()["Roles"]],
        "logs": [each["logGroupName"] for each in aws.client("logs").describe_log_groups()["logGroups"]],
        "bucket": [each["Name"] for each in aws.client("s3").list_buckets()["Buckets"]],
        "key": [each["KeyId"] for each in aws.client("kms").list_keys()["Keys"]],
    }
    new = {
        kind: [each for each in names if each not in besides.get(kind, [])] for kind, names in found.items()
    }
    return {kind: names for kind, names in new.items() if names}


def context(values: dict[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in ("-c", f"{name}={value}")]


def scale_out(aws: EmbeddedAws) -> None:
    """Scale out, as auto scaling does, and do not scale in, although there is little traffic."""
    aws.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId="endpoint/search/variant/AllTraffic",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        SuspendedState={"DynamicScalingInSuspended": True},
    )
    scale(aws, "search", SCALED_OUT)
    in_service = aws.client("sagemaker").get_waiter("endpoint_in_service")
    in_service.wait(EndpointName="search", WaiterConfig={"Delay": 0.05, "MaxAttempts": 2400})


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    folder = tmp_path_factory.mktemp("life")
    with EmbeddedAws(speed=SPEED) as aws, Hosting(aws) as hosting:
        cdk = cdk_of(aws, write_app(folder / "app", APP))
        cdk.bootstrap()
        bootstrapped = remains(aws)
        bucket = cdk.deploy(*context(FIRST))["Fleet"]["Bucket"]
        uncreated = aws.missing_resources("Fleet")
        body = tarball(python_model(FLEET))
        aws.client("s3").put_object(Bucket=bucket, Key="models/m.tar.gz", Body=body)
        hosting.start("search")
        with Application(aws, hosting) as traffic:
            scale_out(aws)
            first = look(aws, set())
            cdk.deploy(*context(SECOND))
            second = look(aws, traffic.taken())
            with pytest.raises(FleetError) as refused:
                cdk.deploy(*context(FAILING))
            undone = look(aws, traffic.taken())
        cdk.destroy()
        yield Life(
            first=first,
            second=second,
            undone=undone,
            reason=str(refused.value),
            failures=traffic.failures,
            left=remains(aws, besides=bootstrapped),
            uncreated=uncreated,
        )


def test_the_first_deployment_creates_everything_that_the_template_declares(life: Life) -> None:
    assert life.first.status == "CREATE_COMPLETE"
    assert life.uncreated == []


def test_a_changed_configuration_takes_over_while_every_request_is_answered(life: Life) -> None:
    assert life.failures == []
    assert life.second.status == "UPDATE_COMPLETE"
    assert life.second.answered_by == {1.0, 2.0}
    assert life.second.environment["SAGEMAKER_TRITON_LOG_VERBOSE"] == "true"
    assert life.second.endpoint["CreationTime"] == life.first.endpoint["CreationTime"]
    assert life.second.configs == 1


def test_a_deployment_keeps_the_instances_that_scaling_has_made(life: Life) -> None:
    for seen in (life.second, life.undone):
        [live] = seen.endpoint["ProductionVariants"]
        assert (live["CurrentInstanceCount"], live["DesiredInstanceCount"]) == (SCALED_OUT, SCALED_OUT)


def test_limits_and_targets_of_scaling_and_thresholds_of_alarms_change_in_place(life: Life) -> None:
    before, after = life.first, life.second

    assert (before.target["MinCapacity"], after.target["MinCapacity"]) == (4, 5)
    assert after.target["CreationTime"] == before.target["CreationTime"]
    assert (tracked(before), tracked(after)) == (60, 70)
    assert after.policy["PolicyARN"] == before.policy["PolicyARN"]
    assert (before.slow, after.slow) == (1000, 500)


def tracked(seen: Seen) -> float:
    target: float = seen.policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
    return target


def test_a_change_whose_alarm_fires_is_undone_with_everything_that_came_with_it(life: Life) -> None:
    assert life.undone.status == "UPDATE_ROLLBACK_COMPLETE"
    assert life.undone.endpoint["EndpointStatus"] == "InService"
    assert life.undone.endpoint["EndpointConfigName"] == life.second.endpoint["EndpointConfigName"]
    assert life.undone.answered_by == {2.0, 3.0}
    assert life.undone.environment["FLEET"] == "2"
    assert life.undone.slow == life.second.slow
    assert life.undone.configs == 1


def test_the_alarms_of_the_new_fleet_follow_the_endpoint_from_configuration_to_configuration(
    life: Life,
) -> None:
    for seen in (life.first, life.second, life.undone):
        assert seen.watched_configs == {seen.endpoint["EndpointConfigName"]}


def test_the_command_line_fails_and_names_the_alarm_that_undid_the_change(life: Life) -> None:
    assert "cdk deploy failed with status 1" in life.reason
    assert ALARM in life.reason


def test_what_is_destroyed_leaves_nothing_but_the_models_their_key_and_logs(life: Life) -> None:
    assert set(life.left) == {"bucket", "key", "logs"}
    assert len(life.left["bucket"]) == 1
