"""The log of the default fleet's container in CloudWatch, where the stack's filter counts its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from synthesised_stacks import deploy_stack

from embedded_aws import EmbeddedAws
from tests.rehearsal.served_models import python_model, tarball
from tests.stacks.fleet_app import fleet_app
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

NEVER = (
    "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no weights')\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A fleet that was asked for a model that fails to load.

    Attributes:
        logs: A client of CloudWatch Logs.
        cloudwatch: A client of CloudWatch.
        group: The endpoint's log group.
    """

    logs: Any
    cloudwatch: Any
    group: str


def ask(aws: EmbeddedAws, hosting: Hosting, endpoint: str) -> None:
    runtime = boto3.client(
        "sagemaker-runtime",
        endpoint_url=hosting.url,
        region_name=aws.region,
        aws_access_key_id=aws.door.key,
        aws_secret_access_key="any",
    )
    with pytest.raises(ClientError, match="no weights"):
        runtime.invoke_endpoint(EndpointName=endpoint, TargetModel="never.tar.gz", Body=b"{}")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with EmbeddedAws() as aws:
        fleet = fleet_app(models="")
        deploy_stack(aws, fleet.models, "create")
        deploy_stack(aws, fleet.inference, "create")
        sagemaker = aws.client("sagemaker")
        [endpoint] = sagemaker.list_endpoints()["Endpoints"]
        name = str(endpoint["EndpointName"])
        [model] = sagemaker.list_models()["Models"]
        described = sagemaker.describe_model(ModelName=model["ModelName"])
        bucket, _, prefix = described["PrimaryContainer"]["ModelDataUrl"].removeprefix("s3://").partition("/")
        artifact = tarball(python_model(NEVER))
        aws.client("s3").put_object(Bucket=bucket, Key=f"{prefix}never.tar.gz", Body=artifact)
        with Hosting(aws) as hosting:
            ask(aws, hosting, name)
        yield Served(
            logs=aws.client("logs"),
            cloudwatch=aws.client("cloudwatch"),
            group=f"/aws/sagemaker/Endpoints/{name}",
        )


def test_the_containers_lines_are_in_the_stream_of_its_instance(served: Served) -> None:
    [stream] = served.logs.describe_log_streams(logGroupName=served.group)["logStreams"]
    found = served.logs.filter_log_events(logGroupName=served.group, filterPattern='"no weights"')["events"]

    assert stream["logStreamName"].startswith("AllTraffic/i-")
    assert {event["logStreamName"] for event in found} == {stream["logStreamName"]}


def test_the_stacks_filter_counts_the_load_that_failed(served: Served) -> None:
    [counting] = served.logs.describe_metric_filters(logGroupName=served.group)["metricFilters"]
    [metric] = counting["metricTransformations"]
    now = datetime.now(timezone.utc)

    points = served.cloudwatch.get_metric_statistics(
        Namespace=metric["metricNamespace"],
        MetricName=metric["metricName"],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )["Datapoints"]

    assert sum(point["Sum"] for point in points) == 1
