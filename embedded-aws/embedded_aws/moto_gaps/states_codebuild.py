"""CodeBuild tasks of a state machine: `codebuild:startBuild`, and with `.sync` a wait for the build's end.

Parameters and results are in PascalCase, CodeBuild's own in camelCase. A build that does not succeed fails
the task with States.TaskFailed, and the build is the cause. A task that is ended before its build stops the
build. Read on 2026-11-21:
https://docs.aws.amazon.com/step-functions/latest/dg/connect-codebuild.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.credentials import StateCredentials
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_callback
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
    ResourceRuntimePart,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for

from embedded_aws.moto_gaps.codebuild_builds import wait_for_end

# The supported operations, and the ways in which a task can wait for each.
_OPERATIONS = {"startBuild": (None, ResourceCondition.Sync), "stopBuild": (None,)}
_TIMES = ("startTime", "endTime")

# The interval, in seconds, at which a task checks if it was ended.
_LOOK_S = 0.2


class CodeBuildTask(state_task_service_callback.StateTaskServiceCallback):
    """A task of the service codebuild."""

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
        """Wait until the build that was just started has ended."""
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
