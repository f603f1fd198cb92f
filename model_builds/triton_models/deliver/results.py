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

Status = Literal["published", "unchanged", "failed"]
Step = Literal["wait", "read", "build", "check", "verify", "pack", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """What became of a model.

    Attributes:
        model: Its name, as the run was given it: `resnet50`, or `resnet50:torchscript`.
        status: "published"; "unchanged" if its name stood for that very artifact already; or "failed".
        step: What it was at when it failed; "wait" if the run did not come to it. Else "publish".
        problems: Why it failed.
        seconds: How long it took to make, from reading its declaration to the packed artifact.
        artifact: The artifact's file name; "" if none was made.
        log: Where what its making printed is to be read: a file, or a stream of CloudWatch Logs.
    """

    model: str
    status: Status
    step: Step
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    artifact: str = ""
    log: str = ""

    @property
    def failed(self) -> bool:
        """Whether the model could not be made or published."""
        return self.status == "failed"

    @property
    def reason(self) -> str:
        """Why it failed, in one line; "" if it did not."""
        if not self.problems:
            return ""
        more = len(self.problems) - 1
        return self.problems[0].what + (f" (and {more} more)" if more else "")

    def line(self) -> str:
        """The result as a line of a log."""
        if not self.failed:
            return f"{self.model}: {self.status} as {self.artifact} ({self.seconds:.1f} s)"
        log = f"; log: {self.log}" if self.log else ""
        return f"{self.model}: failed in {self.step}: {self.reason}{log}"

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "model": self.model,
            "status": self.status,
            "step": self.step,
            "problems": [problem.as_dict() for problem in self.problems],
            "seconds": round(self.seconds, 3),
            "artifact": self.artifact,
            "log": self.log,
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> ModelResult:
        """The result in JSON-ready data.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        known = {**document, "problems": tuple(Problem(**each) for each in document["problems"])}
        result = cls(**known)
        if result.status not in get_args(Status):
            msg = f"unknown status {result.status!r}"
            raise ValueError(msg)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a run, or of several.

    Attributes:
        results: One for each model.
        by: Who ran it: the build of a build job, else the user.
        at: When this was written, in UTC; None while it is not.
        finished: Whether the run came to its end. If not, models that it had not done are failed.
    """

    results: tuple[ModelResult, ...]
    by: str = ""
    at: datetime | None = None
    finished: bool = True

    @property
    def failed(self) -> tuple[ModelResult, ...]:
        """The models that failed."""
        return tuple(result for result in self.results if result.failed)

    @property
    def exit_code(self) -> int:
        """0 if every model is published or was, else 1."""
        return 1 if self.failed else 0

    def counts(self) -> dict[str, int]:
        """How many models have each status."""
        statuses = [result.status for result in self.results]
        return {status: statuses.count(status) for status in get_args(Status)}

    def as_dict(self) -> dict[str, Any]:
        """The document."""
        return {
            "version": VERSION,
            "by": self.by,
            "at": in_json(self.at) if self.at else None,
            "finished": self.finished,
            "counts": self.counts(),
            "models": [result.as_dict() for result in self.results],
        }

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def lines(self) -> Iterator[str]:
        """The counts, then each failed model with its reason and the log to read."""
        total = len(self.results)
        counted = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        yield f"{total} model{'s' * (total != 1)}: {counted}"
        yield from (f"  {result.line()}" for result in self.failed)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Results:
        """The results in a document.

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
                results=tuple(ModelResult.of(each) for each in document["models"]),
                by=document["by"],
                at=datetime.fromisoformat(at.removesuffix("Z") + "+00:00") if at else None,
                finished=document["finished"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError.of(
                what=f"not a document of results: {type(error).__name__} {error}",
                where=where,
                expected=f"the JSON document, version {VERSION}, that `fleet deliver --results` writes",
                why="what became of its models is not known",
                fix="run the models again, or give a folder that holds nothing else",
                rule="results",
            ) from None


def merged(runs: Iterable[Results], *, expected: Sequence[str] = ()) -> Results:
    """One summary of several runs.

    Of a model that several runs had, the newest result counts: a build that is tried again writes another.

    Args:
        runs: The runs, in any order.
        expected: The models that were to be made. One that no run had has failed: its build never began.
    """
    ordered = sorted(runs, key=lambda run: in_json(run.at) if run.at else "")
    latest = {result.model: result for run in ordered for result in run.results}
    for model in expected:
        latest.setdefault(model, _never_begun(model))
    results = tuple(latest[model] for model in sorted(latest))
    return Results(results=results, finished=all(run.finished for run in ordered))


def _never_begun(model: str) -> ModelResult:
    problem = Problem(
        what="no run has a result on it",
        where="the documents of results",
        expected="one on each model that was to be made",
        why="its build never began, or ended before it could write",
        fix="read the build's own log: a quota, the image, or the source may have kept it from starting",
        rule="no-result",
    )
    return ModelResult(model=model, status="failed", step="wait", problems=(problem,))
