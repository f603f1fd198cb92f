"""The results document of a run, written during the run and read by summaries."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.json_text import parsed
from triton_models.base.outcome import JsonReady, printable
from triton_models.base.suggest import some_of
from triton_models.repository.manifest import in_json
from triton_models.repository.places import NO_RESULTS, Place
from triton_models.repository.s3 import publisher

VERSION = 1

RESULTS = Check(id="results", source=FROM_ARGUMENTS)
NO_RESULT = Check(id="no-result", source=FROM_ARGUMENTS)
NOT_REACHED = Check(id="not-reached", source=FROM_ARGUMENTS)
ITEMS = Check(id="items", source=FROM_ARGUMENTS)

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
        log: The location of its log: a file or a CloudWatch Logs stream.
        precision: The precision of the artifact, such as "fp16".
        proof: "equal" if its answers were compared with its source's, otherwise "loads" or "unknown".
        answers: What was compared, such as "equal on 3 of your examples and 512 drawn rows".
    """

    model: str
    status: Status
    step: Step
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    artifact: str = ""
    log: str = ""
    precision: str = ""
    proof: str = ""
    answers: str = ""

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
            about = "".join(f", {each}" for each in (self.precision, self.answers) if each)
            return f"{self.model}: {self.status} as {self.artifact}{about} ({self.seconds:.1f} s)"
        log = f"; log: {self.log}" if self.log else ""
        return f"{self.model}: failed in {self.step}: {self.reason}{log}"

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {**JsonReady.as_dict(self), "seconds": round(self.seconds, 3)}

    @classmethod
    def unbuilt(cls, model: str, *problems: Problem) -> ModelResult:
        """Return the result of a model that no run reached."""
        return cls(model=model, status="failed", step="wait", problems=problems)

    @classmethod
    def of(cls, document: dict[str, Any]) -> ModelResult:
        """Return the result from JSON-ready data; a KeyError, TypeError or ValueError if it is not one."""
        names = {each.name for each in fields(cls)}
        known = {name: value for name, value in document.items() if name in names}  # a newer one has more
        result = cls(**{**known, "problems": tuple(Problem(**each) for each in document["problems"])})
        if result.status not in get_args(Status):
            raise ValueError(f"unknown status {result.status!r}")
        about = (result.precision, result.proof, result.answers)
        texts = (result.model, result.step, result.artifact, result.log, *about)
        if not all(isinstance(each, str) for each in texts) or not isinstance(result.seconds, int | float):
            raise TypeError(f"a value of another type in {document}")
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
        """Yield the counts, what was compared, then each failed model with its reason and its log."""
        total = len(self.results)
        counted = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        yield f"{total} model{'s' * (total != 1)}: {counted}"
        for proof in ("loads", "unknown"):
            models = [result.model for result in self.results if result.proof == proof and not result.failed]
            if models:
                yield f"  not compared with a source, {proof}: {some_of(models)}"
        yield from (f"  {result.line()}" for result in self.failed)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Results:
        """Return the results from a document."""
        try:
            document = parsed(text)
            if document["version"] != VERSION:
                raise ValueError(f"version {document['version']!r}")
            at = document["at"]
            return cls(
                results=tuple(ModelResult.of(each) for each in document["models"]),
                by=document["by"],
                at=datetime.fromisoformat(at.removesuffix("Z") + "+00:00") if at else None,
                finished=document["finished"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RESULTS.error(
                what=f"not a results document: {type(error).__name__} {error}",
                where=where,
                why="the results of its models are unknown",
                fix="deliver the models again, or use a folder that holds only results documents",
            ) from None


def merged(runs: Iterable[Results], *, expected: Sequence[str] = ()) -> Results:
    """Merge several runs into one summary.

    The newest result of a model counts, because a retried build writes another document. An expected model
    without a result has failed: its build never started.
    """
    ordered = sorted(runs, key=lambda run: in_json(run.at) if run.at else "")
    latest = {result.model: result for run in ordered for result in run.results}
    for model in expected:
        never_begun = NO_RESULT.problem(
            what="no run has a result for this model",
            where="the results documents",
            why="its build never started, or ended before it could write",
            fix="check the build's own log: a quota, the image or the source may have prevented its start",
        )
        latest.setdefault(model, ModelResult.unbuilt(model, never_begun))
    results = tuple(latest[model] for model in sorted(latest))
    return Results(results=results, finished=all(run.finished for run in ordered))


# Seconds between two writes of the document during a run; every write contains all results.
_EVERY_S = 2.0
_EVERY_S_IN_S3 = 30.0


class Record:
    """The results of a run. The initial result of every model is that the run did not reach it.

    The document is therefore correct at any time, even after a power failure.
    """

    def __init__(self, models: Iterable[str], place: Place | None) -> None:
        self._place = place
        self._results = {model: ModelResult.unbuilt(model, _not_reached(model)) for model in models}
        self._given: set[str] = set()
        self._lock = threading.Lock()
        self._written_at = time.monotonic()
        self.write(finished=False)

    def give(self, result: ModelResult) -> None:
        """Record a result and print it to standard error; only the first result of a model counts."""
        with self._lock:
            if result.model in self._given:
                return
            self._given.add(result.model)
            self._results[result.model] = result
        say(result.line())

    def refuse(self, problems: tuple[Problem, ...]) -> None:
        """Record the same problems for all models, and write the document."""
        with self._lock:
            self._results = {model: ModelResult.unbuilt(model, *problems) for model in self._results}
        self.write(finished=True)

    def without(self) -> list[str]:
        """Return the models without a result so far."""
        with self._lock:
            return [model for model in self._results if model not in self._given]

    def results(self, *, finished: bool) -> Results:
        """Return the current results."""
        with self._lock:
            results = tuple(self._results.values())
        return Results(results=results, by=publisher(), at=datetime.now(timezone.utc), finished=finished)

    def write(self, *, finished: bool) -> None:
        """Write the document."""
        if self._place is not None:
            self._place.write(self.results(finished=finished).to_json())
            self._written_at = time.monotonic()

    def write_if_due(self) -> None:
        """Write the document if the interval has passed; ignore errors, which the last write reports."""
        every = _EVERY_S_IN_S3 if self._place is not None and self._place.in_s3 else _EVERY_S
        if self._place is None or time.monotonic() - self._written_at < every:
            return
        try:
            self.write(finished=False)
        except FleetError as error:
            self._written_at = time.monotonic()
            say(f"warning: {error}")


def say(line: str) -> None:
    """Write a line to standard error; ignore a closed pipe."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def _not_reached(model: str) -> Problem:
    return NOT_REACHED.problem(
        what="the run ended before it reached this model",
        where=f"model {model!r}",
        why="the model was not built",
        fix="find the cause of the interruption, then deliver this model again",
    )


@dataclass(frozen=True, kw_only=True)
class SummarizeOptions(opt.AccountOptions):
    """Options of `fleet summarize`."""

    place: opt.Url = opt.argument(
        "a folder, or s3://bucket/prefix/, with the files that `fleet deliver --results` wrote"
    )
    items: str | None = opt.option(
        "the file that `fleet diff --items` wrote: a model in it without a result has failed", metavar="FILE"
    )
    summary: str | None = opt.option(
        "also write the summary to this file, or s3://bucket/key", metavar="FILE"
    )


def run(options: SummarizeOptions) -> Results:
    """Run `fleet summarize URL [--items FILE] [--summary FILE]`."""
    items = Place(address=options.items) if options.items else None
    found = summary(Place(address=options.place), items=items)
    if options.summary:
        Place(address=options.summary).write(found.to_json())
    return found


def summary(place: Place, *, items: Place | None = None) -> Results:
    """Merge the results in all documents of a folder.

    Raises:
        FleetError: A document is unreadable or invalid, so the results of its models are unknown. Or there is
            no document, and `items` is None.
    """
    expected = _expected(items) if items is not None else []
    try:
        documents = place.documents()
    except FleetError as error:
        if items is None or error.problems[0].rule != NO_RESULTS.id:
            raise
        documents = {}
    runs = (Results.from_json(text, where=where) for where, text in documents.items())
    return merged(runs, expected=expected)


def _expected(items: Place) -> list[str]:
    try:
        listed = parsed(items.read())
        if not isinstance(listed, list):
            raise TypeError(f"{type(listed).__name__} instead of an array")
        return [model for each in listed for model in each["models"].split()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"not a list of models: {type(error).__name__} {error}"
        fix = "pass the address given to `fleet diff --items`"
        raise ITEMS.error(what=what, where=items.address, fix=fix) from None
