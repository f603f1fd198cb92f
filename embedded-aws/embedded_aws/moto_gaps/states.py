"""Step Functions: the features that moto's interpreter of state machines lacks.

moto's gaps:
- Its tasks call services at another address, with the caller's AWS configuration.
- It lacks tasks of CodeBuild; `CodeBuildTask` adds them. `states_map` patches the Distributed Map.
- It neither writes a JSON object as the body of an S3 object nor reads one, and its name for an error of S3
  differs from AWS's.
- Every execution that is started without a name gets the name None, and only the first one runs.
- It only accepts a ToleratedFailurePercentage with a fraction.
- Executions that run when its server is closed never end.

Some features stay unsupported: JSONata, variables, an ItemBatcher and a ResultWriter. CreateStateMachine
refuses the last two; the others fail on use.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from moto.core.utils import utcnow
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import state_task_factory
from moto.stepfunctions.parser.asl.component.state.exec.state_task.credentials import StateCredentials
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_callback
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
    ResourceRuntimePart,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_aws_sdk import (
    StateTaskServiceAwsSdk,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser, ASLParserException
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends
from moto.stepfunctions.parser.utils import TMP_THREADS

from embedded_aws import clients
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.codebuild import wait_for_end

_PERCENTAGE = "ToleratedFailurePercentage"
_JOIN_S = 5.0
# Service names in Step Functions' error names, where they differ from those in ARNs.
_ERROR_NAMES = {"s3": "S3"}

_moto_start = StepFunctionsParserBackend.start_execution
_moto_parse = AmazonStateLanguageParser.parse
_moto_service: Any = vars(state_task_factory)["state_task_service_for"]
_moto_error_name = StateTaskServiceAwsSdk._normalise_service_error_name


class _Boto3:
    """Replaces boto3 in the module where moto creates the clients of its tasks."""

    @staticmethod
    def client(*, service_name: str, region_name: str, **_others: Any) -> Any:
        return clients.client(service_name, region_name)


def end_executions() -> None:
    for regions in stepfunctions_parser_backends.values():
        for backend in regions.values():
            for machine in backend.state_machines:
                for execution in machine.executions:
                    worker = getattr(execution, "exec_worker", None)
                    environment = getattr(worker, "env", None)
                    if environment is not None:
                        environment.set_stop(stop_date=utcnow(), cause=None, error=None)
    deadline = time.monotonic() + _JOIN_S
    for thread in list(TMP_THREADS):
        # An execution that sleeps before a retry ends with this process.
        thread.join(max(0.0, deadline - time.monotonic()))
    TMP_THREADS.clear()


def _parse(definition: str) -> Any:
    """Parse a definition. moto's grammar does not accept an integer as a percentage."""
    try:
        document = json.loads(definition)
    except ValueError:
        return _moto_parse(definition)  # reports the error
    return _moto_parse(json.dumps(_with_fractions(document)))


def _with_fractions(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_fractions(item) for item in value]
    if isinstance(value, dict):
        if "ResultWriter" in value:
            raise ASLParserException(["The embedded AWS has no ResultWriter"])
        return {
            key: float(item) if key == _PERCENTAGE and isinstance(item, int) else _with_fractions(item)
            for key, item in value.items()
        }
    return value


@patch.replaces(state_task_factory, "state_task_service_for")
def _service(service_name: str) -> Any:
    return CodeBuildTask() if service_name == "codebuild" else _moto_service(service_name)


@patch.replaces(StateTaskServiceAwsSdk, "_eval_service_task")
def _call(self: StateTaskServiceAwsSdk, env: Environment, **arguments: Any) -> None:
    """Call an operation as Step Functions does: objects in the request and read bodies become strings."""
    runtime, parameters = arguments["resource_runtime_part"], arguments["normalised_parameters"]
    client = boto_client.boto_client_for(service=self._get_boto_service_name(), region=runtime.region)
    operation = self._get_boto_service_action()
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation])
    if model.input_shape is not None:
        self._to_boto_request(parameters, model.input_shape)
    answer = getattr(client, operation)(**parameters) or {}
    answer.pop("ResponseMetadata", None)
    if model.output_shape is not None:
        self._from_boto_response(answer, model.output_shape)
    env.stack.append(json.loads(json.dumps(answer, default=str)))


def _error_name(service_name: str) -> str:
    known = _ERROR_NAMES.get(service_name.lower())
    return known or str(_moto_error_name(service_name))


def _exception_name(norm_service_name: str, ex: Exception) -> str:
    """Return the name of an error: the service's name, then the error's own, which ends in Exception."""
    code = ex.response["Error"]["Code"] if isinstance(ex, ClientError) else type(ex).__name__
    return f"{norm_service_name}.{code.removesuffix('Exception')}Exception"


@patch.replaces(StepFunctionsParserBackend, "start_execution")
def _start_execution(
    self: StepFunctionsParserBackend,
    state_machine_arn: str,
    name: str | None = None,
    *others: Any,
    **more: Any,
) -> Any:
    if name:
        self._validate_name(name)
    return _moto_start(self, state_machine_arn, name or str(uuid.uuid4()), *others, **more)


patch.replace(boto_client, boto3=_Boto3)
patch.replace(AmazonStateLanguageParser, parse=staticmethod(_parse))
patch.replace(
    StateTaskServiceAwsSdk,
    _normalise_service_error_name=staticmethod(_error_name),
    _normalise_exception_name=staticmethod(_exception_name),
)
logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)


# The supported operations, and the ways in which a task can wait for each.
_OPERATIONS = {"startBuild": (None, ResourceCondition.Sync), "stopBuild": (None,)}
_TIMES = ("startTime", "endTime")

# The interval, in seconds, at which a task checks if it was ended.
_LOOK_S = 0.2


class CodeBuildTask(state_task_service_callback.StateTaskServiceCallback):
    def __init__(self) -> None:
        patterns: Any = {ResourceCondition.Sync}
        super().__init__(supported_integration_patterns=patterns)

    def _validate_service_integration_is_supported(self) -> None:
        if self.resource.condition not in _OPERATIONS.get(self.resource.api_action, ()):
            raise ValueError(
                f"The resource provided {self.resource.resource_arn} is not recognized. The value is not a "
                "valid resource ARN, or the resource is not available in this region."
            )

    def _eval_service_task(
        self,
        env: Environment,
        resource_runtime_part: ResourceRuntimePart,
        normalised_parameters: dict[str, Any],
        state_credentials: StateCredentials,  # noqa: ARG002 (moto's)
    ) -> None:
        client = boto_client_for(service="codebuild", region=resource_runtime_part.region)
        request = _renamed(normalised_parameters, str.lower)
        answer = getattr(client, self._get_boto_service_action())(**request)
        answer.pop("ResponseMetadata", None)
        env.stack.append(_renamed(answer, str.upper))

    def _eval_integration_pattern(
        self,
        env: Environment,
        resource_runtime_part: ResourceRuntimePart,
        normalised_parameters: dict[str, Any],  # noqa: ARG002 (moto's)
        state_credentials: StateCredentials,  # noqa: ARG002 (moto's)
    ) -> None:
        started = env.stack.pop()["Build"]["Id"]
        where = (resource_runtime_part.account, resource_runtime_part.region)
        while env.is_running():
            build = wait_for_end(*where, started, seconds=_LOOK_S)
            if build is not None:
                self._end(env, _renamed({"build": build}, str.upper))
                return
        client: Any = boto_client_for(service="codebuild", region=resource_runtime_part.region)
        client.stop_build(id=started)
        env.stack.append(None)

    def _end(self, env: Environment, result: Mapping[str, Any]) -> None:
        if result["Build"]["BuildStatus"] != "SUCCEEDED":
            cause = json.dumps(result, separators=(",", ":"))
            raise FailureEventException(self._failure(env, "States.TaskFailed", cause))
        env.stack.append(result)

    def _failure(self, env: Environment, error: str, cause: str) -> FailureEvent:
        details: Any = {
            "taskFailedEventDetails": {
                "resource": self._get_sfn_resource(),
                "resourceType": self._get_sfn_resource_type(),
                "error": error,
                "cause": cause,
            }
        }
        return FailureEvent(
            env=env,
            error_name=ErrorName(error),
            event_type=HistoryEventType.TaskFailed,
            event_details=details,
        )

    def _from_error(self, env: Environment, ex: Exception) -> FailureEvent:
        if not isinstance(ex, ClientError):
            return super()._from_error(env=env, ex=ex)
        error, metadata = ex.response["Error"], ex.response["ResponseMetadata"]
        cause = (
            f"{error['Message']} (Service: AWSCodeBuild; Status Code: {metadata['HTTPStatusCode']}; "
            f"Error Code: {error['Code']}; Request ID: {metadata.get('RequestId')}; Proxy: null)"
        )
        return self._failure(env, f"CodeBuild.{error['Code']}", cause)


def _renamed(value: Any, case: Any) -> Any:
    """Return a request or an answer with the case of every name's first letter changed.

    No map in CodeBuild's requests and answers has names chosen by a user.
    """
    if isinstance(value, list):
        return [_renamed(item, case) for item in value]
    if isinstance(value, Mapping):
        return {
            case(name[0]) + name[1:]: _milliseconds(item) if name in _TIMES else _renamed(item, case)
            for name, item in value.items()
        }
    return value


def _milliseconds(moment: Any) -> int:
    """Return a time in Step Functions' JSON form, from the SDK's time or from seconds."""
    return int((moment.timestamp() if isinstance(moment, datetime) else moment) * 1000)
