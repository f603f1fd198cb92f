"""Changes to moto's classes and modules. They fail as soon as moto itself changes there."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from embedded_aws.errors import MotoChangedError
from embedded_aws.moto_gaps.members import MOTO

patched: set[tuple[str, str]] = set()
"""Target and name of every member that was replaced or added."""


def replace(target: Any, **members: object) -> None:
    """Replace members of moto.

    Raises:
        MotoChangedError: moto no longer has such a member.
    """
    for name, member in members.items():
        if not hasattr(target, name):
            raise _changed(target, f"no longer has {name}, which this package replaces")
        _set(target, name, member)


def add(target: Any, **members: object) -> None:
    """Add members that moto lacks. Adding the same member a second time has no effect.

    Raises:
        MotoChangedError: moto now has such a member, so ours may no longer be needed.
    """
    for name, member in members.items():
        if getattr(target, name, member) is not member:
            raise _changed(target, f"now has {name}, which this package adds")
        _set(target, name, member)


def _set(target: Any, name: str, member: object) -> None:
    setattr(target, name, member)
    patched.add((target_name(target), name))


def target_name(target: Any) -> str:
    """Return the full name of a class or module."""
    return f"{target.__module__}.{target.__qualname__}" if isinstance(target, type) else str(target.__name__)


def _changed(target: Any, what: str) -> MotoChangedError:
    installed = f"moto {version('moto')} is installed, and embedded_aws was written for {MOTO}"
    return MotoChangedError(f"{target_name(target)} {what}: {installed}")
