"""The client next to boto3, the cost of signals, and the slip of the generator of load."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import numpy as np
import uvloop
from botocore.config import Config

from benchmarks.answering import answering
from benchmarks.ratio import Bench, Ratio
from triton_models.base.encoding import encode_buffers
from triton_models.client import AsyncClient, Client, encode
from triton_models.client.service import Request
from triton_models.load.generator import run as generate
from triton_models.load.result import Loaded, loaded
from triton_models.load.schedule import Traffic, scheduled
from triton_models.load.targets import EndpointTarget

TARGET = "echo.tar.gz"
SIZES = {"100 bytes": 25, "600 KB": 150_528, "5 MB": 1_250_000}
"""The numbers in a request of each size."""

CALLERS = (1, 8, 64)
RATE = 4000.0
_ACCOUNT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
_ENDPOINT: dict[str, Any] = {"endpoint_name": "e", "repository": "s3://bucket/models/"}


def ratios(bench: Bench) -> Iterator[Ratio]:
    """Call a server that answers at once with as many bytes."""
    os.environ.update(_ACCOUNT)
    for size, count in SIZES.items():
        inputs = {"X": np.linspace(0, 1, count, dtype=np.float32)[None]}
        body, content_type = encode(inputs, outputs=None, content="binary")
        length = int(content_type.rpartition("=")[2])
        header = json.dumps({"outputs": json.loads(body[:length])["inputs"]}).encode()
        kind = content_type.replace(f"={length}", f"={len(header)}")
        with answering(header + body[length:], kind, bench.folder) as url:
            os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = os.environ["AWS_ENDPOINT_URL_S3"] = url
            for callers in CALLERS[:1] if bench.short else CALLERS:
                yield from _calls(bench, size, inputs, callers)
            if size == "100 bytes":
                yield _signals(bench, inputs)
                yield _slip(bench, inputs)
        if bench.short:
            return


def _calls(bench: Bench, size: str, inputs: Mapping[str, np.ndarray], callers: int) -> Iterator[Ratio]:
    calls = 20 if bench.short else 60 if size == "5 MB" else 400
    client, waiting = Client(**_ENDPOINT), AsyncClient(**_ENDPOINT)
    runtime = boto3.client(
        "sagemaker-runtime", config=Config(max_pool_connections=64, retries={"total_max_attempts": 1})
    )
    body, kind = encode(inputs, outputs=None, content="binary")

    def theirs(_: int) -> None:
        answer = runtime.invoke_endpoint(EndpointName="e", TargetModel=TARGET, ContentType=kind, Body=body)
        answer["Body"].read()

    def ours(_: int) -> None:
        client.invoke_target(target_model=TARGET, inputs=inputs)  # the answer is dropped, as theirs is

    async def coroutine(free: asyncio.Semaphore) -> None:
        async with free:
            await waiting.invoke_target(target_model=TARGET, inputs=inputs)

    async def coroutines() -> None:
        free = asyncio.Semaphore(callers)
        await asyncio.gather(*(coroutine(free) for _ in range(calls)))

    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(callers) as threads:
        for what, do in (
            ("Client", lambda: list(threads.map(ours, range(calls)))),
            ("AsyncClient", lambda: loop.run_until_complete(coroutines())),
        ):
            yield bench.measure(
                f"{calls} calls of {size}, {callers} at a time",
                ours=(what, do),
                theirs=("boto3, bytes alone", lambda: list(threads.map(theirs, range(calls)))),
                pairs=3,
            )
    loop.run_until_complete(waiting.close())
    loop.close()


def _signals(bench: Bench, inputs: Mapping[str, np.ndarray]) -> Ratio:
    """What `fleet top` shows costs little of a call: its counting, next to the call."""
    counted, plain = Client(**_ENDPOINT, signals="s3://bucket/signals/"), Client(**_ENDPOINT)
    counted.invoke_target(target_model=TARGET, inputs=inputs)
    recorder, times = counted._recorder, 20 if bench.short else 2000
    if recorder is None:
        raise AssertionError

    def count() -> None:
        for _ in range(times):
            recorder.record(endpoint="e", artifact=(TARGET, TARGET), seconds=0.01, error="", waited_s=None)

    def call() -> None:
        for _ in range(times):
            plain.invoke_target(target_model=TARGET, inputs=inputs)

    subject = f"signals of {times} calls of 100 bytes"
    return bench.measure(subject, ours=("counting", count), theirs=("the calls", call), pairs=5)


def _slip(bench: Bench, inputs: Mapping[str, np.ndarray]) -> Ratio:
    """The slip of 99 % of signed requests, next to the time between two of them."""
    buffers, content_type = encode_buffers(inputs, outputs=None, content="binary")
    seconds, runs = (1.0, 1) if bench.short else (5.0, 3)
    schedule = scheduled(Traffic(rates=(RATE,), seconds=seconds), ["m"], seed=1)

    async def send(target: EndpointTarget) -> Loaded:
        try:
            return loaded(await generate(schedule, target), target="e", seed=1)
        finally:
            await target.close()

    slips = []
    for _ in range(runs):
        target = EndpointTarget(AsyncClient(**_ENDPOINT), written={}, limit_s=70.0)
        target.add(TARGET, Request(buffers=buffers, content_type=content_type))
        slips.append(uvloop.run(send(target)).generator.slip_p99)
    return Ratio(
        subject=f"{RATE:,.0f} signed requests per second",
        ours="99 % are at most so late",
        theirs="between two of them",
        pairs=[(slip, 1 / RATE) for slip in slips],
    )
