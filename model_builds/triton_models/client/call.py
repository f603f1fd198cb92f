"""A call of a client, its error, and the threads in which calls run, so that callers can stop waiting.

A socket's timeout applies only between bytes. DNS lookups and the retrieval of credentials have no timeout.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Deadline
from triton_models.client.failures import DEADLINE, Again, Failure

T = TypeVar("T")

# An abandoned call keeps its thread and connection, and a process often has 1,024 descriptors. While calls
# of one kind hang, this many of it are accepted. Other kinds go on, unless this many hang in all.
MOST_HUNG_ALIKE = 64
MOST_HUNG = 256

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
    """

    model: str
    deadline: Deadline
    artifact: str = ""
    fixed: bool = False
    endpoint: str = ""
    target: ArtifactTarget | None = None
    attempts: int = 0
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


def _restored(args: tuple[str], attributes: Mapping[str, Any]) -> InvocationError:
    error = InvocationError.__new__(InvocationError, *args)
    vars(error).update(attributes)
    return error


class HungError(Exception):
    """A call did not end in time."""


class Workers:
    """Runs each call in a thread of its own, which is abandoned if the call hangs.

    A new thread takes 0.1 ms. Those of an executor would be waited for when Python exits.
    """

    def __init__(self) -> None:
        self._forget()

    def full(self, kind: str = "") -> bool:
        """Return whether so many calls hang that another one of a kind should not start."""
        if os.getpid() != self._process:  # threads do not survive a fork
            self._forget()
        with self._lock:
            if self._hung[kind] and self._running[kind] >= MOST_HUNG_ALIKE:
                return True
            return sum(min(each, MOST_HUNG_ALIKE) for each in self._hung.values()) >= MOST_HUNG

    def run(self, call: Callable[[], T], *, limit_s: float, kind: str = "") -> T:
        """Run a call in another thread with this thread's context variables, and return its result.

        After `limit_s` it is abandoned, and counts as hung for its kind.

        Raises:
            HungError: The call did not end in time.
        """
        if os.getpid() != self._process:
            self._forget()
        future = Future[T]()
        self._count(self._running, kind, future)
        _start(call, future)
        if not wait([future], timeout=min(limit_s, threading.TIMEOUT_MAX)).done:
            self._count(self._hung, kind, future)
            raise HungError
        try:
            return future.result()
        finally:
            del future  # its error refers to this frame

    def _count(self, counter: Counter[str], kind: str, future: Future[T]) -> None:
        """Count a call of a kind until it ends."""

        def end(_: Future[T]) -> None:
            with self._lock:
                counter[kind] -= 1
                if not counter[kind]:
                    del counter[kind]

        with self._lock:
            counter[kind] += 1
        future.add_done_callback(end)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._hung, self._running = Counter[str](), Counter[str]()


def _start(call: Callable[[], T], future: Future[T]) -> None:
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 (the caller handles it)
            future.set_exception(error)

    try:
        threading.Thread(target=work, name="fleet-client", daemon=True).start()
    except BaseException:
        future.cancel()  # it is counted no more
        raise
