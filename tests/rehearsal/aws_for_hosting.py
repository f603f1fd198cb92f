"""A small AWS for the serving tests: moto's server, with the resources of a deployment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import boto3
from botocore.config import Config

from aws_for_tests.fixture import open_server

REGION = "us-east-1"

# The endpoint's environment, as the constructs set it.
ENVIRONMENT = {
    "SAGEMAKER_TRITON_PING_MODE": "live",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}

_numbers = itertools.count(1)


class MotoAws:
    """Clients of a moto server, with shortcuts for deployments."""

    def __init__(self, url: str, *, key: str = "test") -> None:
        self.url = url
        self._key = key

    def client(self, service: str, *, url: str | None = None, config: Config | None = None) -> Any:
        return boto3.client(
            service,
            endpoint_url=url or self.url,
            region_name=REGION,
            aws_access_key_id=self._key,
            aws_secret_access_key="test",
            config=config,
        )

    def exports(self, *, runtime: str) -> dict[str, str]:
        """Return the environment variables that point an SDK here, and its invocations to a runtime."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": runtime,
            "AWS_ACCESS_KEY_ID": self._key,
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }

    def bucket(self) -> str:
        name = f"hosted-{next(_numbers)}"
        self.client("s3").create_bucket(Bucket=name)
        return name

    def upload(self, bucket: str, key: str, body: bytes) -> None:
        self.client("s3").put_object(Bucket=bucket, Key=key, Body=body)

    def endpoint_config(
        self,
        bucket: str,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        mode: str = "MultiModel",
        caching: str = "Enabled",
        instances: int = 1,
        data: Mapping[str, Any] | None = None,
        variant: Mapping[str, Any] = MappingProxyType({}),
        **config: Any,
    ) -> str:
        """Create a configuration of many models, or of one if its data are given."""
        models = {
            "Mode": mode,
            "ModelDataUrl": f"s3://{bucket}/models/",
            "MultiModelConfig": {"ModelCacheSetting": caching},
        }
        sagemaker, name = self.client("sagemaker"), f"config-{next(_numbers)}"
        sagemaker.create_model(
            ModelName=name,
            ExecutionRoleArn="arn:aws:iam::123456789012:role/serving",
            PrimaryContainer={
                "Image": "triton",
                "Environment": dict(environment),
                **(models if data is None else data),
            },
        )
        sagemaker.create_endpoint_config(
            EndpointConfigName=name,
            ProductionVariants=[
                {
                    "VariantName": "AllTraffic",
                    "ModelName": name,
                    "InitialInstanceCount": instances,
                    "InstanceType": "ml.g4dn.xlarge",
                    **variant,
                }
            ],
            **config,
        )
        return name

    def statistics(
        self, endpoint: str, metric: str, *, namespace: str = "AWS/SageMaker", config: str = ""
    ) -> dict[str, Any]:
        """Return the statistics of a metric of an endpoint over all times; empty without data."""
        of_config = [{"Name": "EndpointConfigName", "Value": config}] if config else []
        [*points] = self.client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=metric,
            Dimensions=[
                {"Name": "EndpointName", "Value": endpoint},
                {"Name": "VariantName", "Value": "AllTraffic"},
                *of_config,
            ],
            StartTime="2020-01-01",
            EndTime="2100-01-01",
            Period=86400 * 365 * 100,
            Statistics=["SampleCount", "Sum", "Maximum"],
        )["Datapoints"]
        return dict(points[0]) if points else {}

    def endpoint(self, config: str) -> str:
        name = f"endpoint-{next(_numbers)}"
        self.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config)
        return name


@contextmanager
def moto_aws() -> Iterator[MotoAws]:
    """An AWS on a free port of this machine, whose waits are over at once."""
    with open_server() as url:
        yield MotoAws(url)
