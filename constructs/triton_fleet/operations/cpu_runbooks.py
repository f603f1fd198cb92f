"""Runbooks for alarms of an endpoint without a GPU, which has neither plans nor GPU metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from triton_fleet.operations.alarm_declarations import AlarmDeclaration

_RUNBOOKS: Mapping[str, str] = MappingProxyType(
    {
        "ModelErrors": (
            "Search the log group for 'failed to load' and for the target model. An artifact that was "
            "built for hardware that is not here: publish it again from the build job. A version "
            "published just now: move the name back with `fleet rollback NAME`. Bad input from one client: "
            "inform its owner."
        ),
        "Latency": (
            "On the dashboard, see whether the CPUs are busy: then raise the largest capacity. If they "
            "are not, see whether models are being evicted: an eviction holds up requests to other "
            "models."
        ),
        "Thrash": (
            "The models in use no longer fit. Use an instance type with more memory, or make models "
            "smaller (fewer instances in config.pbtxt), or move some to a second endpoint. More instances "
            "help only as far as SageMaker sends a model to few of them."
        ),
        "LoadFailures": (
            "The dashboard's table of failed loads says which model and why. An artifact that was built "
            "for hardware that is not here: publish it again from the build job. A broken version: move "
            "the name back with `fleet rollback NAME`."
        ),
        "NoCapacity": (
            "Read the scaling activities of the endpoint. A quota: ask for more. No capacity in the "
            "region: wait, or move to another family of CPU types. No activity at all: the target is "
            "above what the models need; lower it."
        ),
    }
)


def without_gpu(declaration: AlarmDeclaration) -> AlarmDeclaration:
    """The same alarm with what to do about it where there is no GPU."""
    return replace(declaration, runbook=_RUNBOOKS.get(declaration.name, declaration.runbook))
