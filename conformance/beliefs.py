"""The beliefs in `beliefs.toml`, and the marks of tests: one passes if the beliefs that name it are true."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Belief:
    """A fact that was read or assumed, but not observed here. The head of the file explains the fields."""

    id: str
    subject: str
    belief: str
    grade: str
    date: date
    depends: Sequence[str]
    source: str = ""
    records: Sequence[Mapping[str, str]] = ()
    test: str = ""
    command: str = ""
    if_false: str = "Correct or remove what depends on it"


@functools.cache
def beliefs() -> Mapping[str, Belief]:
    """Return every belief by its id, in the order of the file."""
    document = tomllib.loads((HERE / "beliefs.toml").read_text(encoding="utf-8"))
    return {
        name: Belief(id=name, subject=subject, **row.pop("evidence"), **row)
        for subject, rows in document.items()
        for name, row in rows.items()
    }


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What a test costs in an account, with the default instance type in us-east-1.

    Attributes:
        minutes: The usual duration.
        dollars: The usual price.
        creates: What it creates; empty if nothing.
        cheap: True if `--cheap` selects it.
        alone: Why only an account can answer; empty if the embedded AWS answers too.
    """

    minutes: float = 1
    dollars: float = 0.0
    creates: str = ""
    cheap: bool = False
    alone: str = ""


def account(**errand: Any) -> pytest.MarkDecorator:
    return pytest.mark.account(Errand(**errand))


def errand_of(item: pytest.Item) -> Errand | None:
    mark = item.get_closest_marker("account")
    return mark.args[0] if mark else None


def ids_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the beliefs that a test decides: those that name it, or of these the ones of its parameter."""
    name = f"{item.path.stem}.{getattr(item, 'originalname', item.name)}"
    found = tuple(each.id for each in beliefs().values() if each.test == name)
    return next((mark.args for mark in item.iter_markers("belief")), found)
