"""Records of runs in an account or on a GPU, in `recorded/`: what was asked, answered and decided."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from conformance.beliefs import HERE
from triton_models.facts.releases import IMAGE_ACCOUNTS

FOLDER = HERE / "recorded"
ANSWER, BELIEFS = "answer", "beliefs"
"""The properties of a test's report."""

_T = TypeVar("_T")

# The accounts of AWS's own registries are public, and show which image was pulled.
_PUBLIC = "|".join(sorted(set(IMAGE_ACCOUNTS.values())))
_PRIVATE = {
    r"\barn:aws[a-z-]*:([a-z0-9-]+):[^\s\"',)\]}]*": r"<arn of \1>",
    r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b": "<access key>",
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "<id>",
    r"\bip(?:-\d{1,3}){4}\b|(?<=//)(?!127\.)\d{1,3}(?:\.\d{1,3}){3}\b": "<address>",
    r"/(?:home|Users)/[^/\s\"']+": "<home>",
    rf"(?<![\dA-Za-z])(?!{_PUBLIC})\d{{12}}(?![\dA-Za-z])": "<account>",
}


@dataclass(kw_only=True)
class Record:
    """The record of the runs in one region or on one GPU, with one release.

    Attributes:
        kind: "account" or "gpu".
        place: The region, or the GPU's name.
        release: The Triton release.
        verdicts: By belief: the outcome (true, false or undecided), its date, and the reason if not true.
        answers: By test and question: the answer, without anything private.
    """

    kind: str
    place: str
    release: str
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.place}-{self.release}".lower().replace(" ", "-")

    def write(self, folder: Path) -> Path:
        """Write the record. What an earlier run found, and this one did not ask, is kept."""
        path = folder / f"{self.name}.json"
        before = Record(**json.loads(path.read_text())) if path.exists() else self
        verdicts, answers = {**before.verdicts, **self.verdicts}, {**before.answers, **self.answers}
        document = {**vars(self), "verdicts": verdicts, "answers": answers}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return path


def records(folder: Path = FOLDER) -> Iterator[Record]:
    for path in sorted(folder.glob("*.json")):
        yield Record(**json.loads(path.read_text(encoding="utf-8")))


def scrubbed(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON-ready data without account ids, ARNs, keys, request ids, addresses and private names."""
    text = json.dumps(value, ensure_ascii=False)
    for name, shown in names.items():
        text = text.replace(name, shown)
    for pattern, shown in _PRIVATE.items():
        text = re.sub(pattern, shown, text)
    return json.loads(text)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The questions of one test.

    Attributes:
        item: The test.
        live: True if an account or a GPU is asked, and its answers are recorded.
        names: Private names, with what the record shows instead.
        replays: The records to compare with the embedded AWS's answers.
        record: The record that answers instead of an account or a GPU; None if nothing does.
    """

    item: pytest.Item
    live: bool
    names: Mapping[str, str] = field(default_factory=dict)
    replays: Sequence[Record] = ()
    record: Record | None = None

    def __call__(self, call: Callable[[], _T], what: str = "") -> _T:
        """Return the answer to a question of the test, as JSON.

        From an account or a GPU, it is recorded. Without one, the record answers, or the embedded AWS, which
        must answer as the records say.
        """
        name = self.item.name
        if self.record is not None:  # of which the test's name has the name
            name = re.sub(rf"\[{self.record.name}\]|-{self.record.name}(?=\])|{self.record.name}-", "", name)
        key = f"{name}: {what}" if what else name
        if self.record is not None:
            if key not in self.record.answers:
                pytest.skip(f"{self.record.name} has no answer to this")
            found: _T = self.record.answers[key]
            return found
        answer: _T = scrubbed(call(), self.names)
        if self.live:
            self.item.user_properties.append((ANSWER, {key: answer}))
        for record in self.replays:
            if key in record.answers and record.answers[key] != answer:
                said = json.dumps(record.answers[key])
                pytest.fail(f"{record.name} has the answer {said}, the embedded AWS {json.dumps(answer)}")
        return answer


def outcome_of(reports: Sequence[pytest.TestReport]) -> dict[str, str]:
    wrong = [each for each in reports if each.failed and each.when == "call"]
    hindered = [each for each in reports if each.skipped or (each.failed and each.when != "call")]
    for outcome, found in (("false", wrong), ("undecided", hindered)):
        if found:
            reason: Any = found[0].longrepr
            crash = getattr(reason, "reprcrash", None)
            why = reason[2] if isinstance(reason, tuple) else crash.message if crash else reason
            return {"outcome": outcome, "why": str(why)}
    return {"outcome": "true"}
