"""Plays a scenario against a served endpoint: requests at their times, faults at theirs."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from embedded_aws import current_clock
from triton_models.client import Client
from triton_models.client.call import InvocationError
from triton_rehearsal.hosting.metrics import Ended, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting, Moment
from triton_rehearsal.scenario.faults import Faults
from triton_rehearsal.scenario.scenario import Fault, Request, Scenario
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
        loads: Number of loads by target model.
        unloads: Number of unloads by target model.
        warm: Number of invocations of loaded models, repeated ones included, by target model.
        cold: Number of the other invocations.
        replaced: Number of instances that were replaced.
        instances: Number of instances at the start and after each change, with the seconds since the start.
        instances_at_end: Number of instances after the last request, without those that only end their work.
        alarms: The alarms of the endpoint, without its name, and how often each fired.
    """

    answers: Sequence[Answer]
    loads: Counter[str]
    unloads: Counter[str]
    warm: Counter[str]
    cold: Counter[str]
    replaced: int
    instances: Sequence[tuple[float, int]]
    instances_at_end: int
    alarms: Mapping[str, int]
    last: Sequence[Answer] = ()

    @property
    def most_instances(self) -> int:
        """The largest number of instances at one time."""
        return max(count for _, count in self.instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The place where a scenario is played. The S3 client is one without faults."""

    hosting: Hosting
    endpoint: str
    client: Client
    s3: Any
    bucket: str
    prefix: str
    cloudwatch: Any
    faults: Faults
    say: Callable[[str], object] = str


def play(scenario: Scenario, stage: Stage) -> Observed:
    """Upload the models, send the requests and inject the faults; return what happened until the last answer.

    Raises:
        FleetError: The endpoint does not start.
    """
    stage.hosting.start(stage.endpoint)
    instances = stage.hosting.instances(stage.endpoint)
    backend = "onnxruntime" if instances[0].server.gpu is None else "tensorrt"
    for number in range(1, scenario.models + 1):
        stage.say(f"uploading model {number} of {scenario.models}")
        _upload(stage, number, artifact(number, size=scenario.model_size, backend=backend))
    started = [instance.id for instance in instances]
    answers: list[Answer] = []
    arriving = requests(scenario)

    def ask(request: Request) -> None:
        answers.append(_ask(stage.client, request))
        stage.say(f"answered {len(answers)} of {len(arriving)} requests")

    began = current_clock().time()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        planned: list[tuple[float, Callable[[], Any]]] = [
            *((fault.at, partial(_inject, fault, stage, started)) for fault in scenario.faults),
            *((each.at, partial(pool.submit, ask, each)) for each in arriving),
        ]
        _run_at_their_times(sorted(planned, key=lambda each: each[0]))
    serving = stage.hosting.instances(stage.endpoint)
    moments, figures = tuple(stage.hosting.timeline), dict(stage.hosting.figures).items()
    return Observed(
        answers=answers,
        loads=Counter(each.event.target for each in moments if isinstance(each.event, Load)),
        unloads=Counter(each.event.target for each in moments if isinstance(each.event, Unload)),
        warm=Counter({target: each.warm for (_, target), each in figures}),
        cold=Counter({target: each.cold for (_, target), each in figures}),
        replaced=sum(isinstance(each.event, Ended) and each.event.reason != "" for each in moments),
        instances=list(_instances(moments, began=began)),
        instances_at_end=len(serving),
        alarms=_fired(stage, since=began) if scenario.expect.alarms or scenario.expect.no_alarms else {},
    )


def ask_again(scenario: Scenario, stage: Stage) -> Sequence[Answer]:
    """Ask every model once more that must answer at the end, one after the other."""
    expect = scenario.expect
    working = [number for number in range(1, scenario.models + 1) if number not in expect.failing_models]
    answers: list[Answer] = []
    for count, number in enumerate(working if expect.recovers else (), start=1):
        stage.say(f"answering {count} of {len(working)} models once more")
        answers.append(_ask(stage.client, Request(at=0, model=number)))
    return answers


def _instances(moments: Sequence[Moment], *, began: float) -> Iterator[tuple[float, int]]:
    """Yield the number of instances at the start, and at each change."""
    changes = [
        (max(0.0, moment.at - began) / current_clock().pace, 1 if isinstance(moment.event, Started) else -1)
        for moment in moments
        if isinstance(moment.event, Started | Ended)
    ]
    count = sum(change for at, change in changes if not at)
    yield 0.0, count
    for at, change in changes:
        if at:
            count += change
            yield round(at, 1), count


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
    if fault.corrupt:
        _upload(stage, fault.corrupt, _NOT_A_TARBALL)
    if fault.s3_errors:
        stage.faults.fail_s3(fault.s3_errors)
    if fault.s3_delay and fault.delay:
        stage.faults.slow_s3_down(fault.s3_delay, delay=fault.delay)
    if fault.no_capacity:
        stage.faults.refuse_instances(fault.no_capacity)
    for number, chosen in ((fault.kill, signal.SIGKILL), (fault.hang, signal.SIGSTOP)):
        for instance in stage.hosting.instances(stage.endpoint) if number else ():
            if number and instance.id == started[number - 1]:
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
