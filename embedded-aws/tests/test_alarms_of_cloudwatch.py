"""Alarms on metrics and on other alarms: their states, actions and history, as boto3 sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

aws = aws_fixture(scope="module")

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
_names = count(1)


class Shop:
    """A metric of its own, whose minutes a test fills, and alarms on it."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws = aws
        self.cloudwatch = aws.client("cloudwatch")
        self.name = f"shop-{next(_names)}"

    def put(self, *values: float | Sequence[float] | None, metric: str = "Orders") -> None:
        """Fill minutes, the first one at START. A minute may have several values, or none."""
        for minute, given in enumerate(values):
            some = given if isinstance(given, Sequence) else [] if given is None else [given]
            if some:
                datum = {"MetricName": metric, "Values": some, "Timestamp": START + timedelta(minutes=minute)}
                self.cloudwatch.put_metric_data(Namespace=self.name, MetricData=[datum])

    def alarm(self, name: str = "", **settings: Any) -> str:
        """Write an alarm; by default, one breaching minute of one, above 2."""
        name = f"{self.name}{name}"
        metric = {"Namespace": self.name, "MetricName": "Orders", "Statistic": "Sum", "Period": 60}
        usual = {"EvaluationPeriods": 1, "Threshold": 2.0, "ComparisonOperator": "GreaterThanThreshold"}
        wanted = {**({} if "Metrics" in settings else metric), **usual, **settings}
        wanted = {key: value for key, value in wanted.items() if value is not None}
        self.cloudwatch.put_metric_alarm(AlarmName=name, **wanted)
        return name

    def composite(self, rule: str, name: str = "-all", **settings: Any) -> str:
        self.cloudwatch.put_composite_alarm(AlarmName=f"{self.name}{name}", AlarmRule=rule, **settings)
        return f"{self.name}{name}"

    def set(self, name: str, state: Any) -> None:
        self.cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="a test")

    def after(self, minutes: float) -> None:
        """Evaluate when so many minutes have ended."""
        self.aws.evaluate(at=START + timedelta(minutes=minutes))

    def described(self, name: str) -> dict[str, Any]:
        kinds: Any = ["MetricAlarm", "CompositeAlarm"]
        found = self.cloudwatch.describe_alarms(AlarmNames=[name], AlarmTypes=kinds)
        [alarm] = [*found["MetricAlarms"], *found["CompositeAlarms"]]
        return dict(alarm)

    def state(self, name: str) -> str:
        return str(self.described(name)["StateValue"])

    def history(self, name: str, item: str = "StateUpdate") -> list[dict[str, Any]]:
        """Return a kind of entries of an alarm, the oldest first."""
        pages = self.cloudwatch.get_paginator("describe_alarm_history").paginate(
            AlarmName=name, HistoryItemType=item, ScanBy="TimestampAscending"
        )
        return [dict(entry) for page in pages for entry in page["AlarmHistoryItems"]]


@pytest.fixture
def shop(aws: EmbeddedAws) -> Shop:
    return Shop(aws)


@pytest.fixture
def inbox(aws: EmbeddedAws, shop: Shop) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """A topic, and a function that returns what was sent to it since."""
    sns, sqs = aws.client("sns"), aws.client("sqs")
    topic = sns.create_topic(Name=shop.name)["TopicArn"]
    queue = sqs.create_queue(QueueName=shop.name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def received() -> list[dict[str, Any]]:
        found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(message["Body"]) for message in found]

    yield topic, received
    sqs.delete_queue(QueueUrl=queue)


def average(shop: Shop, name: str) -> dict[str, Any]:
    return {"Metric": {"Namespace": shop.name, "MetricName": name}, "Period": 60, "Stat": "Average"}


def test_a_new_alarm_has_no_data_until_it_is_evaluated_and_a_changed_one_keeps_its_state(shop: Shop) -> None:
    alarm = shop.alarm()
    shop.put(3.0)
    before = shop.state(alarm)
    shop.after(1)
    shop.alarm(Threshold=50.0)

    assert (before, shop.state(alarm)) == ("INSUFFICIENT_DATA", "ALARM")


def test_an_alarm_on_metric_math_looks_at_the_query_that_returns_data(shop: Shop) -> None:
    alarm = shop.alarm(
        Threshold=10.0,
        Metrics=[
            {"Id": "rate", "Expression": "errors / orders * 100", "Label": "rate"},
            {"Id": "errors", "MetricStat": average(shop, "Errors"), "ReturnData": False},
            {"Id": "orders", "MetricStat": average(shop, "Orders"), "ReturnData": False},
        ],
    )
    shop.put(100.0, 100.0)
    shop.put(5.0, 20.0, metric="Errors")

    shop.after(1)
    before = shop.state(alarm)
    shop.after(2)

    assert (before, shop.state(alarm)) == ("OK", "ALARM")


def test_an_alarm_says_why_and_when_it_has_its_state(shop: Shop) -> None:
    alarm = shop.alarm(EvaluationPeriods=2)
    shop.put(3, 4.5)

    shop.after(2)

    described = shop.described(alarm)
    data = json.loads(described["StateReasonData"])
    assert described["StateReason"] == (
        "Threshold Crossed: 2 out of the last 2 datapoints "
        "[4.5 (01/01/30 00:01:00), 3.0 (01/01/30 00:00:00)] were greater than the threshold (2.0) "
        "(minimum 2 datapoints for INSUFFICIENT_DATA -> ALARM transition)."
    )
    assert data["recentDatapoints"] == [3.0, 4.5]
    assert data["startDate"] == "2030-01-01T00:00:00.000+0000"
    assert described["StateTransitionedTimestamp"] == START + timedelta(minutes=2)


def test_a_topic_gets_one_message_per_change_with_the_alarm_in_it(shop: Shop, inbox: Any) -> None:
    topic, received = inbox
    dimensions = [{"Name": "Store", "Value": "1"}]
    alarm = shop.alarm(AlarmActions=[topic], OKActions=[topic], AlarmDescription="too many")
    shop.alarm("-other", AlarmActions=[topic], Dimensions=dimensions)
    shop.put(1, 3, 3, 1)

    for minute in range(2, 5):
        shop.after(minute)

    first, second = received()
    message = json.loads(first["Message"])
    assert first["Subject"] == f'ALARM: "{alarm}" in US East (N. Virginia)'
    assert message["AlarmName"] == alarm
    assert message["AlarmDescription"] == "too many"
    assert (message["OldStateValue"], message["NewStateValue"]) == ("INSUFFICIENT_DATA", "ALARM")
    assert message["StateChangeTime"] == "2030-01-01T00:02:00.000+0000"
    assert message["Trigger"] == {
        "MetricName": "Orders",
        "Namespace": shop.name,
        "StatisticType": "Statistic",
        "Statistic": "SUM",
        "Unit": None,
        "Dimensions": [],
        "Period": 60,
        "EvaluationPeriods": 1,
        "DatapointsToAlarm": 1,
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 2.0,
        "TreatMissingData": "missing",
        "EvaluateLowSampleCountPercentile": "",
    }
    assert json.loads(second["Message"])["NewStateValue"] == "OK"


def test_a_rule_of_eventbridge_gets_the_change(shop: Shop) -> None:
    sqs, events = shop.aws.client("sqs"), shop.aws.client("events")
    send = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**send, "Resource": "*"}]}
    queue = sqs.create_queue(QueueName=f"{shop.name}-events", Attributes={"Policy": json.dumps(policy)})[
        "QueueUrl"
    ]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    alarm = shop.alarm()
    pattern = {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "detail": {"alarmName": [alarm], "state": {"value": ["ALARM"]}},
    }
    events.put_rule(Name=shop.name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=shop.name, Targets=[{"Id": "queue", "Arn": arn}])
    shop.put(1, 3)

    shop.after(1)
    shop.after(2)

    [message] = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    event = json.loads(message["Body"])
    [metric] = event["detail"]["configuration"]["metrics"]
    assert event["resources"] == [shop.described(alarm)["AlarmArn"]]
    assert event["detail"]["previousState"]["value"] == "OK"
    assert metric["metricStat"]["metric"] == {"namespace": shop.name, "name": "Orders", "dimensions": {}}


def test_the_history_has_every_change_of_state_and_settings(shop: Shop) -> None:
    alarm = shop.alarm()
    shop.put(1, 3)
    shop.after(1)
    shop.after(2)
    shop.alarm(Threshold=5.0)
    shop.cloudwatch.delete_alarms(AlarmNames=[alarm])

    updates = shop.history(alarm)
    configurations = shop.history(alarm, "ConfigurationUpdate")

    changed = json.loads(updates[1]["HistoryData"])
    assert [entry["HistorySummary"] for entry in updates] == [
        "Alarm updated from INSUFFICIENT_DATA to OK",
        "Alarm updated from OK to ALARM",
    ]
    assert changed["oldState"]["stateValue"] == "OK"
    assert changed["newState"]["stateReasonData"]["recentDatapoints"] == [3.0]
    assert [json.loads(entry["HistoryData"])["type"] for entry in configurations] == [
        "Create",
        "Update",
        "Delete",
    ]


def test_a_composite_alarm_follows_its_alarms_and_tells_a_topic(shop: Shop, inbox: Any) -> None:
    topic, received = inbox
    one, two = shop.alarm("-one"), shop.alarm("-two", MetricName="Returns")
    both = shop.composite(f"ALARM({one}) AND ALARM({two})", "-both", AlarmActions=[topic])
    outer = shop.composite(f'ALARM("{shop.described(both)["AlarmArn"]}")', "-outer")
    shop.put(3, 3)
    shop.put(1, 3, metric="Returns")

    shop.after(1)
    before = shop.state(both)
    shop.after(2)

    [sent] = received()
    message = json.loads(sent["Message"])
    trigger = json.loads(shop.described(both)["StateReasonData"])["triggeringAlarms"]
    assert (before, shop.state(both), shop.state(outer)) == ("OK", "ALARM", "ALARM")
    assert message["AlarmRule"] == f"ALARM({one}) AND ALARM({two})"
    assert "Trigger" not in message
    assert [each["arn"] for each in trigger] == [shop.described(two)["AlarmArn"]]


def test_alarms_are_listed_in_pages_by_kind_prefix_state_and_action(shop: Shop) -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:orders"
    names = [shop.alarm(f"-{number:02}") for number in range(5)]
    acting = shop.alarm("-acting", AlarmActions=[topic])
    composite = shop.composite(f"ALARM({names[0]})")
    shop.set(names[3], "ALARM")

    def listed(**wanted: Any) -> list[str]:
        pages = shop.cloudwatch.get_paginator("describe_alarms").paginate(
            AlarmNamePrefix=shop.name, PaginationConfig={"PageSize": 2}, **wanted
        )
        found = [[*page["MetricAlarms"], *page["CompositeAlarms"]] for page in pages]
        assert all(len(page) <= 2 for page in found)
        return [str(alarm["AlarmName"]) for page in found for alarm in page]

    assert listed() == [*names, acting]
    assert listed(AlarmTypes=["CompositeAlarm"]) == [composite]
    assert listed(StateValue="ALARM") == [names[3]]
    assert listed(ActionPrefix="arn:aws:sns") == [acting]


def test_the_alarms_of_a_metric_are_those_with_its_dimensions(shop: Shop) -> None:
    dimensions = [{"Name": "Store", "Value": "1"}]
    shop.alarm("-other", MetricName="Returns")
    stored = shop.alarm("-store", Dimensions=dimensions)
    alarm = shop.alarm()

    def found(**wanted: Any) -> list[str]:
        answer = shop.cloudwatch.describe_alarms_for_metric(
            Namespace=shop.name, MetricName="Orders", **wanted
        )
        return [each["AlarmName"] for each in answer["MetricAlarms"]]

    assert sorted(found()) == sorted([stored, alarm])
    assert found(Dimensions=dimensions) == [stored]


METRICS = [{"Id": "a", "Expression": "1"}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "no anomaly detection"),
        ({"Threshold": None}, "Threshold"),
        ({"Statistic": None}, "Statistic or ExtendedStatistic"),
        ({"ExtendedStatistic": "p90"}, "Statistic or ExtendedStatistic"),
        ({"TreatMissingData": "guess"}, "guess is not supported"),
        ({"DatapointsToAlarm": 2}, "DatapointsToAlarm"),
        ({"EvaluationPeriods": 1441}, "86400 seconds"),
        ({"Metrics": METRICS, "Period": 60}, "must not be used"),
        ({"Metrics": [*METRICS, {"Id": "b", "Expression": "2"}]}, "Exactly one"),
        ({"Metrics": [{"Id": "a", "Expression": "1 +"}]}, "ValidationError"),
    ],
)
def test_an_alarm_that_cannot_be_evaluated_is_refused(
    shop: Shop, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        shop.alarm(**settings)


def test_a_rule_that_cannot_be_parsed_or_names_no_alarm_is_refused(shop: Shop) -> None:
    with pytest.raises(ClientError, match="cannot be parsed"):
        shop.composite("ALARM(")
    with pytest.raises(ClientError, match="do not exist"):
        shop.composite("ALARM(absent)")
    with pytest.raises(ClientError, match="no suppressors"):
        shop.composite("TRUE", ActionsSuppressor="absent")
