"""Deployed endpoints, as an operator sees and scales them."""

from __future__ import annotations

from typing import Any

from embedded_aws import EmbeddedAws
from triton_models.repository.alias import Aliased, alias_name


def described(aws: EmbeddedAws, name: str) -> dict[str, Any]:
    found: dict[str, Any] = aws.client("sagemaker").describe_endpoint(EndpointName=name)
    return found


def instances(aws: EmbeddedAws, name: str) -> int:
    """Return the number of instances that serve."""
    return int(described(aws, name)["ProductionVariants"][0]["CurrentInstanceCount"])


def variant_of(aws: EmbeddedAws, name: str) -> dict[str, Any]:
    """Return the only variant in an endpoint's configuration."""
    config = described(aws, name)["EndpointConfigName"]
    [found] = aws.client("sagemaker").describe_endpoint_config(EndpointConfigName=config)[
        "ProductionVariants"
    ]
    return dict(found)


def model_of(aws: EmbeddedAws, name: str) -> dict[str, Any]:
    """Return the model of an endpoint, which exists."""
    found: dict[str, Any] = aws.client("sagemaker").describe_model(
        ModelName=variant_of(aws, name)["ModelName"]
    )
    return found


def served(aws: EmbeddedAws, name: str = "single") -> str:
    """Return the artifact of a single model's endpoint."""
    return str(model_of(aws, name)["PrimaryContainer"]["ModelDataUrl"]).rpartition("/models/")[2]


def endpoints(aws: EmbeddedAws) -> dict[str, str]:
    """Return the instance type of each endpoint."""
    names = [row["EndpointName"] for row in aws.client("sagemaker").list_endpoints()["Endpoints"]]
    return {name: variant_of(aws, name)["InstanceType"] for name in sorted(names)}


def scale(aws: EmbeddedAws, name: str, count: int) -> None:
    """Start to scale an endpoint."""
    wanted = {"VariantName": "AllTraffic", "DesiredInstanceCount": count}
    aws.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[wanted]
    )


def aliased(aws: EmbeddedAws, fleet: str = "Fleet") -> Aliased:
    """Return what the alias of a fleet names."""
    return Aliased.parse(aws.client("ssm").get_parameter(Name=alias_name(fleet))["Parameter"]["Value"])
