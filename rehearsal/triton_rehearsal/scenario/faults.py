"""The faults around the instances of a scenario: S3 fails or is slow, and AWS has no capacity."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

from botocore.awsrequest import AWSResponse

from triton_rehearsal.scenario.reading import SCENARIO

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_UNAVAILABLE = 503


class _Raw(io.BytesIO):
    """The body of an answer, with the method by which the SDK reads it."""

    def stream(self, **_: Any) -> Any:
        yield self.read()


class Faults:
    """Fails or delays the requests of S3 clients before they are sent, and the starts of instances.

    The SDK's own retries apply, as they do on an instance.
    """

    def __init__(self) -> None:
        self._errors_until = self._slow_until = self._delay = self._full_until = 0.0

    def attach(self, client: Any) -> None:
        """Give an S3 client the faults."""
        client.meta.events.register("before-send.s3", self._before_send, unique_id="faults")

    def fail_s3(self, seconds: float) -> None:
        """Answer every request to S3 with 503 for a time."""
        self._errors_until = time.monotonic() + seconds

    def slow_s3_down(self, seconds: float, *, delay: float) -> None:
        """Delay every request to S3 for a time."""
        self._slow_until, self._delay = time.monotonic() + seconds, delay

    def refuse_instances(self, seconds: float) -> None:
        """Let no instance start for a time."""
        self._full_until = time.monotonic() + seconds

    def admit_instance(self) -> None:
        """Check that an instance may start.

        Raises:
            FleetError: There is no capacity.
        """
        if time.monotonic() < self._full_until:
            raise SCENARIO.error(
                what=(
                    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity "
                    "error. Please retry using a different ML instance type or after some time."
                ),
                where="the scenario",
                fix="wait, as on AWS",
            )

    def _before_send(self, request: Any, **_: Any) -> AWSResponse | None:
        now = time.monotonic()
        if now < self._slow_until:
            threading.Event().wait(self._delay)
        if now < self._errors_until:
            headers: Any = {"Content-Type": "application/xml"}
            return AWSResponse(request.url, _UNAVAILABLE, headers, _Raw(_SLOW_DOWN))
        return None
