"""The clients with which services of the embedded AWS call each other, as AWS's own services do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Connected:
    """The function that makes the clients, if an embedded AWS is open."""

    make: Callable[[str, str], Any] | None = None


def connect(make: Callable[[str, str], Any] | None) -> None:
    """Set the function that returns a boto3 client of a service in a region; None disconnects it."""
    _Connected.make = make


def own_client(service: str, region: str) -> Any:
    """Return a boto3 client of a service.

    Raises:
        RuntimeError: No embedded AWS is open.
    """
    if _Connected.make is None:
        msg = "no embedded AWS is open"
        raise RuntimeError(msg)
    return _Connected.make(service, region)
