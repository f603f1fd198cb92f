"""The URLs to which custom resources send their answers. Each accepts one PUT.

On AWS they are presigned URLs of S3, signed without a content type. Both AWS and this module refuse a request
with one, which urllib sends by default: `Content-Type` must be empty or absent.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from embedded_aws.functions.runner import Outcome

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
    """The open URLs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: dict[str, tuple[str, Answered]] = {}
        self._url = ""

    def connect(self, url: str) -> None:
        """Set the address of the embedded AWS."""
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
        """Wrap an application and accept answers here."""

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
