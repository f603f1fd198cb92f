"""What the log of an endpoint says of its models: requests by any SDK, loads, and evictions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from triton_models.artifact.layout import model_of_key
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.outcome import live
from triton_models.facts.server_log import INVOKED, LOADED, LOADING, OUT_OF_MEMORY, UNLOADED

LOG = Check(id="endpoint-log", source=FROM_ARGUMENTS)

Kind = Literal["began", "loaded", "failed", "full", "unloaded"]

# A target model is the key of an object: any text. Triton 24 and later quotes and escapes messages as JSON.
_KEY = r"((?:[^\"\\\n]|\\.)+)"
_NAME = r"(?:/[^\n]*?::)?(.+?)'"  # after the instance's folder
_INVOKED = re.compile(rf"{INVOKED}: {_KEY}")
_EVENTS: Mapping[Kind, re.Pattern[str]] = {
    "began": re.compile(rf"{LOADING}: {_KEY}"),
    "loaded": re.compile(rf"{LOADED}{_NAME}(?: version \d+)?\"?\s*$"),
    "failed": re.compile(
        rf"(?:failed to load(?: model)?|Poll failed for model directory|ensemble) '{_NAME}"
        r"(?: version \d+)?(?::| (?=depends on)) ?(.+)"
    ),
    "unloaded": re.compile(rf"{UNLOADED}(.+) completed in"),
}
_FOLDER = re.compile(r"'[^']*::")  # of the instance, before the name of a model
_CLOCK = re.compile(r"[A-Z]\d{4} (\d\d):(\d\d):(\d\d\.\d+) ")
_DAY_S, _MS = 86_400.0, 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened to an artifact on an instance.

    Attributes:
        at: The time in seconds since 1970.
        kind: A load that "began", was "loaded" or "failed", or was "full": it ran out of memory, after which
            SageMaker evicts models and tries again. Or the artifact was "unloaded", which is an eviction.
        instance: The log stream.
        seconds: The time of a load in Triton, without its download; None if its beginning is not in the log.
        reason: Triton's, of a load that failed or ran out of memory.
    """

    at: float
    kind: Kind
    artifact: str
    instance: str
    seconds: float | None = None
    reason: str = ""


def requests(endpoint: str, *, since: float, until: float | None = None) -> Iterator[tuple[float, str]]:
    """Yield the moments and artifacts of the requests that reached a model, whichever SDK sent them.

    Raises:
        FleetError: The log cannot be read.
    """
    for line in _lines(endpoint, f'"{INVOKED}"', since=since, until=until):
        if found := _INVOKED.search(line.message):
            yield line.at, _key(found[1])


def _key(text: str) -> str:
    """Return the key of an artifact as Triton wrote it, without escapes."""
    try:
        return str(json.loads(f'"{text}"')).strip()
    except ValueError:  # an older release, which escapes nothing
        return text.strip()


def events(endpoint: str, model: str, *, since: float) -> Iterator[Event]:
    """Yield what happened to the artifacts of a model, in order.

    Raises:
        FleetError: The log cannot be read.
    """
    begun: dict[tuple[str, str], float] = {}
    for line in _lines(endpoint, f'"{model}-" -"{INVOKED}"', since=since):
        for kind, pattern in _EVENTS.items():
            found = pattern.search(line.message)
            if found is None or model_of_key(artifact := _key(found[1])) != model:
                continue
            reason = _FOLDER.sub("'", found[2].partition("\\n")[0].rstrip('";')) if kind == "failed" else ""
            key, seconds = (line.instance, artifact), None
            if kind == "began":
                begun[key] = line.clock
            elif key in begun and kind != "unloaded":
                seconds = (line.clock - begun.pop(key)) % _DAY_S
            full = any(each in reason for each in OUT_OF_MEMORY)
            yield Event(
                at=line.at,
                kind="full" if full else kind,
                artifact=artifact,
                instance=line.instance,
                seconds=seconds,
                reason=reason,
            )


class _Line(NamedTuple):
    at: float
    instance: str
    message: str

    @property
    def clock(self) -> float:
        """The seconds of the day by Triton, because the agent of an instance sends lines together."""
        found = _CLOCK.match(self.message)
        return self.at if found is None else 3600 * int(found[1]) + 60 * int(found[2]) + float(found[3])


def _lines(endpoint: str, pattern: str, *, since: float, until: float | None = None) -> Iterator[_Line]:
    """Yield the lines that match a pattern of CloudWatch Logs."""
    import boto3.session
    from botocore.exceptions import BotoCoreError, ClientError

    count = 0
    given: dict[str, Any] = {} if until is None else {"endTime": int(until * _MS) - 1}  # it is included
    try:
        pages = boto3.session.Session().client("logs").get_paginator("filter_log_events")
        for page in pages.paginate(
            logGroupName=f"/aws/sagemaker/Endpoints/{endpoint}",
            startTime=int(since * _MS),
            filterPattern=pattern,
            **given,
        ):
            for event in page["events"]:
                yield _Line(event["timestamp"] / _MS, event["logStreamName"], event["message"])
            count += len(page["events"])
            live(f"{count:,} lines in the log of {endpoint}")
    except (ClientError, BotoCoreError) as error:
        raise LOG.error(
            what=f"the log cannot be read: {error}",
            where=f"endpoint {endpoint!r}",
            fix="name an endpoint of this account and region, and allow logs:FilterLogEvents",
        ) from None
    finally:
        live("")
