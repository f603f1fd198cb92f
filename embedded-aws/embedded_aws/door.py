"""Access to the embedded AWS: only for programs with a key of this run, never for web pages.

Every user of a machine and every page in its browsers can reach the loopback interface, and the server runs
builds and functions. AWS checks signatures. Here the key's id is the secret: it is random, new for each run,
and only in the environment of child processes.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# S3's host may also be a bucket's name followed by localhost.
_HERE = re.compile(r"(127\.0\.0\.1|([A-Za-z0-9.-]+\.)?localhost)(:\d+)?")
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/|AWS ([^:\s]+):")
_SERVICE = re.compile(r"Credential=[^/]+/[^/]+/[^/]+/([^/]+)/")
# The services with REST and XML. All others with REST have JSON.
_REST_XML = ("cloudfront", "route53", "s3")
# Only browsers send these: https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/
_OF_BROWSERS = ("origin", "sec-fetch-site")

_CODE = "UnrecognizedClientException"
_HOW = "set the variables that EmbeddedAws.exports() returns, AWS_ACCESS_KEY_ID and its companions"


class BoundedThreads(ThreadingMixIn):
    """Gives each connection of a socket server a thread, and closes those beyond a limit at once.

    Any user of the machine can open connections, and each takes a thread and a descriptor.

    Attributes:
        most: The maximum number of connections.
        idle_limit_s: The maximum time in seconds for which a connection sends or receives nothing, for the
            `timeout` of a server's handler.
    """

    daemon_threads = True
    most = 512
    idle_limit_s = 60.0

    def __init__(self, *args: Any, **options: Any) -> None:
        self._free = threading.Semaphore(self.most)
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # type: ignore[attr-defined]

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class Door:
    def __init__(self, issued: Callable[[str], bool] = lambda _: False) -> None:
        self.key = f"EMBEDDED{secrets.token_hex(16).upper()}"
        self._issued = issued

    def refusal(self, headers: Mapping[str, str], query: str = "") -> str | None:
        foreign = refusal_of_pages(headers)
        if foreign:
            return foreign
        key = _key(headers.get("authorization", ""), query)
        if key and (secrets.compare_digest(key.encode(), self.key.encode()) or self._issued(key)):
            return None
        return f"the request has no key of this run: {_HOW}"


def refusal_of_pages(headers: Mapping[str, str]) -> str | None:
    """Return the reason to refuse a request that may come from a web page; None if it cannot."""
    if any(name in headers for name in _OF_BROWSERS):
        return "a browser sent the request, but web pages must not call this AWS"
    if not _HERE.fullmatch(headers.get("host", "")):
        return f"the request is for the host {headers.get('host', '')!r}, but only localhost is allowed"
    return None


def behind(door: Door, application: _Application) -> _Application:
    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        reason = door.refusal(headers_of(environ), environ.get("QUERY_STRING", ""))
        if reason is None:
            return application(environ, start_response)
        return refuse(environ, start_response, "403 Forbidden", _CODE, reason)

    return serve


def headers_of(environ: Mapping[str, Any]) -> dict[str, str]:
    named = ((name[5:], value) for name, value in environ.items() if name.startswith("HTTP_"))
    return {name.replace("_", "-").lower(): str(value) for name, value in named}


def refuse(
    environ: Mapping[str, Any], start_response: Callable[..., Any], status: str, code: str, reason: str
) -> list[bytes]:
    """Answer in the protocol of the requested service, so that an SDK shows the reason."""
    headers, body = error_answer(environ, code, reason)
    start_response(status, list(headers.items()))
    return [body]


def error_answer(environ: Mapping[str, Any], code: str, message: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and body of an error in the protocol of the requested service."""
    kind, service = environ.get("CONTENT_TYPE", ""), service_of(environ)
    query = "urlencoded" in kind and service not in _REST_XML
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    if query and service == "ec2":
        error = f"<Response><Errors>{error}</Errors></Response>"
    elif query or (service in _REST_XML and service != "s3"):
        error = f"<ErrorResponse>{error}</ErrorResponse>"
    elif service not in {"", "s3"} or "json" in kind:
        error = json.dumps({"__type": code, "message": message})
    body = error.encode()
    sent = "text/xml" if error.startswith("<") else "application/json"
    return {"Content-Type": sent, "Content-Length": str(len(body)), "x-amzn-errortype": code}, body


def service_of(environ: Mapping[str, Any]) -> str:
    """Return the name with which the requested service signs; "" if the request does not have it."""
    named = _SERVICE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return named[1] if named else ""


def _key(authorization: str, query: str) -> str:
    """Return the id of the key that signs a request; "" if it is not signed."""
    if signed := _SIGNED.match(authorization):
        return signed[1] or signed[2]
    given = parse_qs(query)
    return (given.get("X-Amz-Credential") or given.get("AWSAccessKeyId") or [""])[0].partition("/")[0]
