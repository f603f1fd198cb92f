"""The events that SageMaker sends about an endpoint: "SageMaker Endpoint State Change".

In the documentation's example the status is in capitals, unlike DescribeEndpoint's. Read on 2026-11-21:
https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from moto.core.utils import unix_time_millis

from embedded_aws.moto_gaps.events import publish_event

_DETAIL_TYPE = "SageMaker Endpoint State Change"


def endpoint_changed(backend: Any, endpoint: Any, status: str) -> None:
    """Send the event of an endpoint's new status. Returns before the event's targets are done.

    Args:
        backend: The SageMaker backend that has the endpoint.
        endpoint: moto's endpoint.
        status: The event's status: CREATING, IN_SERVICE, UPDATING, ROLLING_BACK or DELETING.
    """
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
