"""The probe of an endpoint without a GPU: that the image serves there, and the interval of its metrics."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Generator
from datetime import datetime, timedelta, timezone
from typing import Any

from triton_models.probe.account import artifacts, trouble
from triton_models.probe.account.costs import CPU_ENDPOINT, CPU_TYPE
from triton_models.probe.account.endpoint import START_MINUTES, in_service, invoke, markers, upload
from triton_models.probe.account.models import configure, create_container, create_endpoint, variant
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Verdict, decide, undecided

CPU_START = "cpu-endpoint"
"""The id of the probe that starts the endpoint without a GPU, which others need."""

NOT_STARTED = ("did not pass the ping health check", "CannotStartContainerError")
"""SageMaker's messages if the container does not start."""

_INTERVAL_S = 10
_METRICS_MINUTES = 6.0
_ENOUGH = 4


def cpu_endpoint_name(work: Work) -> str:
    """Return the name of the endpoint without a GPU."""
    return work.name("Cpu")


def cpu_variant(work: Work, model: str, **more: Any) -> dict[str, Any]:
    """Return a production variant with one instance without a GPU."""
    return variant(work, model, InstanceType=CPU_TYPE, **more)


def _start(work: Work) -> Steps:
    """Start the image on a type without a GPU, invoke a model, and measure the interval of the metrics."""
    name = cpu_endpoint_name(work)
    target = upload(work, "cpu-1.tar.gz", artifacts.inspector(markers(work)))
    yield from create_container(work, name)
    refused = _configured(work, name)
    create_endpoint(work, name, name)
    found = yield from in_service(work, minutes=START_MINUTES, name=name)
    image = yield from _served(work, name, found, target)
    if refused:
        interval = decide(_INTERVAL, refused, holds=False)
    elif found["EndpointStatus"] == "InService":
        interval = yield from _published(work, name)
    else:
        interval = undecided(_INTERVAL, "the endpoint did not start")
    return [image, interval]


def _configured(work: Work, name: str) -> str:
    """Create the configuration; return SageMaker's message if it refuses the interval of the metrics."""
    from botocore.exceptions import ClientError

    variants = [cpu_variant(work, name)]
    try:
        configure(work, name, variants, MetricsConfig={"MetricPublishFrequencyInSeconds": _INTERVAL_S})
    except ClientError as error:
        if "etric" not in trouble.message(error):
            raise
        configure(work, name, variants)
        return f"{error.operation_name}: {trouble.message(error)}"
    return ""


def _served(work: Work, name: str, found: Any, target: str) -> Generator[None, None, Verdict]:
    """Return the verdict on the image, from an endpoint that has started or failed."""
    belief = "gpu-image-without-gpu"
    if found["EndpointStatus"] != "InService":
        why = trouble.failure(str(found.get("FailureReason", "without a reason")))
        fault = any(each in why for each in NOT_STARTED)
        return decide(belief, why, holds=False) if fault else undecided(belief, why)
    reply = yield from invoke(work, target, {}, name=name)
    if "version" not in reply.answer:
        return decide(belief, f"{CPU_TYPE}: {reply.code}: {reply.text}", holds=False)
    return decide(belief, f"{work.place.release.image_tag} on {CPU_TYPE} has answered", holds=True)


def _published(work: Work, name: str) -> Generator[None, None, Verdict]:
    """Wait for data points of the instance, and measure the time between them."""
    end = work.clock.now() + _METRICS_MINUTES * 60
    times = _times(work, name)
    while len(times) < _ENOUGH and work.clock.now() < end:
        yield
        times = _times(work, name)
    if len(times) < _ENOUGH:
        return undecided(
            _INTERVAL, f"{len(times)} data points of CPUUtilization in {_METRICS_MINUTES:g} minutes"
        )
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
    usual = statistics.median(gaps)  # a load or an unload may add a data point in between
    seen = f"data points of CPUUtilization are {usual:g} s apart, with an interval of {_INTERVAL_S} s"
    return decide(_INTERVAL, seen, holds=usual <= _INTERVAL_S)


def _times(work: Work, name: str) -> list[datetime]:
    """Return the times of the instance's data points, in order."""
    now = datetime.now(tz=timezone.utc)
    found = work.clients("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/Endpoints",
        MetricName="CPUUtilization",
        Dimensions=[{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": "AllTraffic"}],
        StartTime=now - timedelta(minutes=30),
        EndTime=now + timedelta(minutes=1),
        Period=_INTERVAL_S,
        Statistics=["SampleCount"],
    )
    return sorted(each["Timestamp"] for each in found["Datapoints"])


_INTERVAL = "metric-publication-interval"

PROBES = (
    AccountProbe(
        id=CPU_START,
        what=f"creates an endpoint of the release's image on {CPU_TYPE}, with metrics every {_INTERVAL_S} s",
        decides=("gpu-image-without-gpu", _INTERVAL),
        run=_start,
        creates="a log group, a model, a configuration, an endpoint of one instance",
        allowed=(
            "sagemaker:CreateModel",
            "sagemaker:CreateEndpointConfig",
            "sagemaker:CreateEndpoint",
            "sagemaker:DescribeEndpoint",
            "sagemaker:InvokeEndpoint",
            "cloudwatch:GetMetricStatistics",
        ),
        minutes=15,
        pays=((CPU_ENDPOINT, 18 / 60),),
    ),
)
