"""The requests that an endpoint has answered, by the log of its containers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from triton_models.artifact.layout import model_name
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.outcome import live
from triton_models.load.schedule import Schedule

LOGS = Check(id="plan-logs", source=FROM_ARGUMENTS)

# Triton's line for each request, at the level INFO; seen with 24.10, and in its sources until 26.05.
_PHRASE = "Invoking SageMaker TargetModel"
_LINE = re.compile(rf"{_PHRASE}: ([^\s\"]+)")
_DAY_S, _MS = 86_400.0, 1000.0


def read_logs(endpoint: str, models: Sequence[str], *, days: float, named: bool) -> Schedule:
    """Read the requests of the last days from CloudWatch Logs.

    A model is that of an artifact's name, without its digest. Models that are not `named` are taken in the
    order in which those of the log were asked first.

    Raises:
        FleetError: The log cannot be read or has no requests, or other models were asked.
    """
    found = sorted(_requests(endpoint, since=time.time() - days * _DAY_S))
    if not found:
        raise LOGS.error(
            what=f"the log of the last {days:g} days names no requests",
            where=f"endpoint {endpoint!r}",
            why="Triton writes a line for each request unless SAGEMAKER_TRITON_LOG_INFO is false",
            fix="read more days, or give --trace or --counts",
        )
    asked = list(dict.fromkeys(name for _, name in found))
    known = models if named else asked[: len(models)]
    numbers = {name: number for number, name in enumerate(known, start=1)}
    if missing := [name for name in asked if name not in numbers]:
        listed = ", ".join(missing[:5])
        raise LOGS.error(
            what=f"--models lacks {len(missing):,} of the {len(asked):,} models that were asked: {listed}",
            where=f"endpoint {endpoint!r}",
            fix="add them, or give as many models of a size",
        )
    first = found[0][0]
    return Schedule.of(((at - first, numbers[name]) for at, name in found), models)


def _requests(endpoint: str, *, since: float) -> Iterator[tuple[float, str]]:
    """Yield the moments and models of the requests."""
    import boto3.session
    from botocore.exceptions import BotoCoreError, ClientError

    count = 0
    try:
        pages = boto3.session.Session().client("logs").get_paginator("filter_log_events")
        for page in pages.paginate(
            logGroupName=f"/aws/sagemaker/Endpoints/{endpoint}",
            startTime=int(since * _MS),
            filterPattern=f'"{_PHRASE}"',
        ):
            events: Sequence[Any] = page["events"]
            for event in events:
                if line := _LINE.search(event["message"]):
                    yield event["timestamp"] / _MS, model_name(Path(line[1]))
            count += len(events)
            live(f"{count:,} requests in the log of {endpoint}")
    except (ClientError, BotoCoreError) as error:
        raise LOGS.error(
            what=f"the log cannot be read: {error}",
            where=f"endpoint {endpoint!r}",
            fix="name an endpoint of this account and region, and allow logs:FilterLogEvents",
        ) from None
    finally:
        live("")
