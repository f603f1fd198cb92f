"""What a call has to look up, send or wait for, in turn, until it has its answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from triton_models.client.batches import Answer
from triton_models.client.service import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A step that finds something out: it may wait for another service, or compute for milliseconds."""

    find: Callable[[], object]
    waits: bool = False
    computes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A step that sends a request to the endpoint and the artifact of its call.

    The outcome is a response. An exception of boto3 or of the connection is a failure, and `HungError` the
    end of the time.
    """

    request: Request
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A step that waits."""

    seconds: float


Step: TypeAlias = Look | Send | Pause
Steps: TypeAlias = "Generator[Step, Any, Answer]"
