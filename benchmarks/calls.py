"""The client next to a copy, NVIDIA's client and boto3, and the slip of the generator of load."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import uvloop
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from tritonclient.http import InferenceServerClient, InferInput  # type: ignore[import-untyped]

from benchmarks.answering import answering
from benchmarks.ratio import Ratio, measure
from triton_models.base.encoding import encode_buffers
from triton_models.client import AsyncClient, Client, decode, encode
from triton_models.client.service import Request
from triton_models.client.signing import Signer
from triton_models.load.generator import Run
from triton_models.load.generator import run as generate
from triton_models.load.result import loaded
from triton_models.load.schedule import Schedule, Traffic, scheduled
from triton_models.load.targets import EndpointTarget

TARGET = "echo.tar.gz"
SIZES = (("100 bytes", 25), ("600 KB", 150_528), ("5 MB", 1_250_000))
CALLERS = (1, 8, 64)
_KEYS = ReadOnlyCredentials("key", "secret", None)
_ACCOUNT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


def ratios(*, short: bool) -> Iterator[Ratio]:
    """Encode, decode, and call a server that answers at once with as many bytes."""
    os.environ.update(_ACCOUNT)
    for size, count in SIZES[:1] if short else SIZES:
        numbers = np.linspace(0, 1, count, dtype=np.float32)[None]
        answer, kind = _answer(numbers)
        yield from _codec(size, numbers, answer, kind, short=short)
        with (
            tempfile.TemporaryDirectory(prefix="fleet-bench-") as name,
            answering(answer, kind, Path(name)) as url,
        ):
            for callers in CALLERS[:1] if short else CALLERS:
                yield from _calls(size, numbers, url, callers, short=short)
            if size == "100 bytes":
                yield _signing(short=short)
                yield _signals(numbers, url, short=short)
                yield from _slip(numbers, url, short=short)


def _answer(numbers: np.ndarray) -> tuple[bytes, str]:
    body, kind = encode({"Y": numbers}, outputs=None, content="binary")
    at = int(kind.rpartition("=")[2])
    header = json.dumps({"outputs": json.loads(body[:at])["inputs"]}).encode()
    return header + body[at:], kind.replace(f"={at}", f"={len(header)}")


def _codec(size: str, numbers: np.ndarray, answer: bytes, kind: str, *, short: bool) -> Iterator[Ratio]:
    times = 20 if short else 2000 if size == "100 bytes" else 200
    tensor = InferInput("X", list(numbers.shape), "FP32")

    def theirs() -> None:
        tensor.set_data_from_numpy(numbers)
        InferenceServerClient.generate_request_body([tensor])

    def ours() -> None:
        encode_buffers({"X": numbers}, outputs=None, content="binary")

    one = f"ours, {times} times"
    copy: Callable[[], object] = lambda: bytearray(answer)  # noqa: E731
    for what, do, other, other_do in (
        ("encode", ours, "tritonclient", theirs),
        ("encode", ours, "a copy", copy),
        ("decode", lambda: decode(answer, kind), "a copy", copy),
    ):
        yield measure(
            f"{what} {size}",
            ours=(one, _repeated(do, times)),
            theirs=(other, _repeated(other_do, times)),
            pairs=5,
            short=short,
        )


def _repeated(do: Callable[[], object], times: int) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(times):
            do()

    return repeat


def _calls(size: str, numbers: np.ndarray, url: str, callers: int, *, short: bool) -> Iterator[Ratio]:
    calls = 20 if short else 60 if size == "5 MB" else 400
    os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = url
    given: dict[str, Any] = {"target_model": TARGET, "inputs": {"X": numbers}}
    client = Client(endpoint_name="e", repository="s3://bucket/models/")
    waiting = AsyncClient(endpoint_name="e", repository="s3://bucket/models/")
    runtime = boto3.client(
        "sagemaker-runtime", config=Config(max_pool_connections=64, retries={"total_max_attempts": 1})
    )
    body, kind = encode({"X": numbers}, outputs=None, content="binary")

    def theirs(_: int) -> None:
        answer = runtime.invoke_endpoint(EndpointName="e", TargetModel=TARGET, ContentType=kind, Body=body)
        answer["Body"].read()

    def ours(_: int) -> None:
        client.invoke_target(**given)  # the answer is dropped, as theirs is

    async def one(free: asyncio.Semaphore) -> None:
        async with free:
            await waiting.invoke_target(**given)

    async def coroutines() -> None:
        free = asyncio.Semaphore(callers)
        await asyncio.gather(*(one(free) for _ in range(calls)))

    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(callers) as threads:
        for what, do in (
            ("Client", lambda: list(threads.map(ours, range(calls)))),
            ("AsyncClient", lambda: loop.run_until_complete(coroutines())),
        ):
            yield measure(
                f"{calls} calls of {size}, {callers} at a time",
                ours=(what, do),
                theirs=("boto3, bytes alone", lambda: list(threads.map(theirs, range(calls)))),
                pairs=3,
                short=short,
            )
    loop.run_until_complete(waiting.close())
    loop.close()


def _signing(*, short: bool) -> Ratio:
    signer = Signer(region="us-east-1", service="sagemaker")
    headers = {"Content-Type": "application/json", "X-Amzn-SageMaker-Target-Model": TARGET}
    host, path, credentials = "runtime.sagemaker.us-east-1.amazonaws.com", "/endpoints/e/invocations", _KEYS

    def ours() -> None:
        digest = hashlib.sha256(b"{}").hexdigest()
        at = datetime.now(timezone.utc)
        signer.signed(headers, host=host, path=path, digest=digest, credentials=credentials, at=at)

    def theirs() -> None:
        request = AWSRequest("POST", f"https://{host}{path}", data=b"{}", headers=headers)
        SigV4Auth(credentials, "sagemaker", "us-east-1").add_auth(request)

    times = 20 if short else 1000
    return measure(
        f"sign {times} requests",
        ours=("ours", _repeated(ours, times)),
        theirs=("botocore", _repeated(theirs, times)),
        pairs=5,
        short=short,
    )


def _signals(numbers: np.ndarray, url: str, *, short: bool) -> Ratio:
    """What `fleet top` shows costs little of a call: its counting, next to the call."""
    os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = os.environ["AWS_ENDPOINT_URL_S3"] = url
    usual: dict[str, Any] = {"endpoint_name": "e", "repository": "s3://bucket/models/"}
    counted, plain = Client(**usual, signals="s3://bucket/signals/"), Client(**usual)
    counted.invoke_target(target_model=TARGET, inputs={"X": numbers})
    recorder, times = counted._recorder, 20 if short else 2000
    if recorder is None:
        raise AssertionError

    def count() -> None:
        recorder.record(endpoint="e", artifact=(TARGET, TARGET), seconds=0.01, error="", waited_s=None)

    return measure(
        f"signals of {times} calls of 100 bytes",
        ours=("counting", _repeated(count, times)),
        theirs=(
            "the calls",
            _repeated(lambda: plain.invoke_target(target_model=TARGET, inputs={"X": numbers}), times),
        ),
        pairs=5,
        short=short,
    )


def _slip(numbers: np.ndarray, url: str, *, short: bool) -> Iterator[Ratio]:
    """The slip of 99 % of signed requests, next to the time between two of them."""
    os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = url
    buffers, content_type = encode_buffers({"X": numbers}, outputs=None, content="binary")
    request = Request(buffers=buffers, content_type=content_type)
    for rate in (1000.0,) if short else (1000.0, 4000.0):
        schedule = scheduled(Traffic(rates=(rate,), seconds=1.0 if short else 5.0), ["m"], seed=1)
        pairs = []
        for _ in range(1 if short else 3):
            client = AsyncClient(endpoint_name="e", repository="s3://bucket/models/")
            target = EndpointTarget(client, written={}, limit_s=70.0)
            target.add(TARGET, request)
            found = loaded(uvloop.run(_sent(schedule, target)), target="e", seed=1)
            pairs.append((found.generator.slip_p99, 1 / rate))
        yield Ratio(
            subject=f"{rate:,.0f} signed requests per second",
            ours="99 % are at most so late",
            theirs="between two of them",
            pairs=pairs,
        )


async def _sent(schedule: Schedule, target: EndpointTarget) -> Run:
    try:
        return await generate(schedule, target)
    finally:
        await target.close()
