"""Deployment configurations of endpoints, in UpdateEndpoint's form."""

from __future__ import annotations

from typing import Any


def size(value: int, *, kind: str = "CAPACITY_PERCENT") -> dict[str, Any]:
    return {"Type": kind, "Value": value}


def blue_green(routing: str, *, wait: int, last: int = 0, **sizes: Any) -> dict[str, Any]:
    traffic = {"Type": routing, "WaitIntervalInSeconds": wait, **sizes}
    policy = {"TrafficRoutingConfiguration": traffic, "TerminationWaitInSeconds": last}
    return {"BlueGreenUpdatePolicy": policy}


def rolling(*, wait: int, batch: int) -> dict[str, Any]:
    policy = {
        "MaximumBatchSize": size(batch, kind="INSTANCE_COUNT"),
        "WaitIntervalInSeconds": wait,
        "MaximumExecutionTimeoutInSeconds": 28800,
    }
    return {"RollingUpdatePolicy": policy}
