"""InvokeEndpointAsync through an unmodified boto3: the results come through S3 and SNS."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from aws_for_tests.clocks import Clock, clock_is
from aws_for_tests.deployed_functions import until
from tests.rehearsal.aws_for_hosting import MotoAws, moto_aws
from tests.rehearsal.served_models import onnx_model, python_model, tarball
from tests.rehearsal.test_hosting import FLOATS
from triton_rehearsal.hosting.model_data import split
from triton_rehearsal.hosting.service import Hosting

NOTHING: Mapping[str, Any] = MappingProxyType({})

# A model that answers once a file exists.
WAITING = """
import os
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists({path!r}):
            time.sleep(0.01)
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as aws:
        yield aws


@pytest.fixture(scope="module")
def hosting(aws: MotoAws) -> Iterator[Hosting]:
    with Hosting(aws, lookup_s=0.1) as hosting:
        yield hosting


class Queue:
    """An asynchronous endpoint, with the folders of its bucket."""

    def __init__(
        self,
        aws: MotoAws,
        hosting: Hosting,
        files: Mapping[str, Any],
        *,
        client: Mapping[str, Any] = NOTHING,
        **output: Any,
    ) -> None:
        self.aws, self.hosting, self.bucket = aws, hosting, aws.bucket()
        self._numbers = itertools.count(1)
        aws.upload(self.bucket, "m.tar.gz", tarball(files))
        folders = {
            "S3OutputPath": f"s3://{self.bucket}/answers",
            "S3FailurePath": f"s3://{self.bucket}/failures/",
        }
        config = {"OutputConfig": {**folders, **output}, "ClientConfig": dict(client)}
        data = {"ModelDataUrl": f"s3://{self.bucket}/m.tar.gz"}
        self.name = aws.endpoint(aws.endpoint_config(self.bucket, data=data, AsyncInferenceConfig=config))
        once = Config(retries={"total_max_attempts": 1})
        self.runtime = aws.client("sagemaker-runtime", url=hosting.url, config=once)

    def request(self, body: bytes = FLOATS) -> str:
        """Put a request into the bucket; return its address."""
        key = f"requests/{next(self._numbers)}.json"
        self.aws.upload(self.bucket, key, body)
        return f"s3://{self.bucket}/{key}"

    def invoke(self, **more: Any) -> Any:
        given = (
            more if "Body" in more or "InputLocation" in more else {"InputLocation": self.request(), **more}
        )
        return self.runtime.invoke_endpoint_async(EndpointName=self.name, **given)

    def found(self, address: str) -> Any:
        """Wait for an object, and return it."""
        bucket, key = split(address)
        s3 = self.aws.client("s3")
        until(lambda: "Contents" in s3.list_objects_v2(Bucket=bucket, Prefix=key))
        return s3.get_object(Bucket=bucket, Key=key)

    def answer(self, address: str) -> Any:
        return json.loads(self.found(address)["Body"].read())["outputs"][0]["data"]

    def metric(self, name: str, *, statistic: str = "Sum", **dimensions: str) -> list[float]:
        """Return the values of a metric, with these dimensions and no others, of a day."""
        self.hosting.flush_metrics()
        stat = {
            "Metric": {
                "Namespace": "AWS/SageMaker",
                "MetricName": name,
                "Dimensions": [
                    {"Name": key, "Value": value}
                    for key, value in {"EndpointName": self.name, **dimensions}.items()
                ],
            },
            "Period": 86400,
            "Stat": statistic,
        }
        cloudwatch = self.aws.client("cloudwatch")
        found = cloudwatch.get_metric_data(
            MetricDataQueries=[{"Id": "m", "MetricStat": stat}],
            StartTime="2020-01-01T00:00:00Z",
            EndTime="2100-01-01T00:00:00Z",
        )
        values: list[float] = found["MetricDataResults"][0]["Values"]
        return values


@pytest.fixture(scope="module")
def doubling(aws: MotoAws, hosting: Hosting) -> Queue:
    """An endpoint whose model multiplies by two."""
    return Queue(aws, hosting, onnx_model(2.0))


def test_a_request_in_s3_is_accepted_at_once_and_answered_in_s3(doubling: Queue) -> None:
    reply = doubling.invoke(ContentType="application/json", InferenceId="mine")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert reply["InferenceId"] == "mine"
    assert reply["OutputLocation"].startswith(f"s3://{doubling.bucket}/answers/")
    assert reply["FailureLocation"].startswith(f"s3://{doubling.bucket}/failures/")
    assert doubling.answer(reply["OutputLocation"]) == [2, 4, 6]
    assert doubling.found(reply["OutputLocation"])["ContentType"] == "application/json"


def test_a_request_may_come_with_the_call_and_name_the_place_of_its_answer(doubling: Queue) -> None:
    reply = doubling.invoke(Body=FLOATS, S3OutputPathExtension="today", Filename="first.json")
    assert reply["OutputLocation"] == f"s3://{doubling.bucket}/answers/today/first.json"
    assert doubling.answer(reply["OutputLocation"]) == [2, 4, 6]


def test_requests_without_an_id_get_one_each(doubling: Queue) -> None:
    ids = {doubling.invoke()["InferenceId"] for _ in range(2)}
    assert len(ids) == 2


def test_the_answer_of_a_model_that_refuses_is_the_failure(doubling: Queue) -> None:
    reply = doubling.invoke(InputLocation=doubling.request(FLOATS.replace(b'"X"', b'"Q"')))
    failure = json.loads(doubling.found(reply["FailureLocation"])["Body"].read())
    assert "unexpected inference input 'Q'" in failure["error"]


def test_a_request_that_is_not_in_s3_fails_with_its_address(doubling: Queue) -> None:
    missing = f"s3://{doubling.bucket}/requests/none"
    reply = doubling.invoke(InputLocation=missing)
    assert missing in doubling.found(reply["FailureLocation"])["Body"].read().decode()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"RequestTTLSeconds": 21601}, "'requestTTLSeconds' failed .* less than or equal to 21600"),
        ({"InvocationTimeoutSeconds": 3601}, "'invocationTimeoutSeconds' failed .* equal to 3600"),
        ({"InferenceId": "x" * 65}, "'inferenceId' failed .* length less than or equal to 64"),
        ({"InputLocation": "ftp://somewhere/x"}, "'inputLocation' failed .* regular expression"),
        ({"Body": FLOATS, "InputLocation": "s3://bucket/key"}, "exactly one of InputLocation and Body"),
        ({"Body": b""}, "exactly one of InputLocation and Body"),
        ({"Body": b"x" * 128_001}, "128000 is the maximum"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_the_api_does_not_allow_is_a_validation_error(
    doubling: Queue, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ClientError, match=rf"ValidationError.*{said}"):
        doubling.invoke(**wrong)


def test_an_asynchronous_endpoint_does_not_answer_at_once(doubling: Queue) -> None:
    with pytest.raises(ClientError, match=r"ValidationError.*is an asynchronous endpoint"):
        doubling.runtime.invoke_endpoint(EndpointName=doubling.name, Body=FLOATS)


def test_an_endpoint_that_answers_at_once_has_no_queue(aws: MotoAws, doubling: Queue) -> None:
    name = aws.endpoint(aws.endpoint_config(doubling.bucket))
    with pytest.raises(ClientError, match=r"ValidationError.*is not an asynchronous endpoint"):
        doubling.runtime.invoke_endpoint_async(EndpointName=name, InputLocation=doubling.request())


def test_an_instance_gets_no_more_requests_at_one_time_than_configured(
    aws: MotoAws, hosting: Hosting, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    files = python_model(WAITING.format(path=str(gate)))
    queue = Queue(aws, hosting, files, client={"MaxConcurrentInvocationsPerInstance": 2})
    replies = [queue.invoke() for _ in range(5)]
    until(lambda: bool(hosting.instances(queue.name)))
    [instance] = hosting.instances(queue.name)
    until(lambda: instance.requests_of("") == 2)
    assert queue.metric("ApproximateBacklogSize", statistic="Maximum") == [5]
    assert instance.requests_of("") == 2  # and no more while the metric was read

    gate.touch()

    assert [queue.answer(reply["OutputLocation"]) for reply in replies] == [[1, 2, 3]] * 5


def test_metrics_are_those_of_an_asynchronous_endpoint(aws: MotoAws, hosting: Hosting) -> None:
    queue = Queue(aws, hosting, onnx_model(2.0))
    queue.answer(queue.invoke()["OutputLocation"])
    queue.found(queue.invoke(Body=b"{}")["FailureLocation"])
    until(lambda: queue.metric("ModelLatency", statistic="SampleCount", VariantName="AllTraffic") == [2])
    assert queue.metric("InvocationFailures", VariantName="AllTraffic") == [1]
    assert queue.metric("HasBacklogWithoutCapacity", statistic="Maximum") == [0]
    until(lambda: queue.metric("ApproximateBacklogSizePerInstance", statistic="Minimum") == [0])
    assert queue.metric("Invocations", VariantName="AllTraffic") == []


def test_without_an_instance_requests_wait_and_the_queue_reports_it(aws: MotoAws, hosting: Hosting) -> None:
    queue = Queue(aws, hosting, onnx_model(2.0))
    none = {"VariantName": "AllTraffic", "DesiredInstanceCount": 0}
    aws.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=queue.name, DesiredWeightsAndCapacities=[none]
    )
    queue.invoke()
    assert queue.metric("HasBacklogWithoutCapacity", statistic="Maximum") == [1]
    assert queue.metric("ApproximateBacklogSizePerInstance") == []
    assert hosting.instances(queue.name) == []


def test_a_request_that_is_too_long_in_the_queue_fails_without_being_answered(
    aws: MotoAws, hosting: Hosting, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    files = python_model(WAITING.format(path=str(gate)))
    queue = Queue(aws, hosting, files, client={"MaxConcurrentInvocationsPerInstance": 1})
    first, second = queue.invoke(), queue.invoke(RequestTTLSeconds=60)
    with clock_is(Clock(speed=600)):  # a minute is over soon
        failure = queue.found(second["FailureLocation"])["Body"].read().decode()
    assert "in the queue for more than 60 seconds" in failure
    gate.touch()
    assert queue.answer(first["OutputLocation"]) == [1, 2, 3]


class Topic:
    """An SNS topic, with a queue of SQS that gets its messages."""

    def __init__(self, aws: MotoAws, name: str) -> None:
        self._sqs = aws.client("sqs")
        self.arn = aws.client("sns").create_topic(Name=name)["TopicArn"]
        self._url = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        aws.client("sns").subscribe(TopicArn=self.arn, Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"])

    def next(self) -> dict[str, Any]:
        """Wait for a message, and return it."""
        found: list[Any] = []

        def arrived() -> bool:
            found.extend(self._sqs.receive_message(QueueUrl=self._url).get("Messages", ()))
            return bool(found)

        until(arrived)
        message: dict[str, Any] = json.loads(json.loads(found[0]["Body"])["Message"])
        return message


def test_topics_are_notified_of_answers_and_of_failures(aws: MotoAws, hosting: Hosting) -> None:
    good, bad = Topic(aws, "good"), Topic(aws, "bad")
    topics = {
        "SuccessTopic": good.arn,
        "ErrorTopic": bad.arn,
        "IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"],
    }
    queue = Queue(aws, hosting, onnx_model(2.0), NotificationConfig=topics)

    reply = queue.invoke(ContentType="application/json")
    message = good.next()
    assert message["invocationStatus"] == "Completed"
    assert message["inferenceId"] == reply["InferenceId"]
    assert message["requestParameters"] == {
        "contentType": "application/json",
        "endpointName": queue.name,
        "inputLocation": f"s3://{queue.bucket}/requests/1.json",
    }
    assert message["responseParameters"] == {
        "contentType": "application/json",
        "outputLocation": reply["OutputLocation"],
    }
    content = json.loads(base64.b64decode(message["responseBody"]["content"]))
    assert content["outputs"][0]["data"] == [2, 4, 6]

    reply = queue.invoke(InputLocation=queue.request(FLOATS.replace(b'"X"', b'"Q"')))
    message = bad.next()
    assert message["invocationStatus"] == "Failed"
    assert "Received client error (400) from model" in message["failureReason"]
    assert message["responseParameters"]["failureLocation"] == reply["FailureLocation"]
    assert "responseBody" not in message


def test_a_hosting_that_ends_leaves_waiting_requests_without_a_result(aws: MotoAws, tmp_path: Path) -> None:
    with Hosting(aws, directory=tmp_path / "hosting") as hosting:
        queue = Queue(aws, hosting, python_model(WAITING.format(path=str(tmp_path / "never"))))
        queue.invoke()
        until(lambda: any(each.requests_of("") for each in hosting.instances(queue.name)))
    keys = [each["Key"] for each in aws.client("s3").list_objects_v2(Bucket=queue.bucket)["Contents"]]
    assert sorted(keys) == ["m.tar.gz", "requests/1.json"]
