"""Beliefs about endpoints and their updates that need no GPU, at a fifth of the price."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conformance import endpoints
from conformance.account import CPU_TYPE, Account, hindrance, refusal
from conformance.beliefs import account
from conformance.endpoints import INSPECTOR, invoke, markers
from conformance.models import model
from conformance.records import Asked
from conformance.sweep import VARIANT, busy

pytestmark = account(minutes=0)  # unless a test says otherwise
hosted = endpoints.hosted

A_MINUTE = 0.269 / 60  # of ml.m5.xlarge
INTERVAL_S = 10
OTHER_COUNT = 2
QUIET = {"TreatMissingData": "notBreaching"}


def costs(minutes: float, instance_minutes: float, **more: Any) -> pytest.MarkDecorator:
    """Mark a test with its duration and the minutes for which its instances are paid."""
    return account(minutes=minutes, dollars=round(instance_minutes * A_MINUTE, 3), **more)


def variant(aws: Account, model_name: str, **more: Any) -> dict[str, Any]:
    return aws.variant(model_name, InstanceType=CPU_TYPE, **more)


@pytest.fixture(scope="module")
def started(aws: Account) -> Mapping[str, Any]:
    """The endpoint of the release's image on a type without a GPU, with metrics every ten seconds."""
    aws.put(INSPECTOR, model(markers(aws)))
    name, metrics = endpoints.container(aws, "Cpu"), {"MetricPublishFrequencyInSeconds": INTERVAL_S}
    one = variant(aws, name)
    if refused := refusal(lambda: aws.configuration("Cpu", one, MetricsConfig=metrics)):
        aws.configuration("Cpu", one)
    endpoints.create(aws, name, name)
    found = endpoints.settled(aws, name)
    why = str(found.get("FailureReason", ""))
    return {"name": name, "status": found["EndpointStatus"], "why": why, "metrics_refused": refused}


@pytest.fixture(scope="module")
def endpoint(aws: Account, started: Mapping[str, Any]) -> str:
    return endpoints.serving(aws, started["name"])


@costs(15, 18, creates="a bucket, a role, a log group, a model, a configuration, an endpoint")
def test_the_image_for_gpus_serves_without_one(aws: Account, started: Mapping[str, Any], ask: Asked) -> None:
    if why := hindrance(started["why"]):
        pytest.skip(why)
    assert ask(lambda: started["status"], "its status") == "InService", started["why"]
    assert ask(lambda: invoke(aws, started["name"], INSPECTOR)["answer"], "its answer") == {"version": 1}


@costs(6, 6, alone="the metrics of a host")
def test_metrics_come_in_the_interval_that_was_asked_for(
    aws: Account, endpoint: str, started: Mapping[str, Any], ask: Asked
) -> None:
    def points() -> list[Any]:
        found = aws.statistics(endpoint, "CPUUtilization", period=INTERVAL_S, statistic="SampleCount")
        return found if len(found) >= 4 else []

    def interval() -> float | None:
        times = [each["Timestamp"] for each in aws.watch(points, minutes=6)]
        gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
        return statistics.median(gaps) if gaps else None  # a load may add a data point in between

    assert ask(lambda: started["metrics_refused"], "refused") == ""
    assert (ask(interval, "seconds") or 1e9) <= INTERVAL_S


@pytest.fixture(scope="module")
def updated(aws: Account, endpoint: str) -> Mapping[str, Any]:
    """The endpoint after an update to two instances that retains its one, watched by an alarm."""
    sagemaker, deployment = aws.client("sagemaker"), endpoints.deployment(aws, aws.alarm("quiet", **QUIET))
    config = aws.configuration("kept", variant(aws, endpoint, InitialInstanceCount=OTHER_COUNT))
    move = {"EndpointName": endpoint, "EndpointConfigName": config, "RetainAllVariantProperties": True}
    try:
        sagemaker.update_endpoint(**move, DeploymentConfig=deployment)
        found = endpoints.settled(aws, endpoint)
        why = str(found.get("FailureReason", ""))
    except ClientError as error:
        found, why = {}, str(error)
    if why and "larm" not in why:
        pytest.skip(hindrance(why) or why)
    return {"refused": why, "variants": found.get("ProductionVariants", ())}


@costs(15, 30, creates="an alarm, a configuration, one more instance")
def test_an_update_reads_its_alarms_with_the_endpoints_role(updated: Mapping[str, Any], ask: Asked) -> None:
    assert ask(lambda: updated["refused"]) == ""


def test_an_update_retains_the_count(updated: Mapping[str, Any], ask: Asked) -> None:
    if updated["refused"]:
        pytest.skip(updated["refused"])
    assert ask(lambda: updated["variants"][0]["DesiredInstanceCount"]) == 1


@pytest.fixture(scope="module")
def undone(aws: Account, started: Mapping[str, Any]) -> Mapping[str, Any]:
    """Another endpoint: deleted while it starts, then updated with an alarm that is in ALARM already.

    Meanwhile auto scaling asks for two instances.
    """
    aws.put(INSPECTOR, model(markers(aws)))
    del started
    name, sagemaker = endpoints.container(aws, "Undone"), aws.client("sagemaker")
    for suffix in ("Undone", "never"):
        aws.configuration(suffix, variant(aws, name))
    endpoints.create(aws, name, name)
    seen: dict[str, Any] = {"deletion": ""}
    if not aws.embedded:  # where it is in service at once
        seen["deletion"] = refusal(lambda: sagemaker.delete_endpoint(EndpointName=name))
        if not seen["deletion"]:
            return seen
    endpoints.serving(aws, name)
    invoke(aws, name, INSPECTOR)
    alarm = aws.alarm("loud", TreatMissingData="breaching")
    if aws.embedded:
        aws.embedded.evaluate()

    def fires() -> bool | None:
        [shown] = aws.client("cloudwatch").describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
        return True if shown["StateValue"] == "ALARM" else None

    aws.until(fires, minutes=10, what="the alarm")
    move = {"EndpointName": name, "EndpointConfigName": aws.name("never")}
    sagemaker.update_endpoint(**move, DeploymentConfig=endpoints.deployment(aws, alarm))
    target = {**VARIANT, "ResourceId": f"endpoint/{name}/variant/AllTraffic"}
    wanted = {"MinCapacity": OTHER_COUNT, "MaxCapacity": OTHER_COUNT}
    scaling, counts = aws.client("application-autoscaling"), set()
    try:
        scaling.register_scalable_target(**target, **wanted)
    except ClientError as error:
        if not busy(error):
            raise
        counts.add(1)
    busy_states = {"Updating", "RollingBack"}
    while (found := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] in busy_states:
        counts.update(each["DesiredInstanceCount"] for each in found["ProductionVariants"])
        aws.pause()
    ended = [found["EndpointStatus"], found["EndpointConfigName"] == name]
    return {**seen, "ended": ended, "why": found.get("FailureReason", ""), "counts": sorted(counts)}


@costs(30, 45, alone="the time that an instance takes", creates="an alarm, a scalable target, an endpoint")
def test_an_endpoint_that_is_creating_is_not_deleted(undone: Mapping[str, Any], ask: Asked) -> None:
    assert ask(lambda: undone["deletion"])


def test_an_alarm_from_before_an_update_ends_it(undone: Mapping[str, Any], ask: Asked) -> None:
    if "not authorized" in undone.get("why", ""):
        pytest.skip(undone["why"])
    assert ask(lambda: undone["ended"]) == ["InService", True]


def test_auto_scaling_does_nothing_during_an_update(undone: Mapping[str, Any], ask: Asked) -> None:
    if not undone["counts"]:
        pytest.skip("the update ended too soon")
    assert ask(lambda: undone["counts"]) == [1]
