"""The patterns of rules and metric filters, without an AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from embedded_aws.filter_pattern import matcher
from embedded_aws.moto_gaps.events import matches

__all__ = ["event_matches", "matcher"]


def event_matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Return True if an event has one of the pattern's values in each of its fields."""
    return matches(pattern, event, passes=lambda value, allowed: value in allowed, absent=object())
