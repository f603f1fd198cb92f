from __future__ import annotations

import re
from typing import Any

from aws_cdk import Stack
from aws_cdk.assertions import Template
from synthesised import Resources

from triton_fleet import AlarmTopic, EndpointAlarms, EndpointScaling, MultiModelEndpoint, Thresholds

PAGES = {"fleet-page-ServerErrors", "fleet-page-ModelErrors", "fleet-page-Latency"}
TICKETS = {"fleet-ticket-Thrash", "fleet-ticket-Disk", "fleet-ticket-GpuMemory"}


def _alarms(resources: Resources) -> dict[str, dict[str, Any]]:
    return {each["AlarmName"]: each for each in resources("AWS::CloudWatch::Alarm")}


def test_an_endpoint_has_alarms_that_page_and_alarms_that_are_tickets(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)

    assert set(_alarms(resources)) == PAGES | TICKETS


def test_a_scaled_endpoint_also_tells_when_it_can_grow_no_more(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, max_capacity=6)
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)
    alarm = _alarms(resources)["fleet-ticket-ScaledToMaximum"]

    assert alarm["Threshold"] == 5.5
    assert alarm["Metrics"][0]["Expression"] == "requests / requests_an_instance"


def test_every_threshold_reaches_its_alarm(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    thresholds = Thresholds(
        server_error_percent=2,
        model_error_percent=7,
        latency_p99_ms=250,
        disk_percent=70,
        gpu_memory_percent=90,
    )
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, thresholds=thresholds)
    alarms = _alarms(resources)

    assert {name: alarm["Threshold"] for name, alarm in alarms.items()} == {
        "fleet-page-ServerErrors": 2,
        "fleet-page-ModelErrors": 7,
        "fleet-page-Latency": 250,
        "fleet-ticket-Thrash": 0,
        "fleet-ticket-Disk": 70,
        "fleet-ticket-GpuMemory": 90,
    }
    assert {alarm["ComparisonOperator"] for alarm in alarms.values()} == {"GreaterThanThreshold"}


def test_thrash_is_any_eviction_below_the_wanted_hit_ratio(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, thresholds=Thresholds(cache_hit_percent=65))
    alarm = _alarms(resources)["fleet-ticket-Thrash"]

    assert "< 65" in alarm["Metrics"][0]["Expression"]
    assert alarm["Threshold"] == 0


def test_a_minute_without_requests_is_no_failure(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)

    assert {each["TreatMissingData"] for each in _alarms(resources).values()} == {"notBreaching"}


def test_an_alarm_names_the_endpoint_by_a_literal(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    (query,) = _alarms(resources)["fleet-ticket-Disk"]["Metrics"]
    dimensions = query["MetricStat"]["Metric"]["Dimensions"]

    assert {each["Name"]: each["Value"] for each in dimensions} == {
        "EndpointName": "fleet",
        "VariantName": "AllTraffic",
    }


def test_every_alarm_says_what_to_do(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)

    for alarm in _alarms(resources).values():
        what, runbook = alarm["AlarmDescription"].split("\n\nWhat to do: ")
        assert what.endswith(".")
        assert len(runbook) > 40


def test_one_outage_is_one_page(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")
    rule = str(composite["AlarmRule"])

    assert composite["AlarmName"] == "fleet-page"
    assert len(re.findall("ALARM\\(", rule)) == len(PAGES)
    assert all(name.rsplit("-", 1)[1] in rule for name in PAGES)


def test_the_topic_gets_the_page_and_the_tickets_and_nothing_twice(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    topic = AlarmTopic(stack, "Notifications", email="on-call@example.com").topic
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, topic=topic)
    told = {name for name, alarm in _alarms(resources).items() if "AlarmActions" in alarm}
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")

    assert told == TICKETS
    assert len(composite["AlarmActions"]) == len(composite["OKActions"]) == 1


def test_the_topic_is_encrypted_and_open_to_this_accounts_alarms_only(
    stack: Stack, resources: Resources
) -> None:
    AlarmTopic(stack, "Notifications", email="on-call@example.com")
    (topic,) = resources("AWS::SNS::Topic")
    (key,) = resources("AWS::KMS::Key")
    (policy,) = resources("AWS::SNS::TopicPolicy")
    of_cloudwatch = [
        statement
        for document in (key["KeyPolicy"], policy["PolicyDocument"])
        for statement in document["Statement"]
        if statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    ]

    assert "KmsMasterKeyId" in topic
    actions = [each["Action"] for each in of_cloudwatch]
    assert actions == [["kms:Decrypt", "kms:GenerateDataKey"], "sns:Publish"]
    assert all("aws:SourceAccount" in each["Condition"]["StringEquals"] for each in of_cloudwatch)
    Template.from_stack(stack).has_resource_properties(
        "AWS::SNS::Subscription", {"Protocol": "email", "Endpoint": "on-call@example.com"}
    )


def test_alarms_of_two_endpoints_do_not_collide(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=endpoint.repository, endpoint_name="second")
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    EndpointAlarms(stack, "SecondAlarms", endpoint=second)

    assert len(_alarms(resources)) == 2 * len(PAGES | TICKETS)
