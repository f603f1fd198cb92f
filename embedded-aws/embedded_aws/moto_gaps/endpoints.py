"""The events that SageMaker sends about an endpoint, and the images that DescribeEndpoint shows.

In the documentation's example of an event the status is in capitals, unlike DescribeEndpoint's. SageMaker
resolves a tag once, when it creates or updates the endpoint. Registries of other accounts are not modelled,
so the digests are ours: one per image. Read on 2026-11-21 and 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeployedImage.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from moto.core.utils import unix_time_millis, utcnow

from embedded_aws.moto_gaps.events import publish_event

_DETAIL_TYPE = "SageMaker Endpoint State Change"


def endpoint_changed(backend: Any, endpoint: Any, status: str) -> None:
    """Send the event of an endpoint's new status. Returns before the event's targets are done."""
    publish_event(
        source="aws.sagemaker",
        detail_type=_DETAIL_TYPE,
        detail=in_milliseconds(endpoint_detail(endpoint, status)),
        resources=[endpoint.arn],
        account=backend.account_id,
        region=backend.region_name,
    )


def endpoint_detail(endpoint: Any, status: str) -> dict[str, Any]:
    """Return the fields that every event about an endpoint has."""
    return {
        "EndpointName": endpoint.endpoint_name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.endpoint_config_name,
        "ProductionVariants": endpoint.production_variants,
        "EndpointStatus": status,
        "CreationTime": endpoint.creation_time,
        "LastModifiedTime": endpoint.last_modified_time,
        "Tags": {tag["Key"]: tag["Value"] for tag in endpoint.tags},
    }


def in_milliseconds(value: Any) -> Any:
    """Return a value with every time in the events' form."""
    if isinstance(value, datetime):
        return int(unix_time_millis(value))
    if isinstance(value, Mapping):
        return {key: in_milliseconds(each) for key, each in value.items()}
    return [in_milliseconds(each) for each in value] if isinstance(value, list) else value


def with_images(backend: Any, config: Any, variants: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variants with the images of their models, resolved now."""
    models = {each["VariantName"]: each.get("ModelName") for each in config.production_variants}
    now = utcnow()
    return [
        {**variant, "DeployedImages": _images(backend._models.get(models[variant["VariantName"]]), now)}
        for variant in variants
    ]


def _images(model: Any, now: datetime) -> list[dict[str, Any]]:
    containers = [model.primary_container, *(model.containers or ())] if model else []
    images = [str(each["Image"]) for each in containers if each and "Image" in each]
    return [
        {"SpecifiedImage": image, "ResolvedImage": _resolved(image), "ResolutionTime": now}
        for image in images
    ]


def _resolved(image: str) -> str:
    if "@sha256:" in image:
        return image
    folder, _, name = image.rpartition("/")
    repository = "/".join(part for part in (folder, name.split(":")[0]) if part)
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
