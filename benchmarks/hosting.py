"""InvokeEndpoint in a rehearsal, next to the same Triton server called directly."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.load import Load
from benchmarks.ratio import Ratio
from benchmarks.serving import OURS, TARGET, write_echo
from embedded_aws import EmbeddedAws
from triton_models.client import Content, encode
from triton_rehearsal.hosting.multi_model import model_id
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton.contract import TARGET_MODEL

ENDPOINT = BUCKET = "bench"
REQUESTS: tuple[tuple[Content, str, int], ...] = (("json", "100 bytes", 1), ("binary", "1 MB", 250_000))
"""Content type, size, and the numbers in a request of that size."""


def ratios(*, short: bool) -> Iterator[Ratio]:
    """Time requests A B A B ..., with the load from a process of its own. The model returns its input."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name, _endpoint(Path(name)) as (aws, hosting):
        instance = hosting.instances(ENDPOINT)[0]
        key = f"AWS4-HMAC-SHA256 Credential={aws.door.key}/20261123/us-east-1/sagemaker/aws4_request"
        for content, size, width in REQUESTS:
            numbers = np.linspace(0, 1, width, dtype=np.float32)[None]
            body, content_type = encode({"X": numbers}, outputs=None, content=content)
            (Path(name) / "body").write_bytes(body)
            for connections in (1,) if short else (1, 8, 32):
                through = Load(
                    url=f"{hosting.url}/endpoints/{ENDPOINT}/invocations",
                    headers={TARGET_MODEL: TARGET, "Content-Type": content_type, "Authorization": key},
                    body=str(Path(name) / "body"),
                    connections=connections,
                    seconds=0.5 if short else 1.0,
                )
                direct = replace(
                    through, url=f"/models/{model_id(TARGET)}/invoke", socket=str(instance.server.socket)
                )
                if connections == 1:
                    through.rate()  # the first request loads the model
                yield Ratio(
                    subject=f"a request, {content}, {size}, {connections} connections",
                    ours="InvokeEndpoint of a rehearsal",
                    theirs="Triton's own port",
                    pairs=[(1 / through.rate(), 1 / direct.rate()) for _ in range(1 if short else 3)],
                )


@contextmanager
def _endpoint(folder: Path) -> Iterator[tuple[EmbeddedAws, Hosting]]:
    """An endpoint with a model that returns its input."""
    write_echo(folder / "model")
    with tarfile.open(folder / TARGET, "w:gz") as archive:
        archive.add(folder / "model", arcname=".")
    with EmbeddedAws() as aws:
        aws.client("s3").create_bucket(Bucket=BUCKET)
        aws.client("s3").upload_file(str(folder / TARGET), BUCKET, TARGET)
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
        with Hosting(aws, directory=folder / "hosting") as hosting:
            yield aws, hosting
