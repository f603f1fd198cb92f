"""The page of the ledger, with what transcripts say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from docs.generate.places import ROOT
from triton_models.ledger import SUBJECTS, Belief
from triton_models.probe.catalogue import commands
from triton_models.probe.transcript import Transcript, read_transcripts
from triton_models.probe.verdict import Outcome

TRANSCRIPTS = ROOT / "docs" / "transcripts"

Seen = Mapping[str, tuple[str, ...]]
"""By the id of a belief: what transcripts say of it, the newest first."""

_HEAD = """\
# The ledger

Every belief about AWS, Triton, TensorRT or an image that a default, a check or a stand-in rests on. A grade
says how well it is founded: *observed* (by a probe, with a [transcript](../transcripts/index.md)), *public
record* (what others saw and published, with repository, place and figure), *AWS documentation*,
*documentation* (of NVIDIA or another project), *source read* or *assumption*. `fleet probe gpu` and
`fleet probe account` decide those that need a GPU or an account.
"""


def page(folder: Path = TRANSCRIPTS) -> str:
    """Return the page."""
    seen = observed(transcript for _, transcript in read_transcripts(folder))
    parts = [_HEAD]
    for subject, rows in SUBJECTS.items():
        parts.append(f"## {subject}\n")
        parts.append("| id | belief | grade | what depends on it | decided by | if it is false |")
        parts.append("|---|---|---|---|---|---|")
        parts += [_row(row, seen) for row in rows]
        parts.append("")
    return "\n".join(parts)


def observed(transcripts: Iterable[Transcript]) -> Seen:
    """Return the verdicts of transcripts, by belief."""
    found: dict[str, list[str]] = {}
    for transcript in sorted(transcripts, key=lambda each: each.date, reverse=True):
        where = f"on {transcript.date} with release {transcript.release}, {transcript.place}"
        for verdict in transcript.verdicts:
            if verdict.outcome is not Outcome.UNDECIDED:
                word = "observed" if verdict.outcome is Outcome.TRUE else "**refuted**"
                found.setdefault(verdict.belief, []).append(f"{word} {where}")
    return {belief: tuple(said) for belief, said in found.items()}


def grade(row: Belief, seen: Seen) -> str:
    """A belief's grade: what was observed of it, else that of its row."""
    return "; ".join(seen.get(row.id, ())) or row.grade.value


def _row(row: Belief, seen: Seen) -> str:
    cells = [
        f'<a id="{row.id}"></a>`{row.id}`',
        row.belief,
        f"{grade(row, seen)} ({'; '.join(_origins(row))})",
        ", ".join(f"`{name}`" for name in row.depends),
        "; ".join(_deciding(row)).replace(":;", ":"),
        row.if_false,
    ]
    return _line(cells)


def _origins(row: Belief) -> Iterator[str]:
    yield from (f"{record.repository} {record.at}: {record.seen}" for record in row.records)
    if row.source:
        yield row.source


def _deciding(row: Belief) -> Iterator[str]:
    yield f"{row.decided_by.value}:"
    command = commands().get(row.id)
    if command:
        yield f"`{command}`"
    if row.command:
        yield row.command
    if row.no_probe:
        yield f"no probe: {row.no_probe}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"
