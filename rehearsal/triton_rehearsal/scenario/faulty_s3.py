"""An S3 that fails or is slow for a while, for the instances of a scenario alone."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

from botocore.awsrequest import AWSResponse

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_UNAVAILABLE = 503


class _Raw(io.BytesIO):
    """The body of an answer, with the method by which the SDK reads it."""

    def stream(self, **_: Any) -> Any:
        yield self.read()


class FaultyS3:
    """Answers or delays the requests of S3 clients before they are sent.

    The SDK's own retries apply, as they do on an instance.
    """

    def __init__(self) -> None:
        self._errors_until = self._slow_until = self._delay = 0.0

    def attach(self, client: Any) -> None:
        """Give an S3 client the faults."""
        client.meta.events.register("before-send.s3", self._before_send)

    def fail(self, seconds: float) -> None:
        """Answer every request with 503 for a time."""
        self._errors_until = time.monotonic() + seconds

    def slow_down(self, seconds: float, *, delay: float) -> None:
        """Delay every request for a time."""
        self._slow_until, self._delay = time.monotonic() + seconds, delay

    def _before_send(self, request: Any, **_: Any) -> AWSResponse | None:
        now = time.monotonic()
        if now < self._slow_until:
            threading.Event().wait(self._delay)
        if now < self._errors_until:
            headers: Any = {"Content-Type": "application/xml"}
            return AWSResponse(request.url, _UNAVAILABLE, headers, _Raw(_SLOW_DOWN))
        return None
