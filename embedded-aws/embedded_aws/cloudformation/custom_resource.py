"""Custom resources: `Custom::` types and AWS::CloudFormation::CustomResource. A function creates them.

CloudFormation sends the function a request and waits until something puts an answer to the URL in it. Here
the URL is one of the embedded AWS. If the function and everything that it invoked end without an answer, the
resource fails at once, and the reason names the function's error. CloudFormation does not notice such an end
and waits until the time is up.

NoEcho in an answer has no effect: the events here never show properties.

Read on 2026-11-21:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requesttypes.html
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html

The URLs accept one PUT each. On AWS they are presigned URLs of S3, signed without a content type. Both AWS
and this module refuse a request with one, which urllib sends by default: `Content-Type` must be empty or
absent.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from embedded_aws.cloudformation.resource import (
    Call,
    Identity,
    PartiallyCreatedError,
    Properties,
    ResourceType,
)
from embedded_aws.functions.runner import Outcome
from embedded_aws.moto_gaps import lambda_

ANSWER_BYTES = 4096
"""The longest answer, in bytes."""

Answered = queue.Queue[bytes | Outcome]
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_PREFIX = "/cloudformation-custom-resource-response/"
# The maximum number of bytes read from an answer: more than the longest valid one.
_READ_BYTES = 1 << 20

_REFUSED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match the \
signature you provided. Send the URL as it was given, and an empty Content-Type.</Message></Error>"""


class Answers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: dict[str, tuple[str, Answered]] = {}
        self._url = ""

    def connect(self, url: str) -> None:
        self._url = url

    @contextmanager
    def expect(self, request_id: str) -> Iterator[tuple[str, Answered]]:
        """Open a URL for one answer. Yields the URL and the queue for the body."""
        path = f"{_PREFIX}{quote(request_id)}"
        answered: Answered = queue.Queue()
        signature = f"X-Amz-Signature={secrets.token_hex(32)}"
        with self._lock:
            self._expected[path] = (signature, answered)
        try:
            yield f"{self._url}{path}?{signature}", answered
        finally:
            with self._lock:
                del self._expected[path]

    def before(self, application: _Application) -> _Application:
        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if not environ["PATH_INFO"].startswith(_PREFIX):
                return application(environ, start_response)
            status, body = self._take(environ)
            start_response(status, [("Content-Length", str(len(body)))])
            return [body]

        return serve

    def _take(self, environ: Mapping[str, Any]) -> tuple[str, bytes]:
        body = environ["wsgi.input"].read(min(int(environ.get("CONTENT_LENGTH") or 0), _READ_BYTES))
        if environ["REQUEST_METHOD"] != "PUT" or environ.get("CONTENT_TYPE"):
            return "403 Forbidden", _REFUSED
        with self._lock:
            signature, answered = self._expected.get(environ["PATH_INFO"], ("", None))
        if answered is not None:
            if not secrets.compare_digest(environ.get("QUERY_STRING", ""), signature):
                return "403 Forbidden", _REFUSED
            answered.put(body)
        # S3 stores an object even if nothing waits for it anymore.
        return "200 OK", b""


ANSWERS = Answers()
"""The URLs of the running embedded AWS."""


_TIMEOUT_S = 3600
_COPIED = ("StackId", "RequestId", "LogicalResourceId")
_ID_BYTES = 1024
_GENERATED_ID_LIMIT = 255


class CustomResourceError(Exception):
    """A custom resource that failed; in CloudFormation's words if they are known."""

    def __init__(self, reason: str, *, physical_id: str = "") -> None:
        super().__init__(reason)
        self.physical_id = physical_id


class CustomResource(ResourceType):
    name = "AWS::CloudFormation::CustomResource"

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name

    def create(self, call: Call, properties: Properties) -> Identity:
        try:
            return self._ask(call, "Create", properties)
        except CustomResourceError as error:
            physical_id = error.physical_id or call.unique_name(limit=_GENERATED_ID_LIMIT)
            raise PartiallyCreatedError(str(error), Identity(physical_id=physical_id)) from error

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Update the resource through the function; another physical id means another resource."""
        if before["ServiceToken"] != after["ServiceToken"]:
            raise CustomResourceError("Modifying service token is not allowed.")
        more = {"PhysicalResourceId": identity.physical_id, "OldResourceProperties": _as_text(before)}
        return self._ask(call, "Update", after, **more)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        self._ask(call, "Delete", properties, PhysicalResourceId=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the function: only the function knows its resource."""
        call.client("lambda").get_function(FunctionName=properties["ServiceToken"])

    def _ask(self, call: Call, kind: str, properties: Properties, **more: Any) -> Identity:
        token = str(properties.get("ServiceToken", ""))
        if ":lambda:" not in token:
            msg = f"the embedded AWS only supports functions as ServiceToken, not {token!r}"
            raise CustomResourceError(msg)
        request_id = str(uuid.uuid4())
        with ANSWERS.expect(request_id) as (url, answered):
            request = {
                "RequestType": kind,
                "ServiceToken": token,
                "ResponseURL": url,
                "StackId": call.stack_id,
                "RequestId": request_id,
                "LogicalResourceId": call.logical_id,
                "ResourceType": self._type_name,
                "ResourceProperties": _as_text(properties),
                **more,
            }
            lambda_.start(token, json.dumps(request).encode(), on_end=answered.put)
            call.answer()
            timeout = float(properties.get("ServiceTimeout", _TIMEOUT_S))
            body = _wait(answered, timeout=timeout, request_id=request_id)
        return _read(body, request)


def _as_text(value: Any) -> Any:
    """Return properties as a function receives them: every scalar is a string."""
    if isinstance(value, Mapping):
        return {str(key): _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


def _wait(answered: queue.Queue[bytes | Outcome], *, timeout: float, request_id: str) -> bytes:
    try:
        found = answered.get(timeout=timeout)
    except queue.Empty:
        raise CustomResourceError(
            "CloudFormation did not receive a response from your Custom Resource. Please check your logs for "
            f"requestId [{request_id}]. (It waited {timeout:g} seconds.)"
        ) from None
    if isinstance(found, Outcome):
        how = f" with {found.error}" if found.error else ""
        raise CustomResourceError(
            f"the function ended{how} and has not answered (RequestId: {request_id}); CloudFormation would "
            f"wait {timeout:g} seconds for it"
        )
    return found


def _read(body: bytes, request: Mapping[str, Any]) -> Identity:
    if len(body) > ANSWER_BYTES:
        msg = f"Response object is too long: {len(body)} bytes, and {ANSWER_BYTES} are allowed."
        raise CustomResourceError(msg)
    try:
        answer = json.loads(body)
        status = answer["Status"]
    except (ValueError, TypeError, KeyError) as error:
        msg = f"Invalid response object: a JSON object with a Status is expected, not {body[:100]!r}"
        raise CustomResourceError(msg) from error
    physical_id = str(answer.get("PhysicalResourceId") or "")
    if status != "SUCCESS":
        msg = (
            f"Received response status [{status}] from custom resource. Message returned: "
            f"{answer.get('Reason', '')} (RequestId: {request['RequestId']})"
        )
        raise CustomResourceError(msg, physical_id=physical_id)
    wrong = [name for name in _COPIED if answer.get(name) != request[name]]
    if wrong:
        msg = f"Invalid response object: {', '.join(wrong)} must be copied from the request"
        raise CustomResourceError(msg)
    if not 0 < len(physical_id.encode()) <= _ID_BYTES:
        raise CustomResourceError(f"Invalid PhysicalResourceId: 1 to {_ID_BYTES} bytes are expected")
    return Identity(physical_id=physical_id, attributes=_as_text(answer.get("Data") or {}))
