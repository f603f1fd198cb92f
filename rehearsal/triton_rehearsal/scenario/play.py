"""Plays a scenario with small models against a served endpoint: requests at their times, faults at theirs.

The answer of model N is N times its input, so that a wrong answer shows.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from botocore.awsrequest import AWSResponse

from embedded_aws import current_clock
from triton_models.base.encoding import Array
from triton_models.client.asynchronous import AsyncClient
from triton_models.client.call import InvocationError
from triton_models.load import generator
from triton_models.load.scenario import SCENARIO
from triton_rehearsal.hosting.metrics import Ended, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting, Moment
from triton_rehearsal.scenario.scenario import Fault, Scenario, requests, target_of

WRONG = "wrong answer"
"""The kind of a request whose answer is not the model's."""

_NO_KIND = -2
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_UNAVAILABLE = 503
_INPUT, _OUTPUT = "X", "Y"
_CONFIG = f"""max_batch_size: 8
input [{{name: "{_INPUT}" data_type: TYPE_FP32 dims: [-1]}}]
output [{{name: "{_OUTPUT}" data_type: TYPE_FP32 dims: [-1]}}]
"""
_NOT_A_TARBALL = b"not a tarball"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that happened, in numbers by target model."""

    run: generator.Run  # all requests, with all attempts; an error is its rule
    loads: Counter[str]
    unloads: Counter[str]
    warm: Counter[str]  # invocations of loaded models, repeated ones included
    cold: Counter[str]  # the other invocations
    replaced: int  # instances
    instances: Sequence[tuple[float, int]]  # at the start and after each change, with the seconds since then
    instances_at_end: int  # after the last request, without those that only end their work
    alarms: Mapping[str, int]  # of the endpoint, without its name, and how often each fired
    # The error of one more request to each model, or "".
    last: Mapping[int, str] = field(default_factory=dict)

    @property
    def seconds(self) -> Array:
        """The time of each request from its intended moment to its answer, with all attempts."""
        return self.run.done - self.run.schedule.at

    @property
    def wrong(self) -> Array:
        """Whether each request has a wrong answer."""
        kinds = self.run.kinds
        wrong: Array = self.run.kind == (kinds.index(WRONG) + 1 if WRONG in kinds else _NO_KIND)
        return wrong

    @property
    def answered(self) -> Array:
        """Whether each request has an answer, right or wrong."""
        answered: Array = (self.run.kind == generator.ANSWERED) | self.wrong
        return answered


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
    client: AsyncClient
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
    began = current_clock().time()
    run = asyncio.run(_sent(scenario, stage, started=[instance.id for instance in instances]))
    serving = stage.hosting.instances(stage.endpoint)
    moments, figures = tuple(stage.hosting.timeline), dict(stage.hosting.figures).items()
    return Observed(
        run=run,
        loads=Counter(each.event.target for each in moments if isinstance(each.event, Load)),
        unloads=Counter(each.event.target for each in moments if isinstance(each.event, Unload)),
        warm=Counter({target: each.warm for (_, target), each in figures}),
        cold=Counter({target: each.cold for (_, target), each in figures}),
        replaced=sum(isinstance(each.event, Ended) and each.event.reason != "" for each in moments),
        instances=list(_instances(moments, began=began)),
        instances_at_end=len(serving),
        alarms=_fired(stage, since=began) if scenario.expect.alarms or scenario.expect.no_alarms else {},
    )


async def _sent(scenario: Scenario, stage: Stage, *, started: Sequence[str]) -> generator.Run:
    arriving = requests(scenario)

    def say(live: generator.Live) -> None:
        stage.say(f"answered {live.sent - live.waiting} of {len(arriving.at)} requests")

    faults = asyncio.ensure_future(_injected(scenario.faults, stage, started))
    run = await generator.run(arriving, _Models(stage.client), say=say)
    await faults
    await stage.client.close()
    return run


async def _injected(faults: Sequence[Fault], stage: Stage, started: Sequence[str]) -> None:
    began = time.monotonic()
    for fault in sorted(faults, key=lambda each: each.at):
        await asyncio.sleep(began + fault.at - time.monotonic())
        await asyncio.to_thread(_inject, fault, stage, started)


def ask_again(scenario: Scenario, stage: Stage) -> Mapping[int, str]:
    """Ask every model once more that must answer at the end, one after the other; return their errors."""
    return asyncio.run(_asked_again(scenario, stage)) if scenario.expect.recovers else {}


async def _asked_again(scenario: Scenario, stage: Stage) -> Mapping[int, str]:
    models, found = _Models(stage.client), dict[int, str]()
    working = [
        number for number in range(1, scenario.models + 1) if number not in scenario.expect.failing_models
    ]
    for number in working:
        stage.say(f"answering {len(found) + 1} of {len(working)} models once more")
        found[number] = await models.ask(number - 1)
    await stage.client.close()
    return found


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


@dataclass(frozen=True, slots=True)
class _Models:
    """What the load asks: the fleet, as its clients do."""

    client: AsyncClient

    async def ask(self, model: int) -> str:
        number = model + 1
        inputs = {_INPUT: np.ones((1, 2), dtype=np.float32)}
        try:
            answer = await self.client.invoke_target(target_model=target_of(number), inputs=inputs)
        except InvocationError as error:
            return error.problems[0].rule or "error"
        return "" if answer[_OUTPUT].tolist() == [[number] * 2] else WRONG


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
