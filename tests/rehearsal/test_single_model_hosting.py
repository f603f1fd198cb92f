"""Endpoints with one model, which is there before the container starts, through an unmodified boto3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from botocore.config import Config

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.aws_for_hosting import ENVIRONMENT, MotoAws, moto_aws
from tests.rehearsal.served_models import FLOATS, ensemble, onnx_model, python_model, tarball
from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.model_data import ModelData, download
from triton_rehearsal.hosting.service import Hosting

# A model that answers with the process in which it runs.
PROCESS = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        process = np.array([[float(os.getpid())]], dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", process)]) for _ in requests]
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as aws:
        yield aws


@pytest.fixture(scope="module")
def hosting(aws: MotoAws) -> Iterator[Hosting]:
    with Hosting(aws, lookup_s=3600.0) as hosting:  # another AWS in this process clears its endpoints
        yield hosting


class Single:
    """An endpoint with one model."""

    def __init__(
        self, aws: MotoAws, hosting: Hosting, bucket: str, data: dict[str, Any], **config: Any
    ) -> None:
        self.name = aws.endpoint(aws.endpoint_config(bucket, data=data, **config))
        self.hosting = hosting
        once = Config(retries={"total_max_attempts": 1})
        self.runtime = aws.client("sagemaker-runtime", url=hosting.url, config=once)

    def invoke(self, body: bytes = FLOATS, **more: Any) -> Any:
        return self.runtime.invoke_endpoint(EndpointName=self.name, Body=body, **more)

    def ask(self, body: bytes = FLOATS) -> Any:
        return json.loads(self.invoke(body)["Body"].read())["outputs"][0]["data"]


def archive(aws: MotoAws, files: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Upload an artifact; return its bucket, and the fields of a container that name it."""
    bucket = aws.bucket()
    aws.upload(bucket, "models/m.tar.gz", tarball(files))
    return bucket, {"ModelDataUrl": f"s3://{bucket}/models/m.tar.gz"}


@pytest.fixture(scope="module")
def tripling(aws: MotoAws, hosting: Hosting) -> Single:
    """An endpoint whose model multiplies by three."""
    return Single(aws, hosting, *archive(aws, onnx_model(3.0)))


def test_a_request_goes_to_the_only_model_which_was_loaded_before_it(tripling: Single) -> None:
    tripling.hosting.start(tripling.name)
    assert [each.loaded for each in tripling.hosting.instances(tripling.name)] == [["scaling"]]
    answer = tripling.invoke(ContentType="application/json")
    assert json.loads(answer["Body"].read())["outputs"][0]["data"] == [3, 6, 9]
    assert answer["InvokedProductionVariant"] == "AllTraffic"


def test_a_new_model_that_does_not_load_is_rolled_back_with_the_servers_words() -> None:
    with EmbeddedAws() as embedded, Hosting(embedded) as hosting:
        aws = MotoAws(embedded.url, key=embedded.door.key)
        endpoint = Single(aws, hosting, *archive(aws, onnx_model(2.0)))
        assert endpoint.ask() == [2, 4, 6]
        bucket, data = archive(aws, python_model("raise ValueError('not today')"))
        sagemaker, found = embedded.client("sagemaker"), dict[str, Any]()

        def settled() -> bool:
            found.update(sagemaker.describe_endpoint(EndpointName=endpoint.name))
            return bool(found["EndpointStatus"] == "InService")

        config = aws.endpoint_config(bucket, data=data)
        sagemaker.update_endpoint(EndpointName=endpoint.name, EndpointConfigName=config)
        until(settled)

        assert "did not pass the ping health check" in found["FailureReason"]
        assert "not today" in found["FailureReason"]
        assert endpoint.ask() == [2, 4, 6]


def test_a_target_model_is_refused_in_sagemakers_words(tripling: Single) -> None:
    answer = urllib3.request(
        "POST",
        f"{tripling.hosting.url}/endpoints/{tripling.name}/invocations",
        body=FLOATS,
        headers={"X-Amzn-SageMaker-Target-Model": "m.tar.gz"},
    )
    message = (
        f"Endpoint {tripling.name} is not a multi-model endpoint and does not support target model header."
    )
    assert answer.status == 400
    assert answer.headers["x-amzn-errortype"] == "ValidationError"
    assert answer.json() == {"Message": message, "ErrorCode": "TARGET_MODEL_HEADER_NOT_SUPPORTED"}


def test_an_ensemble_is_named_by_the_environment(aws: MotoAws, hosting: Hosting) -> None:
    bucket, data = archive(aws, files := ensemble(10.0, backend="tensorrt"))
    name = next(path.split("/")[0] for path in files if b"ensemble_scheduling" in files[path])
    environment = {**ENVIRONMENT, "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": name}
    endpoint = Single(aws, hosting, bucket, data, environment=environment)
    text = {"inputs": [{"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": ["abc"]}]}
    assert endpoint.ask(json.dumps(text).encode()) == [30]


def test_objects_below_a_prefix_are_the_model(aws: MotoAws, hosting: Hosting) -> None:
    bucket = aws.bucket()
    for path, content in onnx_model(5.0).items():
        aws.upload(bucket, f"plain/{path}", content)
    source = {"S3Uri": f"s3://{bucket}/plain/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    endpoint = Single(aws, hosting, bucket, {"ModelDataSource": {"S3DataSource": source}})
    assert endpoint.ask() == [5, 10, 15]


@pytest.mark.parametrize(
    ("key", "content", "words"),
    [
        ("", b"", "ERROR: No model found in model repository"),
        ("none.tar.gz", b"", "Failed to download model data"),
        ("text.tar.gz", b"no archive", "Failed to extract model data archive"),
        ("fails.tar.gz", tarball(python_model("raise ValueError('not today')")), "not today"),
    ],
    ids=["no model data", "no object", "no archive", "no load"],
)
def test_what_cannot_be_served_fails_the_instance_with_the_reason(
    aws: MotoAws, hosting: Hosting, key: str, content: bytes, words: str
) -> None:
    bucket = aws.bucket()
    if content:
        aws.upload(bucket, key, content)
    endpoint = Single(aws, hosting, bucket, {"ModelDataUrl": f"s3://{bucket}/{key}"} if key else {})
    with pytest.raises(FleetError, match=words) as caught:
        hosting.start(endpoint.name)
    assert "Failed to" not in words or f"s3://{bucket}/{key}" in str(caught.value)


def test_an_endpoint_with_several_variants_is_refused_by_name(aws: MotoAws, hosting: Hosting) -> None:
    bucket, data = archive(aws, onnx_model(2.0))
    config = aws.endpoint_config(bucket, data=data)
    sagemaker = aws.client("sagemaker")
    [first] = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    sagemaker.create_endpoint_config(
        EndpointConfigName=f"{config}-two", ProductionVariants=[first, {**first, "VariantName": "Other"}]
    )
    name = aws.endpoint(f"{config}-two")
    with pytest.raises(FleetError, match=f"Endpoint {name} has 2 variants"):
        hosting.start(name)


@pytest.mark.story
@pytest.mark.parametrize(("strategy", "servers"), [("RANDOM", 2), ("LEAST_OUTSTANDING_REQUESTS", 1)])
def test_requests_that_come_one_by_one_go_where_the_routing_sends_them(
    aws: MotoAws, hosting: Hosting, strategy: str, servers: int
) -> None:
    variant = {"RoutingConfig": {"RoutingStrategy": strategy}}
    endpoint = Single(aws, hosting, *archive(aws, python_model(PROCESS)), instances=2, variant=variant)
    hosting.start(endpoint.name)
    assert len({endpoint.ask()[0] for _ in range(20)}) == servers


def test_the_metrics_are_those_of_an_endpoint_with_one_model(tripling: Single, aws: MotoAws) -> None:
    tripling.ask()
    tripling.hosting.flush_metrics()
    found = aws.client("cloudwatch").list_metrics(
        Dimensions=[{"Name": "EndpointName", "Value": tripling.name}]
    )["Metrics"]
    names = {each["MetricName"] for each in found}
    assert {"Invocations", "ModelLatency", "OverheadLatency"} <= names
    assert not {name for name in names if "Loaded" in name or "ModelLoading" in name or "Cache" in name}


def test_a_key_whose_name_sagemaker_refuses_is_named_and_the_last_part_of_others_is_kept(
    aws: MotoAws, tmp_path: Path
) -> None:
    bucket, s3 = aws.bucket(), aws.client("s3")
    for number, key in enumerate(("m/", "m//config.pbtxt", "m/../config.pbtxt", f"m/{'x' * 256}")):
        aws.upload(bucket, f"{number}/{key}", b"")
        data = ModelData(bucket=bucket, key=f"{number}/", packed=False, prefix=True)
        with pytest.raises(FleetError, match="SageMaker does not deploy such model data"):
            download(data, tmp_path / str(number), s3=s3)
    aws.upload(bucket, "weights/model.onnx", b"weights")
    download(ModelData(bucket=bucket, key="weights/model.onnx", packed=False), tmp_path / "model", s3=s3)
    assert (tmp_path / "model" / "model.onnx").read_bytes() == b"weights"
