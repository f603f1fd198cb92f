"""The outcome of `fleet probe`: the verdicts as a table, and the transcript as data."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triton_models.ledger import belief
from triton_models.probe.transcript import Transcript
from triton_models.probe.verdict import Outcome, Verdict

_WIDTH = 110
_INDENT = " " * 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The outcome of a run of probes.

    Attributes:
        transcript: The record of the run.
        path: The transcript's file; None if it was not written.
        facts: The most important facts about the place, by name.
        names: Private names of the account, with their placeholders in the transcript.
    """

    transcript: Transcript
    path: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 if every tested belief is true, otherwise 1."""
        return 0 if all(each.outcome is Outcome.TRUE for each in self.transcript.verdicts) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the scrubbed transcript and its path."""
        return {**self.transcript.as_dict(self.names), "path": str(self.path) if self.path else None}

    def lines(self) -> Iterator[str]:
        """Yield the facts, a few lines per verdict, and the number of verdicts per outcome."""
        for name, fact in self.facts.items():
            yield f"{name}: {fact}"
        for verdict in self.transcript.verdicts:
            yield from _verdict_lines(verdict)
        counts = Counter(each.outcome for each in self.transcript.verdicts)
        yield ", ".join(f"{counts[each]} {each.value}" for each in Outcome)
        if self.path:
            yield f"transcript: {self.path}"


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    row = belief(verdict.belief)
    yield f"{verdict.outcome.value:9}  {verdict.belief} ({verdict.seconds:.1f} s)"
    said = [f"{row.belief}.", verdict.evidence]
    if verdict.outcome is Outcome.FALSE:
        said.append(f"What to do: {row.if_false}.")
    for each in said:
        yield from textwrap.wrap(each, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
