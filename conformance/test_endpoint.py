"""Beliefs about a multi-model endpoint with a GPU: one endpoint, from its start to its deletion."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest
from botocore.exceptions import ClientError

from conformance import endpoints
from conformance.account import ENVIRONMENT, Account, allow, dimensions, hindrance, policy
from conformance.beliefs import account
from conformance.endpoints import INSPECTOR, invoke, invoke_once, markers
from conformance.models import body, model
from conformance.records import Asked
from conformance.sweep import TAG, VARIANT, absent
from triton_fleet.endpoint.functions.code.warm_up import REFUSED_INPUT
from triton_models.facts.limits import PAYLOAD_LIMIT

pytestmark = account(minutes=0)  # unless a test says otherwise
hosted = endpoints.hosted
Metrics: TypeAlias = dict[str, list[list[str]]]
Seen: TypeAlias = Mapping[str, Any]

A_MINUTE = 1.515 / 60  # of ml.g5.2xlarge
GPU_METRICS = ("GPUUtilization", "GPUMemoryUtilization")
OF_REQUESTS, OF_INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
# The metrics of a multi-model endpoint on a fleet's dashboard.
DASHBOARD = {
    *("Invocations", "ModelLatency", "OverheadLatency", "ModelCacheHit", "ModelLoadingWaitTime"),
    *("LoadedModelCount", "CPUUtilization", "MemoryUtilization", "DiskUtilization", *GPU_METRICS),
}
AMI_DRIVERS = {"al2-ami-sagemaker-inference-gpu-3-1": "550", "al2023-ami-sagemaker-inference-gpu-4-1": "580"}
AMI_AT_FAULT = re.compile(
    r"Invalid combination|InferenceAmiVersion|AMI|CUDA driver version is insufficient|unsatisfied"
)


def costs(minutes: float, **more: Any) -> pytest.MarkDecorator:
    return account(minutes=minutes, dollars=round(minutes * A_MINUTE, 3), **more)


@pytest.fixture(scope="module")
def started(aws: Account) -> Seen:
    """The endpoint with the release's AMI, once its start has ended."""
    aws.put(INSPECTOR, model(markers(aws)))
    name = endpoints.container(aws, "Serving")  # capitals, like a fleet's: AWS changes their case in places
    try:
        ami = aws.release.inference_ami
        config = aws.configuration("Serving", aws.variant(name, InferenceAmiVersion=ami))
        endpoints.create(aws, name, config)
    except ClientError as error:
        if not AMI_AT_FAULT.search(str(error)):
            raise
        return {"name": name, "status": "refused", "why": str(error), "minutes": 0, "arn": ""}
    began = time.monotonic()
    found = endpoints.settled(aws, name)
    found_log = aws.client("logs").filter_log_events(logGroupName=f"{endpoints.LOG_GROUPS}{name}")
    log = " | ".join(each["message"].strip() for each in found_log.get("events", ())[-5:])
    return {
        "name": name,
        "status": found["EndpointStatus"],
        "why": f"{found.get('FailureReason', '')}; the log: {log}",
        "minutes": (time.monotonic() - began) / 60,
        "arn": found["EndpointArn"],
    }


@pytest.fixture(scope="module")
def endpoint(started: Seen) -> str:
    if started["status"] != "InService":
        pytest.skip(hindrance(started["why"]) or f"the endpoint is {started['status']}: {started['why']}")
    return str(started["name"])


@costs(12, cheap=True, creates="a bucket, a role, a log group, a model, a configuration, an endpoint")
def test_an_endpoint_starts_with_the_releases_ami(started: Seen, ask: Asked) -> None:
    if started["status"] not in {"InService", "refused"} and not AMI_AT_FAULT.search(started["why"]):
        pytest.skip(hindrance(started["why"]) or started["why"])
    assert ask(lambda: started["status"]) == "InService", started["why"]


@account(cheap=True, minutes=0, alone="the time that an instance takes")
def test_it_starts_in_the_usual_time(endpoint: str, started: Seen, ask: Asked) -> None:
    del endpoint
    assert 4 <= ask(lambda: started["minutes"]) <= 20


@account(cheap=True, minutes=0)
def test_its_arn_is_in_lower_case(endpoint: str, started: Seen, ask: Asked) -> None:
    assert ask(lambda: started["arn"].rpartition("/")[2] == endpoint.lower())


@costs(0.5, cheap=True)
def test_it_loads_a_model_of_stored_blocks_from_its_prefix(aws: Account, endpoint: str, ask: Asked) -> None:
    reply = ask(lambda: invoke(aws, endpoint, INSPECTOR))
    assert reply["answer"] == {"version": 1}, reply["text"]


@pytest.fixture(scope="module")
def seen(aws: Account, endpoint: str) -> Seen:
    """What a model sees of its host."""
    reply = invoke(aws, endpoint, INSPECTOR, {"see": "host"})
    if "server" not in reply["answer"]:
        pytest.skip(f"the model could not be invoked: {reply['text']}")
    found: Seen = reply["answer"]
    return found


@costs(0.5, cheap=True)
def test_an_executable_file_stays_executable(seen: Seen, ask: Asked) -> None:
    assert ask(lambda: seen["executable"]) is True


@account(cheap=True, minutes=0)
def test_the_start_script_passes_variables_on(seen: Seen, ask: Asked) -> None:
    size = ENVIRONMENT["SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE"]
    expected = {f"--backend-config=python,shm-default-byte-size={size}", "--log-verbose=false"}
    assert set(ask(lambda: sorted(expected & set(seen["server"])))) == expected


@account(cheap=True, minutes=0, alone="the container and the driver of a host")
def test_shared_memory_is_64_mb(seen: Seen, ask: Asked) -> None:
    fields = ask(lambda: seen["shared_memory"])[-1].split()  # device, blocks, used ...
    assert int(fields[1]) == 64 * 1024


@account(cheap=True, minutes=0, alone="the container and the driver of a host")
def test_an_ami_has_its_driver(aws: Account, seen: Seen, ask: Asked) -> None:
    driver = ask(lambda: seen["driver"]).partition("\n")[0].rpartition(",")[2].strip()
    assert driver.partition(".")[0] == AMI_DRIVERS.get(str(aws.release.inference_ami))


@costs(2)
def test_the_least_recently_used_model_is_unloaded_first(aws: Account, endpoint: str, ask: Asked) -> None:
    targets = {each: aws.put(f"{each}-1.tar.gz", model(markers(aws), each, fits=2)) for each in "abc"}

    def loaded() -> list[str]:
        for each in ("a", "b", "a", "c"):
            reply = invoke(aws, endpoint, targets[each])
            assert reply["status"] == 200, f"{each} of a, b, a, c: {reply['text']}"
        found: list[str] = invoke(aws, endpoint, INSPECTOR, {"see": "host"})["answer"]["loaded"]
        return found

    assert ask(loaded) == ["a", "c"]


WORDED: Mapping[str, tuple[int, str, str]] = {
    "a missing model": (400, "ValidationError", r"Failed to download model data"),
    "not an archive": (400, "ValidationError", r"Failed to extract model data archive"),
    "no target model": (400, "ValidationError", r"target model header"),
    "no endpoint": (400, "ValidationError", r"Endpoint .* of account .* not found"),
    "a model raises": (424, "ModelError", r"Received (client|server) error \(\d+\) from (primary|model)"),
}


@pytest.mark.parametrize("mistake", WORDED)
@costs(0.2)
def test_an_error_is_worded_as_on_record(aws: Account, endpoint: str, ask: Asked, mistake: str) -> None:
    aws.put("not-an-archive.tar.gz", b"this is not an archive")
    absent_or_broken = mistake in {"a missing model", "not an archive"}
    target = f"{mistake.replace(' ', '-')}.tar.gz" if absent_or_broken else INSPECTOR
    name = aws.name("nowhere") if mistake == "no endpoint" else endpoint
    asked = {"fail": "as asked"} if mistake == "a model raises" else {}
    reply = ask(lambda: invoke(aws, name, "" if mistake == "no target model" else target, asked))
    status, code, words = WORDED[mistake]
    assert (reply["status"], reply["code"]) == (status, code)
    assert re.search(words, reply["text"])


@costs(0.5)
def test_a_refused_input_is_not_a_failed_load(aws: Account, endpoint: str, ask: Asked) -> None:
    aws.put("unloadable-1.tar.gz", model(markers(aws), "unloadable", seconds=-1))
    raised = ask(lambda: invoke(aws, endpoint, INSPECTOR, {"fail": "as asked"})["original"], "loaded")
    unloaded = invoke(aws, endpoint, "unloadable-1.tar.gz")["original"]  # its text names a hash and a line
    assert REFUSED_INPUT.match(raised)
    assert not ask(lambda: bool(REFUSED_INPUT.match(unloaded)), "not loaded")


@costs(0.5)
def test_six_mib_are_accepted_and_a_byte_more_is_not(aws: Account, endpoint: str, ask: Asked) -> None:
    sizes = (PAYLOAD_LIMIT, PAYLOAD_LIMIT + 1)
    fits, over = ask(lambda: [invoke(aws, endpoint, INSPECTOR, Body=body({}, n))["status"] for n in sizes])
    assert (fits == 200, over == 200) == (True, False)


@costs(0.1)
def test_no_session_begins(aws: Account, endpoint: str, ask: Asked) -> None:
    assert ask(lambda: invoke(aws, endpoint, INSPECTOR, SessionId="NEW_SESSION")["session"]) == ""


@costs(3)
def test_a_model_that_is_still_loading_is_not_ready(aws: Account, endpoint: str, ask: Asked) -> None:
    target = aws.put("slow-1.tar.gz", model(markers(aws), "slow", seconds=1 if aws.embedded else 80))
    first = ask(lambda: [invoke_once(aws, endpoint, target)[each] for each in ("status", "code")], "at first")
    assert first == [429, endpoints.NOT_READY]
    assert ask(lambda: invoke(aws, endpoint, target)["status"], "at last") == 200


@costs(6, alone="the metrics of a GPU", creates="a scalable target, a policy, alarms")
def test_a_policys_alarms_see_the_gpu(aws: Account, endpoint: str, ask: Asked) -> None:
    scaling, scaled = aws.client("application-autoscaling"), f"endpoint/{endpoint}/variant/AllTraffic"
    scaling.register_scalable_target(**VARIANT, ResourceId=scaled, MinCapacity=1, MaxCapacity=1)
    metric = {
        "MetricName": "GPUUtilization",
        "Namespace": OF_INSTANCES,
        "Dimensions": dimensions(endpoint),
        "Statistic": "Average",
        "Unit": "Percent",
    }
    tracking = {"TargetValue": 60.0, "CustomizedMetricSpecification": metric}
    scaling.put_scaling_policy(
        **VARIANT,
        ResourceId=scaled,
        PolicyName=aws.name("gpu"),
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
    )

    def states() -> list[str]:
        found = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"TargetTracking-{scaled}")
        return sorted({each["StateValue"] for each in found["MetricAlarms"]} - {"INSUFFICIENT_DATA"})

    assert ask(lambda: aws.watch(states, minutes=10))


@pytest.fixture(scope="module")
def metrics(aws: Account, endpoint: str) -> Metrics:
    """The names of the dimensions of each metric of the endpoint, after requests of which one fails."""
    invoke(aws, endpoint, INSPECTOR, {"fail": "for the metrics"})
    invoke(aws, endpoint, INSPECTOR)
    found: Metrics = {}

    def complete() -> bool:
        found.clear()
        for namespace in (OF_REQUESTS, OF_INSTANCES):
            asked = {"Namespace": namespace, "Dimensions": [{"Name": "EndpointName", "Value": endpoint}]}
            for page in aws.client("cloudwatch").get_paginator("list_metrics").paginate(**asked):
                for each in page["Metrics"]:
                    names = sorted(dimension["Name"] for dimension in each["Dimensions"])
                    found.setdefault(each["MetricName"], []).append(names)
        return found.keys() > DASHBOARD

    aws.watch(complete, minutes=10)
    return found


@costs(10)
def test_errors_are_counted_by_configuration(metrics: Metrics, ask: Asked) -> None:
    for name in ("Invocation5XXErrors", "InvocationModelErrors"):
        assert ask(lambda: any("EndpointConfigName" in each for each in metrics.get(name, ())), name)  # noqa: B023


@account(minutes=0, alone="the metrics of a host")
def test_the_dashboards_metrics_have_data(metrics: Metrics, ask: Asked) -> None:
    assert set(ask(lambda: sorted(metrics))) >= DASHBOARD


@account(minutes=0, alone="the metrics of a host")
def test_concurrency_is_measured(metrics: Metrics, ask: Asked) -> None:
    assert {"ConcurrentRequestsPerModel", "ConcurrentRequestsPerCopy"} & set(ask(lambda: sorted(metrics)))


@account(minutes=0, alone="the metrics of a GPU")
def test_metrics_are_below_100_per_gpu(aws: Account, endpoint: str, metrics: Metrics, ask: Asked) -> None:
    def highest() -> dict[str, float]:
        shown = [each for each in GPU_METRICS if ["EndpointName", "VariantName"] in metrics.get(each, ())]
        points = {each: aws.statistics(endpoint, each, period=60, statistic="Maximum") for each in shown}
        return {name: max((each["Maximum"] for each in found), default=0.0) for name, found in points.items()}

    found, gpus = ask(highest), aws.instance.gpu_count
    assert set(found) == set(GPU_METRICS)
    assert all(each <= 100.0 * gpus for each in found.values())
    if gpus == 1:
        pytest.skip("one GPU does not show whether several are summed")


@pytest.fixture(scope="module")
def queue(aws: Account) -> str:
    """The URL of a queue of SageMaker's events about deployments of endpoints."""
    sqs, events, name = aws.client("sqs"), aws.client("events"), aws.name("events")
    arn = aws.arn("sqs", name)
    allowed = allow(["sqs:SendMessage"], arn, Principal={"Service": "events.amazonaws.com"})
    attributes, tags = {"Policy": policy(allowed)}, {TAG: aws.run}
    url = sqs.create_queue(QueueName=name, Attributes=attributes, tags=tags)["QueueUrl"]
    pattern = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Endpoint Deployment State Change"]}
    events.put_rule(Name=name, EventPattern=json.dumps(pattern), Tags=aws.tags)
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return str(url)


@costs(36, creates="a rule, a queue, a configuration, one more instance")
def test_a_deployment_bakes_and_says_so(aws: Account, endpoint: str, queue: str, ask: Asked) -> None:
    change = aws.variant(endpoint, InferenceAmiVersion=aws.release.inference_ami)
    config = aws.configuration("update", change)
    move = {"EndpointName": endpoint, "EndpointConfigName": config}

    def updated() -> list[Any]:
        aws.client("sagemaker").update_endpoint(**move, DeploymentConfig=endpoints.deployment(aws))
        found = endpoints.settled(aws, endpoint)
        return [found["EndpointStatus"], found["EndpointConfigName"] == config, found.get("FailureReason")]

    def named() -> list[str]:
        sqs, empty, found = aws.client("sqs"), 0, set()
        while empty < 3:  # a short poll asks only some of a queue's servers
            messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", ())
            empty = 0 if messages else empty + 1
            for each in messages:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
                event = json.loads(each["Body"])
                if "Baking" in each["Body"] and endpoint.lower() in each["Body"].lower():
                    found.add(event["detail"].get("EndpointName"))
        return sorted(map(str, found))

    assert ask(updated, "the update")[:2] == ["InService", True]
    assert ask(lambda: [each == endpoint for each in named()], "names the endpoint") == [True]


def test_a_host_logs_nothing_if_it_may_not_create_the_group(aws: Account, endpoint: str, ask: Asked) -> None:
    assert ask(lambda: len(endpoints.log_streams(aws, endpoint) or ())) == 0


@costs(2)
def test_its_last_request_is_answered_and_its_log_stays(aws: Account, endpoint: str, ask: Asked) -> None:
    seconds = 1 if aws.embedded else 30
    sagemaker = aws.client("sagemaker")

    def gone() -> bool | None:
        try:
            sagemaker.describe_endpoint(EndpointName=endpoint)
        except ClientError as error:
            if not absent(error):
                raise
            return True
        return None

    def answered() -> int:
        invoke(aws, endpoint, INSPECTOR)
        with ThreadPoolExecutor() as background:
            request = background.submit(invoke, aws, endpoint, INSPECTOR, {"sleep": seconds})
            time.sleep(seconds / 3)
            sagemaker.delete_endpoint(EndpointName=endpoint)
            return int(request.result()["status"])

    assert ask(answered, "a request in progress") == 200
    aws.until(gone, minutes=10, what="the deletion")
    assert ask(lambda: endpoints.log_streams(aws, endpoint) is not None, "the log is there")
