"""The cost of an endpoint, from its instance type, its limits and the table of prices."""

from __future__ import annotations

from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.operations.scaling.endpoint_scaling import EndpointScaling
from triton_fleet.parts.arguments.tokens import known
from triton_models.facts.cost import Estimate
from triton_models.facts.prices import PRICES, Price


def price_of(variant: DeployedVariant, given: float | None) -> Price | None:
    """Return the price of an instance: the given one, otherwise the table's; None if neither is known."""
    if given is not None:
        return Price(usd_per_hour=given, source="as given")
    return PRICES.get(variant.instance.name)


def estimate(
    variant: DeployedVariant,
    *,
    price: Price | None,
    scaling: EndpointScaling | None,
    models: int,
    region: str | None = None,
) -> Estimate | None:
    """Return the monthly cost of a variant; None without a price, or where a number is not known yet."""
    first = variant.initial_instance_count
    least, most = (scaling.min_capacity, scaling.max_capacity) if scaling is not None else (first, first)
    if price is None or any(known(value) is None for value in (least, most, models, price.usd_per_hour)):
        return None
    return Estimate(
        instance_type=variant.instance.name,
        price=price,
        min_instances=least,
        max_instances=most,
        models=models,
        region=region,
    )
