"""An S3 for measurements, in a process of its own: it keeps objects in memory and answers after a while.

A real S3 takes its time for each answer and answers many at once. moto does neither: it is one Python
interpreter, and how fast it is would be all that is seen. Only what publishing small artifacts needs is here.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000
_METADATA = "x-amz-meta-"


@contextmanager
def small_s3(*, answers_after_s: float) -> Iterator[str]:
    """The address of one."""
    command = [sys.executable, "-m", "benchmarks.small_s3", str(answers_after_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 -- asked for above
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    objects: dict[str, tuple[bytes, str, dict[str, str]]] = {}  # noqa: RUF012 -- one S3 a process
    writing = threading.Lock()
    answers_after_s = 0.0

    def do_PUT(self) -> None:
        """PutObject with its conditions; CreateBucket does nothing."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        metadata = {key: value for key, value in self.headers.items() if key.lower().startswith(_METADATA)}
        with self.writing:
            there = self.objects.get(self.path)
            only, unless = self.headers.get("If-Match"), self.headers.get("If-None-Match")
            if (there and unless) or (only and (not there or there[1] != only)):
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self.objects[self.path] = (body, tag, metadata)
        self._answer(200, headers={"ETag": tag})

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: a client waits a second for that."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def do_HEAD(self) -> None:
        """HeadObject."""
        self.do_GET()

    def do_GET(self) -> None:
        """GetObject and ListObjectsV2."""
        if "list-type=2" in self.path:
            self._answer(200, self._listed())
            return
        there = self.objects.get(self.path)
        if there is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(200, there[0], {"ETag": there[1], **there[2]})

    def _listed(self) -> bytes:
        url = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        bucket = url.path.strip("/")
        keys = sorted(
            path.removeprefix(f"/{bucket}/")
            for path in list(self.objects)
            if path.startswith(f"/{bucket}/{asked.get('prefix', '')}")
        )
        later = [key for key in keys if key > asked.get("continuation-token", "")]
        page = later[:_PAGE]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[f'/{bucket}/{key}'][0])}</Size></Contents>"
            for key in page
        )
        more = len(later) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        return f"<ListBucketResult>{truncated}{token}{rows}</ListBucketResult>".encode()

    def _answer(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        time.sleep(self.answers_after_s)
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _serve(answers_after_s: float) -> None:
    _Handler.answers_after_s = answers_after_s
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
