"""Updates of an endpoint with one model: the new one loads before it gets requests, or the old one stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.aws_for_hosting import MotoAws
from tests.rehearsal.served_models import onnx_model, python_model, tarball
from tests.rehearsal.test_hosting import FLOATS
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story


class Endpoint:
    """An endpoint whose model multiplies by two."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting) -> None:
        self._deploy = MotoAws(aws.url, key=aws.door.key)
        self._sagemaker, self._bucket = aws.client("sagemaker"), self._deploy.bucket()
        self._runtime = self._deploy.client("sagemaker-runtime", url=hosting.url)
        self._name = self._deploy.endpoint(self._config("first", onnx_model(2.0)))

    def _config(self, name: str, files: dict[str, Any]) -> str:
        self._deploy.upload(self._bucket, f"{name}.tar.gz", tarball(files))
        data = {"ModelDataUrl": f"s3://{self._bucket}/{name}.tar.gz"}
        return self._deploy.endpoint_config(self._bucket, data=data)

    def update(self, files: dict[str, Any]) -> dict[str, Any]:
        """Move to other model data; return the description after the update."""
        config = self._config("second", files)
        self._sagemaker.update_endpoint(EndpointName=self._name, EndpointConfigName=config)
        found: dict[str, Any] = {}

        def settled() -> bool:
            found.update(self._sagemaker.describe_endpoint(EndpointName=self._name))
            return bool(found["EndpointStatus"] == "InService")

        until(settled)
        return found

    def ask(self) -> Any:
        answer = self._runtime.invoke_endpoint(EndpointName=self._name, Body=FLOATS)
        return json.loads(answer["Body"].read())["outputs"][0]["data"]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with EmbeddedAws() as aws, Hosting(aws) as hosting:
        yield Endpoint(aws, hosting)


def test_a_new_model_answers_once_its_fleet_serves(endpoint: Endpoint) -> None:
    assert endpoint.ask() == [2, 4, 6]
    assert "FailureReason" not in endpoint.update(onnx_model(3.0))
    assert endpoint.ask() == [3, 6, 9]


def test_a_model_that_does_not_load_is_rolled_back_with_the_servers_words(endpoint: Endpoint) -> None:
    assert endpoint.ask() == [2, 4, 6]
    reason = endpoint.update(python_model("raise ValueError('not today')"))["FailureReason"]
    assert "did not pass the ping health check" in reason
    assert "not today" in reason
    assert endpoint.ask() == [2, 4, 6]
