"""The two ways to change a class or module of moto, which fail as soon as moto itself changes there."""

from __future__ import annotations

from typing import Any


def replace(target: Any, **members: object) -> None:
    """Put other members in the place of moto's.

    Raises:
        AttributeError: moto does not have one of them any more: look what became of it.
    """
    for name, member in members.items():
        getattr(target, name)
        setattr(target, name, member)


def add(target: Any, **members: object) -> None:
    """Add members that moto lacks; the same ones a second time change nothing.

    Raises:
        AttributeError: moto has one of them by now: ours may no longer be needed.
    """
    for name, member in members.items():
        if getattr(target, name, member) is not member:
            msg = f"moto's {target.__name__} has {name} by now"
            raise AttributeError(msg)
        setattr(target, name, member)
