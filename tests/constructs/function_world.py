"""The surroundings of a function in AWS: services on real sockets, a context, and a clock of the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Clock:
    """Time that passes only while something sleeps; things happen at the times that a test has set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._events: list[tuple[float, Callable[[], object]]] = []

    def __call__(self) -> float:
        return self.now

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        self._events.append((seconds, happens))

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds
        due = [each for each in self._events if each[0] <= self.now]
        self._events = [each for each in self._events if each[0] > self.now]
        for _, happens in due:
            happens()


class Context:
    """The context that Lambda passes to a function."""

    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:fleet"

    def __init__(self, clock: Clock, *, lives: float = 900) -> None:
        self._clock, self._ends = clock, clock.now + lives

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends - self._clock.now) * 1000)


class Requests:
    """A web server that keeps what it is sent; `answers` may say what it replies, by path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.reply: Callable[[str, dict[str, str]], tuple[int, dict[str, Any]]] = lambda *_: (200, {})

    def bodies(self, path: str) -> list[Any]:
        """The JSON documents sent to a path."""
        return [json.loads(body) for _, at, _, body in self.seen if at.startswith(path)]


def asked(
    function: Any,
    cloudformation: Requests,
    clock: Clock,
    kind: str,
    properties: dict[str, Any],
    *,
    request: str = "Create",
    **more: Any,
) -> Any:
    """Have a function do what a custom resource asks; gives its answer, if there is one."""
    event = {
        "RequestType": request,
        "ResourceType": f"Custom::{kind}",
        "ResponseURL": f"{cloudformation.url}/answer",
        "StackId": "stack",
        "RequestId": "r-1",
        "LogicalResourceId": "Build",
        "ResourceProperties": properties,
        **more,
    }
    function.handler(event, Context(clock), clock=clock, sleep=clock.sleep)
    answers = cloudformation.bodies("/answer")
    return answers[-1] if answers else None


@contextmanager
def web_server() -> Iterator[Requests]:
    """A web server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            requests.seen.append((self.command, self.path, headers, body))
            status, document = requests.reply(self.path, headers)
            answer = json.dumps(document).encode()
            self.send_response(status)
            if "error" in document:
                self.send_header("x-amzn-ErrorType", document["error"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = _any  # noqa: N815 -- names of the standard library

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    requests = Requests(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
