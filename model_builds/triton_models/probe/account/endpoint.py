"""The probes' endpoint, requests to it, and the probes of its start and its container."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton_models.probe.account import artifacts, trouble
from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.models import (
    ENVIRONMENT,
    LOG_GROUPS,
    PREFIX,
    configure,
    create_container,
    create_endpoint,
    variant,
)
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import UndecidedError, Verdict, decide, undecided

START = "endpoint"
"""The id of the probe that starts the endpoint, which others need."""

NOT_READY = "ModelNotReadyException"
"""The error code of a request for a model that is still loading."""

START_MINUTES = 45.0
"""The maximum time for an endpoint to start or to fail, in minutes."""

_LOAD_MINUTES = 6.0
_LOG_LINES = 5
_USUAL_MINUTES = (4, 20)
_SHARED_MEMORY_KB = 64 * 1024
_INVALID = ("Invalid combination", "InferenceAmiVersion", "AMI")
_ALLOWED = (
    "sagemaker:CreateModel",
    "sagemaker:DeleteModel",
    "sagemaker:CreateEndpointConfig",
    "sagemaker:DeleteEndpointConfig",
    "sagemaker:CreateEndpoint",
    "sagemaker:DescribeEndpoint",
    "sagemaker:DeleteEndpoint",
    "sagemaker:AddTags",
    "sagemaker:InvokeEndpoint",
    "logs:CreateLogGroup",
    "logs:DeleteLogGroup",
    "logs:FilterLogEvents",
    "iam:CreateRole",
    "iam:PutRolePolicy",
    "iam:PassRole",
    "s3:CreateBucket",
    "s3:PutObject",
)


def endpoint_name(work: Work) -> str:
    """Return the name of the endpoint. It has capitals, like a fleet's: AWS changes their case in places."""
    return work.name("Serving")


def markers(work: Work) -> str:
    """Return the folder in the container with a marker for each loaded model."""
    return f"/tmp/{work.name('markers')}"  # noqa: S108 -- in the container


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of InvokeEndpoint.

    Attributes:
        status: Its HTTP status.
        code: The error's code; empty on success.
        text: The error's message; empty on success.
        answer: The model's answer.
        seconds: The duration of the request.
        fields: The error's further fields.
        session: The id of the session that the model started; empty without one.
    """

    status: int
    code: str = ""
    text: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    fields: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""


def invoke(
    work: Work,
    target: str | None,
    asked: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    raw: bytes = b"",
    **more: str,
) -> Generator[None, None, Reply]:
    """Invoke a target model of the endpoint until it is loaded, while other probes continue.

    Args:
        work: The run of the probes.
        target: The artifact's name; None for a request that names no model.
        asked: The question to the model.
        name: The endpoint; empty for the probes' endpoint.
        raw: The body of the request, instead of `asked`.
        **more: More parameters of InvokeEndpoint.
    """
    end = work.clock.now() + _LOAD_MINUTES * 60
    while True:
        reply = yield from invoke_once(work, target, asked, name=name, raw=raw, **more)
        if reply.code != NOT_READY or work.clock.now() > end:
            return reply


def invoke_once(
    work: Work,
    target: str | None,
    asked: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    raw: bytes = b"",
    **more: str,
) -> Generator[None, None, Reply]:
    """Invoke a target model of the endpoint once, loaded or not; see `invoke`."""
    runtime = work.clients("sagemaker-runtime")
    request = {
        "EndpointName": name or endpoint_name(work),
        "ContentType": "application/json",
        "Body": raw or artifacts.body(asked or {}),
        **({"TargetModel": target} if target else {}),
        **more,
    }
    return (yield from work.in_background(lambda: _reply(runtime, request)))


def _reply(runtime: Any, request: Mapping[str, Any]) -> Reply:
    from botocore.exceptions import BotoCoreError, ClientError

    began = time.monotonic()
    try:
        answered = runtime.invoke_endpoint(**request)
        text = answered["Body"].read().decode("utf-8", "replace")
    except ClientError as error:
        if trouble.denied(error) or trouble.signed_out(error):
            raise
        return Reply(
            status=error.response["ResponseMetadata"]["HTTPStatusCode"],
            code=trouble.code(error),
            text=trouble.message(error),
            seconds=time.monotonic() - began,
            fields=_fields({**error.response}),
        )
    except BotoCoreError as error:
        return Reply(status=0, code=type(error).__name__, text=str(error), seconds=time.monotonic() - began)
    session, seconds = answered.get("NewSessionId", ""), time.monotonic() - began
    return Reply(status=200, text=text, answer=_answer(text), seconds=seconds, session=session)


def _fields(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ModelError except its message."""
    return {
        key: response[key]
        for key in ("OriginalStatusCode", "OriginalMessage", "ErrorCode")
        if key in response
    }


def _answer(text: str) -> Mapping[str, Any]:
    """Return the answer of a probe's model; empty if it is from another model."""
    try:
        found: Mapping[str, Any] = json.loads(json.loads(text)["outputs"][0]["data"][0])
    except (ValueError, KeyError, TypeError):
        return {}
    return found


def upload(work: Work, target: str, content: bytes) -> str:
    """Put an artifact into the repository, and return its name."""
    work.clients("s3").put_object(Bucket=work.bucket(), Key=f"{PREFIX}{target}", Body=content)
    return target


def serving(work: Work, name: str = "") -> str:
    """Return the name of an endpoint that serves; by default, the first one's.

    Raises:
        UndecidedError: The endpoint does not serve.
    """
    from botocore.exceptions import ClientError

    name = name or endpoint_name(work)
    try:
        found = work.clients("sagemaker").describe_endpoint(EndpointName=name)
    except ClientError as error:
        if not trouble.absent(error):
            raise
        msg = "there is no endpoint to invoke"
        raise UndecidedError(msg) from None
    if found["EndpointStatus"] != "InService":
        msg = f"the endpoint is {found['EndpointStatus']}"
        raise UndecidedError(msg)
    return name


def in_service(work: Work, *, minutes: float, name: str = "") -> Generator[None, None, Mapping[str, Any]]:
    """Wait until an endpoint's creation or update has succeeded or failed; by default, the first one's."""
    sagemaker, name = work.clients("sagemaker"), name or endpoint_name(work)

    def settled() -> Mapping[str, Any] | None:
        found: Mapping[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        status = found["EndpointStatus"]
        return None if status in {"Creating", "Updating", "SystemUpdating", "RollingBack"} else found

    return (yield from work.until(settled, minutes=minutes, what="the endpoint"))


def _start(work: Work) -> Steps:
    """Create the endpoint with the release's AMI, wait until it serves, and invoke a model."""
    ami, prefix, duration, _ = _OF_START
    target = upload(work, "inspector-1.tar.gz", artifacts.inspector(markers(work)))
    resumed = work.journal.entry("endpoint", endpoint_name(work)) is not None
    refused = yield from _created(work)
    if refused:
        later = "the endpoint was refused"
        return [decide(ami, refused, holds=False), *(undecided(each, later) for each in _OF_START[1:])]
    began = work.clock.now()
    found = yield from in_service(work, minutes=START_MINUTES)
    minutes = (work.clock.now() - began) / 60
    if found["EndpointStatus"] != "InService":
        return _not_started(work, str(found.get("FailureReason", "without a reason")))
    reply = yield from invoke(work, target, {})
    served = decide(
        ami, f"{work.place.release.inference_ami} with {work.place.instance.name}: InService", holds=True
    )
    loaded = "version" in reply.answer
    denied = "download" in reply.text or "denied" in reply.text.lower()
    seen = (
        "loaded a model by a role with ListBucket for the prefix" if loaded else f"{reply.code}: {reply.text}"
    )
    listed = decide(prefix, seen, holds=loaded) if loaded or denied else undecided(prefix, seen)
    least, most = _USUAL_MINUTES
    took = decide(duration, f"InService after {minutes:.1f} minutes", holds=least <= minutes <= most)
    if resumed:
        took = undecided(duration, "it was started by an earlier process")
    return [served, listed, took, _arn(work, found["EndpointArn"])]


def _arn(work: Work, arn: str) -> Verdict:
    """Return the verdict on the spelling of the name, which has a capital, in the ARN."""
    name = arn.rpartition("/")[2]
    return decide(
        "endpoint-arn-lower-case", f"the ARN ends with {name}", holds=name == endpoint_name(work).lower()
    )


def _created(work: Work) -> Generator[None, None, str]:
    """Create model, configuration and endpoint; return SageMaker's message if it refuses the AMI."""
    from botocore.exceptions import ClientError

    name = endpoint_name(work)
    yield from create_container(work, name)
    try:
        configure(work, name, [variant(work, name, InferenceAmiVersion=work.place.release.inference_ami)])
        create_endpoint(work, name, name)
    except ClientError as error:
        if not any(each in trouble.message(error) for each in _INVALID):
            raise
        return f"{error.operation_name}: {trouble.message(error)}"
    return ""


def _not_started(work: Work, why: str) -> list[Verdict]:
    """Return the verdicts on a failed endpoint. The AMI is at fault only if SageMaker or the log says so."""
    group = f"{LOG_GROUPS}{endpoint_name(work)}"
    events = work.clients("logs").filter_log_events(logGroupName=group).get("events", ())
    log = " | ".join(each["message"].strip() for each in events[-_LOG_LINES:])
    said = f"{trouble.failure(why)}; the log: {log or 'empty'}"
    fault = any(each in said for each in (*_INVALID, "CUDA driver version is insufficient", "unsatisfied"))
    first = decide("ami-with-multi-model", said, holds=False)
    return [
        first if fault else undecided("ami-with-multi-model", said),
        *(undecided(each, said) for each in _OF_START[1:]),
    ]


def _container(work: Work) -> Steps:
    """Have a model report what it sees: the driver, the shared memory, and its own unpacked files."""
    serving(work)
    reply = yield from invoke(work, "inspector-1.tar.gz", {"see": "host"})
    if "executable" not in reply.answer:
        if "extract" in reply.text or "archive" in reply.text:
            rest = _OF_CONTAINER[1:]
            stored = decide("unpacker-takes-stored-blocks", reply.text, holds=False)
            return [stored, *(undecided(each, reply.text) for each in rest)]
        msg = f"the model could not be invoked: {reply.code}: {reply.text}"
        raise UndecidedError(msg)
    seen = reply.answer
    work.observe(
        "container", {"see": "host"}, {key: seen[key] for key in ("shared_memory", "executable", "driver")}
    )
    return [
        decide(
            "unpacker-takes-stored-blocks", "a model in stored blocks was unpacked and loaded", holds=True
        ),
        decide(
            "executable-bits-kept", f"bin/python3 executable: {seen['executable']}", holds=seen["executable"]
        ),
        _shared_memory(seen["shared_memory"]),
        _ami_driver(work, seen["driver"]),
        _start_script(seen["server"]),
    ]


def _start_script(arguments: list[str]) -> Verdict:
    """Return the verdict on the server's arguments, some of which come from the container's environment."""
    expected = (
        f"--backend-config=python,shm-default-byte-size={ENVIRONMENT['SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE']}",
        f"--log-verbose={ENVIRONMENT['SAGEMAKER_TRITON_LOG_VERBOSE']}",
    )
    lacking = [each for each in expected if each not in arguments]
    seen = f"the server lacks {', '.join(lacking) or 'none'} of its arguments: {' '.join(arguments)}"
    return decide("start-script-variables", seen, holds=not lacking)


def _shared_memory(lines: list[str]) -> Verdict:
    """Return the verdict from the output of `df -k /dev/shm`: a heading, then device, blocks and so on."""
    belief, seen = "shared-memory-64-mb", " / ".join(lines)
    fields = lines[-1].split() if lines else []
    if len(fields) < 2 or not fields[1].isdigit():  # noqa: PLR2004
        return undecided(belief, f"df: {seen}")
    return decide(belief, f"df: {seen}", holds=int(fields[1]) == _SHARED_MEMORY_KB)


def _ami_driver(work: Work, line: str) -> Verdict:
    belief = "ami-driver"
    version = line.strip().partition("\n")[0].rpartition(",")[2].strip()
    if not version[:1].isdigit():
        return undecided(belief, f"nvidia-smi: {line!r}")
    expected = _AMI_DRIVERS.get(str(work.place.release.inference_ami))
    seen = f"{work.place.release.inference_ami}: {line.strip()}"
    return decide(belief, seen, holds=version.partition(".")[0] == expected)


_OF_START = (
    "ami-with-multi-model",
    "list-bucket-by-prefix",
    "start-takes-twelve-minutes",
    "endpoint-arn-lower-case",
)
_OF_CONTAINER = (
    "unpacker-takes-stored-blocks",
    "executable-bits-kept",
    "shared-memory-64-mb",
    "ami-driver",
    "start-script-variables",
)
# From the belief.
_AMI_DRIVERS = {"al2-ami-sagemaker-inference-gpu-3-1": "550", "al2023-ami-sagemaker-inference-gpu-4-1": "580"}

PROBES = (
    AccountProbe(
        id=START,
        what="creates a multi-model endpoint with the release's AMI, and loads a model",
        decides=_OF_START,
        run=_start,
        creates="a bucket, a role, a log group, a model, a configuration, an endpoint of one instance",
        allowed=_ALLOWED,
        minutes=12,
        pays=((ENDPOINT, 15 / 60),),
        cheap=True,
    ),
    AccountProbe(
        id="container",
        what="has a model report what it sees of its host",
        decides=_OF_CONTAINER,
        run=_container,
        allowed=("sagemaker:InvokeEndpoint",),
        minutes=0.5,
        needs=(START,),
        pays=((ENDPOINT, 0.5 / 60),),
        cheap=True,
    ),
)
