"""Runbooks for alarms of an endpoint without a GPU, which has neither plans nor GPU metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from triton_fleet.operations.alarm_declarations import AlarmDeclaration

_RUNBOOKS: Mapping[str, str] = MappingProxyType(
    {
        "ModelErrors": (
            "Search the log group for 'failed to load' and for the target model. If an artifact is for other "
            "hardware, publish it again from the build job. If the version is new, undo it with `fleet "
            "rollback NAME`. If one client sends bad input, inform its owner."
        ),
        "Latency": (
            "Check on the dashboard if the CPUs are busy. If so, raise the maximum capacity. If not, check "
            "if models are being evicted: an eviction delays requests to other models."
        ),
        "Thrash": (
            "The models in use no longer fit. Use an instance type with more memory, make models smaller "
            "(fewer instances in config.pbtxt), or move some to a second endpoint. More instances help only "
            "if SageMaker routes each model to a few of them."
        ),
        "LoadFailures": (
            "The dashboard's table of failed loads names the models and the reasons. If an artifact is for "
            "other hardware, publish it again from the build job. If the version is broken, undo it with "
            "`fleet rollback NAME`."
        ),
        "NoCapacity": (
            "Read the scaling activities of the endpoint. If a quota is used up, request more. If the region "
            "has no capacity, wait, or move to another family of CPU types. If there is no activity, the "
            "scaling target is too high: lower it."
        ),
    }
)


def without_gpu(declaration: AlarmDeclaration) -> AlarmDeclaration:
    """Return the same alarm, with the runbook for instances without a GPU."""
    return replace(declaration, runbook=_RUNBOOKS.get(declaration.name, declaration.runbook))
