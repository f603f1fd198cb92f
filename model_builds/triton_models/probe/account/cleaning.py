"""`fleet probe account --clean`: removes what runs left, found by journals and by names in the account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.probe.account.journal import Entry, Journal, journals
from triton_models.probe.account.plan import agree
from triton_models.probe.account.resources import KINDS, found_in
from triton_models.probe.account.runner import remove_all
from triton_models.probe.account.work import Clients, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The outcome of cleaning.

    Attributes:
        removed: The kind and name of each resource that was removed.
        left: The reason why a resource could not be removed, by its name.
        running: The runs in progress on this machine, which were left alone.
    """

    removed: tuple[tuple[str, str], ...]
    left: dict[str, str]
    running: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if nothing is left, otherwise 1."""
        return 1 if self.left else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        return {
            "removed": [{"kind": kind, "name": name} for kind, name in self.removed],
            "left": self.left,
            "running": list(self.running),
        }

    def lines(self) -> Iterator[str]:
        """Yield a line for each resource."""
        for kind, name in self.removed:
            yield f"removed  {KINDS[kind].label} {name}"
        for name, why in self.left.items():
            yield f"left     {name}: {why}"
        for run in self.running:
            yield f"left     the run {run}, which is in progress on this machine"
        if not (self.removed or self.left or self.running):
            yield "nothing is left of any run"


def clean(
    session: Any, folder: Path, clock: Clock, *, account: str, region: str, yes: bool, ask: Any = None
) -> Cleaned:
    """Remove what runs left in a region of this account, and what this machine's journals list elsewhere.

    A run in progress on another machine looks like an interrupted one, so the question lists everything.
    """
    ours = [each for each in journals(folder) if each.place["account"] == account]
    free = [each for each in ours if each.lock()]
    running = tuple(each.run for each in ours if each not in free)
    try:
        swept = _swept(session, region, free, running)
        runs = [*free, swept]
        things = [(entry.kind, entry.name) for journal in runs for entry in journal.entries]
        if not things:
            _forget(free)
            return Cleaned(removed=(), left={}, running=running)
        said = ["This will be removed:", *(f"  {KINDS[kind].label} {name}" for kind, name in things)]
        agree(said, "Remove it?", yes=yes, read=ask)
        return _remove(session, runs, clock, things, running)
    finally:
        for journal in free:
            journal.unlock()


def _swept(session: Any, region: str, known: Sequence[Journal], running: Sequence[str]) -> Journal:
    """Return the resources in the account that no journal lists, as a journal that is never written."""
    names = {(entry.kind, entry.name) for journal in known for entry in journal.entries}
    swept = _Unwritten(Path(), run="", place={"region": region}, probes=())
    for kind, name in found_in(Clients(session, region), region):
        if (kind, name) not in names and not any(run in name for run in running):
            swept.entries.append(Entry(kind=kind, name=name, owner="run", made=True))
    return swept


def _remove(
    session: Any,
    runs: Sequence[Journal],
    clock: Clock,
    things: list[tuple[str, str]],
    running: tuple[str, ...],
) -> Cleaned:
    left: dict[str, str] = {}
    for journal in runs:
        left |= remove_all(journal, Clients(session, journal.place["region"]), clock)
    removed = tuple(each for each in things if each[1] not in left)
    _forget([each for each in runs if not each.entries])
    return Cleaned(removed=removed, left=left, running=running)


def _forget(done: Sequence[Journal]) -> None:
    for journal in done:
        journal.delete()


class _Unwritten(Journal):
    """A journal without a file, for resources found in the account."""

    def write(self) -> None:
        """Do nothing."""

    def delete(self) -> None:
        """Do nothing."""
