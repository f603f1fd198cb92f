"""Plays a scenario against a served endpoint: requests at their times, faults at theirs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from triton_aws import clock
from triton_models.client import Client
from triton_models.client.call import InvocationError
from triton_rehearsal.hosting.metrics import Ended, Event, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.scenario.faults import Faults
from triton_rehearsal.scenario.scenario import Fault, Kind, Request, Scenario
from triton_rehearsal.scenario.small_models import INPUT, OUTPUT, artifact, target_of
from triton_rehearsal.scenario.traffic import requests

_AT_ONCE = 64
_NOT_A_TARBALL = b"not a tarball"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a request.

    Attributes:
        request: The request.
        seconds: Its time with all retries.
        failure: The rule of its error; empty if it was answered.
        right: True if its answer was right.
    """

    request: Request
    seconds: float
    failure: str = ""
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that happened.

    Attributes:
        answers: The outcomes of the requests.
        last: The outcomes of one more request per model at the end.
        loads: Number of loads.
        unloads: Number of unloads.
        replaced: Number of instances that were replaced.
        most_instances: The largest number of instances at one time.
        instances: Number of instances after the last request.
        alarms: The alarms of the endpoint, without its name, and how often each fired.
    """

    answers: Sequence[Answer]
    last: Sequence[Answer]
    loads: int
    unloads: int
    replaced: int
    most_instances: int
    instances: int
    alarms: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The place where a scenario is played.

    Attributes:
        hosting: The hosting of the endpoint.
        endpoint: The endpoint's name.
        client: A client of the endpoint.
        s3: An S3 client without faults.
        bucket: The bucket of the repository.
        prefix: Its prefix, with a slash at the end unless it is empty.
        cloudwatch: A CloudWatch client.
        faults: The faults around the instances.
    """

    hosting: Hosting
    endpoint: str
    client: Client
    s3: Any
    bucket: str
    prefix: str
    cloudwatch: Any
    faults: Faults


def play(scenario: Scenario, stage: Stage) -> Observed:
    """Upload the models, send the requests and inject the faults; return what happened.

    Raises:
        FleetError: The endpoint does not start.
    """
    stage.hosting.start(stage.endpoint)
    instances = stage.hosting.instances(stage.endpoint)
    began = clock.current().time()
    backend = "onnxruntime" if instances[0].server.gpu is None else "tensorrt"
    for number in range(1, scenario.models + 1):
        _upload(stage, number, artifact(number, size=scenario.model_bytes, backend=backend))
    started = [instance.id for instance in instances]
    answers: list[Answer] = []

    def ask(request: Request) -> None:
        answers.append(_ask(stage.client, request))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        planned: list[tuple[float, Callable[[], Any]]] = [
            *((fault.at, partial(_inject, fault, stage, started)) for fault in scenario.faults),
            *((each.at, partial(pool.submit, ask, each)) for each in requests(scenario)),
        ]
        _run_at_their_times(sorted(planned, key=lambda each: each[0]))
    instances = stage.hosting.instances(stage.endpoint)
    working = [number for number in range(1, scenario.models + 1) if number not in scenario.expected.failing]
    wanted = working if scenario.expected.recovers else []
    events = [moment.event for moment in tuple(stage.hosting.timeline)]
    return Observed(
        answers=answers,
        last=[_ask(stage.client, Request(at=0, model=number)) for number in wanted],
        loads=sum(isinstance(event, Load) for event in events),
        unloads=sum(isinstance(event, Unload) for event in events),
        replaced=sum(isinstance(event, Ended) and event.reason != "" for event in events),
        most_instances=max(itertools.accumulate(map(_change, events))),
        instances=len(instances),
        alarms=_fired(stage, since=began) if scenario.expected.alarms or scenario.expected.no_alarms else {},
    )


def _change(event: Event) -> int:
    return isinstance(event, Started) - isinstance(event, Ended)


def _fired(stage: Stage, *, since: float) -> Mapping[str, int]:
    """Return how often each alarm of the endpoint has fired, from its history."""
    stage.hosting.flush_metrics()
    prefix = f"{stage.endpoint}-"
    alarms = stage.cloudwatch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
    fired = dict.fromkeys((alarm["AlarmName"].removeprefix(prefix) for alarm in alarms), 0)
    pages = stage.cloudwatch.get_paginator("describe_alarm_history").paginate(HistoryItemType="StateUpdate")
    for entry in (entry for page in pages for entry in page["AlarmHistoryItems"]):
        name, to = entry["AlarmName"].removeprefix(prefix), json.loads(entry["HistoryData"])["newState"]
        if name in fired and to["stateValue"] == "ALARM" and entry["Timestamp"].timestamp() >= since:
            fired[name] += 1
    return fired


def _run_at_their_times(planned: Sequence[tuple[float, Callable[[], Any]]]) -> None:
    began, moment = time.monotonic(), threading.Event()
    for at, action in planned:
        moment.wait(max(0.0, began + at - time.monotonic()))
        action()


def _upload(stage: Stage, number: int, body: bytes) -> None:
    stage.s3.put_object(Bucket=stage.bucket, Key=stage.prefix + target_of(number), Body=body)


def _inject(fault: Fault, stage: Stage, started: Sequence[str]) -> None:
    if fault.kind is Kind.CORRUPT:
        _upload(stage, fault.target, _NOT_A_TARBALL)
    elif fault.kind is Kind.S3_ERRORS:
        stage.faults.fail_s3(fault.seconds)
    elif fault.kind is Kind.S3_DELAY:
        stage.faults.slow_s3_down(fault.seconds, delay=fault.delay)
    elif fault.kind is Kind.NO_CAPACITY:
        stage.faults.refuse_instances(fault.seconds)
    else:
        chosen = signal.SIGKILL if fault.kind is Kind.KILL else signal.SIGSTOP
        for instance in stage.hosting.instances(stage.endpoint):
            if instance.id == started[fault.target - 1]:
                os.kill(instance.server.pid, chosen)


def _ask(client: Client, request: Request) -> Answer:
    began = time.monotonic()
    inputs = {INPUT: np.ones((1, 2), dtype=np.float32)}
    try:
        answer = client.invoke_target(target_model=target_of(request.model), inputs=inputs)
    except InvocationError as error:
        rule = error.problems[0].rule or "error"
        return Answer(request=request, seconds=time.monotonic() - began, failure=rule)
    right = answer[OUTPUT].tolist() == [[request.model] * 2]
    return Answer(request=request, seconds=time.monotonic() - began, right=right)
