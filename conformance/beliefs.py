"""The beliefs in `beliefs.toml`, and the decorators of the tests that decide them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
FILE = HERE / "beliefs.toml"


@dataclass(frozen=True, kw_only=True)
class Belief:
    """A fact that was read or assumed, but not observed here.

    Attributes:
        id: A stable name in kebab-case.
        subject: The name of its section in the file.
        belief: The fact, in one sentence without a full stop.
        grade: The strength of the evidence: public record, AWS documentation, documentation, source read,
            or assumption. A record of a run raises it to observed.
        date: The day on which the source was read.
        source: The origin of the fact, or the reason for assuming it.
        records: What others saw and published: repository, place in it, and figure or words.
        depends: What depends on it: rules, classes, modules, names or tests.
        test: The test of this suite that decides it.
        decided_by: Without a test: gpu, account, hub, rehearsal or by hand.
        command: Without a test: the steps to decide it.
        no_test: The reason for not having a test, if a GPU or an account could decide it.
        if_false: The change to make if it is false.
    """

    id: str
    subject: str
    belief: str
    grade: str
    date: date
    depends: Sequence[str]
    if_false: str
    source: str = ""
    records: Sequence[Mapping[str, str]] = ()
    test: str = ""
    decided_by: str = "by hand"
    command: str = ""
    no_test: str = ""


@functools.cache
def beliefs() -> Mapping[str, Belief]:
    """Return every belief by its id, in the order of the file."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: Belief(id=name, subject=subject, **row.pop("evidence"), **row)
        for subject, rows in document.items()
        for name, row in rows.items()
    }


def belief(*ids: str) -> pytest.MarkDecorator:
    """Name the beliefs that a test decides: it passes if all of them are true."""
    return pytest.mark.belief(*ids)


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What a test costs in an account.

    Attributes:
        minutes: The usual duration.
        dollars: The usual price, with the default instance type in us-east-1.
        creates: What it creates; empty if nothing.
        cheap: True if `--cheap` selects it.
        alone: The reason why only an account can answer; empty if the embedded AWS answers too.
    """

    minutes: float = 1
    dollars: float = 0.0
    creates: str = ""
    cheap: bool = False
    alone: str = field(default="")


def account(**errand: Any) -> pytest.MarkDecorator:
    """Mark a test of AWS with its price and its duration: see `Errand`."""
    return pytest.mark.account(Errand(**errand))


def gpu(*needs: Literal["GPU", "image"]) -> pytest.MarkDecorator:
    """Mark a test of a machine with a GPU, or in the image of a release, with what it needs."""
    return pytest.mark.gpu(*needs)


def errand_of(item: pytest.Item) -> Errand | None:
    """Return what a test costs; None if it asks no account."""
    mark = item.get_closest_marker("account")
    return mark.args[0] if mark else None


def ids_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the beliefs that a test decides."""
    return tuple(dict.fromkeys(each for mark in item.iter_markers("belief") for each in mark.args))
