"""A server of InvokeEndpoint in a process of its own, which gives every request one answer at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import uvloop


@contextmanager
def answering(answer: bytes, content_type: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a server that answers with these bytes."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(answer)}\r\n\r\n"
    (folder / "answer").write_bytes(head.encode() + answer)
    command = [sys.executable, "-m", __name__, str(folder / "answer")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101  a pipe
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


class _Connection(asyncio.Protocol):
    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._text = b""
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._left:
            head, end, rest = (self._text + data).partition(b"\r\n\r\n")
            if not end:
                self._text = head
                return
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._text, self._left, data = b"", int(length), rest
        self._left -= len(data)
        if not self._left:
            self._transport.write(self._answer)


async def _serve(answer: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(answer), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]).read_bytes()))
