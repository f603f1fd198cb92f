"""Calls without input and output: what a call has to look up, send or wait for, until it has its answer.

`Client` and `AsyncClient` do what a call asks for, each in its way, and give it the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.clock import CLOCK, Clock
from triton_models.base.encoding import JSON_TYPE, Content, Parameters, Tensors, decode, encode_buffers
from triton_models.base.errors import FleetError
from triton_models.client.batches import Answer
from triton_models.client.blocking import Blocking
from triton_models.client.call import Call, HungError, InvocationError, part_of
from triton_models.client.deadline import Deadline
from triton_models.client.failures import Again, Failure, Retries, failure_of, late
from triton_models.client.names import Names
from triton_models.client.remembered import Remembered
from triton_models.client.service import Request, Service
from triton_models.client.shadows import Shadows
from triton_models.client.steps import Look, Pause, Send, Step, Steps
from triton_models.client.wire import Response
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_models.repository.alias import ALIAS_AGE_S, Aliased, read_alias
from triton_models.repository.manifest import Repository
from triton_models.repository.objects import Store
from triton_models.repository.s3 import aws_errors
from triton_models.repository.stored_manifest import MANIFEST_AGE_S
from triton_models.signals.recorder import Recorder

CLIENT_ENDPOINT = Check(id="client-endpoint", source=FROM_ARGUMENTS)
CLIENT_LIMIT = Check(id="client-limit", source=FROM_ARGUMENTS)
PAYLOAD = Check(id="payload", source=FROM_ARGUMENTS)

_ARGUMENTS = "the arguments of Client"

# Parameters and manifests arrive within a second. Two attempts end long before a caller's timeout.
_LOOK_UP: dict[str, Any] = {
    "connect_timeout": 2,
    "read_timeout": 5,
    "retries": {"mode": "standard", "total_max_attempts": 2},
}

# A model that does not load within 60 seconds may load for 360; the SDK's retries end long before.
READY_LIMIT_S = 360.0

# The time limit of a call in seconds: SageMaker's limit for loading a model.
DEADLINE_S = 360.0

# The number of failures allowed per request.
ATTEMPTS = 3

# The digest of more bytes takes a millisecond, in which other coroutines would wait.
_LONG = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for, in the words of `Client.infer`."""

    inputs: Tensors
    outputs: Sequence[str] | None = None
    content: Content = "binary"
    parameters: Parameters | None = None
    key: str | None = None


class AnyClient:
    """What both clients share: the endpoint, the names of its models, and the course of a call.

    Args:
        endpoint_name: The endpoint. Give either this or an alias.
        alias: A fleet's alias, such as /triton-fleet/TritonFleet/endpoint. When the fleet moves to another
            endpoint, the client follows. A request that fails because the old endpoint no longer exists is
            retried at once.
        target: The target of `endpoint_name`, such as sm86-trt10.13.3; an alias contains its own.
        repository: The model repository behind it, such as s3://bucket/models/.
        session: A boto3 session; None for the default one.
        deadline_s: The default time limit of a call, in seconds. It covers resolving the name, waiting for
            the model to load, all attempts and reading the response.
        ready_limit_s: The time limit for loading a model, in seconds, within the deadline.
        attempts: The number of attempts before the error is raised.
        manifest_age_s: The age, in seconds, from which the manifest is read again. The first request after
            that still uses the known version; later ones use the new version.
        alias_age_s: The age, in seconds, from which the alias is read again.
        signals: Where to write what is counted of each model, such as s3://bucket/signals/; None for not at
            all. See `fleet top`.
        clock: The clock for deadlines and waits, replaceable in tests.

    Raises:
        FleetError: The repository URL or the target is invalid, a limit is not positive, AWS is not
            configured, or not exactly one of endpoint and alias is given.
    """

    def __init__(
        self,
        *,
        endpoint_name: str | None = None,
        alias: str | None = None,
        target: str | None = None,
        repository: str,
        session: Any = None,
        deadline_s: float = DEADLINE_S,
        ready_limit_s: float = READY_LIMIT_S,
        attempts: int = ATTEMPTS,
        manifest_age_s: float = MANIFEST_AGE_S,
        alias_age_s: float = ALIAS_AGE_S,
        signals: str | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        import boto3
        from botocore.config import Config

        report = Report(_ARGUMENTS)
        _check_endpoint(report, endpoint_name, alias, target)
        _check_limits(report, deadline_s=deadline_s, attempts=attempts)
        self._fixed = Aliased(
            endpoint=endpoint_name or "", target=ArtifactTarget.parse(target) if target else None
        )
        self.repository = Repository.parse(repository)
        look_up = Config(**_LOOK_UP)
        with aws_errors(self.repository.url):
            session = session or boto3.Session()
            self._service = Service(session)
            s3 = session.client("s3", config=look_up)
            ssm = session.client("ssm", config=look_up) if alias else None
        self._names = Names(Store(self.repository, s3), age_s=manifest_age_s, clock=clock)
        self._alias: Remembered[Aliased] | None = None
        if alias:
            self._alias = Remembered(
                lambda _: read_alias(alias, ssm=ssm),
                what=f"the alias {alias}",
                age_s=alias_age_s,
                clock=clock,
            )
        self._recorder = Recorder(Store(Repository.parse(signals), s3)) if signals else None
        self._deadline_s, self._ready_limit_s, self._attempts = deadline_s, ready_limit_s, attempts
        self._clock = clock
        self._blocking = Blocking(service=self._service, recorder=self._recorder, clock=clock)
        self._shadows: Shadows | None = None
        if self._recorder is not None:
            self._shadows = Shadows(ask=self._ask, deadline=self._deadline, recorder=self._recorder)

    def _deadline(self, limit_s: float | None = None) -> Deadline:
        if limit_s is None:
            return Deadline(self._deadline_s, self._clock)
        _check_limits(Report(_ARGUMENTS), deadline_s=limit_s)
        return Deadline(limit_s, self._clock)

    def _serving(self, deadline: Deadline) -> Aliased:
        return self._alias.get(deadline) if self._alias else self._fixed

    def _steps(self, call: Call, request_of: Callable[[Call], Request], *, waits: bool = False) -> Steps:
        """Return the steps of a call, whose request is made, or found, once its artifact is known.

        Raises:
            InvocationError: The call failed.
        """
        try:
            # Detect an unknown name before encoding.
            yield Look(
                find=lambda: self._address(call, self._serving(call.deadline)), waits=self._waits(call)
            )
            request = yield Look(find=lambda: request_of(call), waits=waits)
            digest = yield Look(find=request.digest, computes=request.size > _LONG)
            response = yield from self._answered(call, request, digest)
            kind = response.headers.get("content-type", "")
            answer = decode(response.body, kind, where=f"the answer to {call.where}")
            if call.shadow is not None and self._shadows is not None:
                self._shadows.send(call, call.shadow, request, answer)
            return answer
        except InvocationError:
            raise
        except FleetError as error:
            raise InvocationError(error.problems, call=call) from error.__cause__

    def _steps_of(self, model: str, asked: Asked, deadline_s: float | None) -> tuple[Call, Steps]:
        part = part_of(model, asked.key)
        call = Call(model=model, deadline=self._deadline(deadline_s), part=part)
        call.alone = "sequence_id" not in (asked.parameters or {})
        return call, self._steps(call, partial(self._request, asked))

    def _steps_to(self, artifact: str, asked: Asked, deadline_s: float | None) -> tuple[Call, Steps]:
        call = Call(model=artifact, artifact=artifact, deadline=self._deadline(deadline_s), fixed=True)
        return call, self._steps(call, partial(self._request, asked))

    def _warming(self, model: str) -> tuple[Call, Steps]:
        """Return the steps of a call with the request that the model's build has stored."""
        call = Call(model=model, deadline=self._deadline())
        return call, self._steps(call, self._stored_request, waits=True)

    def _ask(self, call: Call, request: Request) -> Answer:
        """Return the answer to a request that was sent before, in this thread."""
        return self._blocking.run(call, self._steps(call, lambda _: request))

    def _stored_request(self, call: Call) -> Request:
        buffers, content_type = self._names.request(call.model, call.artifact)
        return Request(buffers=buffers, content_type=content_type)

    def _prepared(self, model: str, inputs: Tensors | None) -> tuple[str, Request]:
        """Return a model's artifact and a request to it, which may wait.

        Without inputs, it is the request that the build has stored, or zeros for the inputs that it recorded.
        """
        call = Call(model=model, deadline=self._deadline())
        self._address(call, self._serving(call.deadline))
        if inputs is None:
            signature = self._names.signature(model, call.artifact)
            if signature is None or self._names.has_request(model, call.artifact):
                return call.artifact, self._stored_request(call)
            inputs = {name: each.zeros() for name, each in signature.inputs.items() if not each.optional}
        return call.artifact, self._request(Asked(inputs=inputs), call)

    def _artifact(self, model: str) -> str:
        deadline = self._deadline()
        return self._names.artifact(model, self._serving(deadline).target, deadline)

    def _rows(self, model: str) -> int:
        """Return the most rows of a request; 0 if they are unknown or it has no batches. It may wait."""
        signature = self._names.signature(model, self._artifact(model))
        return (signature.max_batch_size if signature else 0) or 0

    def _waits(self, call: Call) -> bool:
        to = self._fixed if self._alias is None else self._alias.value
        return to is None or not (call.fixed or self._names.at_hand(call.model, to.target))

    def _request(self, asked: Asked, call: Call) -> Request:
        inputs, signature = asked.inputs, self._names.signature(call.model, call.artifact)
        if signature is not None:
            inputs = signature.checked(inputs, asked.outputs, where=call.where)
        buffers, content_type = encode_buffers(
            inputs,
            outputs=asked.outputs,
            content=asked.content,
            parameters=asked.parameters,
            where=call.where,
        )
        request = Request(buffers=buffers, content_type=content_type)
        if request.size > PAYLOAD_LIMIT:
            binary = ', or content="binary"' if content_type == JSON_TYPE else ""
            raise PAYLOAD.error(
                what=f"the request has {request.size} bytes",
                where=call.where,
                why="InvokeEndpoint refuses longer requests",
                fix=f"send fewer rows at a time, at most {PAYLOAD_LIMIT} bytes{binary}",
            )
        return request

    def _answered(self, call: Call, request: Request, digest: str) -> Generator[Step, Any, Response]:
        """Send the request until there is a response that is no error, or none is to be expected."""
        retries = Retries(attempts=self._attempts, load_limit_s=self._ready_limit_s, deadline=call.deadline)
        while call.deadline.left_s:
            call.attempts += 1
            cause: Exception | None = None
            try:
                response: Response = yield Send(request=request, digest=digest)
                failure = self._service.failure(response) if response.failed else None
            except HungError:
                break
            except Exception as error:
                failure, cause = failure_of(error), error
                if failure is None:
                    raise
            if failure is None:
                return response
            call.last = failure
            if failure.again is Again.ELSEWHERE and (yield self._elsewhere(call, failure)):
                continue
            pause = retries.pause(failure)
            if pause is None:
                raise call.error(failure) from cause
            yield Pause(seconds=pause)
            if failure.again is Again.WHEN_LOADED:
                call.waited_s = call.deadline.elapsed_s
        raise call.late(late(call.deadline.limit_s))

    def _address(self, call: Call, to: Aliased) -> None:
        """Address a call to an endpoint, and resolve the model's name for it."""
        call.endpoint = to.endpoint
        if not call.fixed:
            call.artifact = self._names.artifact(call.model, to.target, call.deadline, call.part)
        call.target = to.target
        if call.alone and self._shadows is not None:
            call.shadow = self._names.shadow(call.model, to.target, call.part)

    def _elsewhere(self, call: Call, failure: Failure) -> Look:
        """Resolve alias and name of a refused call again; the outcome is false if nothing has changed."""

        def find() -> bool:
            try:
                return self._is_elsewhere(call, failure.message)
            except FleetError as error:
                raise call.error(failure, also=error.problems) from error

        return Look(find=find, waits=True)

    def _is_elsewhere(self, call: Call, message: str) -> bool:
        if message.startswith("Endpoint "):  # of account y not found
            if self._alias is None:
                return False
            follower = self._alias.value
            if follower is None or follower.endpoint == call.endpoint:  # otherwise another thread was faster
                follower = self._alias.fresh(call.deadline)
            if follower.endpoint == call.endpoint:
                return False
            self._address(call, follower)
            return True
        if call.fixed:
            return False
        artifact = self._names.another_artifact(
            call.model, call.target, call.artifact, call.deadline, call.part
        )
        if artifact is None:
            return False
        call.artifact = artifact
        return True


def _check_endpoint(report: Report, endpoint_name: str | None, alias: str | None, target: str | None) -> None:
    if alias and target and not endpoint_name:
        what = "both an alias and a target are given"
        report(CLIENT_ENDPOINT, what, fix="omit the target, which the alias names")
    if bool(endpoint_name) == bool(alias):
        given = "both endpoint_name and alias are" if alias else "neither endpoint_name nor alias is"
        fix = "pass the alias, which also names the next endpoint"
        report(CLIENT_ENDPOINT, f"{given} given", fix=fix)


def _check_limits(report: Report, **limits: float) -> None:
    for name, limit in limits.items():
        if not limit > 0:
            report(CLIENT_LIMIT, f"{name} is {limit!r}", fix="give a number above 0, or omit it")
    report.raise_if_any()
