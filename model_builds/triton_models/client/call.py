"""One call of a client, and the error that ends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem
from triton_models.client.deadline import Deadline
from triton_models.client.failures import DEADLINE, Again, Failure


class InvocationError(FleetError):
    """A request that was not answered, with all that is known about it.

    Attributes:
        model: The model's name, or the artifact that was asked for.
        artifact: The artifact; "" if the name was not resolved.
        endpoint: The endpoint; "" if the alias was not resolved.
        attempts: How often the request was sent.
        elapsed_s: How long the call took, in seconds.
        code: The error's code as AWS has it, or the class of the SDK's exception; "" without one.
        status: The status of the model's answer, otherwise that of SageMaker's; None without an answer.
        message: What the model said, otherwise SageMaker, otherwise the SDK.
        log_stream: The ARN of the container's log stream, where SageMaker names it.
        retryable: Whether the same request may succeed later.
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
        """Pickle it as it is, for pools of processes."""
        return _restored, (self.args, vars(self))


@dataclass(slots=True, kw_only=True)
class Call:
    """A call that is under way.

    Attributes:
        model: The model's name, or the artifact that was asked for.
        deadline: Its end.
        artifact: The artifact that the request is sent for.
        fixed: Whether the artifact was given, so that no name is resolved.
        endpoint: The endpoint that it is sent to.
        target: The endpoint's target, if it is known.
        attempts: How often it was sent.
        last: The last failure.
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
        """The request, for an error."""
        artifact = f" ({self.artifact})" if self.artifact not in {"", self.model} else ""
        return f"a request for {self.model}{artifact} of endpoint {self.endpoint or '(not known yet)'}"

    def error(self, failure: Failure, *, also: Iterable[Problem] = ()) -> InvocationError:
        """The error of a call that ends with a failure, and with other problems after it."""
        return InvocationError(
            [
                Problem(
                    what=failure.what,
                    where=self.where,
                    expected=failure.expected,
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
        """The error of a call that ends with other problems than a failed request."""
        return InvocationError(error.problems, call=self)

    def late(self, failure: Failure) -> InvocationError:
        """The error of a call whose deadline is over: what went wrong before is said as well."""
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
