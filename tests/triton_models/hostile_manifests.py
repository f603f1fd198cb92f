"""Values that no manifest should hold, and every place for them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

HOSTILE_VALUES = [
    "/etc/passwd",
    "../../x",
    "..",
    "a/b",
    "a\0b",
    "\x1b]0;owned\x07",
    "\ud800",
    "",
    "x" * 5000,
    None,
    True,
    -1,
    10**400,
    1.5,
    [],
    {},
    [[[]]],
]

KEY = "the key itself"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict):
            yield (*path, key, KEY)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))
        else:
            yield (*path, key)


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    whole: dict[str, Any] = copy.deepcopy(document)
    inner: Any = whole
    for key in path[: -2 if path[-1] == KEY else -1]:
        inner = inner[key]
    if path[-1] == KEY:
        inner[str(value)] = inner.pop(path[-2])
    else:
        inner[path[-1]] = value
    return whole
