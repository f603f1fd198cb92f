"""The journal of a run: what it creates, written down before it is created, and what it has found out.

A journal is a file of the user's own, so that a run whose process or machine died can be cleaned up after or
gone on with. It is there until everything that the run created has been removed and its verdicts are written.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from triton_models.base.errors import FleetError
from triton_models.probe.transcript import Observation
from triton_models.probe.verdict import Verdict

PREFIX = "fleet-probe-"
"""What the name of everything begins with that a run creates; the run's eight digits follow."""

VERSION = 1


def state_folder() -> Path:
    """Return the folder of journals: $XDG_STATE_HOME/triton-fleet, usually ~/.local/state/triton-fleet."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "triton-fleet"


@dataclass(slots=True, kw_only=True)
class Entry:
    """Something that a run creates.

    Attributes:
        kind: Its kind: a key of `resources.KINDS`.
        name: Its name.
        owner: The probe that creates it; "run" if several use it.
        made: Whether it was seen to be created. If not, it may exist all the same.
        detail: What removing it needs to know besides its name.
    """

    kind: str
    name: str
    owner: str
    made: bool = False
    detail: dict[str, str] = field(default_factory=dict)


class Journal:
    """The journal of one run.

    Attributes:
        run: The run's eight hexadecimal digits.
        place: The account, region and so on that the run was begun with.
        probes: The ids of the run's probes.
        entries: What was created and is not removed yet, in the order of creation.
        verdicts: What each finished probe has found out.
        observations: What the finished probes observed.
    """

    def __init__(self, path: Path, *, run: str, place: dict[str, str], probes: Sequence[str]) -> None:
        self.path = path
        self.run, self.place, self.probes = run, place, tuple(probes)
        self.entries: list[Entry] = []
        self.verdicts: dict[str, tuple[Verdict, ...]] = {}
        self.observations: dict[str, tuple[Observation, ...]] = {}
        self._lock: IO[str] | None = None

    @classmethod
    def begin(cls, folder: Path, *, place: dict[str, str], probes: Sequence[str]) -> Journal:
        """A new run's journal, written and locked.

        Raises:
            FleetError: The folder cannot be written to.
        """
        run = secrets.token_hex(4)
        journal = cls(folder / f"probe-{run}.json", run=run, place=place, probes=probes)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            journal.lock()
            journal.write()
        except OSError as error:
            raise FleetError.of(
                what=f"cannot write the journal: {error.strerror}",
                where=str(journal.path),
                expected="a folder that can be written to",
                why="what a run creates is written down first, so that it can always be removed",
                fix="set XDG_STATE_HOME to a folder of your own",
                rule="probe-journal",
            ) from None
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """A journal that an earlier process wrote.

        Raises:
            FleetError: It is not one.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["version"] != VERSION:
                raise ValueError(document["version"])
            journal = cls(path, run=document["run"], place=document["place"], probes=document["probes"])
            journal.entries = [Entry(**each) for each in document["entries"]]
            journal.verdicts = {
                probe: tuple(map(Verdict.of, rows)) for probe, rows in document["verdicts"].items()
            }
            journal.observations = {
                probe: tuple(Observation(**row) for row in rows)
                for probe, rows in document["observations"].items()
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FleetError.of(
                what=f"this is not a journal of `fleet probe account`: {error}",
                where=str(path),
                expected=f"a file that it wrote, of version {VERSION}",
                fix="delete the file, and run `fleet probe account --clean`, which looks in the account, too",
                rule="probe-journal",
            ) from None
        return journal

    def write(self) -> None:
        """Replace the file in one step, and flush it to the disk before this returns."""
        document: dict[str, Any] = {
            "version": VERSION,
            "run": self.run,
            "place": self.place,
            "probes": list(self.probes),
            "entries": [asdict(each) for each in self.entries],
            "verdicts": {probe: [each.as_dict() for each in rows] for probe, rows in self.verdicts.items()},
            "observations": {
                probe: [each.as_dict() for each in rows] for probe, rows in self.observations.items()
            },
        }
        partial = self.path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    def entry(self, kind: str, name: str) -> Entry | None:
        """Return the entry of a resource; None if it is not in the journal."""
        return next((each for each in self.entries if (each.kind, each.name) == (kind, name)), None)

    def intend(self, kind: str, name: str, owner: str, detail: dict[str, str]) -> Entry:
        """Write down that a thing is about to be created."""
        found = self.entry(kind, name)
        if found is None:
            found = Entry(kind=kind, name=name, owner=owner, detail=detail)
            self.entries.append(found)
            self.write()
        return found

    def made(self, entry: Entry, **detail: str) -> None:
        """Write down that it was created."""
        entry.made = True
        entry.detail |= detail
        self.write()

    def forget(self, entry: Entry) -> None:
        """Write down that it does not exist any more."""
        self.entries = [each for each in self.entries if each is not entry]
        self.write()

    def found_out(
        self, probe: str, verdicts: Sequence[Verdict], observations: Sequence[Observation] = ()
    ) -> None:
        """Write down what a probe has found out."""
        self.verdicts[probe] = tuple(verdicts)
        self.observations[probe] = tuple(observations)
        self.write()

    def lock(self) -> bool:
        """Keep other processes of this machine from the run, until this one ends; False if one has it."""
        if self._lock is None:
            file = self.path.with_suffix(".lock").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
            self._lock = file
        return True

    def unlock(self) -> None:
        """Let other processes have the run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def delete(self) -> None:
        """Delete the file: nothing of the run is left."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)
        self.unlock()


def journals(folder: Path) -> Iterator[Journal]:
    """Every journal in a folder, the oldest first.

    Raises:
        FleetError: A file is not a journal.
    """
    for path in sorted(folder.glob("probe-*.json"), key=lambda each: each.stat().st_mtime):
        yield Journal.read(path)
