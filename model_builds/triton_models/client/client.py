"""Invokes the models behind an endpoint by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.client.alias import ALIAS_AGE_S, Alias, Aliased
from triton_models.client.call import Call, InvocationError
from triton_models.client.deadline import CLOCK, Clock, Deadline
from triton_models.client.encoding import Content, Tensors, decode, encode
from triton_models.client.failures import Again, Failure, failure_of, late
from triton_models.client.resolving import Names
from triton_models.client.retries import Retries
from triton_models.client.workers import HungError, Workers
from triton_models.facts.payload import PAYLOAD_LIMIT
from triton_models.repository.manifest import Repository
from triton_models.repository.stored_manifest import MANIFEST_AGE_S

if TYPE_CHECKING:
    import numpy as np

    from triton_models.repository.preflight import Fit

# SageMaker answers within 60 seconds; its documentation asks for a socket time-out of 70.
READ_TIMEOUT_S = 70
CONNECT_TIMEOUT_S = 5

# Parameters and manifests come within a second. Two attempts end long before a caller gives up.
_LOOK_UP: dict[str, Any] = {
    "connect_timeout": 2,
    "read_timeout": 5,
    "retries": {"mode": "standard", "total_max_attempts": 2},
}

# A model that is not loaded within 60 seconds goes on loading for 360; the SDK's retries end long before.
READY_LIMIT_S = 360.0

# How long a call may take, in seconds; as long as SageMaker lets a model load.
DEADLINE_S = 360.0

# How often a request may fail.
ATTEMPTS = 3


class Client:
    """A client of one endpoint, or of whichever an alias names; safe to use from many threads.

    A model's name is resolved for the target of the endpoint that is called: `ModelRecord.on` says how. An
    alias names endpoint and target together. Of an endpoint without an alias the target is an argument; while
    each name stands for one artifact it is not needed, and what a name stood for last is kept until then.

    Alias and manifest are read again in the background. A request waits for them only if nothing is known
    yet, the name is new, or the endpoint is gone.

    A request is sent again if it is throttled, the endpoint fails (5xx), the connection ends early, or Triton
    does not know a model that it has just loaded; while the model loads it is sent until `ready_limit_s` is
    over. Nothing is sent after the deadline.

    As with boto3's clients, make one for each process.

    Args:
        endpoint_name: The endpoint. Either this or an alias.
        alias: A fleet's alias, such as /triton-fleet/TritonFleet/endpoint. The client follows it: when the
            fleet moves to another endpoint, requests go there from then on, and one that comes too late for
            the old endpoint is sent again at once.
        target: The target of `endpoint_name`, such as sm86-trt10.13.3; an alias names its own.
        repository: The model repository behind it, such as s3://bucket/models/.
        session: A boto3 session; the default one if None.
        deadline_s: How long a call may take, in seconds: resolving the name, waiting for the model to load,
            every attempt and reading the answer. Each call can have its own.
        ready_limit_s: How long to wait for a model that is not loaded yet, within the deadline.
        attempts: How often a request may fail before its error is raised.
        manifest_age_s: For how long a model's name is known before the manifest is read again. The first
            request after that time still goes to the known version; the next ones go to the new version.
        alias_age_s: For how long the alias' endpoint is known before the alias is read again.
        clock: The clock of deadlines and waits; tests have their own.

    Raises:
        FleetError: The repository is not such a URL, the target is no target, a limit is not positive, AWS is
            not configured, or not exactly one of endpoint and alias is given.
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

        from triton_models.repository.s3 import aws_errors

        raise_if_any(_either(endpoint_name, alias, target))
        raise_if_any(_not_positive(deadline_s=deadline_s, attempts=attempts))
        self._fixed = Aliased(
            endpoint=endpoint_name or "", target=ArtifactTarget.parse(target) if target else None
        )
        self.repository = Repository.parse(repository)
        config = Config(
            user_agent=f"triton-fleet boto3/{boto3.__version__}",  # botocore's own is made anew for each call
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=64,
        )
        look_up = Config(**_LOOK_UP)
        with aws_errors(self.repository.url):
            self._session = session = session or boto3.Session()
            self._runtime = session.client("sagemaker-runtime", config=config)
            s3 = session.client("s3", config=look_up)
            ssm = session.client("ssm", config=look_up) if alias else None
        self._names = Names(self.repository, s3, age_s=manifest_age_s, clock=clock)
        self._alias = Alias(alias, ssm=ssm, age_s=alias_age_s, clock=clock) if alias else None
        self._deadline_s = deadline_s
        self._ready_limit_s = ready_limit_s
        self._attempts = attempts
        self._clock = clock
        self._workers = Workers()

    @property
    def endpoint_name(self) -> str:
        """The endpoint that requests go to now.

        Raises:
            FleetError: There is no such alias, or it cannot be read.
        """
        return self._serving(self._deadline()).endpoint

    def target_model(self, model: str) -> str:
        """The artifact that a model's name stands for on the endpoint that requests go to now.

        Raises:
            FleetError: No model of the repository has that name, it has no artifact for the endpoint's
                target, or the manifest cannot be read.
        """
        deadline = self._deadline()
        return self._names.artifact(model, self._serving(deadline).target, deadline)

    def preflight(self, models: Sequence[str] = ()) -> Fit:
        """Compare what the models were built for with the endpoint, before the first request meets an error.

        For deployments: it asks SageMaker what the endpoint is, which an application's role need not be
        allowed (sagemaker:DescribeEndpoint, DescribeEndpointConfig and DescribeModel).

        Args:
            models: Only these; all of the repository if empty.

        Returns:
            The models that were looked at.

        Raises:
            FleetError: Artifacts that the endpoint would refuse, all of them; no such model or endpoint, or
                AWS refuses.
        """
        from triton_models.repository.preflight import preflight
        from triton_models.repository.s3 import aws_errors
        from triton_models.repository.serving import deployed

        endpoint = self.endpoint_name
        with aws_errors(f"endpoint {endpoint}"):
            serving = deployed(endpoint, self._session.client("sagemaker"))
        return preflight(self._names.manifest(self._deadline()), serving, models=models)

    def infer(
        self,
        *,
        model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        deadline_s: float | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Ask a model by its name.

        Args:
            model: The model's name in the repository.
            inputs: A tensor for each of the model's inputs, with the batch as first dimension where the
                model has one. Text is an array of str or of bytes.
            outputs: The outputs to return; all by default.
            content: How tensors travel: "binary", or "json", which is several times larger and slower.
            deadline_s: How long this call may take, in seconds; by default the client's limit.

        Returns:
            The outputs by name. Text comes back as arrays of bytes.

        Raises:
            InvocationError: The request was not answered, or cannot be sent: there is no such model,
                endpoint or alias, the inputs do not fit the model, the endpoint failed, or the deadline is
                over.
            FleetError: An input has a type that Triton lacks, or the deadline is not positive.
        """
        call = Call(model=model, deadline=self._deadline(deadline_s))
        return self._ask(call, inputs=inputs, outputs=outputs, content=content)

    def invoke_target(
        self,
        *,
        target_model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        deadline_s: float | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Ask a certain artifact, whatever the names stand for; otherwise as `infer`."""
        call = Call(
            model=target_model, artifact=target_model, deadline=self._deadline(deadline_s), fixed=True
        )
        return self._ask(call, inputs=inputs, outputs=outputs, content=content)

    def _ask(
        self, call: Call, *, inputs: Tensors, outputs: Sequence[str] | None, content: Content
    ) -> dict[str, np.ndarray[Any, Any]]:
        try:
            # An unknown name is found before anything is encoded.
            self._address(call, self._serving(call.deadline))
            body, content_type = encode(inputs, outputs=outputs, content=content, where=call.where)
            if len(body) > PAYLOAD_LIMIT:
                raise _too_long(len(body), content, call.where)
            answer, kind = self._answer(call, {"ContentType": content_type, "Body": body})
            return decode(answer, kind, where=f"the answer to {call.where}")
        except InvocationError:
            raise
        except FleetError as error:
            raise call.error_of(error) from error.__cause__

    def _answer(self, call: Call, request: Mapping[str, Any]) -> tuple[bytes, str]:
        """The body and the content type of an answer; the request is sent as often as that takes."""
        retries = Retries(attempts=self._attempts, load_limit_s=self._ready_limit_s, deadline=call.deadline)
        while call.deadline.left_s:
            call.attempts += 1
            try:
                return self._workers.run(lambda: self._send(call, request), limit_s=call.deadline.left_s)
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
                    raise call.error(failure) from error
            self._clock.wait(pause)
        raise call.late(late(call.deadline.limit_s))

    def _send(self, call: Call, request: Mapping[str, Any]) -> tuple[bytes, str]:
        from botocore.exceptions import IncompleteReadError

        answer = self._runtime.invoke_endpoint(
            EndpointName=call.endpoint, TargetModel=call.artifact, **request
        )
        body = answer["Body"].read()
        if not body and "content-length" not in answer["ResponseMetadata"]["HTTPHeaders"]:
            # The connection ended among the headers, which the SDK takes for the end of the answer.
            raise IncompleteReadError(actual_bytes=0, expected_bytes=1)
        return body, answer.get("ContentType", "")

    def _address(self, call: Call, to: Aliased) -> None:
        """Address a call to an endpoint; the name is resolved for that very endpoint."""
        call.endpoint = to.endpoint
        if not call.fixed:
            call.artifact = self._names.artifact(call.model, to.target, call.deadline)
        call.target = to.target

    def _address_again(self, call: Call, failure: Failure) -> bool:
        """Address a call that was refused to what alias and name stand for by now; False if to the same."""
        try:
            return self._is_elsewhere(call, failure.message)
        except FleetError as error:
            raise call.error(failure, also=error.problems) from error

    def _is_elsewhere(self, call: Call, message: str) -> bool:
        if _about_the_endpoint(message):
            if self._alias is None:
                return False
            follower = self._alias.after(call.endpoint, call.deadline)
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
        return self._alias.names(deadline) if self._alias else self._fixed

    def _deadline(self, limit_s: float | None = None) -> Deadline:
        if limit_s is None:
            return Deadline(self._deadline_s, self._clock)
        raise_if_any(_not_positive(deadline_s=limit_s))
        return Deadline(limit_s, self._clock)


def _either(endpoint_name: str | None, alias: str | None, target: str | None) -> Iterator[Problem]:
    if alias and target and not endpoint_name:
        yield Problem(
            what="both an alias and a target",
            where="the arguments of Client",
            expected="a target with endpoint_name only",
            why="an alias names the target of its endpoint",
            fix="leave the target out",
            rule="client-endpoint",
        )
    if bool(endpoint_name) != bool(alias):
        return
    yield Problem(
        what="both an endpoint's name and an alias" if alias else "neither an endpoint's name nor an alias",
        where="the arguments of Client",
        expected='one of alias="/triton-fleet/TritonFleet/endpoint", endpoint_name="Search-g5-2xlarge-25-09"',
        why="requests go to one endpoint",
        fix="give the alias, which stays when the release or the GPU changes",
        rule="client-endpoint",
    )


def _not_positive(**limits: float) -> Iterator[Problem]:
    for name, limit in limits.items():
        if not limit > 0:
            yield Problem(
                what=f"{name} is {limit!r}",
                where="the arguments of the client",
                expected="a number above 0",
                why="nothing could be sent",
                fix="leave it out for the default",
                rule="client-limit",
            )


def _too_long(size: int, content: Content, where: str) -> FleetError:
    return FleetError.of(
        what=f"the request has {size} bytes",
        where=where,
        expected=f"at most {PAYLOAD_LIMIT} bytes",
        why="InvokeEndpoint refuses longer requests",
        fix="send fewer rows at a time" + (', or content="binary"' if content == "json" else ""),
        rule="payload",
    )


def _about_the_endpoint(message: str) -> bool:
    """Whether a refusal is about the endpoint itself, such as "Endpoint x of account y not found."."""
    return message.startswith("Endpoint ")
