"""A verdict: the finding of a probe about a belief."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Outcome(str, Enum):
    """The result for a belief."""

    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The finding of a probe about a belief.

    Attributes:
        belief: The belief's id in the ledger.
        outcome: True, false, or undecided if the probe could not find out.
        evidence: The observation, or the reason for having none: one sentence, or a quoted answer.
        seconds: The duration of its probe.
    """

    belief: str
    outcome: Outcome
    evidence: str
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-ready data."""
        return {
            "belief": self.belief,
            "outcome": self.outcome.value,
            "evidence": self.evidence,
            "seconds": round(self.seconds, 1),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Verdict:
        """Read a verdict from JSON data.

        Raises:
            KeyError: A field is missing.
            ValueError: The outcome is unknown.
        """
        return cls(
            belief=document["belief"],
            outcome=Outcome(document["outcome"]),
            evidence=document["evidence"],
            seconds=document["seconds"],
        )


def true(belief: str, evidence: str) -> Verdict:
    """Return the verdict that a belief is true."""
    return Verdict(belief=belief, outcome=Outcome.TRUE, evidence=evidence)


def false(belief: str, evidence: str) -> Verdict:
    """Return the verdict that a belief is false."""
    return Verdict(belief=belief, outcome=Outcome.FALSE, evidence=evidence)


def undecided(belief: str, reason: str) -> Verdict:
    """Return the verdict that nothing could be found out, with the reason."""
    return Verdict(belief=belief, outcome=Outcome.UNDECIDED, evidence=reason)


def decide(belief: str, evidence: str, *, holds: bool) -> Verdict:
    """Return the verdict true or false."""
    return true(belief, evidence) if holds else false(belief, evidence)


class UndecidedError(Exception):
    """A probe cannot decide its beliefs. The message says why in one sentence without a full stop."""
