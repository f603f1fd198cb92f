"""Plays a scenario with small models against a served endpoint: requests at their times, faults at theirs.

The answer of model N is N times its input, so that a wrong answer shows.
"""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from botocore.awsrequest import AWSResponse

from embedded_aws import current_clock
from triton_models.client import Client
from triton_models.client.call import InvocationError
from triton_rehearsal.hosting.metrics import Ended, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting, Moment
from triton_rehearsal.scenario.reading import SCENARIO
from triton_rehearsal.scenario.scenario import Fault, Request, Scenario, requests

_AT_ONCE = 64
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_UNAVAILABLE = 503
_INPUT, _OUTPUT = "X", "Y"
_CONFIG = f"""max_batch_size: 8
input [{{name: "{_INPUT}" data_type: TYPE_FP32 dims: [-1]}}]
output [{{name: "{_OUTPUT}" data_type: TYPE_FP32 dims: [-1]}}]
"""
_NOT_A_TARBALL = b"not a tarball"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a request, with its time with all retries and the rule of its error, if it failed."""

    request: Request
    seconds: float
    failure: str = ""
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that happened, in numbers by target model."""

    answers: Sequence[Answer]
    loads: Counter[str]
    unloads: Counter[str]
    warm: Counter[str]  # invocations of loaded models, repeated ones included
    cold: Counter[str]  # the other invocations
    replaced: int  # instances
    instances: Sequence[tuple[float, int]]  # at the start and after each change, with the seconds since then
    instances_at_end: int  # after the last request, without those that only end their work
    alarms: Mapping[str, int]  # of the endpoint, without its name, and how often each fired
    last: Sequence[Answer] = ()  # of one more request per model at the end


class Faults:
    """Fails or delays the requests of S3 clients before they are sent, and the starts of instances.

    The SDK's own retries apply, as they do on an instance.
    """

    def __init__(self) -> None:
        self._errors_until = self._slow_until = self._delay = self._full_until = 0.0

    def attach(self, client: Any) -> None:
        """Give an S3 client the faults."""
        client.meta.events.register("before-send.s3", self._before_send, unique_id="faults")

    def fail_s3(self, seconds: float) -> None:
        """Answer every request to S3 with 503 for a time."""
        self._errors_until = time.monotonic() + seconds

    def slow_s3_down(self, seconds: float, *, delay: float) -> None:
        """Delay every request to S3 for a time."""
        self._slow_until, self._delay = time.monotonic() + seconds, delay

    def refuse_instances(self, seconds: float) -> None:
        """Let no instance start for a time."""
        self._full_until = time.monotonic() + seconds

    def admit_instance(self) -> None:
        """Raise an error while there is no capacity for an instance."""
        if time.monotonic() < self._full_until:
            raise SCENARIO.error(
                what=(
                    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity "
                    "error. Please retry using a different ML instance type or after some time."
                ),
                where="the scenario",
                fix="wait, as on AWS",
            )

    def _before_send(self, request: Any, **_: Any) -> AWSResponse | None:
        now = time.monotonic()
        if now < self._slow_until:
            threading.Event().wait(self._delay)
        if now < self._errors_until:
            headers: Any = {"Content-Type": "application/xml"}
            return AWSResponse(request.url, _UNAVAILABLE, headers, _Raw(_SLOW_DOWN))
        return None


class _Raw(io.BytesIO):
    # The SDK reads the body of an answer so.
    def stream(self, **_: Any) -> Any:
        yield self.read()


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

    def upload(self, number: int, body: bytes) -> None:
        """Put the artifact of a model into the repository."""
        self.s3.put_object(Bucket=self.bucket, Key=self.prefix + target_of(number), Body=body)


def play(scenario: Scenario, stage: Stage) -> Observed:
    """Upload the models, send the requests and inject the faults; return what happened."""
    stage.hosting.start(stage.endpoint)
    instances = stage.hosting.instances(stage.endpoint)
    backend = "onnxruntime" if instances[0].server.gpu is None else "tensorrt"
    for number in range(1, scenario.models + 1):
        stage.say(f"uploading model {number} of {scenario.models}")
        stage.upload(number, _artifact(number, size=scenario.model_size, backend=backend))
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


def _inject(fault: Fault, stage: Stage, started: Sequence[str]) -> None:
    if fault.corrupt:
        stage.upload(fault.corrupt, _NOT_A_TARBALL)
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
    inputs = {_INPUT: np.ones((1, 2), dtype=np.float32)}
    try:
        answer = client.invoke_target(target_model=target_of(request.model), inputs=inputs)
    except InvocationError as error:
        rule = error.problems[0].rule or "error"
        return Answer(request=request, seconds=time.monotonic() - began, failure=rule)
    right = answer[_OUTPUT].tolist() == [[request.model] * 2]
    return Answer(request=request, seconds=time.monotonic() - began, right=right)


def target_of(number: int) -> str:
    """Return the name of a model's artifact."""
    return f"model-{number}.tar.gz"


def _artifact(number: int, *, size: int, backend: str) -> bytes:
    """Return the artifact of a model, whose weights of a size take as much memory of a GPU."""
    files = {
        "model/config.pbtxt": f'backend: "{backend}"\n{_CONFIG}'.encode(),
        "model/1/model.onnx": _network(float(number)),
        "model/1/model.onnx.data": bytes(size),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _network(factor: float) -> bytes:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Mul", [_INPUT, "factor"], [_OUTPUT])],
        "scaling",
        [helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, ["batch", "n"])],
        [helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, ["batch", "n"])],
        [onnx.numpy_helper.from_array(np.array(factor, dtype=np.float32), "factor")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
