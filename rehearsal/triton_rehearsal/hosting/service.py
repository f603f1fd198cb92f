"""Answers InvokeEndpoint as SageMaker's hosting does, with real Triton servers.

An unmodified SDK reaches it through AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME. The endpoints, the location of their
models and the settings of their containers are read from a given AWS, as deployed there.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embedded_aws import EmbeddedAws, LaunchError, current_clock, refusal_of_pages
from triton_models.base.errors import FleetError
from triton_models.client.failures import error_in
from triton_rehearsal.closing import Closing
from triton_rehearsal.hosting.budget import Budget
from triton_rehearsal.hosting.container_log import ContainerLog, may_log
from triton_rehearsal.hosting.endpoint_slot import EndpointSlot, Taken, closing
from triton_rehearsal.hosting.instance import EndingError, Instance, Invoked, Setup, SingleModelInstance
from triton_rehearsal.hosting.instance_group import InstanceGroup, Watch, choose
from triton_rehearsal.hosting.metrics import Event, Invocation, Load, MetricsPublisher, Source, Unload
from triton_rehearsal.hosting.model_data import BadArtifactError, download
from triton_rehearsal.hosting.model_figures import ModelFigures
from triton_rehearsal.hosting.multi_model import (
    LOAD_WAIT_S,
    ContainerError,
    MissingArtifactError,
    MultiModelInstance,
    NotReadyError,
)
from triton_rehearsal.hosting.runtime_api import ApiError, Gateway, Reply, Request, validation_error
from triton_rehearsal.hosting.variant import Aws, Variant, look_up, read_variant
from triton_rehearsal.triton.contract import OUT_OF_MEMORY, TARGET_MODEL, TIMED_OUT, Answer

_log = logging.getLogger(__name__)

# Seconds for which an endpoint's description is used. On AWS a change takes minutes to take effect.
LOOKUP_S = 1.0

# The headers that SageMaker passes on, to the container and back.
_FORWARDED = ("content-type", "accept", "x-amzn-sagemaker-custom-attributes", "x-amzn-sagemaker-inference-id")
_RETURNED = ("content-type", "x-amzn-sagemaker-custom-attributes")
_CLIENT_ERRORS = range(400, 500)
_WATCH = Watch()
_MOMENTS = 20_000  # of the timeline
_ALL = 1 << 30
_MOST_WAITING = 1024  # requests for models that are not loaded
# From the API model of sagemaker-runtime.
_LONGEST_TARGET = 1024
_TARGET_MODEL = TARGET_MODEL.lower()
_NOT_SERVED = {
    "x-amzn-sagemaker-inference-component": "inference components",
    "x-amzn-sagemaker-target-container-hostname": "several containers",
}
_TARGET_VARIANT = "x-amzn-sagemaker-target-variant"


def _nothing(*_: Any) -> None:
    """Change and refuse nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An event of an instance, at a time of `embedded_aws.current_clock`."""

    at: float
    endpoint: str
    instance: str
    event: Event


class Hosting(Closing):
    """Real-time hosting of the endpoints of an AWS, with one model or many.

    An `EmbeddedAws` starts new fleets here before they take traffic. With any other AWS, the first request
    that needs a new fleet starts it.

    `gpu_memory`, for models of each GPU, and `disk`, for copies of models of each instance, are in bytes and
    by default those of the instance type. `on_s3_client` is called with the S3 client of each instance, and
    `before_start` before each start: it raises a FleetError if there is no capacity.

    The timeline has the newest loads, unloads and downloads, and the starts and ends of instances; `figures`
    those of each model, by endpoint and target model. `url` is for AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME.
    """

    def __init__(
        self,
        aws: Aws,
        *,
        directory: Path | None = None,
        port: int = 0,
        load_wait_s: float = LOAD_WAIT_S,
        lookup_s: float = LOOKUP_S,
        gpu_memory: int | None = None,
        disk: int | None = None,
        watch: Watch = _WATCH,
        on_s3_client: Callable[[Any], None] = _nothing,
        before_start: Callable[[], None] = _nothing,
    ) -> None:
        self._deploying = aws if isinstance(aws, EmbeddedAws) else None
        refusal = self._deploying.door.refusal if self._deploying else refusal_of_pages
        self._gateway = Gateway(self.answer, port=port, refusal=refusal)
        self.url = f"http://localhost:{self._gateway.port}"
        self._aws = _SharedClients(aws)
        self._load_wait_s = load_wait_s
        self._lookup_s = lookup_s
        self._gpu_memory, self._disk, self._watch = gpu_memory, disk, watch
        self._on_s3_client, self._before_start = on_s3_client, before_start
        self.timeline: deque[Moment] = deque(maxlen=_MOMENTS)
        self.figures: defaultdict[tuple[str, str], ModelFigures] = defaultdict(ModelFigures)
        self._removed = directory is None
        self._directory = directory or Path(tempfile.mkdtemp(prefix="fleet-hosting-"))
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="invoke")
        self._slots: dict[str, EndpointSlot] = {}
        self._closed = False
        self._metrics = MetricsPublisher(
            self._aws.client("cloudwatch"),
            usage=lambda: [(fleet, instance.usage()) for fleet, instance in self.running()],
        )
        self._gateway.start()
        if self._deploying:
            self._deploying.attach(self)

    def start(self, endpoint: str) -> None:
        """Start an endpoint's instances before its first request."""
        require_served(self._aws, endpoint)
        self._slot(endpoint).take(wait_for=_ALL)

    def launch(self, endpoint: str, config: str) -> None:
        """Start the fleet of a configuration next to the serving one, if the endpoint is served here."""
        try:
            if slot := self._slots.get(endpoint):
                slot.launch(read_variant(self._aws, endpoint, config))
        except FleetError as error:
            raise LaunchError(str(error)) from error
        except ApiError as error:
            _log.debug("no fleet was started for %s: %s", endpoint, error)

    def scale(self, endpoint: str, counts: Mapping[str, int]) -> None:
        """Start the missing instances of an endpoint's variants, if the endpoint is served here."""
        try:
            if counts and (slot := self._slots.get(endpoint)):
                slot.scale(max(counts.values()))  # an endpoint of the rehearsal has one variant
        except FleetError as error:
            raise LaunchError(str(error)) from error

    def refresh(self, endpoint: str) -> None:
        """Read the endpoint's deployment again before its next request."""
        if slot := self._slots.get(endpoint):
            slot.refresh()

    def end(self, endpoint: str) -> None:
        """End the instances of a deleted endpoint, each after its current requests."""
        if slot := self._slots.get(endpoint):
            slot.end()

    def instances(self, endpoint: str) -> Sequence[Instance]:
        """Return the instances that take an endpoint's requests; start them if necessary."""
        return self._slot(endpoint).take(wait_for=_ALL)[1]

    def running(self) -> Iterator[tuple[Source, Instance]]:
        """Yield the running instances of all endpoints, with the fleets they belong to."""
        for slot in tuple(self._slots.values()):
            yield from slot.running()

    def flush_metrics(self) -> None:
        """Wait until the metrics of all answers are in CloudWatch."""
        self._metrics.flush()

    async def answer(self, request: Request) -> Reply:
        """Answer InvokeEndpoint: on the gateway's loop if only the model is needed, else in a thread."""
        started = time.monotonic()
        slot = self._slots.get(request.endpoint)
        taken = slot.take_now() if slot else None
        if taken is not None:
            variant, instances = taken
            target = _target(variant, request.headers)
            instance = choose(instances, target, at_random=variant.at_random)
            invoked = await instance.invoke_now(target, body=request.body, headers=_forwarded(request))
            needs_room = invoked is not None and invoked.answer.status == OUT_OF_MEMORY and variant.repository
            if invoked is not None and not needs_room:
                self._count(variant, target, len(instances), started, invoked)
                return _reply(variant, invoked.answer)
        waiting = partial(self._invoke, request, started, taken)
        if taken is not None and invoked is None:
            with suppress(EndingError):  # at once, as the next request is routed by it
                waiting = partial(waiting, claimed=(instance, instance.claim(target)))
        return await asyncio.get_running_loop().run_in_executor(self._threads, waiting)

    def _invoke(
        self,
        request: Request,
        started: float,
        taken: Taken | None = None,
        claimed: tuple[Instance, Any] | None = None,
    ) -> Reply:
        try:
            variant, instances = taken or self._slot(request.endpoint).take()
        except FleetError as error:
            raise ApiError(500, "InternalFailure", str(error)) from error
        target = _target(variant, request.headers)
        headers = _forwarded(request)
        try:
            instance, claim = claimed or (choose(instances, target, at_random=variant.at_random), None)
            invoked = instance.invoke(target, body=request.body, headers=headers, claimed=claim)
        except EndingError:
            return self._invoke(request, started)
        except (NotReadyError, MissingArtifactError, BadArtifactError) as error:
            refusal = _refusal(variant, target, error)
            with self._lock:
                self.figures[variant.endpoint, target].refuse(str(refusal))
            raise refusal from error
        except ContainerError as error:
            failed = Invoked(answer=error.answer, cache_hit=False)
            self._count(variant, target, len(instances), started, failed)
            raise _model_error(variant, error.answer) from error
        self._count(variant, target, len(instances), started, invoked)
        return _reply(variant, invoked.answer)

    def close(self) -> None:
        """Stop answering, end every server and remove every file."""
        if self._deploying:
            self._deploying.detach(self)
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        for slot in slots:
            slot.close()
        self._gateway.close()
        self._metrics.close()
        if self._removed:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _slot(self, endpoint: str) -> EndpointSlot:
        with self._lock:
            if self._closed:
                raise closing()
            if endpoint not in self._slots:
                self._slots[endpoint] = EndpointSlot(
                    look_up=partial(look_up, self._aws, endpoint),
                    group=lambda variant: InstanceGroup(
                        start=partial(self._new_instance, variant), watch=self._watch
                    ),
                    lookup_s=self._lookup_s,
                )
            return self._slots[endpoint]

    def _count(self, variant: Variant, target: str, instances: int, started: float, invoked: Invoked) -> None:
        answer, seconds = invoked.answer, time.monotonic() - started
        event = Invocation(
            status=answer.status,
            instances=instances,
            model_s=invoked.model_s,
            overhead_s=max(0.0, seconds - (invoked.model_s or 0.0)),
            cache_hit=invoked.cache_hit,
            loading_wait_s=invoked.loading_wait_s,
        )
        self._metrics.add(variant.source, event)
        with self._lock:
            self.figures[variant.endpoint, target].count(
                seconds=seconds,
                loaded=invoked.cache_hit is not False,
                error="" if answer.ok else error_in(answer.text) or f"status {answer.status}",
            )

    def _new_instance(self, variant: Variant) -> Instance:
        self._before_start()
        instance_id = f"i-{secrets.token_hex(9)[1:]}"

        def report(event: Event) -> None:
            self._metrics.add(variant.source, event)
            if isinstance(event, Load | Unload):
                with self._lock:
                    self.figures[variant.endpoint, event.target].note(event)
            self.timeline.append(
                Moment(
                    at=current_clock().time(), endpoint=variant.endpoint, instance=instance_id, event=event
                )
            )

        log = partial(
            ContainerLog,
            logs=self._aws.client("logs"),
            group=variant.log_group,
            stream=f"{variant.name}/{instance_id}",
        )
        setup = Setup(
            id=instance_id,
            environment=variant.environment,
            directory=self._directory / f"instance-{secrets.token_hex(4)}",
            report=report,
            machine=variant.machine,
            follow_log=log if may_log(self._aws.client("iam"), variant.role) else None,
            budget=Budget.of(variant.instance_type, gpu_memory=self._gpu_memory, disk=self._disk),
            ready_limit_s=variant.ready_limit_s,
        )
        s3, repository = self._aws.client("s3"), variant.repository
        self._on_s3_client(s3)
        if repository is None:
            return SingleModelInstance(setup, fill=partial(download, variant.data, s3=s3))
        return MultiModelInstance(setup, repository=repository, s3=s3, load_wait_s=self._load_wait_s)


class _SharedClients:
    """An AWS that creates each client once, since creating one takes tens of milliseconds."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._aws.client(service)
            return self._clients[service]


def require_served(aws: Aws, endpoint: str) -> None:
    """Check that the rehearsal can serve an endpoint."""
    try:
        look_up(aws, endpoint)
    except ApiError as error:
        raise FleetError.of(
            what=str(error),
            where=f"endpoint {endpoint!r}",
            fix="rehearse a deployed endpoint with one variant, which answers at once, or correct the name",
        ) from error


def _target(variant: Variant, headers: Mapping[str, str]) -> str:
    """Return the target model of a request; an empty string for the only model of an endpoint."""
    wanted = headers.get(_TARGET_VARIANT, variant.name)
    if wanted != variant.name:
        message = f"Variant {wanted} not found for endpoint {variant.endpoint}."
        raise validation_error(message)
    for header, name in _NOT_SERVED.items():
        if header in headers:
            message = f"Endpoint {variant.endpoint} does not have {name}. Remove the header {header}."
            raise validation_error(message)
    target = headers.get(_TARGET_MODEL)
    if variant.repository is None:
        if not target:
            return ""
        # Seen by users: https://github.com/aws/amazon-sagemaker-examples/issues/1026, read 2026-11-22.
        message = (
            f"Endpoint {variant.endpoint} is not a multi-model endpoint and does not support target model "
            "header."
        )
        raise ApiError(400, "ValidationError", message, ErrorCode="TARGET_MODEL_HEADER_NOT_SUPPORTED")
    if not target:
        # Seen by users, but for its end, read on 2026-11-23:
        # https://github.com/aws/sagemaker-tensorflow-serving-container/issues/166
        raise validation_error(f"Request {uuid.uuid4()} is missing a target model header.")
    if len(target) > _LONGEST_TARGET:
        message = (
            f"1 validation error detected: Value at 'targetModel' with {len(target)} characters failed to "
            f"satisfy constraint: Member must have length less than or equal to {_LONGEST_TARGET}"
        )
        raise validation_error(message)
    return target


def _forwarded(request: Request) -> dict[str, str]:
    return {name: request.headers[name] for name in _FORWARDED if name in request.headers}


def _reply(variant: Variant, answer: Answer) -> Reply:
    if not answer.ok:
        raise _model_error(variant, answer)
    headers = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
    headers["x-Amzn-Invoked-Production-Variant"] = variant.name
    return Reply(status=200, body=answer.body, headers=headers)


def _refusal(variant: Variant, target: str, error: Exception) -> ApiError:
    if variant.repository is None or isinstance(error, NotReadyError):
        message = f"Model {target} is not ready for inference yet. Please try your request again later."
        return ApiError(429, "ModelNotReadyException", message)
    place = f"bucket: {variant.repository.bucket}, key: {variant.repository.key(target)}"
    if isinstance(error, MissingArtifactError):
        return validation_error(
            f"Failed to download model data({place}). Please ensure that there is an object located at the "
            "URL and that the role passed to CreateModel has permissions to download the model."
        )
    return validation_error(
        f"Failed to extract model data archive ({place}): {error}. Please ensure that the object located at "
        "the URL is a valid tar.gz archive."
    )


def _model_error(variant: Variant, answer: Answer) -> ApiError:
    side = "client" if answer.status in _CLIENT_ERRORS else "server"
    region, account = variant.arn.split(":")[3:5]
    text = answer.text
    if not answer.status and text != TIMED_OUT:
        # Seen by users: https://github.com/aws/amazon-sagemaker-examples/issues/2815, read on 2026-11-23.
        text = (
            f"Amazon SageMaker could not get a response from the {variant.endpoint} endpoint. This can occur "
            "when CPU or memory utilization is high. To check your utilization, see Amazon CloudWatch. To "
            "fix this problem, use an instance type with more CPU capacity or memory."
        )
    message = (
        f'Received {side} error ({answer.status}) from primary with message "{text}". See '
        f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
        f"#logEventViewer:group={variant.log_group} in account {account} for more information."
    )
    return ApiError(
        424,
        "ModelError",
        message,
        ErrorCode=f"{side.upper()}_ERROR_FROM_MODEL",
        OriginalStatusCode=answer.status,
        OriginalMessage=text,
        LogStreamArn=f"arn:aws:logs:{region}:{account}:log-group:{variant.log_group}",
    )
