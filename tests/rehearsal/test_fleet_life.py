"""A fleet's life with the real CDK command line: deployed, changed under traffic, rolled back, destroyed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
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

    @property
    def tracked(self) -> float:
        return float(self.policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"])


def look(aws: EmbeddedAws) -> Seen:
    scaling = aws.client("application-autoscaling")
    [target] = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    [policy] = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    alarms = aws.client("cloudwatch").describe_alarms(AlarmNames=["search-page-Latency", ALARM])
    latency, new_fleet = sorted(alarms["MetricAlarms"], key=lambda alarm: alarm["AlarmName"])
    [stack] = aws.client("cloudformation").describe_stacks(StackName="Fleet")["Stacks"]
    seen = Seen(
        status=stack["StackStatus"],
        endpoint=described(aws, "search"),
        environment=model_of(aws, "search")["PrimaryContainer"]["Environment"],
        target=target,
        policy=policy,
        slow=latency["Threshold"],
    )
    watched = {
        dimension["Value"]
        for query in new_fleet["Metrics"]
        for dimension in query.get("MetricStat", {}).get("Metric", {}).get("Dimensions", ())
        if dimension["Name"] == "EndpointConfigName"
    }
    [config] = aws.client("sagemaker").list_endpoint_configs()["EndpointConfigs"]
    assert {config["EndpointConfigName"]} == watched == {seen.endpoint["EndpointConfigName"]}
    return seen


def existing(aws: EmbeddedAws) -> set[tuple[str, str]]:
    """Return the kind and name of what there is."""
    sagemaker, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
    targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    found: dict[str, tuple[Any, str]] = {
        "stack": (aws.client("cloudformation").describe_stacks()["Stacks"], "StackName"),
        "endpoint": (sagemaker.list_endpoints()["Endpoints"], "EndpointName"),
        "config": (sagemaker.list_endpoint_configs()["EndpointConfigs"], "EndpointConfigName"),
        "model": (sagemaker.list_models()["Models"], "ModelName"),
        "alarm": (aws.client("cloudwatch").describe_alarms()["MetricAlarms"], "AlarmName"),
        "target": (targets, "ResourceId"),
        "role": (aws.client("iam").list_roles()["Roles"], "RoleName"),
        "logs": (aws.client("logs").describe_log_groups()["logGroups"], "logGroupName"),
        "bucket": (aws.client("s3").list_buckets()["Buckets"], "Name"),
        "key": (aws.client("kms").list_keys()["Keys"], "KeyId"),
    }
    return {(kind, each[name]) for kind, (rows, name) in found.items() for each in rows}


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


def scaled_out(seen: Seen) -> bool:
    """Return True if a deployment has kept the instances that scaling has made."""
    [live] = seen.endpoint["ProductionVariants"]
    return (live["CurrentInstanceCount"], live["DesiredInstanceCount"]) == (SCALED_OUT, SCALED_OUT)


def test_a_fleet_is_deployed_changed_in_place_rolled_back_by_its_alarm_and_destroyed_under_traffic(
    tmp_path: Path,
) -> None:
    with EmbeddedAws(speed=SPEED) as aws, Hosting(aws) as hosting:
        cdk = cdk_of(aws, write_app(tmp_path / "app", APP))
        cdk.bootstrap()
        bootstrapped = existing(aws)
        bucket = cdk.deploy(*context(FIRST))["Fleet"]["Bucket"]
        assert aws.missing_resources("Fleet") == []
        body = tarball(python_model(FLEET))
        aws.client("s3").put_object(Bucket=bucket, Key="models/m.tar.gz", Body=body)
        hosting.start("search")
        with Application(aws, hosting) as traffic:
            scale_out(aws)
            first = look(aws)
            cdk.deploy(*context(SECOND))
            second, answers_of_second = look(aws), traffic.taken()
            with pytest.raises(FleetError, match="cdk deploy failed with status 1") as refused:
                cdk.deploy(*context(FAILING))
            undone, answers_of_undone = look(aws), traffic.taken()
        cdk.destroy()
        left = [kind for kind, _ in existing(aws) - bootstrapped]

    assert traffic.failures == []
    assert first.status == "CREATE_COMPLETE"

    assert second.status == "UPDATE_COMPLETE"
    assert answers_of_second == {1.0, 2.0}
    assert second.environment["SAGEMAKER_TRITON_LOG_VERBOSE"] == "true"
    assert second.endpoint["CreationTime"] == first.endpoint["CreationTime"]
    assert (first.target["MinCapacity"], second.target["MinCapacity"]) == (4, 5)
    assert second.target["CreationTime"] == first.target["CreationTime"]
    assert (first.tracked, second.tracked) == (60, 70)
    assert second.policy["PolicyARN"] == first.policy["PolicyARN"]
    assert (first.slow, second.slow) == (1000, 500)
    assert scaled_out(second)

    assert ALARM in str(refused.value)
    assert undone.status == "UPDATE_ROLLBACK_COMPLETE"
    assert undone.endpoint["EndpointStatus"] == "InService"
    assert undone.endpoint["EndpointConfigName"] == second.endpoint["EndpointConfigName"]
    assert answers_of_undone == {2.0, 3.0}
    assert undone.environment["FLEET"] == "2"
    assert undone.slow == second.slow
    assert scaled_out(undone)

    assert set(left) == {"bucket", "key", "logs"}
    assert left.count("bucket") == 1
