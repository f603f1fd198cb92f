"""EventBridge in the embedded AWS: the events that invoke a function, its input, and SageMaker's events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aws_for_tests.deployed_functions import ACCOUNT, function_arn, functions, noted, notes, settle
from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import served
from embedded_aws import EmbeddedAws
from embedded_aws.moto_gaps.events import publish_event

# Notes its event under the event's key.
NOTES = """
    import json, os, urllib.request

    def handler(event, context):
        key = event.get("key") or event["detail"].get("key") or event["detail"]["EndpointStatus"]
        url = f"{os.environ['AWS_ENDPOINT_URL']}/notes/{key}?AWSAccessKeyId={os.environ['AWS_ACCESS_KEY_ID']}"
        body = json.dumps(event).encode()
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT"))
"""
BAKING = {
    "detail": {"PendingDeploymentSummary": {"ProductionVariants": {"VariantStatus": {"Status": ["Baking"]}}}}
}
TARGET = {"Id": "function", "Arn": {"Fn::GetAtt": ["Notes", "Arn"]}}
PERMISSION = {
    "Type": "AWS::Lambda::Permission",
    "Properties": {
        "FunctionName": {"Fn::GetAtt": ["Notes", "Arn"]},
        "Action": "lambda:InvokeFunction",
        "Principal": "events.amazonaws.com",
        "SourceArn": {"Fn::GetAtt": ["Rule", "Arn"]},
    },
}
FROM_SAGEMAKER = {"source": ["aws.sagemaker"]}
aws = aws_fixture(bucket="notes")


def ruled(pattern: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a template's resources: a function that notes its events, and a rule that invokes it."""
    properties = {"EventPattern": pattern, "Targets": [TARGET], **more}
    return {
        **functions(notes=NOTES),
        "Rule": {"Type": "AWS::Events::Rule", "Properties": properties},
        "Permission": PERMISSION,
    }


def publish(key: str, *, source: str = "aws.sagemaker", **detail: Any) -> None:
    publish_event(
        source=source,
        detail_type="Something",
        detail={"key": key, **detail},
        resources=["arn:aws:sagemaker:us-east-1:123456789012:endpoint/e"],
        account=ACCOUNT,
        region="us-east-1",
    )


def baking(status: str) -> dict[str, Any]:
    """Return the part of SageMaker's event with the progress of a deployment."""
    variant = {"VariantName": "AllTraffic", "VariantStatus": [{"Status": status}]}
    return {"PendingDeploymentSummary": {"ProductionVariants": [variant]}}


@pytest.mark.parametrize(
    ("pattern", "event"),
    [
        (BAKING, baking("Creating")),
        (
            {"detail": {"PendingDeploymentSummary": {"ProductionVariants": {"A": ["1"], "B": ["2"]}}}},
            {"PendingDeploymentSummary": {"ProductionVariants": [{"A": "1"}, {"B": "2"}]}},
        ),
    ],
    ids=["status", "two-elements"],
)
def test_an_event_that_does_not_match_starts_nothing(
    aws: EmbeddedAws, pattern: dict[str, Any], event: dict[str, Any]
) -> None:
    settle(aws, {**ruled(pattern), **always()})

    publish("event", **event)

    noted(aws, "always")
    assert notes(aws) == ["always"]


def permission(rule: Any) -> dict[str, Any]:
    """Return a permission of the function for a rule."""
    return {**PERMISSION, "Properties": {**PERMISSION["Properties"], "SourceArn": rule}}


def always() -> dict[str, Any]:
    """Return a second rule for every event: once its function has run, the first rule has been evaluated."""
    target = {**TARGET, "Input": json.dumps({"key": "always"})}
    rule = {"EventPattern": {"account": [ACCOUNT]}, "Targets": [target]}
    return {
        "Always": {"Type": "AWS::Events::Rule", "DependsOn": "Rule", "Properties": rule},
        "May": permission({"Fn::GetAtt": ["Always", "Arn"]}),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"Permission": always()["May"]},
        {"Permission": permission("arn:aws:events:us-east-1:123456789012:rule/another")},
        ruled(FROM_SAGEMAKER, State="DISABLED"),
    ],
    ids=["no permission", "another rule's permission", "disabled"],
)
def test_a_rule_without_a_permission_or_disabled_starts_nothing(
    aws: EmbeddedAws, changed: dict[str, Any]
) -> None:
    settle(aws, {**ruled(FROM_SAGEMAKER), **always(), **changed})

    publish("refused")

    noted(aws, "always")
    assert notes(aws) == ["always"]


def test_a_target_may_have_an_input_of_its_own_or_one_made_from_the_event(aws: EmbeddedAws) -> None:
    transformer = {
        "InputPathsMap": {"name": "$.detail.EndpointName", "variants": "$.detail.variants"},
        "InputTemplate": '{"key": "made", "endpoint": <name>, "text": "is <name>", "variants": <variants>}',
    }
    given = {**TARGET, "Id": "given", "Input": '{"key": "given"}'}
    settle(aws, ruled(FROM_SAGEMAKER, Targets=[{**TARGET, "InputTransformer": transformer}, given]))

    publish("event", EndpointName="search", variants=["a"])

    assert noted(aws, "made") == {"key": "made", "endpoint": "search", "text": "is search", "variants": ["a"]}
    assert noted(aws, "given") == {"key": "given"}


def test_sagemaker_tells_of_every_status_of_an_endpoint(aws: EmbeddedAws) -> None:
    settle(aws, ruled({"detail-type": ["SageMaker Endpoint State Change"]}))
    sagemaker = served(aws)
    variants = sagemaker.describe_endpoint_config(EndpointConfigName="c")["ProductionVariants"]
    sagemaker.create_endpoint_config(EndpointConfigName="d", ProductionVariants=variants)
    arn = sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="d")["EndpointArn"]
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e")
    sagemaker.delete_endpoint(EndpointName="e")

    event = noted(aws, "IN_SERVICE")
    assert event["source"] == "aws.sagemaker"
    assert event["resources"] == [arn]
    assert event["detail"]["EndpointName"] == "e"
    assert event["detail"]["EndpointArn"] == arn
    assert isinstance(event["detail"]["CreationTime"], int)
    for status in ("CREATING", "UPDATING", "DELETING"):
        assert noted(aws, status)["detail"]["EndpointStatus"] == status


def test_an_alarm_invokes_the_functions_that_permit_it(aws: EmbeddedAws) -> None:
    reads_the_alarm = NOTES.replace('event.get("key")', 'event["alarmData"]["state"]["value"]')
    permission = {
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            **PERMISSION["Properties"],
            "Principal": "lambda.alarms.cloudwatch.amazonaws.com",
            "SourceArn": f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:full",
        },
    }
    settle(aws, {**functions(notes=reads_the_alarm, other=reads_the_alarm), "Permission": permission})
    cloudwatch = aws.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="full",
        Namespace="Disk",
        MetricName="Used",
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=90.0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[function_arn("notes"), function_arn("other")],
    )

    cloudwatch.set_alarm_state(AlarmName="full", StateValue="ALARM", StateReason="a test")

    assert noted(aws, "ALARM")["alarmData"]["alarmName"] == "full"
    entries = cloudwatch.describe_alarm_history(AlarmName="full", HistoryItemType="Action")
    outcomes = [json.loads(entry["HistoryData"]) for entry in entries["AlarmHistoryItems"]]
    assert {(each["notificationResource"], each["actionState"]) for each in outcomes} == {
        (function_arn("notes"), "Succeeded"),
        (function_arn("other"), "Failed"),
    }
