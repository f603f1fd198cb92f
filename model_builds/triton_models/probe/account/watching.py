"""Probes of SageMaker's reports about an endpoint: its metrics, and the events of a deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.endpoint import START, endpoint_name, in_service, invoke, serving
from triton_models.probe.account.models import configure, deployment_config, variant
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import decide, undecided

_OF_REQUESTS, _OF_INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
_BY_CONFIG = ("Invocation5XXErrors", "InvocationModelErrors")
_OF_GPUS = ("GPUUtilization", "GPUMemoryUtilization")
# The metrics of a multi-model endpoint on a fleet's dashboard.
_DASHBOARD = (
    "Invocations",
    "ModelLatency",
    "OverheadLatency",
    "ModelCacheHit",
    "ModelLoadingWaitTime",
    "LoadedModelCount",
    "CPUUtilization",
    "MemoryUtilization",
    "DiskUtilization",
    *_OF_GPUS,
)
_CONCURRENCY = ("ConcurrentRequestsPerModel", "ConcurrentRequestsPerCopy")
_PUBLISHED_MINUTES = 10.0


def _metrics(work: Work) -> Steps:
    """Send requests, one of which fails, and list the resulting metrics."""
    name = serving(work)
    yield from invoke(work, "inspector-1.tar.gz", {"fail": "for the metrics"})
    yield from invoke(work, "inspector-1.tar.gz", {})
    end = work.clock.now() + _PUBLISHED_MINUTES * 60
    found = _listed(work, name)
    while work.clock.now() < end and not _complete(found):
        yield
        found = _listed(work, name)
    listed = {metric: sorted({", ".join(each) for each in sets}) for metric, sets in sorted(found.items())}
    work.observe("metrics", {"dimension": "EndpointName"}, listed)
    variant_of = ("EndpointName", "VariantName")
    by_config = [each for each in _BY_CONFIG if any("EndpointConfigName" in s for s in found.get(each, ()))]
    gpus = [each for each in _OF_GPUS if variant_of in found.get(each, ())]
    shown = [each for each in _DASHBOARD if found.get(each)]
    high = [each for each in _CONCURRENCY if found.get(each)]
    return [
        decide(
            "endpoint-config-dimension",
            f"with EndpointConfigName: {', '.join(by_config) or 'none'} of {', '.join(_BY_CONFIG)}",
            holds=len(by_config) == len(_BY_CONFIG),
        ),
        _gpu_verdict(work, name, gpus),
        decide(
            "dashboard-has-data",
            f"without data: {', '.join(each for each in _DASHBOARD if each not in shown) or 'none'}",
            holds=len(shown) == len(_DASHBOARD),
        ),
        decide("high-resolution-concurrency", f"listed: {', '.join(high) or 'none'}", holds=bool(high)),
    ]


def _listed(work: Work, name: str) -> dict[str, set[tuple[str, ...]]]:
    """Return the dimension names of each metric of the endpoint, by the metric's name."""
    found: dict[str, set[tuple[str, ...]]] = {}
    pages = work.clients("cloudwatch").get_paginator("list_metrics")
    for namespace in (_OF_REQUESTS, _OF_INSTANCES):
        asked = {"Namespace": namespace, "Dimensions": [{"Name": "EndpointName", "Value": name}]}
        for page in pages.paginate(**asked):
            for metric in page["Metrics"]:
                names = tuple(sorted(each["Name"] for each in metric["Dimensions"]))
                found.setdefault(metric["MetricName"], set()).add(names)
    return found


def _complete(found: dict[str, set[tuple[str, ...]]]) -> bool:
    by_config = all(any("EndpointConfigName" in each for each in found.get(name, ())) for name in _BY_CONFIG)
    return by_config and all(found.get(name) for name in (*_DASHBOARD, _CONCURRENCY[0]))


def _gpu_verdict(work: Work, name: str, gpus: list[str]) -> Any:
    """Decide if a GPU's metrics exist, and stay below 100 per GPU."""
    belief = "gpu-metrics-sum"
    if len(gpus) < len(_OF_GPUS):
        return decide(belief, f"by EndpointName and VariantName: {', '.join(gpus) or 'none'}", holds=False)
    most = 100.0 * work.place.instance.gpu_count
    highest = {metric: max(_values(work, name, metric), default=0.0) for metric in gpus}
    seen = ", ".join(f"{metric} up to {value:g}" for metric, value in highest.items())
    if work.place.instance.gpu_count == 1 and all(value <= most for value in highest.values()):
        return undecided(belief, f"{seen}; a single GPU does not show if several are summed")
    return decide(belief, seen, holds=all(value <= most for value in highest.values()))


def _values(work: Work, name: str, metric: str) -> Iterator[float]:
    from datetime import datetime, timedelta, timezone

    now = datetime.now(tz=timezone.utc)
    found = work.clients("cloudwatch").get_metric_statistics(
        Namespace=_OF_INSTANCES,
        MetricName=metric,
        Dimensions=[{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": "AllTraffic"}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Maximum"],
    )
    for each in found["Datapoints"]:
        yield each["Maximum"]


def _bakes(work: Work) -> Steps:
    """Update the endpoint with a deployment that bakes, and read SageMaker's events."""
    name, sagemaker = serving(work), work.clients("sagemaker")
    queue = yield from _event_queue(work)
    config = work.name("update")
    configure(work, config, [variant(work, name, InferenceAmiVersion=work.place.release.inference_ami)])
    if sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"] != config:
        deployment = deployment_config(work.clock.bake_s)
        sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=config, DeploymentConfig=deployment)
    ended = yield from in_service(work, minutes=45)
    worked = ended["EndpointStatus"] == "InService" and ended["EndpointConfigName"] == config
    how = f"{ended['EndpointStatus']}, {ended.get('FailureReason', 'updated')}"
    events = yield from _events(work, queue)
    baking = [each for each in events if "Baking" in json.dumps(each)]
    names = {each["detail"].get("EndpointName") for each in baking}
    work.observe(
        "bake-announcement", {"bake_s": work.clock.bake_s}, {"events": len(events), "baking": baking[:1]}
    )
    whose = ", ".join(map(str, names)) or "no endpoint"
    seen = f"{len(events)} events, {len(baking)} of them of a bake, for {whose}"
    return [
        decide("guardrails-with-multi-model", how, holds=worked),
        decide("bake-announcement", seen, holds=names == {name})
        if worked
        else undecided("bake-announcement", how),
    ]


def _event_queue(work: Work) -> Any:
    """Return the URL of a queue that receives SageMaker's events about endpoint deployments."""
    sqs, events, name = work.clients("sqs"), work.clients("events"), work.name("events")
    place = work.place
    arn = f"arn:{place.partition}:sqs:{place.region}:{place.account}:{name}"
    allow = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
            }
        ],
    }
    pattern = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Endpoint Deployment State Change"]}
    work.create(
        "queue", name, lambda: sqs.create_queue(QueueName=name, Attributes={"Policy": json.dumps(allow)})
    )
    work.create("rule", name, lambda: events.put_rule(Name=name, EventPattern=json.dumps(pattern)))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    yield
    return sqs.get_queue_url(QueueName=name)["QueueUrl"]


def _events(work: Work, queue: str) -> Any:
    """Return the events in the queue about this endpoint, in any spelling of its name."""
    found: list[dict[str, Any]] = []
    empty = 0
    while empty < 3:  # noqa: PLR2004 -- a short poll queries only some of a queue's servers
        messages = (
            work.clients("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", ())
        )
        empty = 0 if messages else empty + 1
        for message in messages:
            event = json.loads(message["Body"])
            if endpoint_name(work).lower() in json.dumps(event).lower():
                found.append(event)
            work.clients("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        yield
    return found


PROBES = (
    AccountProbe(
        id="metrics",
        what="lists the metrics that appear with traffic",
        decides=(
            "endpoint-config-dimension",
            "gpu-metrics-sum",
            "dashboard-has-data",
            "high-resolution-concurrency",
        ),
        run=_metrics,
        allowed=("cloudwatch:ListMetrics", "cloudwatch:GetMetricStatistics", "sagemaker:InvokeEndpoint"),
        minutes=10,
        pays=((ENDPOINT, 10 / 60),),
        needs=(START,),
        after=("answers",),
    ),
    AccountProbe(
        id="bakes",
        what="updates the endpoint with a deployment that bakes, and reads the events",
        decides=("guardrails-with-multi-model", "bake-announcement"),
        run=_bakes,
        creates="an EventBridge rule, an SQS queue, a configuration, one more instance",
        allowed=(
            "sagemaker:UpdateEndpoint",
            "sagemaker:CreateEndpointConfig",
            "events:PutRule",
            "events:PutTargets",
            "events:ListTargetsByRule",
            "events:RemoveTargets",
            "events:DeleteRule",
            "sqs:CreateQueue",
            "sqs:GetQueueUrl",
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:DeleteQueue",
        ),
        minutes=18,
        pays=((ENDPOINT, 36 / 60),),
        needs=(START,),
        after=("container", "answers", "overwritten", "eviction", "slow-load", "scaling", "metrics"),
    ),
)
