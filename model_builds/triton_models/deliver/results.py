"""The results document of a run, written during the run and read by summaries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from triton_models.base.errors import FleetError, Problem
from triton_models.base.json_text import parsed
from triton_models.base.outcome import JsonReady
from triton_models.repository.manifest import in_json

VERSION = 1

Status = Literal["published", "unchanged", "failed"]
Step = Literal["wait", "read", "build", "check", "verify", "pack", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult(JsonReady):
    """The result of a model.

    Attributes:
        model: Its name, as in `resnet50` or `resnet50:torchscript`.
        status: "published"; "unchanged" if its name already pointed to that artifact; or "failed".
        step: The step that failed; "wait" if the run did not reach the model; otherwise "publish".
        seconds: The time from reading its declaration to the packed artifact.
        artifact: The artifact's file name; "" if it was not built.
        log: The location of its log: a file or a CloudWatch Logs stream.
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
        """True if the model could not be built or published."""
        return self.status == "failed"

    @property
    def reason(self) -> str:
        """The failure in one line; "" if the model did not fail."""
        if not self.problems:
            return ""
        more = len(self.problems) - 1
        return self.problems[0].what + (f" (and {more} more)" if more else "")

    def line(self) -> str:
        """Return the result as a log line."""
        if not self.failed:
            return f"{self.model}: {self.status} as {self.artifact} ({self.seconds:.1f} s)"
        log = f"; log: {self.log}" if self.log else ""
        return f"{self.model}: failed in {self.step}: {self.reason}{log}"

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {**JsonReady.as_dict(self), "seconds": round(self.seconds, 3)}

    @classmethod
    def of(cls, document: dict[str, Any]) -> ModelResult:
        """Return the result from JSON-ready data.

        Raises:
            KeyError, TypeError, ValueError: The data is not a result.
        """
        known = {**document, "problems": tuple(Problem(**each) for each in document["problems"])}
        result = cls(**known)
        if result.status not in get_args(Status):
            msg = f"unknown status {result.status!r}"
            raise ValueError(msg)
        texts = (result.model, result.step, result.artifact, result.log)
        if not all(isinstance(each, str) for each in texts) or not isinstance(result.seconds, int | float):
            msg = f"a value of another type in {document}"
            raise TypeError(msg)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of one or several runs.

    Attributes:
        by: The build of a build job, otherwise the user who ran it.
        at: The time of writing, in UTC; None until then.
        finished: True if the run completed; otherwise the models it did not reach have failed.
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
        """0 if every model is published or unchanged, otherwise 1."""
        return 1 if self.failed else 0

    def counts(self) -> dict[str, int]:
        """Return the number of models per status."""
        statuses = [result.status for result in self.results]
        return {status: statuses.count(status) for status in get_args(Status)}

    def as_dict(self) -> dict[str, Any]:
        """Return the document as JSON-ready data."""
        return {
            "version": VERSION,
            "by": self.by,
            "at": in_json(self.at) if self.at else None,
            "finished": self.finished,
            "counts": self.counts(),
            "models": [result.as_dict() for result in self.results],
        }

    def to_json(self) -> str:
        """Return the document as a JSON string."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def lines(self) -> Iterator[str]:
        """Yield the counts, then each failed model with its reason and its log."""
        total = len(self.results)
        counted = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        yield f"{total} model{'s' * (total != 1)}: {counted}"
        yield from (f"  {result.line()}" for result in self.failed)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Results:
        """Return the results from a document.

        Raises:
            FleetError: The content is not a results document.
        """
        try:
            document = parsed(text)
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
                what=f"not a results document: {type(error).__name__} {error}",
                where=where,
                why="the results of its models are unknown",
                fix="deliver the models again, or use a folder that holds only results documents",
                rule="results",
            ) from None


def merged(runs: Iterable[Results], *, expected: Sequence[str] = ()) -> Results:
    """Merge several runs into one summary.

    The newest result of a model counts, because a retried build writes another document.

    Args:
        runs: The runs, in any order.
        expected: The models that were due. One without a result counts as failed: its build never started.
    """
    ordered = sorted(runs, key=lambda run: in_json(run.at) if run.at else "")
    latest = {result.model: result for run in ordered for result in run.results}
    for model in expected:
        latest.setdefault(model, _never_begun(model))
    results = tuple(latest[model] for model in sorted(latest))
    return Results(results=results, finished=all(run.finished for run in ordered))


def _never_begun(model: str) -> ModelResult:
    problem = Problem(
        what="no run has a result for this model",
        where="the results documents",
        why="its build never started, or ended before it could write",
        fix="check the build's own log: a quota, the image or the source may have prevented its start",
        rule="no-result",
    )
    return ModelResult(model=model, status="failed", step="wait", problems=(problem,))
