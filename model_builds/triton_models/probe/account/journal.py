"""The journal of a run: its resources, recorded before they are created, and its findings.

A journal is a file of the user, so an interrupted run can be cleaned up or resumed even if its process or
machine died. The file exists until everything that the run created is removed and its verdicts are written.
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
from triton_models.base.json_text import parsed
from triton_models.probe.transcript import Observation
from triton_models.probe.verdict import Verdict

PREFIX = "fleet-probe-"
"""The start of the name of everything that a run creates; the run's eight digits follow."""

VERSION = 1


def state_folder() -> Path:
    """Return the folder of journals: $XDG_STATE_HOME/triton-fleet, usually ~/.local/state/triton-fleet."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "triton-fleet"


@dataclass(slots=True, kw_only=True)
class Entry:
    """A resource that a run creates.

    Attributes:
        kind: Its kind: a key of `resources.KINDS`.
        name: Its name.
        owner: The probe that creates it; "run" if several use it.
        made: True if its creation was confirmed. If not, it may still exist.
        detail: Further data for its removal.
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
        place: The account, region and so on with which the run began.
        probes: The ids of the run's probes.
        entries: The resources created and not removed yet, in the order of creation.
        verdicts: The verdicts of the finished probes.
        observations: The observations of the finished probes.
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
        """Return the journal of a new run, written and locked.

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
                why="a run records its resources before creating them, so that they can always be removed",
                fix="set XDG_STATE_HOME to a folder of your own",
                rule="probe-journal",
            ) from None
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Read a journal that an earlier process wrote.

        Raises:
            FleetError: The file is not a journal.
        """
        try:
            document = parsed(path.read_text(encoding="utf-8"))
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
                fix="delete it, then run `fleet probe account --clean`, which also searches the account",
                rule="probe-journal",
            ) from None
        return journal

    def write(self) -> None:
        """Replace the file atomically, and flush it to the disk before returning."""
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
        """Record that a resource is about to be created."""
        found = self.entry(kind, name)
        if found is None:
            found = Entry(kind=kind, name=name, owner=owner, detail=detail)
            self.entries.append(found)
            self.write()
        return found

    def made(self, entry: Entry, **detail: str) -> None:
        """Record that a resource was created."""
        entry.made = True
        entry.detail |= detail
        self.write()

    def forget(self, entry: Entry) -> None:
        """Record that a resource no longer exists."""
        self.entries = [each for each in self.entries if each is not entry]
        self.write()

    def found_out(
        self, probe: str, verdicts: Sequence[Verdict], observations: Sequence[Observation] = ()
    ) -> None:
        """Record the findings of a probe."""
        self.verdicts[probe] = tuple(verdicts)
        self.observations[probe] = tuple(observations)
        self.write()

    def lock(self) -> bool:
        """Lock the run for this process until it ends; return False if another process holds the lock."""
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
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def delete(self) -> None:
        """Delete the file once nothing of the run is left."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)
        self.unlock()


def journals(folder: Path) -> Iterator[Journal]:
    """Yield every journal in a folder, oldest first.

    Raises:
        FleetError: A file is not a journal.
    """
    for path in sorted(folder.glob("probe-*.json"), key=lambda each: each.stat().st_mtime):
        yield Journal.read(path)
