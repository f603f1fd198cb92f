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

    Attributes:
        message: The backend's own words, from its source.
        what: The mistake, for the user of `fleet check`.
        at: The part of the configuration, such as "input 'x'".
        fix: What to write instead, as an imperative.
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
