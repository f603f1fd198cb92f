"""InvokeEndpoint in a rehearsal, next to the same Triton server called directly."""

from __future__ import annotations

import statistics
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import numpy as np

from benchmarks.load import Load
from benchmarks.serving import OURS, TARGET, write_echo
from triton_aws import EmbeddedAws
from triton_models.client import Content, encode
from triton_rehearsal.hosting.multi_model import model_id
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton.contract import TARGET_MODEL

ENDPOINT = BUCKET = "bench"
CONNECTIONS = (1, 8, 32)
PAIRS = 3
SECONDS = 1.0

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


def shares() -> Iterator[Share]:
    """Measure A B A B ..., with the load from a process of its own. The model returns its input."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name, EmbeddedAws() as aws:
        folder = Path(name)
        _deploy(aws, folder)
        with Hosting(aws, directory=folder / "hosting") as hosting:
            instance = hosting.instances(ENDPOINT)[0]
            key = f"AWS4-HMAC-SHA256 Credential={aws.door.key}/20261123/us-east-1/sagemaker/aws4_request"
            runtime = boto3.client(
                "sagemaker-runtime",
                endpoint_url=hosting.url,
                region_name=aws.region,
                aws_access_key_id=aws.door.key,
                aws_secret_access_key="bench",  # noqa: S106  nothing checks it
            )
            for (content, size), width in WIDTHS.items():
                numbers = np.linspace(0, 1, width, dtype=np.float32)[None]
                body, content_type = encode({"X": numbers}, outputs=None, content=content)
                (folder / "body").write_bytes(body)
                # The first request loads the model.
                runtime.invoke_endpoint(
                    EndpointName=ENDPOINT, TargetModel=TARGET, Body=body, ContentType=content_type
                )
                for connections in CONNECTIONS:
                    headers = {TARGET_MODEL: TARGET, "Content-Type": content_type}
                    through = Load(
                        url=f"{hosting.url}/endpoints/{ENDPOINT}/invocations",
                        headers={**headers, "Authorization": key},
                        body=str(folder / "body"),
                        connections=connections,
                        seconds=SECONDS,
                    )
                    direct = Load(
                        url=f"/models/{model_id(TARGET)}/invoke",
                        headers=headers,
                        body=str(folder / "body"),
                        connections=connections,
                        seconds=SECONDS,
                        socket=str(instance.server.socket),
                    )
                    yield _compare(f"{content}, {size}", through, direct)


def _compare(subject: str, through: Load, direct: Load) -> Share:
    rates = [(through.rate(), direct.rate()) for _ in range(PAIRS)]
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


def _deploy(aws: EmbeddedAws, folder: Path) -> None:
    write_echo(folder / "model")
    with tarfile.open(folder / TARGET, "w:gz") as archive:
        archive.add(folder / "model", arcname=".")
    s3, sagemaker = aws.client("s3"), aws.client("sagemaker")
    s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(str(folder / TARGET), BUCKET, TARGET)
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
