"""The monthly cost of an assembly's endpoints, from the table of prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triton_models.facts.cost import PRICES, Estimate
from triton_report.assembly import Assembly, Resource
from triton_report.intrinsics import references, written


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A variant of an endpoint, by the endpoint's construct, and by its own name where there are several."""

    stack: str
    name: str
    instance_type: str
    least: int
    most: int
    policies: tuple[Resource, ...] = ()

    def cost(self, *, models: int) -> Estimate | None:
        """The monthly cost; None if the price is unknown."""
        price = PRICES.get(self.instance_type)
        if price is None:
            return None
        return Estimate(
            instance_type=self.instance_type,
            price=price,
            min_instances=self.least,
            max_instances=self.most,
            models=models,
        )


def fleets(assembly: Assembly) -> list[Fleet]:
    """The variants of every endpoint whose numbers the template says."""
    return [
        fleet
        for endpoint in assembly.of_type("AWS::SageMaker::Endpoint")
        for fleet in _of(endpoint, assembly)
    ]


def _of(endpoint: Resource, assembly: Assembly) -> Iterator[Fleet]:
    for key in references(endpoint.properties.get("EndpointConfigName"), endpoint.stack):
        variants = assembly.resources[key].properties.get("ProductionVariants", [])
        for variant in variants:
            first = variant.get("InitialInstanceCount")
            target = _scalable_target(endpoint, variant.get("VariantName"), assembly)
            limits = _limits(target) if target is not None else (first, first)
            if isinstance(variant.get("InstanceType"), str) and all(isinstance(each, int) for each in limits):
                name = (
                    endpoint.path if len(variants) == 1 else f"{endpoint.path}/{variant.get('VariantName')}"
                )
                yield Fleet(
                    stack=endpoint.stack,
                    name=name,
                    instance_type=variant["InstanceType"],
                    least=limits[0],
                    most=limits[1],
                    policies=tuple(_policies(target, assembly)) if target is not None else (),
                )


def _scalable_target(endpoint: Resource, variant: Any, assembly: Assembly) -> Resource | None:
    targets = assembly.of_type("AWS::ApplicationAutoScaling::ScalableTarget")
    return next((each for each in targets if _scales(each, endpoint, variant, assembly)), None)


def _limits(target: Resource) -> tuple[Any, Any]:
    return _number(target.properties.get("MinCapacity")), _number(target.properties.get("MaxCapacity"))


def _policies(target: Resource, assembly: Assembly) -> Iterator[Resource]:
    for policy in assembly.of_type("AWS::ApplicationAutoScaling::ScalingPolicy"):
        if target.key in references(policy.properties.get("ScalingTargetId"), policy.stack):
            yield policy


def _scales(target: Resource, endpoint: Resource, variant: Any, assembly: Assembly) -> bool:
    name = endpoint.properties.get("EndpointName")
    resource_id = written(target.properties.get("ResourceId"), target.stack, assembly)
    named = f"endpoint/{written(name, endpoint.stack, assembly)}/variant/{variant}"
    return resource_id == named or (
        endpoint.key in references(target.properties.get("ResourceId"), target.stack)
        and resource_id.endswith(f"/variant/{variant}")
    )


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value
