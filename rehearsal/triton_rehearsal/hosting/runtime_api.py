"""The responses and errors of SageMaker's runtime API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ApiError(Exception):
    """An error, as the SDKs model it.

    Args:
        status: The HTTP status of the error in the API model.
        kind: The exception class that an SDK raises.
        message: The message for users.
        members: The members of the error's shape, other than the message.
    """

    def __init__(self, status: int, kind: str, message: str, **members: object) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.members = {"Message": message, **members}

    def reply(self) -> Reply:
        """Return the response that an SDK turns into this exception."""
        headers = {"Content-Type": "application/json", "x-amzn-errortype": self.kind}
        return Reply(status=self.status, body=json.dumps(self.members).encode(), headers=headers)


def validation_error(message: str) -> ApiError:
    """Return the error for an invalid request."""
    return ApiError(400, "ValidationError", message)


def unknown_operation(method: str, path: str) -> ApiError:
    """Return the error for a request that is not a supported operation."""
    message = f"{method} {path} is not supported here: only InvokeEndpoint is"
    return ApiError(404, "UnknownOperationException", message)
