"""Deployments with guardrails: the answers of each fleet at each step, and the rollback by an alarm."""

from __future__ import annotations

import datetime
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import blue_green, rolling, size
from embedded_aws import EmbeddedAws
from tests.rehearsal.aws_for_hosting import ENVIRONMENT, MotoAws
from tests.rehearsal.served_models import FLEET, python_model, tarball
from tests.rehearsal.traffic import Traffic
from triton_rehearsal.hosting.service import Hosting

# A quick wait takes a tenth of a second here, a long one a minute: a test that starts a long one must end it.
SPEED = 60.0
QUICK, LONG = 6, 3600
INSTANCES = 4

BODY = json.dumps({"inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()

BLUE, GREEN = 1.0, 2.0


aws = aws_fixture(scope="module", speed=SPEED)


@pytest.fixture(scope="module")
def hosting(aws: EmbeddedAws) -> Iterator[Hosting]:
    with Hosting(aws) as opened:
        yield opened


class Endpoint:
    """An endpoint of four instances that serves from its blue fleet, and an alarm."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting) -> None:
        self._aws = aws
        self._deploy = MotoAws(aws.url, key=aws.door.key)
        self.sagemaker, self._cloudwatch = aws.client("sagemaker"), aws.client("cloudwatch")
        self._runtime = self._deploy.client("sagemaker-runtime", url=hosting.url)
        self._bucket = self._deploy.bucket()
        self._deploy.upload(self._bucket, "models/m.tar.gz", tarball(python_model(FLEET)))
        self.blue = self.config(BLUE)
        self.name = self._deploy.endpoint(self.blue)
        self.scale_to(INSTANCES)
        self.alarm = f"{self.name}-errors"
        self._cloudwatch.put_metric_alarm(
            AlarmName=self.alarm,
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="Invocation5XXErrors",
            Namespace="AWS/SageMaker",
            Period=60,
            Statistic="Average",
            Threshold=0.1,
            TreatMissingData="ignore",  # without data, it stays as a test sets it
        )

    def config(self, fleet: float, **environment: str) -> str:
        variables = {**ENVIRONMENT, "FLEET": str(fleet), **environment}
        return self._deploy.endpoint_config(self._bucket, environment=variables, instances=2)

    def scale_to(self, instances: int) -> None:
        wanted = {"VariantName": "AllTraffic", "DesiredInstanceCount": instances, "DesiredWeight": 1.0}
        self._aws.set_speed(math.inf)
        self.sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=self.name, DesiredWeightsAndCapacities=[wanted]
        )
        self._aws.set_speed(SPEED)

    def ask(self) -> float:
        answer = self._runtime.invoke_endpoint(EndpointName=self.name, TargetModel="m.tar.gz", Body=BODY)
        assert answer["InvokedProductionVariant"] == "AllTraffic"
        value: float = json.loads(answer["Body"].read())["outputs"][0]["data"][0]
        return value

    def answers(self, requests: int) -> Counter[float]:
        """Return the number of requests that each fleet answered."""
        return Counter(self.ask() for _ in range(requests))

    def update(self, config: str, deployment: Mapping[str, Any], **more: Any) -> None:
        rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": self.alarm}]}}
        self.sagemaker.update_endpoint(
            EndpointName=self.name,
            EndpointConfigName=config,
            DeploymentConfig={**deployment, **rollback},
            RetainAllVariantProperties=True,
            **more,
        )

    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = self.sagemaker.describe_endpoint(EndpointName=self.name)
        return found

    def until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the description once the condition holds; fail after half a minute."""
        moment = threading.Event()
        for _ in range(600):
            found = self.described()
            if reached(found):
                return found
            moment.wait(0.05)
        raise AssertionError(found)

    def until_settled(self) -> dict[str, Any]:
        return self.until(settled)

    def until_baking(self) -> dict[str, Any]:
        return self.until(lambda found: status(found)["Status"] == "Baking")

    def fire(self) -> None:
        self._cloudwatch.set_alarm_state(AlarmName=self.alarm, StateValue="ALARM", StateReason="a test")


class Asking(Traffic):
    """An application that asks an endpoint for the answering fleet."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    def ask(self) -> float:
        return self._endpoint.ask()


def settled(found: Mapping[str, Any]) -> bool:
    return bool(found["EndpointStatus"] == "InService")


def status(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of the new fleet."""
    [variant] = found["PendingDeploymentSummary"]["ProductionVariants"]
    [latest] = variant["VariantStatus"]
    return {**variant, **latest}


@pytest.fixture
def endpoint(aws: EmbeddedAws, hosting: Hosting) -> Iterator[Endpoint]:
    made = Endpoint(aws, hosting)
    assert made.ask() == BLUE
    yield made
    last = made.until(lambda found: settled(found) or status(found)["Status"] == "Baking")
    if not settled(last):
        made.fire()  # only a baking deployment looks at alarms
        made.until_settled()
    made.sagemaker.delete_endpoint(EndpointName=made.name)


def test_deleting_an_endpoint_ends_its_instances_without_another_request(
    aws: EmbeddedAws, hosting: Hosting
) -> None:
    made = Endpoint(aws, hosting)
    made.ask()
    servers = [instance.server for instance in hosting.instances(made.name)]

    made.sagemaker.delete_endpoint(EndpointName=made.name)

    assert all(server.wait_for_end(20.0) for server in servers)
    assert made.name not in {source.endpoint for source, _ in hosting.running()}


def test_a_canary_gets_its_share_of_the_traffic_until_an_alarm_takes_it_back(endpoint: Endpoint) -> None:
    green = endpoint.config(GREEN)
    endpoint.update(green, blue_green("CANARY", wait=LONG, CanarySize=size(25)))

    baking = endpoint.until_baking()
    during = endpoint.answers(40)
    endpoint.fire()
    after = endpoint.until_settled()

    assert (baking["EndpointStatus"], baking["EndpointConfigName"]) == ("Updating", endpoint.blue)
    assert baking["PendingDeploymentSummary"]["EndpointConfigName"] == green
    assert (status(baking)["CurrentInstanceCount"], status(baking)["DesiredInstanceCount"]) == (1, INSTANCES)
    assert during == {BLUE: 30, GREEN: 10}
    assert after["EndpointConfigName"] == endpoint.blue
    assert endpoint.alarm in after["FailureReason"]
    assert "PendingDeploymentSummary" not in after
    assert endpoint.answers(20) == {BLUE: 20}


def test_a_rolling_update_under_traffic_fails_no_request_and_keeps_the_instance_count(
    endpoint: Endpoint,
) -> None:
    with Asking(endpoint) as asking:
        endpoint.update(endpoint.config(GREEN), rolling(wait=QUICK, batch=1))
        after = endpoint.until_settled()

    assert asking.failures == []
    assert asking.asked
    assert asking.taken() <= {BLUE, GREEN}
    [live] = after["ProductionVariants"]
    assert (live["CurrentInstanceCount"], live["DesiredInstanceCount"]) == (INSTANCES, INSTANCES)
    assert "FailureReason" not in after
    assert endpoint.answers(20) == {GREEN: 20}


def test_the_count_goes_back_to_that_of_the_configuration_where_it_is_not_retained(
    endpoint: Endpoint,
) -> None:
    excluded = [{"VariantPropertyType": "DesiredInstanceCount"}]
    endpoint.update(
        endpoint.config(GREEN),
        blue_green("ALL_AT_ONCE", wait=QUICK),
        ExcludeRetainedVariantProperties=excluded,
    )

    [live] = endpoint.until_settled()["ProductionVariants"]

    assert live["DesiredInstanceCount"] == 2


@pytest.mark.story
def test_a_fleet_whose_server_does_not_start_never_gets_traffic(endpoint: Endpoint) -> None:
    broken = endpoint.config(GREEN, SAGEMAKER_TRITON_ADDITIONAL_ARGS="--no-such-flag")

    endpoint.update(broken, blue_green("ALL_AT_ONCE", wait=QUICK))
    after = endpoint.until_settled()

    assert after["EndpointConfigName"] == endpoint.blue
    assert "did not pass the ping health check" in after["FailureReason"]
    assert endpoint.answers(5) == {BLUE: 5}


@pytest.mark.story
def test_an_alarm_that_fires_before_and_not_during_a_bake_undoes_nothing(endpoint: Endpoint) -> None:
    green = endpoint.config(GREEN)
    endpoint.fire()

    endpoint.update(green, blue_green("ALL_AT_ONCE", wait=0))

    assert endpoint.until_settled()["EndpointConfigName"] == green


@pytest.mark.story
def test_a_deployment_whose_waits_exceed_its_limit_is_undone(endpoint: Endpoint) -> None:
    deployment = blue_green("ALL_AT_ONCE", wait=LONG)
    deployment["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] = LONG // 2

    endpoint.update(endpoint.config(GREEN), deployment)
    after = endpoint.until_settled()

    assert after["EndpointConfigName"] == endpoint.blue
    assert f"longer than its {LONG // 2} seconds" in after["FailureReason"]


@pytest.mark.story
@pytest.mark.parametrize("call", ["update", "scale", "delete"])
def test_an_endpoint_in_progress_is_left_alone(endpoint: Endpoint, call: str) -> None:
    green = endpoint.config(GREEN)
    endpoint.update(green, blue_green("ALL_AT_ONCE", wait=LONG))
    calls: dict[str, Callable[[], None]] = {
        "update": lambda: endpoint.update(green, {}),
        "scale": lambda: endpoint.scale_to(1),
        "delete": lambda: endpoint.sagemaker.delete_endpoint(EndpointName=endpoint.name),
    }

    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        calls[call]()


@pytest.mark.story
def test_the_fleets_of_a_deployment_are_reported_apart_in_the_metrics(
    aws: EmbeddedAws, hosting: Hosting, endpoint: Endpoint
) -> None:
    green = endpoint.config(GREEN)
    endpoint.update(green, blue_green("CANARY", wait=LONG, CanarySize=size(25)))
    endpoint.until_baking()
    endpoint.answers(8)
    hosting.flush_metrics()

    names = {"EndpointName": endpoint.name, "VariantName": "AllTraffic"}

    # One more request: the first one, which every test sends to its endpoint.
    assert invocations(aws, **names) == 9
    assert invocations(aws, **names, EndpointConfigName=endpoint.blue) == 7
    assert invocations(aws, **names, EndpointConfigName=green) == 2


def invocations(aws: EmbeddedAws, **dimensions: str) -> float:
    now = aws.clock.now()
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="Invocations",
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        StartTime=now - datetime.timedelta(hours=1),
        EndTime=now + datetime.timedelta(hours=1),
        Period=7200,
        Statistics=["Sum"],
    )["Datapoints"]
    return sum(point["Sum"] for point in points) / aws.clock.requests


@pytest.fixture
def events(aws: EmbeddedAws, endpoint: Endpoint) -> Callable[[], list[dict[str, Any]]]:
    """The events of the endpoint since its start."""
    events, sqs = aws.client("events"), aws.client("sqs")
    queue = sqs.create_queue(QueueName=endpoint.name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = {
        "detail-type": ["SageMaker Endpoint Deployment State Change"],
        "detail": {"EndpointName": [endpoint.name]},
    }
    events.put_rule(Name=endpoint.name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=endpoint.name, Targets=[{"Id": "queue", "Arn": arn}])

    def received() -> list[dict[str, Any]]:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
        return [json.loads(message["Body"]) for message in messages]

    return received


@pytest.mark.story
def test_every_step_and_the_rollback_are_events_in_their_order(
    endpoint: Endpoint, events: Callable[[], list[dict[str, Any]]]
) -> None:
    endpoint.update(endpoint.config(GREEN), blue_green("ALL_AT_ONCE", wait=LONG))
    endpoint.until_baking()
    endpoint.fire()
    endpoint.until_settled()

    received = events()
    steps = ["Creating", "ActivatingTraffic", "Baking"]
    assert {event["source"] for event in received} == {"aws.sagemaker"}
    assert [status(event["detail"])["Status"] for event in received[:3]] == steps
    assert [event["detail"]["EndpointStatus"] for event in received] == [*["UPDATING"] * 3, "ROLLING_BACK"]
    assert {event["detail"]["EndpointConfigName"] for event in received} == {endpoint.blue}
    assert isinstance(status(received[0]["detail"])["StartTime"], int)
