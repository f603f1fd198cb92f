"""The default fleet, deployed once: its log, its scaling, and its alarms, each of which has its own fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError
from synthesised_stacks import deploy_fleet

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import described, endpoints, instances, model_of
from tests.rehearsal.served_models import python_model, tarball
from tests.rehearsal.traffic import runtime_of
from tests.stacks.fleet_app import fleet_app
from triton_rehearsal.hosting.metrics import METRICS
from triton_rehearsal.hosting.model_data import split
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

NEVER = (
    "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no weights')\n"
)

MINUTES = 25
START = datetime(2030, 1, 1, tzinfo=timezone.utc)
_days = count()

INVOCATIONS, INSTANCES, CUSTOM = "AWS/SageMaker", "/aws/sagemaker/Endpoints", ""
# The samples of a minute of a healthy fleet of two instances: namespace, then the values.
Minute = Mapping[str, tuple[str, list[float]]]
HEALTHY: Minute = {
    "Invocations": (INVOCATIONS, [1.0] * 20),
    "InvocationsPerInstance": (INVOCATIONS, [0.5] * 20),
    "Invocation5XXErrors": (INVOCATIONS, [0.0] * 20),
    "InvocationModelErrors": (INVOCATIONS, [0.0] * 20),
    "ModelLatency": (INVOCATIONS, [50_000.0] * 20),
    "ModelCacheHit": (INVOCATIONS, [1.0] * 20),
    "MemoryUtilization": (INSTANCES, [30.0, 40.0]),
    "DiskUtilization": (INSTANCES, [20.0, 30.0]),
    "GPUUtilization": (INSTANCES, [50.0, 58.0]),
    "GPUMemoryUtilization": (INSTANCES, [60.0, 90.0]),
}
MISSES: Minute = {"ModelCacheHit": (INVOCATIONS, [0.0] * 10 + [1.0] * 10)}
UNLOADS: Minute = {"ModelUnloadingTime": (INVOCATIONS, [9_000.0] * 3)}
ALONE: Minute = {"InvocationsPerInstance": (INVOCATIONS, [1.0] * 20)}
BUSY: Minute = {"GPUUtilization": (INSTANCES, [97.0])}

FAULTS: Mapping[str, tuple[Minute, set[str]]] = {
    "5XX": (
        {"Invocation5XXErrors": (INVOCATIONS, [1.0] + [0.0] * 19)},
        {"page-ServerErrors", "rollback-ServerErrors", "rollback-NewFleetServerErrors"},
    ),
    "model errors": (
        {"InvocationModelErrors": (INVOCATIONS, [1.0] * 2 + [0.0] * 18)},
        {"page-ModelErrors", "rollback-ModelErrors", "rollback-NewFleetModelErrors"},
    ),
    "one bad request in a hundred": ({"InvocationModelErrors": (INVOCATIONS, [1.0] + [0.0] * 99)}, set()),
    "failures of few requests": (
        {
            "Invocations": (INVOCATIONS, [1.0] * 9),
            "InvocationsPerInstance": (INVOCATIONS, [0.5] * 9),
            "Invocation5XXErrors": (INVOCATIONS, [1.0] * 9),
            "InvocationModelErrors": (INVOCATIONS, [1.0] * 9),
        },
        set(),
    ),
    "slow answers": ({"ModelLatency": (INVOCATIONS, [1_100_000.0] * 2 + [50_000.0] * 18)}, {"page-Latency"}),
    "misses with evictions": ({**MISSES, **UNLOADS}, {"ticket-Thrash"}),
    "misses alone": (MISSES, set()),
    "evictions alone": (UNLOADS, set()),
    "a full disk": ({"DiskUtilization": (INSTANCES, [20.0, 86.0])}, {"ticket-Disk"}),
    "full GPU memory": ({"GPUMemoryUtilization": (INSTANCES, [96.0, 97.0])}, {"ticket-GpuMemory"}),
    "failed loads": ({"ModelLoadFailures": (CUSTOM, [1.0])}, {"ticket-LoadFailures"}),
    "the most instances": (
        {"InvocationsPerInstance": (INVOCATIONS, [0.25] * 20)},
        {"ticket-ScaledToMaximum"},
    ),
    "one busy instance that stays alone": ({**ALONE, **BUSY}, {"ticket-NoCapacity"}),
    "one instance with little to do": (ALONE, set()),
    "requests without instances": ({"MemoryUtilization": (INSTANCES, [])}, {"ticket-Silent"}),
}


class Fleet:
    """The deployed fleet, whose metrics a test writes. Each test has a day of its own."""

    def __init__(self, aws: EmbeddedAws, **settings: str) -> None:
        self.aws, self._cloudwatch = aws, aws.client("cloudwatch")
        before = endpoints(aws)
        deploy_fleet(aws, fleet_app(models="", **settings))
        [self.name] = endpoints(aws).keys() - before.keys()
        self._config = str(described(aws, self.name)["EndpointConfigName"])
        self.logs = f"/aws/sagemaker/Endpoints/{self.name}"
        [filtered] = aws.client("logs").describe_metric_filters(logGroupName=self.logs)["metricFilters"]
        [self.counted] = filtered["metricTransformations"]

    def fires(self, minute: Minute) -> tuple[set[str], bool]:
        """Return the alarms that fire if every minute is like this, and True if the fleet's page goes out."""
        start = START + timedelta(days=next(_days))
        self._put([(start + timedelta(minutes=number), minute) for number in range(MINUTES)])
        self.aws.evaluate(at=start + timedelta(minutes=MINUTES))
        kinds: Any = ["MetricAlarm", "CompositeAlarm"]
        found = self._cloudwatch.describe_alarms(
            AlarmNamePrefix=self.name, AlarmTypes=kinds, StateValue="ALARM"
        )
        names = {alarm["AlarmName"].removeprefix(f"{self.name}-") for alarm in found["MetricAlarms"]}
        return names, bool(found["CompositeAlarms"])

    def _put(self, minutes: Sequence[tuple[datetime, Minute]]) -> None:
        endpoint = [
            {"Name": "EndpointName", "Value": self.name},
            {"Name": "VariantName", "Value": "AllTraffic"},
        ]
        fleet = [*endpoint, {"Name": "EndpointConfigName", "Value": self._config}]
        known: dict[str, list[list[dict[str, str]]]] = {
            INVOCATIONS: [endpoint, fleet],
            INSTANCES: [endpoint],
            CUSTOM: [[]],
        }
        data: dict[str, list[Any]] = {namespace: [] for namespace in known}
        for at, minute in minutes:
            for name, (namespace, values) in minute.items():
                unit = METRICS[name].unit if name in METRICS else "None"
                datum = {"MetricName": name, "Timestamp": at, "Values": values, "Unit": unit}
                data[namespace] += [{**datum, "Dimensions": each} for each in known[namespace] if values]
        for namespace, given in data.items():
            if given:
                self._cloudwatch.put_metric_data(
                    Namespace=namespace or self.counted["metricNamespace"], MetricData=given
                )

    def minutes(self, begin: datetime, count: int, *, work: float) -> list[int]:
        """Let instances share the work of each minute, in percent of a GPU; return their number after it."""
        found = []
        for number in range(count):
            at = begin + timedelta(minutes=number)
            busy = min(100.0, work / instances(self.aws, self.name))
            given = {"GPUUtilization": (INSTANCES, [busy]), "InvocationsPerInstance": (INVOCATIONS, [1.0])}
            self._put([(at, given)])
            self.aws.evaluate(at=at + timedelta(minutes=1))
            found.append(instances(self.aws, self.name))
        return found


aws = aws_fixture(scope="module")


@pytest.fixture(scope="module")
def fleet(aws: EmbeddedAws) -> Fleet:
    return Fleet(aws)


def test_a_load_that_fails_is_in_the_stream_of_its_instance_and_counted_by_the_stacks_filter(
    aws: EmbeddedAws, fleet: Fleet
) -> None:
    bucket, prefix = split(model_of(aws, fleet.name)["PrimaryContainer"]["ModelDataUrl"])
    aws.client("s3").put_object(Bucket=bucket, Key=f"{prefix}never.tar.gz", Body=tarball(python_model(NEVER)))
    with Hosting(aws) as hosting, pytest.raises(ClientError, match="no weights"):
        runtime_of(aws, hosting).invoke_endpoint(
            EndpointName=fleet.name, TargetModel="never.tar.gz", Body=b"{}"
        )

    logs, now = aws.client("logs"), datetime.now(timezone.utc)
    [stream] = logs.describe_log_streams(logGroupName=fleet.logs)["logStreams"]
    found = logs.filter_log_events(logGroupName=fleet.logs, filterPattern='"no weights"')["events"]
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace=fleet.counted["metricNamespace"],
        MetricName=fleet.counted["metricName"],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )["Datapoints"]

    assert stream["logStreamName"].startswith("AllTraffic/i-")
    assert {event["logStreamName"] for event in found} == {stream["logStreamName"]}
    assert sum(point["Sum"] for point in points) == 1


def test_a_step_of_traffic_brings_a_second_and_a_third_instance_and_its_end_removes_them(
    aws: EmbeddedAws, fleet: Fleet
) -> None:
    begin = datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(hours=1)
    before = instances(aws, fleet.name)
    rising = fleet.minutes(begin, 22, work=150.0)
    falling = fleet.minutes(begin + timedelta(minutes=22), 18, work=20.0)
    found = aws.client("application-autoscaling").describe_scaling_activities(ServiceNamespace="sagemaker")
    causes = [each["Cause"].rpartition(" ")[2] for each in found["ScalingActivities"]]

    assert before == 1
    assert sorted(set(rising)) == [1, 2, 3]
    assert sorted(rising) == rising
    assert sorted(falling, reverse=True) == falling
    assert falling[-1] == 1
    assert [cause.endswith("GpuUtilization") for cause in causes][1:] == [True, True]


def test_no_alarm_fires_while_a_healthy_fleet_is_at_its_minimum_and_maximum(aws: EmbeddedAws) -> None:
    fleet = Fleet(aws, name="Two", min_capacity="2", max_capacity="2")

    assert fleet.fires(HEALTHY) == (set(), False)


def test_no_alarm_fires_while_the_fleet_is_healthy_or_nobody_sends_requests(fleet: Fleet) -> None:
    idle = {name: HEALTHY[name] for name in ("MemoryUtilization", "DiskUtilization", "GPUMemoryUtilization")}

    assert fleet.fires(HEALTHY) == (set(), False)
    assert fleet.fires(idle) == (set(), False)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_alarm_fires_on_its_own_fault_and_on_no_other(fleet: Fleet, fault: str) -> None:
    changed, expected = FAULTS[fault]

    fired, paged = fleet.fires({**HEALTHY, **changed})

    assert fired == expected
    assert paged == any(name.startswith("page-") for name in expected)
