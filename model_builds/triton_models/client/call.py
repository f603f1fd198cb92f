"""A call of a client, and its error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Deadline
from triton_models.client.failures import DEADLINE, Again, Failure


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
        self.code = failure.code if failure else ""
        self.status = failure.status if failure else None
        self.message = failure.message if failure else ""
        self.log_stream = failure.log_stream if failure else ""
        self.retryable = _late(self) or (
            failure is not None and failure.again in {Again.SOON, Again.WHEN_LOADED}
        )

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
        return InvocationError(
            [
                Problem(
                    what=failure.what,
                    where=self.where,
                    why=self._facts(failure),
                    fix=failure.fix,
                    rule=failure.rule,
                ),
                *also,
            ],
            call=self,
            failure=failure,
        )

    def error_of(self, error: FleetError) -> InvocationError:
        """Return the error of a call that ends without a failed request."""
        return InvocationError(error.problems, call=self)

    def late(self, failure: Failure) -> InvocationError:
        """Return the error of a call past its deadline, including the last failure."""
        before = self.last
        if before is None:
            return self.error(failure)
        known = replace(
            failure,
            code=before.code,
            status=before.status,
            message=before.message,
            log_stream=before.log_stream,
        )
        return self.error(known)

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


def _late(error: FleetError) -> bool:
    return any(problem.rule == DEADLINE for problem in error.problems)
