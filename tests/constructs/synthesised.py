"""What construct tests look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Resources = Callable[[str], list[dict[str, Any]]]
"""Gives the properties of all resources of a type."""
