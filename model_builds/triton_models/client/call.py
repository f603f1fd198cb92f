"""A call of a client, its error, and threads for what has no time limit of its own."""

from __future__ import annotations

import contextvars
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Deadline
from triton_models.client.failures import DEADLINE, Again, Failure
from triton_models.repository.manifest import PARTS, Rollout

T = TypeVar("T")

_NO_FAILURE = Failure(rule="", what="", fix="", again=Again.NO)


class InvocationError(FleetError):
    """A failed request, with all details.

    Attributes:
        artifact: The artifact; "" if the name was not resolved.
        endpoint: The endpoint; "" if the alias was not resolved.
        elapsed_s: The duration of the call, in seconds.
        code: The error code of AWS, or the class of the SDK's exception; otherwise "".
        status: The HTTP status of the model's response, otherwise of SageMaker's; None without a response.
        message: The message of the model, otherwise of SageMaker, otherwise of the SDK.
        log_stream: The ARN of the container's log stream, if SageMaker reports it.
        retryable: True if the same request may succeed later.
    """

    def __init__(self, problems: Iterable[Problem], *, call: Call, failure: Failure | None = None) -> None:
        super().__init__(problems)
        self.model = call.model
        self.artifact = call.artifact
        self.endpoint = call.endpoint
        self.attempts = call.attempts
        self.elapsed_s = call.deadline.elapsed_s
        said = failure or _NO_FAILURE
        self.code, self.status, self.message = said.code, said.status, said.message
        self.log_stream = said.log_stream
        late = any(problem.rule == DEADLINE for problem in self.problems)
        self.retryable = late or said.again in {Again.SOON, Again.WHEN_LOADED}

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, for process pools."""
        return _restored, (self.args, vars(self))


@dataclass(slots=True, kw_only=True)
class Call:
    """A call in progress.

    Attributes:
        fixed: True if the artifact was given, so that no name is resolved.
        attempts: The number of attempts so far.
        part: Its part of the requests, by which it gets the current artifact or a candidate.
        alone: Whether it means the same without other calls, as one of a sequence does not.
        shadow: The candidate that gets a copy of it.
        waited_s: The time until the model was loaded, if an attempt was refused because it was not.
    """

    model: str
    deadline: Deadline
    artifact: str = ""
    fixed: bool = False
    endpoint: str = ""
    target: ArtifactTarget | None = None
    attempts: int = 0
    part: int = PARTS
    alone: bool = False
    shadow: Rollout | None = None
    waited_s: float | None = None
    last: Failure | None = None

    @property
    def where(self) -> str:
        """A description of the request, for errors."""
        artifact = f" ({self.artifact})" if self.artifact not in {"", self.model} else ""
        return f"a request for {self.model}{artifact} of endpoint {self.endpoint or '(not resolved)'}"

    def error(self, failure: Failure, *, also: Iterable[Problem] = ()) -> InvocationError:
        """Return the error of a call that ends with a failure, and optionally other problems."""
        why, where = self._facts(failure), self.where
        first = Problem(what=failure.what, where=where, why=why, fix=failure.fix, rule=failure.rule)
        return InvocationError([first, *also], call=self, failure=failure)

    def late(self, failure: Failure) -> InvocationError:
        """Return the error of a call past its deadline, with the facts of the last failure."""
        last = self.last
        if last is None:
            return self.error(failure)
        return self.error(
            replace(last, rule=failure.rule, what=failure.what, fix=failure.fix, again=Again.NO)
        )

    def _facts(self, failure: Failure) -> str:
        parts = [
            f"{self.attempts} {'attempt' if self.attempts == 1 else 'attempts'}",
            f"{self.deadline.elapsed_s:.1f} s",
            f"{failure.code} {failure.status or ''}".strip(),
            failure.message if failure.message not in failure.what else "",
            f"log {failure.log_stream}" if failure.log_stream else "",
        ]
        return ", ".join(part for part in parts if part)


def part_of(model: str, key: str | None) -> int:
    """Return the part of the requests of a key, always the same one; at random without a key."""
    if key is None:
        return secrets.randbelow(PARTS)
    return int.from_bytes(hashlib.sha256(f"{model}\n{key}".encode()).digest()[:8], "big") % PARTS


def _restored(args: tuple[str], attributes: Mapping[str, Any]) -> InvocationError:
    error = InvocationError.__new__(InvocationError, *args)
    vars(error).update(attributes)
    return error


class HungError(Exception):
    """A call did not end in time."""


def within(limit_s: float, call: Callable[[], T]) -> T:
    """Call a function in another thread, and return its result. After the time it is left alone.

    Raises:
        HungError: It did not end in time.
    """
    future = Future[T]()
    start(call, future)
    if not wait([future], timeout=min(limit_s, threading.TIMEOUT_MAX)).done:
        raise HungError
    try:
        return future.result()
    finally:
        del future  # its error refers to this frame


def start(call: Callable[[], T], future: Future[T]) -> None:
    """Call a function in a thread of its own, with this thread's context variables."""
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 (the caller handles it)
            future.set_exception(error)

    threading.Thread(target=work, name="fleet-client", daemon=True).start()
