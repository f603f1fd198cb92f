"""Publishing many small artifacts, against the loops that people write.

`FLEET_BENCH_ARTIFACTS=5000 FLEET_BENCH_S3_MS=10 make bench` measures a whole fleet, for a quarter of an hour.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ratio import Ratio, measure
from benchmarks.small_s3 import small_s3
from triton_models.config.pbtxt import plain, tensor, write_config
from triton_models.pack.pack import pack
from triton_models.repository import publish

ARTIFACTS = int(os.environ.get("FLEET_BENCH_ARTIFACTS", "100"))
# AWS speaks of 100 to 200 ms for a small request. Less is kind to the loops, which wait for each answer.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html, read 2026-11-21
ANSWERS_AFTER_S = float(os.environ.get("FLEET_BENCH_S3_MS", "20")) / 1e3
PAIRS = 2 if ARTIFACTS <= 500 else 1  # noqa: PLR2004 -- what is long is steady as well

_WEIGHTS_BYTES = 20_000
_buckets = itertools.count(1)


def ratios(*, short: bool) -> list[Ratio]:
    """The first publication, one of which nothing changed, and one of which a hundredth changed."""
    artifacts = 5 if short else ARTIFACTS
    s3 = f"{artifacts} artifacts, S3 answers after {ANSWERS_AFTER_S * 1e3:.0f} ms"
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        packed = [_packed(folder, number, content=0) for number in range(artifacts)]
        changed = max(1, artifacts // 100)
        # Each round publishes other content, or the second one would find it there.
        rounds = iter(
            [
                [_packed(folder, number, content=turn) for number in range(changed)] + packed[changed:]
                for turn in range(1, 2 * PAIRS + 3)
            ]
        )
        with small_s3(answers_after_s=ANSWERS_AFTER_S) as url, _environment(url):
            _publish("ours", packed)
            _upload_each("theirs", packed)
            return [
                measure(
                    f"publish {s3}",
                    ours=("fleet publish", lambda: _publish(f"new{next(_buckets)}", packed)),
                    theirs=("a loop of upload_file", lambda: _upload_each(f"new{next(_buckets)}", packed)),
                    pairs=PAIRS,
                    short=short,
                ),
                measure(
                    "publish them again, unchanged",
                    ours=("fleet publish", lambda: _publish("ours", packed)),
                    theirs=("a loop of head_object", lambda: _upload_missing("theirs", packed)),
                    pairs=PAIRS,
                    short=short,
                ),
                measure(
                    "the same",
                    ours=("fleet publish", lambda: _publish("ours", packed)),
                    theirs=("as aws s3 sync: list, compare sizes", lambda: _sync("theirs", packed)),
                    pairs=PAIRS,
                    short=short,
                ),
                measure(
                    "publish them again, 1% changed",
                    ours=("fleet publish", lambda: _publish("ours", next(rounds))),
                    theirs=("a loop of head_object", lambda: _upload_missing("theirs", next(rounds))),
                    pairs=PAIRS,
                    short=short,
                ),
            ]


def _packed(folder: Path, number: int, *, content: int) -> Path:
    name = f"model{number:05}"
    model = folder / str(content) / name
    (model / "1").mkdir(parents=True)
    weights = (number * 1_000_003 + content).to_bytes(8, "big") * (_WEIGHTS_BYTES // 8)
    (model / "1" / "model.onnx").write_bytes(weights)
    write_config(
        plain(
            name=name,
            backend="onnxruntime",
            max_batch_size=8,
            inputs=[tensor("X", "FP32", [16])],
            outputs=[tensor("Y", "FP32", [16])],
        ),
        model / "config.pbtxt",
    )
    return pack(model, output=folder / "artifacts").path


@contextmanager
def _environment(url: str) -> Iterator[None]:
    wanted = {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        _restore(before)


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _publish(bucket: str, paths: Sequence[Path]) -> None:
    arguments = argparse.Namespace(
        artifacts=list(paths), repository=f"s3://bucket-{bucket}/models/", portable=False, target=None
    )
    if len(publish.run(arguments).targets) != len(paths):
        raise RuntimeError(bucket)


def _client() -> Any:
    import boto3.session

    return boto3.session.Session().client("s3")


def _upload_each(bucket: str, paths: Sequence[Path]) -> None:
    s3 = _client()
    for path in paths:
        s3.upload_file(str(path), f"bucket-{bucket}", f"models/{path.name}")


def _upload_missing(bucket: str, paths: Sequence[Path]) -> None:
    from botocore.exceptions import ClientError

    s3 = _client()
    for path in paths:
        try:
            s3.head_object(Bucket=f"bucket-{bucket}", Key=f"models/{path.name}")
        except ClientError:
            s3.upload_file(str(path), f"bucket-{bucket}", f"models/{path.name}")


def _sync(bucket: str, paths: Sequence[Path]) -> None:
    """The requests of `aws s3 sync --size-only`, which does not compare content."""
    s3 = _client()
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=f"bucket-{bucket}", Prefix="models/")
    sizes = {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}
    for path in paths:
        if sizes.get(f"models/{path.name}") != path.stat().st_size:
            s3.upload_file(str(path), f"bucket-{bucket}", f"models/{path.name}")
