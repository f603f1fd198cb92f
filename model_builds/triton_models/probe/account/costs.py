"""The cost of probes, from the price table, and their total duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from triton_models.facts.instances import InstanceType
from triton_models.facts.prices import CODEBUILD_PRICES, PRICES, Price
from triton_models.probe.account.probe import AccountProbe

ENDPOINT, JOB, GPU_BUILD, CPU_BUILD = "endpoint", "job", "gpu-build", "cpu-build"
CPU_ENDPOINT = "cpu-endpoint"

CPU_TYPE = "ml.m5.xlarge"
"""The instance type of endpoints that need no GPU, at a fifth of the price."""

_CODEBUILD: Mapping[str, str] = MappingProxyType(
    {GPU_BUILD: "LINUX_GPU_CONTAINER", CPU_BUILD: "LINUX_CONTAINER"}
)

REMOVAL_MINUTES = 2.0
"""The usual duration of removing everything: an endpoint is gone after one or two minutes."""


def hourly(what: str, instance: InstanceType) -> Price | None:
    """Return the hourly price; None if the table lacks it."""
    if what in _CODEBUILD:
        return CODEBUILD_PRICES[_CODEBUILD[what]]
    return PRICES.get(CPU_TYPE if what == CPU_ENDPOINT else instance.name)


def usd(probe: AccountProbe, instance: InstanceType) -> float | None:
    """Return the cost of a probe; None if a price is unknown."""
    total = 0.0
    for what, hours in probe.pays:
        price = hourly(what, instance)
        if price is None:
            return None
        total += price.usd_per_hour * hours
    return total


def minutes(probes: Sequence[AccountProbe]) -> float:
    """Return the duration of parallel probes, including the removal of their resources."""
    ends: dict[str, float] = {}
    left = list(probes)
    known = {each.id for each in probes}
    while left:
        for probe in left:
            before = [each for each in (*probe.needs, *probe.after) if each in known]
            if all(each in ends for each in before):
                ends[probe.id] = max((ends[each] for each in before), default=0.0) + probe.minutes
        left = [each for each in left if each.id not in ends]
    return max(ends.values(), default=0.0) + REMOVAL_MINUTES
