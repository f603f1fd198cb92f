"""InvokeEndpoint in a rehearsal, next to the same Triton server called directly."""

from __future__ import annotations

import statistics
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import numpy as np

from benchmarks.load import Load
from benchmarks.ratio import Ratio
from benchmarks.serving import OURS, TARGET, write_echo
from embedded_aws import EmbeddedAws
from triton_models.client import Content, encode
from triton_rehearsal.hosting.multi_model import model_id
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton.contract import TARGET_MODEL

if TYPE_CHECKING:
    from mypy_boto3_sagemaker_runtime import SageMakerRuntimeClient

ENDPOINT = BUCKET = "bench"
CONNECTIONS = (1, 8, 32)
PAIRS = 3
SECONDS = 1.0

# A plan of 29.2 MB on a multi-model endpoint of an ml.g5.xlarge, 178 first requests, the median: 1.27 s.
# kshitizgupta21/triton-mme-gtc23 bf2aef49b7 mme.ipynb [54]
COLD_BYTES, COLD_S = 29_200_000, 1.27

# Numbers in a request: a body of about 100 bytes, and one of about 1 MB.
WIDTHS: dict[tuple[Content, str], int] = {
    ("json", "100 bytes"): 1,
    ("binary", "100 bytes"): 1,
    ("json", "1 MB"): 50_000,
    ("binary", "1 MB"): 250_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of Triton's requests per second that is left through InvokeEndpoint.

    Attributes:
        subject: The content type and size of the requests.
        connections: Number of connections.
        through: Requests per second through InvokeEndpoint, the median.
        direct: Requests per second of Triton's own port, the median.
        low: The smallest ratio of a pair.
        middle: The median ratio.
        high: The largest ratio of a pair.
    """

    subject: str
    connections: int
    through: float
    direct: float
    low: float
    middle: float
    high: float


def shares(*, short: bool) -> Iterator[Share]:
    """Measure A B A B ..., with the load from a process of its own. The model returns its input."""
    with _endpoint() as (aws, hosting, runtime, folder):
        instance = hosting.instances(ENDPOINT)[0]
        key = f"AWS4-HMAC-SHA256 Credential={aws.door.key}/20261123/us-east-1/sagemaker/aws4_request"
        for (content, size), width in WIDTHS.items():
            numbers = np.linspace(0, 1, width, dtype=np.float32)[None]
            body, content_type = encode({"X": numbers}, outputs=None, content=content)
            (folder / "body").write_bytes(body)
            # The first request loads the model.
            _ask(runtime, TARGET, body, content_type)
            for connections in CONNECTIONS[:1] if short else CONNECTIONS:
                headers = {TARGET_MODEL: TARGET, "Content-Type": content_type}
                through = Load(
                    url=f"{hosting.url}/endpoints/{ENDPOINT}/invocations",
                    headers={**headers, "Authorization": key},
                    body=str(folder / "body"),
                    connections=connections,
                    seconds=SECONDS / 10 if short else SECONDS,
                )
                direct = Load(
                    url=f"/models/{model_id(TARGET)}/invoke",
                    headers=headers,
                    body=str(folder / "body"),
                    connections=connections,
                    seconds=SECONDS / 10 if short else SECONDS,
                    socket=str(instance.server.socket),
                )
                yield _compare(f"{content}, {size}", through, direct, pairs=1 if short else PAIRS)


def cold_start(*, short: bool) -> Ratio:
    """Ask for models of the size on record that are not loaded: a rehearsal, next to a real endpoint."""
    body, content_type = encode({"X": np.zeros((1, 1), dtype=np.float32)}, outputs=None, content="binary")
    with _endpoint() as (aws, _, runtime, folder):
        weights = folder / "model" / "echo" / "1" / "weights.bin"
        weights.write_bytes(np.random.default_rng(0).bytes(COLD_BYTES))
        times = []
        for target in (f"cold-{number}.tar.gz" for number in range(1 if short else PAIRS)):
            _upload(aws, folder, target)
            start = time.perf_counter()
            _ask(runtime, target, body, content_type)
            times.append(time.perf_counter() - start)
    ours = statistics.median(times)
    return Ratio(
        subject=f"a request for a model of {COLD_BYTES / 1e6:.1f} MB that is not loaded",
        ours="a rehearsed endpoint, an echo in Python",
        theirs="on record: a TensorRT plan on an A10G",
        ours_s=ours,
        theirs_s=COLD_S,
        low=COLD_S / max(times),
        middle=COLD_S / ours,
        high=COLD_S / min(times),
    )


def _compare(subject: str, through: Load, direct: Load, *, pairs: int) -> Share:
    rates = [(through.rate(), direct.rate()) for _ in range(pairs)]
    ratios = sorted(ours / theirs for ours, theirs in rates)
    return Share(
        subject=subject,
        connections=through.connections,
        through=statistics.median(ours for ours, _ in rates),
        direct=statistics.median(theirs for _, theirs in rates),
        low=ratios[0],
        middle=statistics.median(ratios),
        high=ratios[-1],
    )


@contextmanager
def _endpoint() -> Iterator[tuple[EmbeddedAws, Hosting, SageMakerRuntimeClient, Path]]:
    """An endpoint whose models return their input, a client of it, and the folder of its files."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name, EmbeddedAws() as aws:
        folder = Path(name)
        _deploy(aws, folder)
        with Hosting(aws, directory=folder / "hosting") as hosting:
            runtime = boto3.client(
                "sagemaker-runtime",
                endpoint_url=hosting.url,
                region_name=aws.region,
                aws_access_key_id=aws.door.key,
                aws_secret_access_key="bench",  # noqa: S106  nothing checks it
            )
            yield aws, hosting, runtime, folder


def _ask(runtime: SageMakerRuntimeClient, target: str, body: bytes, content_type: str) -> None:
    runtime.invoke_endpoint(EndpointName=ENDPOINT, TargetModel=target, Body=body, ContentType=content_type)


def _upload(aws: EmbeddedAws, folder: Path, target: str) -> None:
    with tarfile.open(folder / target, "w:gz") as archive:
        archive.add(folder / "model", arcname=".")
    aws.client("s3").upload_file(str(folder / target), BUCKET, target)


def _deploy(aws: EmbeddedAws, folder: Path) -> None:
    write_echo(folder / "model")
    aws.client("s3").create_bucket(Bucket=BUCKET)
    _upload(aws, folder, TARGET)
    sagemaker = aws.client("sagemaker")
    sagemaker.create_model(
        ModelName=ENDPOINT,
        ExecutionRoleArn="arn:aws:iam::123456789012:role/bench",
        PrimaryContainer={
            "Image": "triton",
            "Mode": "MultiModel",
            "ModelDataUrl": f"s3://{BUCKET}/",
            "Environment": OURS,
        },
    )
    variant = {"VariantName": "AllTraffic", "ModelName": ENDPOINT, "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName=ENDPOINT, ProductionVariants=[{**variant, "InstanceType": "ml.g4dn.xlarge"}]
    )
    sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName=ENDPOINT)
