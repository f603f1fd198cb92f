"""Lambda functions.

moto's gaps:
- It runs a function in Docker or not at all. Here the code runs on this machine, with its real answers,
  errors and logs; `embedded_aws.functions.runner` lists the differences from Lambda. Only Python is
  supported.
- An asynchronous call answers when it is done. Here it answers at once.
- A function's logging configuration is lost. An update does not change several settings, and neither does a
  second PutFunctionEventInvokeConfig.
- A function's permissions are stored but never checked. `allows` checks those of services.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from moto.awslambda.exceptions import LambdaClientError, UnknownFunctionException
from moto.awslambda.models import LambdaBackend, LambdaFunction
from moto.awslambda.utils import get_backend
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.utils import unix_time_millis, utcnow
from moto.logs.models import logs_backends

from embedded_aws.functions.runner import ClosedError, Function, Functions, LoopError, Outcome
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.iam import conditions_hold

_moto_init = LambdaFunction.__init__
_moto_configuration = LambdaFunction.get_configuration
_moto_update = LambdaFunction.update_configuration
_moto_put_invoke_config = LambdaBackend.put_function_event_invoke_config

_LOG_TAIL_BYTES = 4096
# Settings that moto's update ignores, by the attribute that stores each.
_UPDATED = {
    "LoggingConfig": "logging_config",
    "KMSKeyArn": "kms_key_arn",
    "TracingConfig": "tracing_config",
    "DeadLetterConfig": "dead_letter_config",
}


class _Running:
    functions: Functions | None = None


def connect(functions: Functions | None) -> None:
    _Running.functions = functions


def start(
    function_arn: str, event: bytes, *, trace: str = "", on_end: Callable[[Outcome], None] | None = None
) -> None:
    function = _called(_found(function_arn), [])
    _functions().start(function, event, trace=trace, on_end=on_end)


def allows(function_arn: str, *, service: str, source_arn: str) -> bool:
    """Return True if a function exists and its resource policy lets a service invoke it for a source."""
    try:
        found = _found(function_arn)
    except UnknownFunctionException:
        return False
    context = {"AWS:SourceArn": source_arn, "AWS:SourceAccount": found.account_id}
    return any(_permits(statement, service, context) for statement in found.policy.statements)


def _permits(statement: Mapping[str, Any], service: str, context: Mapping[str, str]) -> bool:
    if statement["Effect"] != "Allow" or statement["Principal"] not in ("*", {"Service": service}):
        return False
    if statement["Action"] not in ("lambda:InvokeFunction", "lambda:*", "*"):
        return False
    return conditions_hold(statement, context)


def _found(function_arn: str) -> Any:
    # Any: moto's functions get the fields below only at run time.
    _, _, _, region, account, *_ = function_arn.split(":")
    return get_backend(account, region).get_function(function_arn)


def _functions() -> Functions:
    if _Running.functions is None:
        raise RuntimeError("functions can only run while an EmbeddedAws is open")
    return _Running.functions


def _called(found: Any, tail: list[str]) -> Function:
    if not str(found.run_time).startswith("python"):
        msg = f"the embedded AWS runs functions in Python only; {found.function_name} is for {found.run_time}"
        raise LambdaClientError("InvalidRuntimeException", msg)
    group = (found.logging_config or {}).get("LogGroup", f"/aws/lambda/{found.function_name}")
    stream = f"{utcnow():%Y/%m/%d}/[{found.version}]{secrets.token_hex(16)}"
    logs: Any = logs_backends[found.account_id][found.region]
    logs.ensure_log_group(group)
    logs.ensure_log_stream(group, stream)

    def log(line: str) -> None:
        tail.append(line)
        # The deletion of a stack may already have removed the group.
        if group in logs.groups:
            event = {"timestamp": int(unix_time_millis()), "message": line}
            logs.put_log_events(group, stream, [event])

    return Function(
        name=found.function_name,
        arn=found.function_arn,
        version=str(found.version),
        handler=found.handler,
        code=found.code_bytes,
        environment=dict(found.environment_vars),
        timeout=float(found.timeout),
        memory=int(found.memory_size),
        region=found.region,
        log_group=group,
        log_stream=stream,
        log=log,
    )


@patch.replaces(LambdaSimpleBackend, "invoke")
def _invoke(  # noqa: PLR0917 (moto calls it so)
    self: LambdaSimpleBackend,
    function_name: str,
    qualifier: str | None,
    body: Any,
    headers: Any,
    response_headers: dict[str, str],
) -> bytes:
    event = body.encode() if isinstance(body, str) else bytes(body or b"")
    event = event or b"{}"
    _parse(event)
    tail: list[str] = []
    function = _called(self.get_function(function_name, qualifier), tail)
    kind = headers.get("X-Amz-Invocation-Type", "RequestResponse")
    if kind == "DryRun":
        return b""
    trace = headers.get("X-Amzn-Trace-Id", "")
    try:
        if kind == "Event":
            _functions().start(function, event, trace=trace)
            return b""
        outcome = _functions().invoke(function, event, trace=trace)
    except LoopError as error:
        raise LambdaClientError("RecursiveInvocationException", str(error)) from error
    except ClosedError as error:
        raise LambdaClientError("ServiceException", str(error)) from error
    if outcome.failed:
        response_headers["x-amz-function-error"] = "Unhandled"
    logged = "\n".join(tail).encode()[-_LOG_TAIL_BYTES:]
    response_headers["x-amz-log-result"] = base64.b64encode(logged).decode()
    response_headers["x-amz-executed-version"] = function.version
    response_headers["Content-Length"] = str(len(outcome.payload))
    return outcome.payload


def _parse(event: bytes) -> None:
    try:
        json.loads(event)
    except ValueError as error:
        msg = f"Could not parse request body into json: {error}"
        raise LambdaClientError("InvalidRequestContentException", msg) from error


@patch.replaces(LambdaFunction, "__init__")
def _init(self: Any, account_id: str, spec: dict[str, Any], region: str, version: str | int = 1) -> None:
    _moto_init(self, account_id, spec, region, version)
    self.logging_config = spec.get("LoggingConfig")
    self.dead_letter_config = spec.get("DeadLetterConfig")


@patch.replaces(LambdaFunction, "get_configuration")
def _get_configuration(self: Any, on_create: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 (moto's)
    group = f"/aws/lambda/{self.function_name}"
    logging = {"LogFormat": "Text", "LogGroup": group, **(self.logging_config or {})}
    dead = {"DeadLetterConfig": self.dead_letter_config} if self.dead_letter_config else {}
    return {**_moto_configuration(self, on_create), "LoggingConfig": logging, **dead}


@patch.replaces(LambdaFunction, "update_configuration")
def _update_configuration(self: Any, config_updates: dict[str, Any]) -> dict[str, Any]:
    for name, attribute in _UPDATED.items():
        if name in config_updates:
            setattr(self, attribute, config_updates[name])
    if "EphemeralStorage" in config_updates:
        self.ephemeral_storage = config_updates["EphemeralStorage"]["Size"]
    updated = {"Variables": {}, **config_updates.get("Environment", {})}
    known = {**config_updates, **({"Environment": updated} if "Environment" in config_updates else {})}
    _moto_update(self, known)
    configuration: dict[str, Any] = self.get_configuration()
    return configuration


@patch.replaces(LambdaBackend, "put_function_event_invoke_config")
def _put_invoke_config(self: LambdaBackend, function_name: str, config: dict[str, Any]) -> dict[str, Any]:
    self.get_function(function_name).event_invoke_config.clear()
    return _moto_put_invoke_config(self, function_name, config)
