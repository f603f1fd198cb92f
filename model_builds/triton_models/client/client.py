"""A client that invokes the models behind an endpoint by name."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import REQUEST
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.encoding import JSON_TYPE, Content, Parameters, Tensors, decode, encode
from triton_models.base.errors import FleetError, Problem
from triton_models.client.alias import ALIAS_AGE_S, Aliased, read_alias
from triton_models.client.call import Call, HungError, InvocationError, Workers
from triton_models.client.deadline import CLOCK, Clock, Deadline
from triton_models.client.failures import Again, Failure, Retries, crowded, failure_of, late
from triton_models.client.remembered import Remembered
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.objects import Store
from triton_models.repository.s3 import aws_errors
from triton_models.repository.stored_manifest import MANIFEST_AGE_S, StoredManifest, read

if TYPE_CHECKING:
    import numpy as np


# SageMaker responds within 60 seconds; its documentation recommends a socket timeout of 70 seconds. A timeout
# belongs to a client of the SDK, so there are several: a request uses the shortest one that its call can wait
# for. The thread and the connection of a request that is not answered end soon after its call.
READ_TIMEOUTS_S = (0.5, 1, 2, 4, 8, 16, 32, 70)
CONNECT_TIMEOUT_S = 5

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

CLIENT_ENDPOINT = Check(id="client-endpoint", source=FROM_ARGUMENTS)
CLIENT_LIMIT = Check(id="client-limit", source=FROM_ARGUMENTS)
PAYLOAD = Check(id="payload", source=FROM_ARGUMENTS)

_ARGUMENTS = "the arguments of Client"

# The time for which an unknown name is not looked up again, in seconds.
UNKNOWN_AGE_S = 5.0

# The manifest is read again for this many unknown names, which may come from users, then for one per second.
_LOOK_UPS, _LOOK_UPS_PER_S = 16, 1.0

# The maximum number of cached unknown names; beyond that, all of them are dropped.
_MOST_UNKNOWN = 10_000

# No artifact has a longer name, so such a name is neither looked up again nor cached.
_LONGEST_NAME = 200

_Name = tuple[str, ArtifactTarget | None]


class Client:
    """A client of an endpoint or of the endpoint behind an alias; safe to use from many threads.

    A model's name is resolved for the target of the endpoint: see `ModelRecord.on`. An alias contains
    endpoint and target. Without an alias, the target is an argument, which is optional while each name refers
    to one artifact.

    Alias and manifest are refreshed in the background. A request waits for them only if they have not been
    read yet, the name is new, or the endpoint no longer exists.

    A request is retried if it is throttled, the endpoint fails (5xx), the connection ends early, or Triton
    does not find a model that it has just loaded. While a model loads, it is retried for `ready_limit_s`.
    There are no attempts after the deadline.

    Create one client per process, as with boto3.

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
            self._session = session = session or boto3.Session()
            self._runtimes: dict[float, Any] = {}
            self._creating = threading.Lock()
            self._runtime(deadline_s)
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
        self._deadline_s, self._ready_limit_s, self._attempts = deadline_s, ready_limit_s, attempts
        self._clock, self._workers = clock, Workers()

    @property
    def endpoint_name(self) -> str:
        """The current endpoint.

        Raises:
            FleetError: The alias does not exist or cannot be read.
        """
        return self._serving(self._deadline()).endpoint

    @property
    def target(self) -> ArtifactTarget | None:
        """The target of the current endpoint; None if its alias does not name one.

        Raises:
            FleetError: As `endpoint_name`.
        """
        return self._serving(self._deadline()).target

    def target_model(self, model: str) -> str:
        """Return the artifact that a model's name refers to on the current endpoint.

        Raises:
            FleetError: The model is unknown, has no artifact for the endpoint's target, or the manifest
                cannot be read.
        """
        deadline = self._deadline()
        return self._names.artifact(model, self._serving(deadline).target, deadline)

    def infer(
        self,
        *,
        model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        parameters: Parameters | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Invoke a model by name.

        Args:
            model: The model's name in the repository.
            inputs: A tensor per input of the model, with the batch as first dimension if the model supports
                batching. Strings are arrays of str or bytes.
            outputs: The outputs to return; all by default.
            content: The encoding of tensors: "binary" or "json", which is several times larger and slower.
            parameters: Parameters of the request: `priority`, `timeout` in microseconds, or `sequence_id`,
                `sequence_start` and `sequence_end` of a model with sequences. Of a sequence, a request that
                is repeated is a further step: use a client with attempts=1.
            deadline_s: The time limit of this call, in seconds; by default the client's limit.

        Returns:
            The outputs by name. Strings are returned as arrays of bytes.

        Raises:
            InvocationError: The request failed: the model, endpoint or alias is unknown, the inputs do not
                fit the model, the endpoint failed, or the deadline expired.
            FleetError: Triton does not support the type of an input, or the deadline is not positive.
        """
        call = Call(model=model, deadline=self._deadline(deadline_s))
        return self._ask(call, inputs, outputs=outputs, content=content, parameters=parameters)

    def invoke_target(
        self,
        *,
        target_model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        parameters: Parameters | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Invoke a specific artifact instead of a name; otherwise the same as `infer`."""
        deadline = self._deadline(deadline_s)
        call = Call(model=target_model, artifact=target_model, deadline=deadline, fixed=True)
        return self._ask(call, inputs, outputs=outputs, content=content, parameters=parameters)

    def _ask(self, call: Call, inputs: Tensors, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
        try:
            # Detect an unknown name before encoding.
            self._address(call, self._serving(call.deadline))
            body, content_type = encode(inputs, where=call.where, **options)
            if len(body) > PAYLOAD_LIMIT:
                binary = ', or content="binary"' if content_type == JSON_TYPE else ""
                raise PAYLOAD.error(
                    what=f"the request has {len(body)} bytes",
                    where=call.where,
                    why="InvokeEndpoint refuses longer requests",
                    fix=f"send fewer rows at a time, at most {PAYLOAD_LIMIT} bytes{binary}",
                )
            answer, kind = self._answer(call, {"ContentType": content_type, "Body": body})
            return decode(answer, kind, where=f"the answer to {call.where}")
        except InvocationError:
            raise
        except FleetError as error:
            raise InvocationError(error.problems, call=call) from error.__cause__

    def _answer(self, call: Call, request: Mapping[str, Any]) -> tuple[bytes, str]:
        """Send the request with retries, and return the body and content type of the response."""
        retries = Retries(attempts=self._attempts, load_limit_s=self._ready_limit_s, deadline=call.deadline)
        while call.deadline.left_s:
            if self._workers.full(call.artifact):
                raise call.late(crowded())
            call.attempts += 1
            try:
                return self._workers.run(
                    lambda: self._send(call, request), limit_s=call.deadline.left_s, kind=call.artifact
                )
            except HungError:
                break
            except Exception as error:
                call.last = failure = failure_of(error)
                if failure is None:
                    raise
                if failure.again is Again.ELSEWHERE and self._address_again(call, failure):
                    continue
                pause = retries.pause(failure)
                if pause is None:
                    raise call.error(self._with_inputs(failure, call)) from error
            self._clock.wait(pause)
        raise call.late(late(call.deadline.limit_s))

    def _with_inputs(self, failure: Failure, call: Call) -> Failure:
        """Add the inputs of the model to a refusal of others, if its build recorded them."""
        listed = self._names.inputs(call.model, call.artifact) if failure.refused_inputs else ""
        return replace(failure, fix=f"{failure.fix}: {listed}") if listed else failure

    def _send(self, call: Call, request: Mapping[str, Any]) -> tuple[bytes, str]:
        from botocore.exceptions import IncompleteReadError

        answer = self._runtime(call.deadline.left_s).invoke_endpoint(
            EndpointName=call.endpoint, TargetModel=call.artifact, **request
        )
        body = answer["Body"].read()
        if not body and "content-length" not in answer["ResponseMetadata"]["HTTPHeaders"]:
            # The connection ended within the headers, which the SDK takes for the end of the response.
            raise IncompleteReadError(actual_bytes=0, expected_bytes=1)
        return body, answer.get("ContentType", "")

    def _runtime(self, left_s: float) -> Any:
        """Return the SDK's client for a request of a call with that much time."""
        timeout_s = next((each for each in READ_TIMEOUTS_S if each >= left_s), READ_TIMEOUTS_S[-1])
        if timeout_s not in self._runtimes:
            with self._creating:  # sessions are not safe for threads
                if timeout_s not in self._runtimes:
                    self._runtimes[timeout_s] = _runtime_client(self._session, timeout_s)
        return self._runtimes[timeout_s]

    def _address(self, call: Call, to: Aliased) -> None:
        """Address a call to an endpoint, and resolve the model's name for it."""
        call.endpoint = to.endpoint
        if not call.fixed:
            call.artifact = self._names.artifact(call.model, to.target, call.deadline)
        call.target = to.target

    def _address_again(self, call: Call, failure: Failure) -> bool:
        """Resolve alias and name of a refused call again; return False if nothing has changed."""
        try:
            return self._is_elsewhere(call, failure.message)
        except FleetError as error:
            raise call.error(failure, also=error.problems) from error

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
        artifact = self._names.another_artifact(call.model, call.target, call.artifact, call.deadline)
        if artifact is None:
            return False
        call.artifact = artifact
        return True

    def _serving(self, deadline: Deadline) -> Aliased:
        return self._alias.get(deadline) if self._alias else self._fixed

    def _deadline(self, limit_s: float | None = None) -> Deadline:
        if limit_s is None:
            return Deadline(self._deadline_s, self._clock)
        _check_limits(Report(_ARGUMENTS), deadline_s=limit_s)
        return Deadline(limit_s, self._clock)


def _runtime_client(session: Any, read_timeout_s: float) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        user_agent=f"triton-fleet boto3/{boto3.__version__}",  # botocore recomputes its own for each call
        connect_timeout=min(CONNECT_TIMEOUT_S, read_timeout_s),
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=64,
    )
    return session.client("sagemaker-runtime", config=config)


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


class Names:
    """The names of models in a repository; safe to use from many threads."""

    def __init__(self, store: Store, *, age_s: float, clock: Clock) -> None:
        self._store, self._clock = store, clock
        what = f"the manifest {store.repository.manifest_url}"
        self._stored = Remembered(self._read, what=what, age_s=age_s, clock=clock)
        self._unknown: dict[_Name, tuple[float, tuple[Problem, ...]]] = {}
        self._last: dict[str, str] = {}
        self._look_ups, self._counted_at = float(_LOOK_UPS), clock.now()

    def artifact(self, model: str, target: ArtifactTarget | None, deadline: Deadline) -> str:
        """Return the artifact that a name refers to on a target.

        For an unknown name the manifest is read again at once, and then not for some seconds. If many names
        are unknown, it is read once per second for all of them.

        Raises:
            FleetError: The model is unknown, it has no artifact for the target, or the manifest cannot be
                read.
        """
        first = self._stored.value is None
        manifest = self._stored.get(deadline).manifest
        known = manifest.knows(model, target)
        problems = () if known else self._problems((model, target))
        if not problems:
            if not known and not first and len(model) <= _LONGEST_NAME and self._may_look_up():
                manifest = self._stored.fresh(deadline).manifest
            try:
                found = manifest.target_model(model, target)
            except FleetError as error:
                problems = error.problems
                self._remember((model, target), problems)
            else:
                if target is None:
                    self._last[model] = found
                return found
        if target is None and model in self._last:
            return self._last[model]
        raise FleetError(problems)

    def another_artifact(
        self, model: str, target: ArtifactTarget | None, than: str, deadline: Deadline
    ) -> str | None:
        """Return the artifact that a name now refers to; None if it has not changed."""
        if self._stored.seconds_old >= UNKNOWN_AGE_S:
            self._stored.fresh(deadline)
        found = self.artifact(model, target, deadline)
        return None if found == than else found

    def inputs(self, model: str, artifact: str) -> str:
        """Return the inputs of an artifact with their types and shapes, as known without a request to S3."""
        stored = self._stored.value
        record = stored.manifest.record(model=model, artifact=artifact) if stored else None
        listed = record.build.get(REQUEST) if record else None
        if not isinstance(listed, Mapping):
            return ""
        return ", ".join(f"{name} {tensor}" for name, tensor in listed.items())

    def _problems(self, name: _Name) -> tuple[Problem, ...]:
        """Return why a name is unknown, which takes long to find out; empty if it must be looked up."""
        since, problems = self._unknown.get(name, (0.0, ()))
        return problems if self._clock.now() - since < UNKNOWN_AGE_S else ()

    def _may_look_up(self) -> bool:
        now = self._clock.now()
        refilled = self._look_ups + (now - self._counted_at) * _LOOK_UPS_PER_S
        self._look_ups, self._counted_at = min(refilled, _LOOK_UPS), now
        if self._look_ups < 1:
            return False
        self._look_ups -= 1
        return True

    def _remember(self, name: _Name, problems: tuple[Problem, ...]) -> None:
        if len(self._unknown) >= _MOST_UNKNOWN:
            self._unknown.clear()
        if len(name[0]) <= _LONGEST_NAME:
            self._unknown[name] = self._clock.now(), problems

    def _read(self, known: StoredManifest | None) -> StoredManifest:
        with aws_errors(self._store.url):
            return read(self._store, known=known, parse=Manifest.by_line)
