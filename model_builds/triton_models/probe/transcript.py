"""A transcript: the record of one run of probes, as JSON that can be published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from triton_models.base.errors import FleetError
from triton_models.base.json_text import parsed
from triton_models.probe.scrub import scrub
from triton_models.probe.verdict import Verdict

VERSION = 1

Kind: TypeAlias = Literal["gpu", "account"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A question that a probe asked the real system, with its answer.

    If the rehearsal can answer the same question, a test compares both: see tests/rehearsal/replays.py.

    Attributes:
        id: The subject of the question in kebab-case, such as "python-of-image".
        asked: The question's arguments, JSON-ready.
        answered: The answer, JSON-ready: a status code, an error's text, a fact about the environment.
    """

    id: str
    asked: Mapping[str, Any]
    answered: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the observation as JSON-ready data."""
        return {"id": self.id, "asked": dict(self.asked), "answered": dict(self.answered)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The record of one run of probes.

    Attributes:
        kind: The kind of probes: "gpu" or "account".
        date: The day of the run in UTC, such as "2026-11-22".
        release: The Triton release.
        place: The GPU's name, such as "A10G", or the region.
        tool: The version of Triton Fleet.
        verdicts: One verdict per tested belief.
        observations: The questions and answers that can be replayed.
    """

    kind: Kind
    date: str
    release: str
    place: str
    tool: str
    verdicts: tuple[Verdict, ...]
    observations: tuple[Observation, ...] = ()

    def as_dict(self, names: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the transcript as scrubbed JSON-ready data.

        Args:
            names: Private names of the account, with their placeholders.
        """
        document: dict[str, Any] = scrub(
            {
                "version": VERSION,
                "kind": self.kind,
                "date": self.date,
                "release": self.release,
                "place": self.place,
                "tool": self.tool,
                "verdicts": [each.as_dict() for each in self.verdicts],
                "observations": [each.as_dict() for each in self.observations],
            },
            names,
        )
        return document

    @classmethod
    def of(cls, document: Mapping[str, Any], *, where: str = "the transcript") -> Transcript:
        """Read a transcript from JSON data.

        Raises:
            FleetError: The document is not a transcript of this version.
        """
        try:
            if document["version"] != VERSION:
                raise _unreadable(f"version {document['version']!r}", where)
            if document["kind"] not in get_args(Kind):
                raise _unreadable(f"kind {document['kind']!r}", where)
            return cls(
                kind=document["kind"],
                date=document["date"],
                release=document["release"],
                place=document["place"],
                tool=document["tool"],
                verdicts=tuple(map(Verdict.of, document["verdicts"])),
                observations=tuple(
                    Observation(id=each["id"], asked=each["asked"], answered=each["answered"])
                    for each in document["observations"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(f"{type(error).__name__}: {error}", where) from None

    def write(self, path: Path, names: Mapping[str, str] | None = None) -> None:
        """Write the transcript to a file atomically.

        Raises:
            FleetError: The file cannot be written.
        """
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self.as_dict(names), indent=2) + "\n", encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise FleetError.of(
                what=f"cannot write the transcript: {error.strerror}",
                where=str(path),
                expected="a writable path",
                fix="choose another file with --transcript",
                rule="unwritable",
            ) from None


def tool_version() -> str:
    """Return the version of Triton Fleet, as `fleet --version` prints it."""
    from importlib import metadata

    try:
        return metadata.version("triton-fleet")
    except metadata.PackageNotFoundError:
        return "from source"


def today() -> str:
    """Return the date in UTC, in the format of transcripts."""
    return datetime.now(timezone.utc).date().isoformat()


def read_transcripts(folder: Path) -> Iterator[tuple[Path, Transcript]]:
    """Yield every transcript of a folder with its path, in the order of their names.

    Raises:
        FleetError: A file is not a transcript of this version.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            document = parsed(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise _unreadable(str(error), str(path)) from None
        yield path, Transcript.of(document, where=str(path))


def _unreadable(what: str, where: str) -> FleetError:
    return FleetError.of(
        what=f"this is not a transcript of version {VERSION}: {what}",
        where=where,
        expected="a file that `fleet probe` wrote",
        fix="run `fleet probe` again, and do not edit the file",
        rule="transcript",
    )
