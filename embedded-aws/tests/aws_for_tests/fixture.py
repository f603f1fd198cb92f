"""The fixture `aws` of a test module, and what stands in for a part of an embedded AWS, or for all of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Literal

import pytest

from embedded_aws import EmbeddedAws
from embedded_aws.clock import Clock, connect, current
from embedded_aws.moto_gaps import close_gaps

__all__ = [
    "Clock",
    "Hands",
    "aws_fixture",
    "clock_is",
    "event_matches",
    "matcher",
    "open_server",
    "set_quotas",
]


def aws_fixture(
    *, scope: Literal["function", "module"] = "function", bucket: str = "", **settings: Any
) -> Any:
    """Return a fixture that opens an embedded AWS, with a bucket if a name is given."""

    @pytest.fixture(scope=scope)
    def aws() -> Iterator[EmbeddedAws]:
        with EmbeddedAws(**settings) as opened:
            if bucket:
                opened.client("s3").create_bucket(Bucket=bucket)
            yield opened

    return aws


class Hands:
    """A clock that a test moves, at which changes are immediate. It begins some seconds after an hour."""

    speed, pace = math.inf, 60

    def __init__(self, *, requests: int = 1, after: float = 0.0) -> None:
        self.requests = requests
        self.seconds = math.ceil(time.time() / 3600) * 3600.0 + after

    def time(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, tz=timezone.utc)

    def here(self, _seconds: float) -> float:
        return 0.0

    def wait(self, _seconds: float) -> None:
        """Pass no time."""

    def every(self, seconds: float) -> float:
        return seconds


@contextmanager
def clock_is(clock: Clock | Any) -> Iterator[None]:
    """Set the clock until the end of the `with`."""
    before = current()
    connect(clock)
    try:
        yield
    finally:
        connect(before)


@contextmanager
def open_server() -> Iterator[str]:
    """Serve moto with its gaps closed, without access control and stacks, on a free port. Yields the URL."""
    close_gaps()
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with clock_is(Clock(speed=math.inf)):
        server.start()
        try:
            yield f"http://localhost:{server.get_host_and_port()[1]}"
        finally:
            server.stop()


def set_quotas(monkeypatch: pytest.MonkeyPatch, words: str, value: float) -> None:
    """Set every quota whose name contains the words."""
    from embedded_aws.moto_gaps import service_quotas

    listed = service_quotas._quotas
    monkeypatch.setattr(
        service_quotas,
        "_quotas",
        lambda backend, service: [
            each | {"Value": value} if words in each["QuotaName"] else each
            for each in listed(backend, service)
        ],
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test of an event's message for a pattern of CloudWatch Logs."""
    from embedded_aws.moto_gaps import logs

    return logs.matcher(pattern)


def event_matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Return True if an event has one of the pattern's values in each of its fields."""
    from embedded_aws.moto_gaps.events import matches

    return matches(pattern, event, passes=lambda value, allowed: value in allowed, absent=object())
