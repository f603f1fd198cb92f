"""The requests that an endpoint has answered, by the log of its containers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from triton_models.artifact.layout import model_of_key
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.load.schedule import Schedule, in_order
from triton_models.signals.endpoint_log import requests

LOGS = Check(id="plan-logs", source=FROM_ARGUMENTS)

_DAY_S = 86_400.0


def read_logs(endpoint: str, models: Sequence[str], *, days: float, named: bool) -> Schedule:
    """Read the requests of the last days from CloudWatch Logs.

    A model is that of an artifact's name, without its digest. Models that are not `named` are taken in the
    order in which those of the log were asked first.

    Raises:
        FleetError: The log cannot be read or has no requests, or other models were asked.
    """
    asked_at = requests(endpoint, since=time.time() - days * _DAY_S)
    found, where = sorted((at, model_of_key(artifact)) for at, artifact in asked_at), f"endpoint {endpoint!r}"
    if not found:
        raise LOGS.error(
            what=f"the log of the last {days:g} days names no requests",
            where=where,
            why="Triton writes a line for each request unless SAGEMAKER_TRITON_LOG_INFO is false",
            fix="read more days, or give --trace or --counts",
        )
    asked = list(dict.fromkeys(name for _, name in found))
    if not named:
        numbers = dict(zip(asked, in_order(LOGS, asked, len(models), where=where), strict=True))
    else:
        numbers = {name: number for number, name in enumerate(models, start=1)}
    if missing := [name for name in asked if name not in numbers]:
        listed = ", ".join(missing[:5])
        raise LOGS.error(
            what=f"--models lacks {len(missing):,} of the {len(asked):,} models that were asked: {listed}",
            where=where,
            fix="add them, or give as many models of a size",
        )
    first = found[0][0]
    return Schedule.of(((at - first, numbers[name]) for at, name in found), models)
