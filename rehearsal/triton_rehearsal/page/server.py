"""Serves the page of a running rehearsal to its user's browser.

Every user of a machine and every page in its browsers can reach the loopback interface. So the address
contains a random word of this run, requests for other hosts are refused, and so are those of other sites.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from email.message import Message
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from embedded_aws import BoundedThreads
from triton_rehearsal.closing import Closing
from triton_rehearsal.page.report import html_page, in_json

Document = Mapping[str, Any]

_log = logging.getLogger(__name__)

# Several open pages share a document of this age.
FRESH_S = 1.0
_SAME_SITE = ("none", "same-origin")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(Closing):
    """A server of one page and its document, on a free port of the loopback interface.

    `read` is called at most about once per second. The address is secret: nothing else protects the page.
    """

    def __init__(self, read: Callable[[], Document]) -> None:
        self._read, self._lock = read, threading.Lock()
        self._text, self._read_at, self._closed = "", float("-inf"), False
        token = secrets.token_urlsafe(24)
        self.server = _Server(("127.0.0.1", 0), _handler(self, f"/{token}/"))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/{token}/"
        self._thread = threading.Thread(target=self.server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def answer(self, show: Callable[[str], str]) -> tuple[int, str]:
        """Return the status and the text of an answer from the document."""
        try:
            return 200, show(self.document())
        except Exception as error:  # noqa: BLE001 (an answer says more than none)
            _log.debug("the document of the page cannot be read", exc_info=True)
            return 500, f"The document cannot be read: {error!r}\n"

    def document(self) -> str:
        """Return the document as JSON, not older than about a second."""
        with self._lock:
            if not self._closed and time.monotonic() - self._read_at >= FRESH_S:
                self._text, self._read_at = in_json(self._read()), time.monotonic()
            return self._text

    def close(self) -> None:
        """Stop answering, after a document that is being read."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
        with self._lock:
            self._closed = True


class _Server(BoundedThreads, HTTPServer):
    most = 64

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log an error, such as a browser that went away, where it disturbs no one."""
        _log.debug("a request for the page from %s failed", client_address, exc_info=True)


def _handler(page: PageServer, root: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = BoundedThreads.idle_limit_s

        def do_GET(self) -> None:
            if not _may_ask(self.headers, f"127.0.0.1:{page.server.server_address[1]}"):
                self._send(403, "text/plain", "Open the address that fleet rehearse prints.\n")
            elif secrets.compare_digest(self.path.encode(), root.encode()):
                status, text = page.answer(partial(html_page, live=True))
                self._send(status, "text/html" if status == HTTPStatus.OK else "text/plain", text)
            elif secrets.compare_digest(self.path.encode(), f"{root}document.json".encode()):
                status, text = page.answer(str)
                self._send(status, "application/json" if status == HTTPStatus.OK else "text/plain", text)
            else:
                self._send(404, "text/plain", "Open the address that fleet rehearse prints.\n")

        def _send(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do nothing: requests are not logged."""

    return Handler


def _may_ask(headers: Message, host: str) -> bool:
    return (
        headers.get("Host") == host
        and headers.get("Sec-Fetch-Site", "none") in _SAME_SITE
        and headers.get("Origin", f"http://{host}") == f"http://{host}"
    )
