"""What a backend answers when it refuses a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]
"""A configuration as Triton passes it to Python models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason for which a backend does not load a model.

    The message is the backend's own. `fleet check` says what is wrong, at which part of the configuration,
    and the fix, as an imperative.
    """

    message: str
    what: str
    at: str
    fix: str


def served_dims(tensor: Mapping[str, Any]) -> Sequence[int]:
    """Return the sizes that the network gets, without the batch: after the reshape, if there is one."""
    reshape = tensor.get("reshape")
    dims = tensor["dims"] if reshape is None else reshape.get("shape", ())
    return tuple(int(size) for size in dims)
