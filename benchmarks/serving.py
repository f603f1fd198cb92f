"""A Triton server with the endpoint's defaults, the client's encoding, and a rehearsal's InvokeEndpoint."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.load import Load
from benchmarks.ratio import Ratio, measure
from embedded_aws import EmbeddedAws
from triton_models.artifact.pbtxt import plain, tensor, write_config
from triton_models.client import Content, decode, encode
from triton_rehearsal.compare.command import ENVIRONMENT
from triton_rehearsal.hosting.multi_model import model_id
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton.contract import TARGET_MODEL, MultiModelContract
from triton_rehearsal.triton.server import TritonServer

TARGET = "echo.tar.gz"
ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""

# What triton_fleet sets by default is ENVIRONMENT; this is what the container does without it.
CONTAINERS = {"SAGEMAKER_MULTI_MODEL": "true"}
ENDPOINT = BUCKET = "bench"
REQUESTS: tuple[tuple[Content, str, int], ...] = (("json", "100 bytes", 1), ("binary", "1 MB", 250_000))
"""Content type, size, and the numbers in a request of that size."""


def ratios(*, short: bool) -> Iterator[Ratio]:
    """Loading a Python model, and asking it for one image's worth of numbers."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        _write_echo(folder / "model")
        with (
            _server(ENVIRONMENT, folder / "ours") as ours,
            _server(CONTAINERS, folder / "containers") as containers,
        ):
            yield measure(
                "load a Python model",
                ours=("endpoint's defaults", lambda: _load(ours, folder / "model")),
                theirs=("container's defaults", lambda: _load(containers, folder / "model")),
                pairs=5,
                short=short,
                reset=lambda: (_unload(ours), _unload(containers)),
            )
            _load(ours, folder / "model")
            yield measure(
                "one image there and back",
                ours=("binary tensors", lambda: _ask(ours, "binary")),
                theirs=("JSON", lambda: _ask(ours, "json")),
                pairs=7,
                short=short,
            )
    yield from _hosted(short=short)


def _hosted(*, short: bool) -> Iterator[Ratio]:
    """InvokeEndpoint in a rehearsal, next to the same Triton server called directly.

    Requests are timed A B A B ..., with the load from a process of its own.
    """
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
    _write_echo(folder / "model")
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
                "Environment": ENVIRONMENT,
            },
        )
        variant = {"VariantName": "AllTraffic", "ModelName": ENDPOINT, "InitialInstanceCount": 1}
        sagemaker.create_endpoint_config(
            EndpointConfigName=ENDPOINT, ProductionVariants=[{**variant, "InstanceType": "ml.g4dn.xlarge"}]
        )
        sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName=ENDPOINT)
        with Hosting(aws, directory=folder / "hosting") as hosting:
            yield aws, hosting


def _write_echo(folder: Path) -> None:
    model = folder / "echo"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.py").write_text(ECHO)
    x, y = (tensor(name, "FP32", [-1]) for name in ("X", "Y"))
    config = plain(name="echo", backend="python", max_batch_size=8, inputs=[x], outputs=[y])
    write_config(config, model / "config.pbtxt")


@contextmanager
def _server(environment: Mapping[str, str], directory: Path) -> Iterator[MultiModelContract]:
    with TritonServer(environment, directory) as server, MultiModelContract(server.socket) as contract:
        yield contract


def _load(contract: MultiModelContract, folder: Path) -> None:
    answer = contract.load(model_id="echo", target_model=TARGET, folder=str(folder))
    if not answer.ok:
        raise RuntimeError(answer.text)


def _unload(contract: MultiModelContract) -> bool:
    return contract.unload(model_id="echo", target_model=TARGET).ok


def _ask(contract: MultiModelContract, content: Content) -> None:
    numbers = np.linspace(0, 1, 3 * 224 * 224, dtype=np.float32)[None]
    body, content_type = encode({"X": numbers}, outputs=None, content=content)
    answer = contract.invoke(
        model_id="echo", target_model=TARGET, body=body, headers={"Content-Type": content_type}
    )
    if not np.array_equal(decode(answer.body, answer.headers["content-type"])["Y"], numbers):
        raise RuntimeError(answer.text[:200])
