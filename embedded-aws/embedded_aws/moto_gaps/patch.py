"""Changes to moto's classes and modules. They fail as soon as moto itself changes there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeVar

from embedded_aws.errors import MotoChangedError

MOTO = "5.2.5"
"""The version of moto that the changes are for."""

patched: set[tuple[str, str]] = set()
"""Target and name of every member that was replaced or added."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def replaces(target: Any, name: str) -> Callable[[_Function], _Function]:
    """Let the decorated function replace a member of moto."""

    def decorate(function: _Function) -> _Function:
        replace(target, **{name: function})
        return function

    return decorate


def adds(target: Any, name: str) -> Callable[[_Function], _Function]:
    """Let the decorated function be a member that moto lacks."""
    if hasattr(target, name):
        raise _changed(target, f"now has {name}, which this package adds")

    def decorate(function: _Function) -> _Function:
        _set(target, name, function)
        return function

    return decorate


def replace(target: Any, **members: object) -> None:
    for name, member in members.items():
        if not hasattr(target, name):
            raise _changed(target, f"no longer has {name}, which this package replaces")
        _set(target, name, member)


def _set(target: Any, name: str, member: object) -> None:
    setattr(target, name, member)
    patched.add((_name(target), name))


def _name(target: Any) -> str:
    return f"{target.__module__}.{target.__qualname__}" if isinstance(target, type) else str(target.__name__)


def _changed(target: Any, what: str) -> MotoChangedError:
    installed = f"moto {version('moto')} is installed, and embedded_aws was written for {MOTO}"
    return MotoChangedError(f"{_name(target)} {what}: {installed}")
