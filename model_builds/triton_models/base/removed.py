"""Names that a public module no longer has: importing one says what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn


def refuse_removed(module: str, replacements: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """Return a module's `__getattr__` that names the replacement of a removed name."""

    def refuse(name: str) -> NoReturn:
        if name in replacements:
            msg = f"{name} was removed from {module}: use {replacements[name]}"
            raise ImportError(msg)
        msg = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return refuse
