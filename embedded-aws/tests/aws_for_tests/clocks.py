"""Clocks of the control plane in place of the embedded AWS's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from embedded_aws.clock import Clock, connect, current

__all__ = ["Clock", "clock_is"]


@contextmanager
def clock_is(clock: Clock | Any) -> Iterator[None]:
    """Set the clock until the end of the `with`."""
    before = current()
    connect(clock)
    try:
        yield
    finally:
        connect(before)
