"""What is deployed behind an endpoint's name, read from the AWS that it is deployed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from botocore.exceptions import ClientError

from rehearsal.hosting.metrics import Source
from rehearsal.hosting.runtime_api import validation_error


class Aws(Protocol):
    """The AWS that endpoints are deployed to."""

    def client(self, service: str) -> Any:
        """A boto3 client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The production variant of a multi-model endpoint.

    Attributes:
        endpoint: The endpoint's name.
        arn: The endpoint's ARN, which gives region and account.
        config: The name of its endpoint configuration.
        name: The variant's name.
        instances: How many instances it has now.
        bucket: The bucket of the model repository.
        prefix: The key prefix that target models are relative to, with its last slash.
        environment: The container's environment variables.
        keep_models: Whether models stay in memory after use (ModelCacheSetting).
    """

    endpoint: str
    arn: str
    config: str
    name: str
    instances: int
    bucket: str
    prefix: str
    environment: Mapping[str, str]
    keep_models: bool

    @property
    def source(self) -> Source:
        """Its metrics' dimensions."""
        return Source(endpoint=self.endpoint, variant=self.name)

    @property
    def region(self) -> str:
        """The region of the endpoint."""
        return self.arn.split(":")[3]

    @property
    def account(self) -> str:
        """The account of the endpoint."""
        return self.arn.split(":")[4]

    @property
    def log_group(self) -> str:
        """The log group of its containers."""
        return f"/aws/sagemaker/Endpoints/{self.endpoint}"

    def same_fleet(self, other: Variant) -> bool:
        """Whether both describe the same fleet of instances, of whatever size."""
        return replace(self, instances=0) == replace(other, instances=0)


def look_up(aws: Aws, endpoint: str, known: Variant | None = None) -> Variant:
    """Read how an endpoint is deployed now.

    Args:
        aws: Where it is deployed.
        endpoint: Its name.
        known: What it was before; spares reading a configuration that did not change.

    Raises:
        ApiError: There is no such endpoint, or it is not a multi-model one.
    """
    sagemaker = aws.client("sagemaker")
    try:
        found = sagemaker.describe_endpoint(EndpointName=endpoint)
    except ClientError as error:
        account = aws.client("sts").get_caller_identity()["Account"]
        message = f"Endpoint {endpoint} of account {account} not found."
        raise validation_error(message) from error
    now = found["ProductionVariants"][0]
    instances = now.get("CurrentInstanceCount") or 1
    if known and (known.arn, known.config) == (found["EndpointArn"], found["EndpointConfigName"]):
        return replace(known, instances=instances)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
    variant = config["ProductionVariants"][0]
    container = _container(sagemaker.describe_model(ModelName=variant["ModelName"]))
    if container.get("Mode") != "MultiModel":
        message = f"Endpoint {endpoint} is not a multi-model endpoint; the rehearsal serves no other kind."
        raise validation_error(message)
    bucket, _, prefix = container["ModelDataUrl"].removeprefix("s3://").partition("/")
    caching = container.get("MultiModelConfig", {}).get("ModelCacheSetting", "Enabled")
    return Variant(
        endpoint=endpoint,
        arn=found["EndpointArn"],
        config=found["EndpointConfigName"],
        name=variant["VariantName"],
        instances=instances,
        bucket=bucket,
        prefix=prefix if not prefix or prefix.endswith("/") else f"{prefix}/",
        environment=dict(container.get("Environment") or {}),
        keep_models=caching != "Disabled",
    )


def _container(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The only container of a model, which may stand in either of two places."""
    container: Mapping[str, Any] = model.get("PrimaryContainer") or model["Containers"][0]
    return container
