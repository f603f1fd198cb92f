"""The fields of a document, read by name and type, with all mistakes collected."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

SCENARIO = Check(id="scenario", source=FROM_ARGUMENTS)

DAY_S = 86_400.0
"""The longest time of anything in a scenario, in seconds."""

_MOST_ITEMS = 1000

# A value in a message is shortened, because a file may have any.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 100
shown = _SHOWN.repr


class Fields:
    """The fields of one mapping of a scenario.

    Args:
        given: The mapping; anything else is a mistake.
        where: Its place, such as `thrash.yaml, traffic 2`.
        problems: The list to which mistakes are added.
    """

    def __init__(self, given: Any, *, where: str, problems: list[Problem]) -> None:
        self._where, self._problems = where, problems
        self._known: list[str] = []
        self._given: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        if not isinstance(given, Mapping):
            self.problem(f"{shown(given)} is not a mapping", expected="fields with values")

    def problem(self, what: str, *, expected: str, fix: str = "correct the file") -> None:
        """Add a mistake."""
        self._problems.append(SCENARIO.problem(what=what, where=self._where, expected=expected, fix=fix))

    def number(self, name: str, default: float | None = None, *, least: float = 0.0, most: float) -> float:
        """Return a number, the default if it is absent. Without a default it is required."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        numeric = isinstance(value, float | int) and not isinstance(value, bool)
        if numeric and least <= value <= most:
            return float(value)
        self._wrong(name, value, f"a number from {least:g} to {most:.10g}")
        return max(least, 1.0)

    def count(self, name: str, default: int | None = None, *, least: int = 1, most: int) -> int:
        """Return an integer; see `number`."""
        value = self.number(name, default, least=least, most=most)
        if value != int(value):
            self._wrong(name, value, "an integer")
        return int(value)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string; see `number`."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            self._wrong(name, value, "a string")
        return str(value).strip()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(name)
        if not isinstance(value, bool | None):
            self._wrong(name, value, "true or false")
        return default if value is None else bool(value)

    def items(self, name: str) -> Sequence[Any]:
        """Return a list; an absent one is empty."""
        value = self._take(name)
        if not isinstance(value, list | None) or len(value or []) > _MOST_ITEMS:
            self._wrong(name, value, f"a list of at most {_MOST_ITEMS} entries")
            return []
        return value or []

    def raw(self, name: str) -> Any:
        """Return any value; None if it is absent."""
        return self._take(name)

    @property
    def names(self) -> Sequence[str]:
        """The names of the given fields."""
        return [str(name) for name in self._given]

    def end(self) -> None:
        """Report the fields that were not asked for."""
        for name in self.names:
            if name not in self._known:
                self.problem(
                    f"unknown field {shown(name)}",
                    expected=", ".join(self._known),
                    fix=did_you_mean(name, self._known, otherwise="remove it"),
                )

    def _take(self, name: str) -> Any:
        self._known.append(name)
        return self._given.get(name)

    def _wrong(self, name: str, value: Any, expected: str) -> None:
        given = f"{name} is missing" if value is None else f"{name}: {shown(value)}"
        self.problem(given, expected=f"{name}, {expected}")
