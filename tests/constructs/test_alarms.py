from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from botocore.validate import ParamValidator
from cfnlint.api import ManualArgs, lint
from synthesised import Resources

from triton_fleet import (
    AlarmTopic,
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    FleetError,
    ModelRepository,
    MultiModelEndpoint,
    Thresholds,
)
from triton_fleet.endpoint.hosting.deployment import Canary, Rolling
from triton_fleet.operations.rollback import RollbackAlarms

PAGES = {"fleet-page-ServerErrors", "fleet-page-ModelErrors", "fleet-page-Latency"}
TICKETS = {"fleet-ticket-Thrash", "fleet-ticket-Disk", "fleet-ticket-GpuMemory", "fleet-ticket-Silent"}


Alarms = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def alarms(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Alarms:
    """Declares the alarms of the endpoint; gives the properties of each by its name."""

    def declared(**arguments: Any) -> dict[str, dict[str, Any]]:
        EndpointAlarms(stack, "Alarms", endpoint=endpoint, **arguments)
        return _alarms(resources)

    return declared


def _alarms(resources: Resources) -> dict[str, dict[str, Any]]:
    return {each["AlarmName"]: each for each in resources("AWS::CloudWatch::Alarm")}


def test_an_endpoint_has_alarms_that_page_and_alarms_that_are_tickets(alarms: Alarms) -> None:
    assert set(alarms()) == PAGES | TICKETS


def test_a_scaled_endpoint_also_tells_when_it_can_grow_no_more(
    stack: Stack, endpoint: MultiModelEndpoint, alarms: Alarms
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, max_capacity=6)
    alarm = alarms(scaling=scaling)["fleet-ticket-ScaledToMaximum"]

    assert alarm["Threshold"] == 5.5
    assert alarm["Metrics"][0]["Expression"] == "requests / requests_an_instance"


def test_an_endpoint_that_cannot_grow_is_not_at_its_maximum(
    stack: Stack, endpoint: MultiModelEndpoint, alarms: Alarms
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=2)

    assert set(alarms(scaling=scaling)) == PAGES | TICKETS | {"fleet-ticket-NoCapacity"}


def test_every_threshold_reaches_its_alarm(alarms: Alarms) -> None:
    thresholds = Thresholds(
        server_error_percent=2,
        model_error_percent=7,
        latency_p99=Duration.millis(250),
        disk_percent=70,
        gpu_memory_percent=90,
    )
    alarms = alarms(thresholds=thresholds)

    assert {name: alarm["Threshold"] for name, alarm in alarms.items()} == {
        "fleet-page-ServerErrors": 2,
        "fleet-page-ModelErrors": 7,
        "fleet-page-Latency": 250,
        "fleet-ticket-Thrash": 0,
        "fleet-ticket-Disk": 70,
        "fleet-ticket-GpuMemory": 90,
        "fleet-ticket-Silent": 0,
    }
    assert {alarm["ComparisonOperator"] for alarm in alarms.values()} == {"GreaterThanThreshold"}


def test_thrash_is_any_eviction_below_the_wanted_hit_ratio(alarms: Alarms) -> None:
    alarm = alarms(thresholds=Thresholds(cache_hit_percent=65))["fleet-ticket-Thrash"]

    assert "< 65" in alarm["Metrics"][0]["Expression"]
    assert alarm["Threshold"] == 0


def test_a_minute_without_requests_is_no_failure(alarms: Alarms) -> None:
    assert {each["TreatMissingData"] for each in alarms().values()} == {"notBreaching"}


def test_an_alarm_names_the_endpoint_by_a_literal(alarms: Alarms) -> None:
    (query,) = alarms()["fleet-ticket-Disk"]["Metrics"]
    dimensions = query["MetricStat"]["Metric"]["Dimensions"]

    assert {each["Name"]: each["Value"] for each in dimensions} == {
        "EndpointName": "fleet",
        "VariantName": "AllTraffic",
    }


def test_one_outage_is_one_page(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> None:
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")
    rule = str(composite["AlarmRule"])

    assert composite["AlarmName"] == "fleet-page"
    assert len(re.findall("ALARM\\(", rule)) == len(PAGES)
    assert all(name.rsplit("-", 1)[1] in rule for name in PAGES)


def test_the_topic_gets_the_page_and_the_tickets_and_nothing_twice(
    stack: Stack, resources: Resources, alarms: Alarms
) -> None:
    topic = AlarmTopic(stack, "Notifications", email="on-call@example.com").topic
    notified = {name for name, alarm in alarms(topic=topic).items() if "AlarmActions" in alarm}
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")

    assert notified == TICKETS
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


def _expression(alarm: dict[str, Any]) -> str:
    return str(next(query["Expression"] for query in alarm["Metrics"] if "Expression" in query))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_what_pages_counts_only_minutes_with_enough_requests(name: str, alarms: Alarms) -> None:
    assert _expression(alarms(thresholds=Thresholds(minimum_requests=42))[name]).startswith(
        "IF(FILL(requests, 0) >= 42, "
    )


def test_instances_are_missing_below_the_minimum_or_when_a_busy_fleet_does_not_grow(
    stack: Stack, endpoint: MultiModelEndpoint, alarms: Alarms
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=6)
    alarm = alarms(scaling=scaling, thresholds=Thresholds(busy_percent=80))["fleet-ticket-NoCapacity"]

    assert _expression(alarm) == (
        "IF(requests / requests_an_instance < 2 - 0.5"
        " OR (busy > 80 * 1 AND requests / requests_an_instance < 6 - 0.5), 1, 0)"
    )
    assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (0, 20, 20)


def test_a_fleet_of_fixed_size_misses_instances_below_that_size(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    fixed = MultiModelEndpoint(
        stack, "Endpoint", repository=repository, endpoint_name="fleet", initial_instance_count=3
    )
    EndpointAlarms(stack, "Alarms", endpoint=fixed)

    assert "< 3 - 0.5" in _expression(_alarms(resources)["fleet-ticket-NoCapacity"])


def test_silence_is_requests_without_any_report_from_a_host(alarms: Alarms) -> None:
    alarm = alarms()["fleet-ticket-Silent"]
    statistics = {
        query["Id"]: query["MetricStat"]["Stat"] for query in alarm["Metrics"] if "MetricStat" in query
    }

    assert _expression(alarm) == "IF(FILL(requests, 0) > 0 AND FILL(reports, 0) == 0, 1, 0)"
    assert statistics == {"requests": "Sum", "reports": "SampleCount"}


def test_loads_that_fail_are_counted_in_the_log(
    endpoint: MultiModelEndpoint, resources: Resources, alarms: Alarms
) -> None:
    (query,) = alarms(log_group=endpoint.log_group)["fleet-ticket-LoadFailures"]["Metrics"]
    (counter,) = resources("AWS::Logs::MetricFilter")
    (transformation,) = counter["MetricTransformations"]
    metric = query["MetricStat"]["Metric"]

    assert counter["FilterPattern"].startswith(
        '"failed to load \'" "\' version " -"CUDA out of memory" -"CUDA'
    )
    assert transformation["MetricValue"] == "1"
    counted = (transformation["MetricNamespace"], transformation["MetricName"])
    assert (
        counted == (metric["Namespace"], metric["MetricName"]) == ("TritonFleet/fleet", "ModelLoadFailures")
    )


def test_tickets_can_go_to_other_people_than_pages(
    stack: Stack, resources: Resources, alarms: Alarms
) -> None:
    found = alarms(topic=sns.Topic(stack, "OnCall"), ticket_topic=sns.Topic(stack, "Team"))
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")
    notified = {str(alarm.get("AlarmActions")) for alarm in found.values()} - {"None"}

    assert "OnCall" in str(composite["AlarmActions"])
    assert len(notified) == 1
    assert "Team" in notified.pop()


def test_all_thresholds_that_no_metric_can_pass_are_reported_together(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    with pytest.raises(FleetError) as caught:
        EndpointAlarms(
            stack,
            "Alarms",
            endpoint=endpoint,
            thresholds=Thresholds(disk_percent=100, latency_p99=Duration.millis(0), minimum_requests=0),
        )

    assert [problem.where for problem in caught.value.problems] == [
        "disk_percent of thresholds of Fleet/Alarms",
        "minimum_requests of thresholds of Fleet/Alarms",
        "latency_p99 of thresholds of Fleet/Alarms",
    ]


def test_thresholds_may_come_with_the_deployment(stack: Stack, alarms: Alarms) -> None:
    number = CfnParameter(stack, "Number", type="Number").value_as_number
    alarm = alarms(thresholds=Thresholds(latency_p99=Duration.millis(number), minimum_requests=number))[
        "fleet-page-Latency"
    ]

    assert alarm["Threshold"] == {"Ref": "Number"}
    assert {"Ref": "Number"} in alarm["Metrics"][0]["Expression"]["Fn::Join"][1]


def test_what_a_cold_start_causes_rolls_nothing_back(stack: Stack, resources: Resources) -> None:
    RollbackAlarms(stack, "Rollback", endpoint_name="fleet")
    watched = {
        query["MetricStat"]["Metric"]["MetricName"]
        for alarm in resources("AWS::CloudWatch::Alarm")
        for query in alarm["Metrics"]
        if "MetricStat" in query
    }

    assert watched == {"Invocations", "Invocation5XXErrors", "InvocationModelErrors"}


def test_a_rollback_is_decided_within_the_wait_of_every_deployment(
    stack: Stack, resources: Resources
) -> None:
    RollbackAlarms(stack, "Rollback", endpoint_name="fleet")
    longest = max(alarm["EvaluationPeriods"] for alarm in resources("AWS::CloudWatch::Alarm"))

    assert longest * 60 * 2 <= Canary().wait.to_seconds()


def test_a_few_failures_of_few_requests_roll_nothing_back(stack: Stack, resources: Resources) -> None:
    RollbackAlarms(stack, "Rollback", endpoint_name="fleet", thresholds=Thresholds(minimum_requests=7))

    for alarm in resources("AWS::CloudWatch::Alarm"):
        assert _expression(alarm) == "IF(FILL(requests, 0) >= 7, FILL(failed, 0) / requests * 100, 0)"


def test_a_rollback_alarm_needs_the_name_itself(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    with pytest.raises(FleetError, match="endpoint_name is known only when the stack is deployed"):
        RollbackAlarms(stack, "Rollback", endpoint_name=endpoint.endpoint_name)


def test_rollback_alarms_of_two_variants_do_not_collide(stack: Stack, resources: Resources) -> None:
    RollbackAlarms(stack, "First", endpoint_name="fleet")
    RollbackAlarms(stack, "Second", endpoint_name="fleet", variant_name="Blue")

    assert len({each["AlarmName"] for each in resources("AWS::CloudWatch::Alarm")}) == 4


def test_the_endpoint_of_one_statement_takes_the_alarms_that_roll_it_back(
    stack: Stack, repository: ModelRepository
) -> None:
    rollback = RollbackAlarms(stack, "Rollback", endpoint_name="fleet")
    MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        endpoint_name="fleet",
        initial_instance_count=4,
        deployment=Rolling(),
        rollback_alarms=rollback.names,
    )
    template = Template.from_stack(stack).to_json()["Resources"]  # refuses a circle of references

    (endpoint,) = (each for each in template.values() if each["Type"] == "AWS::SageMaker::Endpoint")
    alarms = endpoint["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    named = [template[each["AlarmName"]["Ref"]] for each in alarms]
    assert [each["Properties"]["AlarmName"] for each in named] == [
        "fleet-rollback-ServerErrors",
        "fleet-rollback-ModelErrors",
    ]
    assert "Ref" not in str(named)  # they exist before the endpoint does


def test_the_scaling_of_another_endpoint_is_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=endpoint.repository, endpoint_name="second")
    scaling = EndpointScaling(stack, "Scaling", endpoint=second)

    with pytest.raises(FleetError, match="same-variant"):
        EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)


@pytest.fixture
def everything(stack: Stack, endpoint: MultiModelEndpoint) -> Stack:
    """Declare every alarm, a dashboard of them, and a topic."""
    RollbackAlarms(stack, "Rollback", endpoint_name="fleet")
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint)
    alarms = EndpointAlarms(
        stack,
        "Alarms",
        endpoint=endpoint,
        scaling=scaling,
        log_group=endpoint.log_group,
        topic=AlarmTopic(stack, "OnCall", email="on-call@example.com").topic,
    )
    EndpointDashboard(
        stack, "Dashboard", endpoint=endpoint, alarms=alarms, scaling=scaling, hourly_price_usd=1.5
    )
    return stack


def test_cfn_lint_has_nothing_to_say_about_all_of_it(everything: Stack) -> None:
    template = json.dumps(Template.from_stack(everything).to_json())
    matches = lint(template, config=ManualArgs(regions=["us-east-1"]))

    assert [f"{match.rule.id} {match.message}" for match in matches] == []


def test_cloudwatch_takes_every_alarm(everything: Stack, resources: Resources) -> None:
    call = botocore.session.get_session().get_service_model("cloudwatch").operation_model("PutMetricAlarm")
    alarms = _alarms(resources)

    assert len(alarms) == 12
    for alarm in alarms.values():
        literal = json.loads(re.sub(r'\{"Ref": "(\w+)"\}', r'"\1"', json.dumps(alarm)))
        report = ParamValidator().validate(literal, call.input_shape)
        assert not report.has_errors(), report.generate_report()


def test_every_expression_names_the_metrics_that_come_with_it(
    everything: Stack, resources: Resources
) -> None:
    for alarm in _alarms(resources).values():
        identifiers = {query["Id"] for query in alarm["Metrics"]}
        for query in alarm["Metrics"]:
            used = set(re.findall(r"\b[a-z]\w*", query.get("Expression", "")))
            assert used <= identifiers, alarm["AlarmName"]
