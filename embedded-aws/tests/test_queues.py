"""SQS in the embedded AWS: what reaches a queue, which batches invoke a function, and what comes back."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from aws_for_tests.deployed_functions import functions, noted, notes, settle, until
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

# Notes the bodies of a batch under the name of its first message, and reports those it is to fail.
NOTES = """
    import boto3, json

    def handler(event, context):
        records = event["Records"]
        bodies = [each["body"] for each in records]
        count = records[0]["attributes"]["ApproximateReceiveCount"]
        boto3.client("s3").put_object(Bucket="notes", Key=f"{bodies[0]}-{count}", Body=json.dumps(bodies))
        failed = [each["messageId"] for each in records if each["body"] == "later" and count == "1"]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
"""
QUEUE = {"Fn::GetAtt": ["Queue", "Arn"]}
aws = aws_fixture(bucket="notes")


def queued(*rules: dict[str, Any], policy: bool = True) -> dict[str, Any]:
    """Return resources: a FIFO queue that invokes a function, and rules that send to it."""
    target = {"Id": "queue", "Arn": QUEUE, "Input": "{}", "SqsParameters": {"MessageGroupId": "one"}}
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
    }
    document = {"Version": "2012-10-17", "Statement": [{**allowed, "Resource": QUEUE}] if policy else []}
    settings = {"FifoQueue": True, "ContentBasedDeduplication": True, "DelaySeconds": 360}
    mapping = {"EventSourceArn": QUEUE, "FunctionName": {"Ref": "Notes"}}
    return {
        **functions(notes=NOTES),
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {**settings, "VisibilityTimeout": 600}},
        "Policy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": document},
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {**mapping, "FunctionResponseTypes": ["ReportBatchItemFailures"]},
        },
        **{
            f"Rule{number}": {"Type": "AWS::Events::Rule", "Properties": {**rule, "Targets": [target]}}
            for number, rule in enumerate(rules)
        },
    }


def evaluate(aws: EmbeddedAws, minutes: float) -> None:
    """Let the queue be read after these minutes."""
    aws.evaluate(at=datetime.fromtimestamp(time.time() + minutes * 60, tz=timezone.utc))


def queue(aws: EmbeddedAws) -> str:
    """Return the URL of the queue."""
    return str(aws.client("sqs").list_queues()["QueueUrls"][0])


def waiting(aws: EmbeddedAws) -> int:
    """Return the number of messages in the queue."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]
    answer = aws.client("sqs").get_queue_attributes(QueueUrl=queue(aws), AttributeNames=names)
    return sum(map(int, answer["Attributes"].values()))


def test_a_burst_of_objects_is_one_message_which_comes_when_its_delay_is_over(aws: EmbeddedAws) -> None:
    arrived = {"source": ["aws.s3"], "detail": {"object": {"key": [{"prefix": "weights/"}]}}}
    settle(aws, queued({"EventPattern": arrived}))
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="models")
    events = {"EventBridgeConfiguration": {}}
    s3.put_bucket_notification_configuration(Bucket="models", NotificationConfiguration=events)

    for number in range(12):
        s3.put_object(Bucket="models", Key=f"weights/{number}", Body=b"")
        s3.put_object(Bucket="models", Key=f"others/{number}", Body=b"")
    evaluate(aws, 5)
    assert (waiting(aws), notes(aws)) == (1, [])
    evaluate(aws, 7)

    assert noted(aws, "{}-1") == ["{}"]
    until(lambda: waiting(aws) == 0)
    s3.put_object(Bucket="models", Key="weights/again", Body=b"")  # within five minutes of the first one
    assert waiting(aws) == 0


def test_what_a_function_could_not_do_blocks_its_group_until_it_comes_back(aws: EmbeddedAws) -> None:
    settle(aws, queued())
    sqs = aws.client("sqs")
    for body in ("now", "later"):
        sqs.send_message(QueueUrl=queue(aws), MessageBody=body, MessageGroupId="one")
    evaluate(aws, 7)
    assert noted(aws, "now-1") == ["now", "later"]

    sqs.send_message(QueueUrl=queue(aws), MessageBody="after", MessageGroupId="one")
    evaluate(aws, 14)
    assert notes(aws) == ["now-1"]
    evaluate(aws, 18)

    assert noted(aws, "later-2") == ["later", "after"]


def test_a_rule_sends_to_a_queue_when_its_schedule_is_due_and_the_queue_permits_it(aws: EmbeddedAws) -> None:
    hourly = {"ScheduleExpression": "rate(1 hour)"}
    settle(aws, queued(hourly))
    evaluate(aws, 1)
    evaluate(aws, 59)
    assert waiting(aws) == 0
    evaluate(aws, 62)
    assert waiting(aws) == 1

    aws.client("sqs").set_queue_attributes(QueueUrl=queue(aws), Attributes={"Policy": ""})
    aws.client("sqs").purge_queue(QueueUrl=queue(aws))
    evaluate(aws, 130)
    assert waiting(aws) == 0
