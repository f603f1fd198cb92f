"""The steps of an endpoint's move to another configuration, as SageMaker's deployment guardrails do it.

Read on 2026-11-21, all below https://docs.aws.amazon.com/sagemaker/latest/:
dg/deployment-guardrails-blue-green.html, dg/deployment-guardrails-rolling.html,
dg/automating-sagemaker-with-eventbridge.html for the messages, and APIReference/API_DeploymentConfig.html.

AWS's messages name a canary and the full capacity. Their name for a part between the two is not documented.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

BAKING = "Baking"


class Host(Protocol):
    """Runs the instances of endpoints. It raises LaunchError if one does not start."""

    def launch(self, endpoint: str, config: str) -> None:
        """Start the instances of a configuration, in addition to those that serve."""

    def scale(self, endpoint: str, counts: Mapping[str, int]) -> None:
        """Start the instances that variants lack, by the variants' names. Surplus ones end with `refresh`."""

    def refresh(self, endpoint: str) -> None:
        """Note that the instances of an endpoint, or their shares of the traffic, have changed."""

    def end(self, endpoint: str) -> None:
        """End the instances of a deleted endpoint, each after its current requests."""

    def flush_metrics(self) -> None:
        """Wait until what has happened so far is in CloudWatch, before alarms look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of one variant, in the API's words.

    `active` new instances take traffic, and `kept` old ones still run. Alarms are watched for `wait_s`
    seconds on AWS before the next step.
    """

    status: str
    message: str
    active: int
    kept: int
    wait_s: float = 0.0


def steps(config: Mapping[str, Any], *, before: int, after: int) -> tuple[Step, ...]:
    """Return the steps of a deployment, from a number of old instances to one of new ones.

    The first step creates the new instances. An empty configuration is AWS's default: all at once, without a
    wait.
    """
    rolling = config.get("RollingUpdatePolicy")
    found = (
        _rolling(rolling, before=before, after=after)
        if rolling
        else _blue_green(config.get("BlueGreenUpdatePolicy", {}), before=before, after=after)
    )
    return tuple(found)


def _blue_green(policy: Mapping[str, Any], *, before: int, after: int) -> Iterator[Step]:
    routing = policy.get("TrafficRoutingConfiguration", {})
    wait = routing.get("WaitIntervalInSeconds", 0)
    yield Step(status="Creating", message=f"Launching {after} instance(s).", active=0, kept=before)
    for active in _parts(routing, after):
        part = _part(active, after, canary=routing.get("Type") == "CANARY")
        yield from _traffic(part, wait=wait, active=active, kept=before)
    last = policy.get("TerminationWaitInSeconds", 0)
    if last:
        yield _bake("full", last, name="TerminationWaitInSeconds", active=after, kept=before)


def _rolling(policy: Mapping[str, Any], *, before: int, after: int) -> Iterator[Step]:
    size, wait = _instances_of(policy["MaximumBatchSize"], after), policy["WaitIntervalInSeconds"]
    for done in range(0, after, size):
        active = min(done + size, after)
        kept = math.ceil(before * (after - done) / after)
        launching = f"Launching {active - done} instance(s)."
        yield Step(status="Creating", message=launching, active=done, kept=kept)
        yield from _traffic(_part(active, after, canary=False), wait=wait, active=active, kept=kept)


def _traffic(part: str, *, wait: int, active: int, kept: int) -> Iterator[Step]:
    message = f"Activating traffic on {part} capacity of {active} instance(s)."
    yield Step(status="ActivatingTraffic", message=message, active=active, kept=kept)
    if wait:
        yield _bake(part, wait, name="WaitIntervalInSeconds", active=active, kept=kept)


def _bake(part: str, wait: int, *, name: str, active: int, kept: int) -> Step:
    message = (
        f"Baking for {wait} seconds ({name}) with traffic enabled on {part} capacity of {active} instance(s)."
    )
    return Step(status=BAKING, message=message, active=active, kept=kept, wait_s=wait)


def _parts(routing: Mapping[str, Any], instances: int) -> list[int]:
    kind = routing.get("Type", "ALL_AT_ONCE")
    if kind == "CANARY":
        return sorted({_instances_of(routing["CanarySize"], instances), instances})
    if kind == "LINEAR":
        size = _instances_of(routing["LinearStepSize"], instances)
        return [*range(size, instances, size), instances]
    return [instances]


def _instances_of(size: Mapping[str, Any], instances: int) -> int:
    """Return a CapacitySize as a number of instances, at least one and at most all."""
    value: int = size["Value"]
    count = value if size["Type"] == "INSTANCE_COUNT" else math.ceil(instances * value / 100)
    return max(1, min(count, instances))


def _part(active: int, instances: int, *, canary: bool) -> str:
    if active == instances:
        return "full"
    return "canary" if canary else "partial"
