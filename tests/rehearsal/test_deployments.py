"""Deployments with guardrails: the answers of each fleet at each step, and the rollback by an alarm."""

from __future__ import annotations

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

    def invocations(self, config: str) -> float:
        """Return the number of requests that a configuration answered, as CloudWatch counts them."""
        found = self._deploy.statistics(self.name, "Invocations", config=config)
        return float(found["Sum"]) / self._aws.clock.requests

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


def test_a_canary_gets_its_share_of_traffic_and_metrics_until_an_alarm_takes_it_back(
    aws: EmbeddedAws, hosting: Hosting, endpoint: Endpoint
) -> None:
    green = endpoint.config(GREEN)
    endpoint.update(green, blue_green("CANARY", wait=LONG, CanarySize=size(25)))

    baking = endpoint.until(lambda found: status(found)["Status"] == "Baking")
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        endpoint.update(green, {})
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        endpoint.sagemaker.delete_endpoint(EndpointName=endpoint.name)
    during = endpoint.answers(40)
    endpoint.fire()
    after = endpoint.until_settled()
    hosting.flush_metrics()
    counted = [endpoint.invocations(config) for config in (endpoint.blue, green)]

    assert (baking["EndpointStatus"], baking["EndpointConfigName"]) == ("Updating", endpoint.blue)
    assert baking["PendingDeploymentSummary"]["EndpointConfigName"] == green
    assert (status(baking)["CurrentInstanceCount"], status(baking)["DesiredInstanceCount"]) == (1, INSTANCES)
    assert during == {BLUE: 30, GREEN: 10}
    assert counted == [31, 10]  # one more: the first request, which every test sends to its endpoint
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


@pytest.mark.story
def test_a_deployment_whose_waits_exceed_its_limit_is_undone(endpoint: Endpoint) -> None:
    deployment = blue_green("ALL_AT_ONCE", wait=LONG)
    deployment["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] = LONG // 2

    endpoint.update(endpoint.config(GREEN), deployment)
    after = endpoint.until_settled()

    assert after["EndpointConfigName"] == endpoint.blue
    assert f"longer than its {LONG // 2} seconds" in after["FailureReason"]
