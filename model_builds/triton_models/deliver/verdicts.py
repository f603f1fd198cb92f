"""What became of each model of a run: one document, written while the run goes on, and read by summaries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from triton_models.base.errors import FleetError, Problem
from triton_models.repository.manifest import in_json

VERSION = 1

Result = Literal["published", "unchanged", "failed"]
Step = Literal["wait", "read", "build", "check", "verify", "pack", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a model.

    Attributes:
        model: Its name, as the run was given it: `resnet50`, or `resnet50:torchscript`.
        result: "published"; "unchanged" if its name stood for that very artifact already; or "failed".
        step: What it was at when it failed; "wait" if the run did not come to it. Else "publish".
        problems: Why it failed.
        seconds: How long it took to make, from reading its declaration to the packed artifact.
        artifact: The artifact's file name; "" if none was made.
        log: Where what its making printed is to be read: a file, or a stream of CloudWatch Logs.
    """

    model: str
    result: Result
    step: Step
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    artifact: str = ""
    log: str = ""

    @property
    def failed(self) -> bool:
        """Whether the model could not be made or published."""
        return self.result == "failed"

    @property
    def reason(self) -> str:
        """Why it failed, in one line; "" if it did not."""
        if not self.problems:
            return ""
        more = len(self.problems) - 1
        return self.problems[0].what + (f" (and {more} more)" if more else "")

    def line(self) -> str:
        """The verdict as a line of a log."""
        if not self.failed:
            return f"{self.model}: {self.result} as {self.artifact} ({self.seconds:.1f} s)"
        log = f"; log: {self.log}" if self.log else ""
        return f"{self.model}: failed in {self.step}: {self.reason}{log}"

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON-ready data."""
        return {
            "model": self.model,
            "result": self.result,
            "step": self.step,
            "problems": [problem.as_dict() for problem in self.problems],
            "seconds": round(self.seconds, 3),
            "artifact": self.artifact,
            "log": self.log,
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> Verdict:
        """The verdict in JSON-ready data.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        known = {**document, "problems": tuple(Problem(**each) for each in document["problems"])}
        verdict = cls(**known)
        if verdict.result not in get_args(Result):
            msg = f"unknown result {verdict.result!r}"
            raise ValueError(msg)
        return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The verdicts of a run, or of several.

    Attributes:
        verdicts: One for each model.
        by: Who ran it: the build of a build job, else the user.
        at: When this was written, in UTC; None while it is not.
        finished: Whether the run came to its end. If not, models that it had not done are failed.
    """

    verdicts: tuple[Verdict, ...]
    by: str = ""
    at: datetime | None = None
    finished: bool = True

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The models that failed."""
        return tuple(verdict for verdict in self.verdicts if verdict.failed)

    @property
    def exit_code(self) -> int:
        """0 if every model is published or was, else 1."""
        return 1 if self.failed else 0

    def counts(self) -> dict[str, int]:
        """How many models came to each result."""
        results = [verdict.result for verdict in self.verdicts]
        return {result: results.count(result) for result in get_args(Result)}

    def as_dict(self) -> dict[str, Any]:
        """The document."""
        return {
            "version": VERSION,
            "by": self.by,
            "at": in_json(self.at) if self.at else None,
            "finished": self.finished,
            "counts": self.counts(),
            "models": [verdict.as_dict() for verdict in self.verdicts],
        }

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def lines(self) -> Iterator[str]:
        """The counts, then each failed model with its reason and the log to read."""
        total = len(self.verdicts)
        counted = ", ".join(f"{count} {result}" for result, count in self.counts().items())
        yield f"{total} model{'s' * (total != 1)}: {counted}"
        yield from (f"  {verdict.line()}" for verdict in self.failed)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Verdicts:
        """The verdicts in a document.

        Raises:
            FleetError: It is not such a document.
        """
        try:
            document = json.loads(text)
            if document["version"] != VERSION:
                msg = f"version {document['version']!r}"
                raise ValueError(msg)
            at = document["at"]
            return cls(
                verdicts=tuple(Verdict.of(each) for each in document["models"]),
                by=document["by"],
                at=datetime.fromisoformat(at.removesuffix("Z") + "+00:00") if at else None,
                finished=document["finished"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError.of(
                what=f"not a document of verdicts: {type(error).__name__} {error}",
                where=where,
                expected=f"the JSON document, version {VERSION}, that `fleet deliver --verdicts` writes",
                why="what became of its models is not known",
                fix="run the models again, or give a folder that holds nothing else",
                rule="verdicts",
            ) from None


def merged(runs: Iterable[Verdicts], *, expected: Sequence[str] = ()) -> Verdicts:
    """One summary of several runs.

    Of a model that several runs had, the newest verdict counts: a build that is tried again writes another.

    Args:
        runs: The runs, in any order.
        expected: The models that were to be made. One that no run had has failed: its build never began.
    """
    ordered = sorted(runs, key=lambda run: in_json(run.at) if run.at else "")
    latest = {verdict.model: verdict for run in ordered for verdict in run.verdicts}
    for model in expected:
        latest.setdefault(model, _never_begun(model))
    verdicts = tuple(latest[model] for model in sorted(latest))
    return Verdicts(verdicts=verdicts, finished=all(run.finished for run in ordered))


def _never_begun(model: str) -> Verdict:
    problem = Problem(
        what="no run has a verdict on it",
        where="the documents of verdicts",
        expected="one on each model that was to be made",
        why="its build never began, or ended before it could write",
        fix="read the build's own log: a quota, the image, or the source may have kept it from starting",
        rule="no-verdict",
    )
    return Verdict(model=model, result="failed", step="wait", problems=(problem,))
