"""What a load test has to know of an endpoint: its instances, their price, and whether it scales."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.facts.cost import PRICES
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.repository.endpoints import describe

SCALES = Check(id="load-scales", source=FROM_ARGUMENTS)
ASK = Check(id="load-ask", source=FROM_ARGUMENTS)
BUDGET = Check(id="load-budget", source=FROM_ARGUMENTS)

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_HOUR_S = 3600.0


def costs_money(host: str | None) -> bool:
    """Return whether a load test on a host costs money: anywhere but in a rehearsal on this machine."""
    return host not in _HERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A variant of an endpoint, with the most instances that its scaling allows; as many as now without."""

    name: str
    instance_type: str
    count: int
    most: int

    @property
    def gpus(self) -> int | None:
        """The number of GPUs that it has now; None if the type is unknown."""
        known = INSTANCE_TYPES.get(self.instance_type)
        return None if known is None else known.gpu_count * self.count

    def usd_per_hour(self, count: int) -> float | None:
        """The price of so many instances; None if it is unknown."""
        price = PRICES.get(self.instance_type)
        return None if price is None else price.usd_per_hour * count


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """An endpoint of an account."""

    endpoint: str
    variants: Sequence[Variant]

    @property
    def gpus(self) -> int | None:
        """The number of GPUs that it has now; None if a type is unknown, or without GPUs."""
        known = [each.gpus for each in self.variants]
        return sum(each or 0 for each in known) or None if None not in known else None

    @property
    def most_usd_per_hour(self) -> float | None:
        """The price of all instances that its scaling allows; None if it is unknown."""
        known = [each.usd_per_hour(each.most) for each in self.variants]
        return None if None in known else sum(each or 0.0 for each in known)

    def refuse_scaling(self) -> None:
        """Refuse an endpoint that scales while its largest rate is searched for."""
        scaling = [
            f"{each.name} to {each.most} instances" for each in self.variants if each.most > each.count
        ]
        if scaling:
            raise SCALES.error(
                what=f"{self.endpoint} scales: {', '.join(scaling)}",
                where="--find-knee",
                why="instances that start meanwhile change the result, and stay for half an hour after it",
                fix="suspend the scaling or set its limits to the same number; or allow it with --scaling",
            )

    def lines(self, seconds: float | None) -> Iterator[str]:
        """Yield the instances and what they cost, in an hour and for a run."""
        for each in self.variants:
            now, most = each.usd_per_hour(each.count), each.usd_per_hour(each.most)
            price = "price unknown" if now is None else f"{now:,.2f} USD an hour"
            yield f"{self.endpoint}: {each.count} x {each.instance_type}, {price}"
            if each.most > each.count:
                yield f"  it may scale to {each.most}" + (
                    "" if most is None else f", {most:,.2f} USD an hour"
                )
        dear = self.most_usd_per_hour
        if seconds is not None and dear is not None:
            usd = dear * seconds / _HOUR_S
            yield f"The run takes {seconds / 60:,.1f} minutes, at most {usd:,.2f} USD of these."

    def within(self, budget: float) -> float:
        """Return the seconds that a budget in USD pays for.

        Raises:
            FleetError: The price is unknown.
        """
        dear = self.most_usd_per_hour
        if not dear:
            types = ", ".join(each.instance_type for each in self.variants)
            raise BUDGET.error(
                what=f"the price of {types} is unknown",
                where="--budget",
                fix="limit the time instead, with --for",
            )
        return budget / dear * _HOUR_S


def deployed(endpoint: str) -> Deployed:
    """Return an endpoint of the account, as SageMaker and Application Auto Scaling describe it.

    Raises:
        FleetError: It cannot be described.
    """
    import boto3.session
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = boto3.session.Session()
        sagemaker, scaling = session.client("sagemaker"), session.client("application-autoscaling")
        described, variants = describe(endpoint, sagemaker)
        names = [f"endpoint/{endpoint}/variant/{variant['VariantName']}" for variant in variants]
        limits = scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=names)
    except (ClientError, BotoCoreError) as error:
        raise ASK.error(
            what=f"{endpoint} cannot be described: {error}",
            where="the account",
            why="the price of the run, and whether the endpoint scales, are unknown",
            fix="allow sagemaker:DescribeEndpoint, DescribeEndpointConfig and "
            "application-autoscaling:DescribeScalableTargets, or accept it with --yes",
        ) from None
    most = {target["ResourceId"].rpartition("/")[2]: _most(target) for target in limits["ScalableTargets"]}
    running = {variant["VariantName"]: variant for variant in described.get("ProductionVariants", ())}
    deployed_variants = []
    for variant in variants:
        name, instance_type = variant["VariantName"], str(variant.get("InstanceType", "several types"))
        count = running.get(name, {}).get("CurrentInstanceCount", 1)
        largest = max(count, most.get(name, 0))
        deployed_variants.append(Variant(name=name, instance_type=instance_type, count=count, most=largest))
    return Deployed(endpoint=endpoint, variants=deployed_variants)


def _most(target: Mapping[str, Any]) -> int:
    """Return the most instances of a scalable target; 0 if it does not scale out."""
    suspended = target.get("SuspendedState", {}).get("DynamicScalingOutSuspended", False)
    return 0 if suspended else int(target["MaxCapacity"])


def confirm(lines: Iterator[str]) -> None:
    """Ask whether to go on, at a terminal.

    Raises:
        FleetError: The answer is no, or there is no terminal.
    """
    for line in lines:
        sys.stderr.write(f"{line}\n")
    if not sys.stdin.isatty():
        raise _declined("there is no terminal to ask at", "accept the price with --yes")
    sys.stderr.write("Send the requests? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise _declined("it was not confirmed", "answer y, or give --yes")


def _declined(what: str, fix: str) -> FleetError:
    return ASK.error(what=f"nothing was sent: {what}", where="the command line", fix=fix)
