"""A closed loop of HTTP requests, in a process of its own so that its interpreter delays no other."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, run
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

_OK = 200


@dataclass(frozen=True, kw_only=True)
class Load:
    """The requests of one measurement. Not slotted: it is passed to a process as JSON."""

    url: str  # as `http://host:port/path`, or a path alone if `socket` is given
    headers: Mapping[str, str]
    body: str  # a file
    connections: int  # each sends its next request when it has the last answer
    seconds: float  # measured, after a tenth of it that does not count
    socket: str = ""  # the server's Unix socket; "" for TCP

    def rate(self) -> float:
        """Return the answered requests per second."""
        command, load = [sys.executable, "-m", __name__], json.dumps(asdict(self))
        return float(run(command, input=load, stdout=PIPE, text=True, check=True).stdout)


class _Connection(asyncio.Protocol):
    def __init__(self, request: bytes, gone: asyncio.Future[None]) -> None:
        self.answered = 0
        self._request, self._gone = request, gone
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != _OK:
            self._transport.abort()
            return
        self.answered += 1
        self._transport.write(self._request)

    def connection_lost(self, _: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_exception(RuntimeError("the server closed the connection, or did not answer 200"))


async def _rate(load: Load) -> float:
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    split = urlsplit(load.url)
    body = Path(load.body).read_bytes()
    headers = {"Host": split.netloc or "localhost", "Content-Length": len(body), **load.headers}
    lines = [f"POST {split.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    connections = [_Connection(request, gone) for _ in range(load.connections)]
    for each in connections:
        if load.socket:
            await loop.create_unix_connection(partial(_itself, each), load.socket)
        else:
            await loop.create_connection(partial(_itself, each), split.hostname or "", split.port or 0)
    await asyncio.wait([gone], timeout=load.seconds / 10)
    before, started = sum(each.answered for each in connections), time.monotonic()
    await asyncio.wait([gone], timeout=load.seconds)
    if gone.done():
        gone.result()
    return (sum(each.answered for each in connections) - before) / (time.monotonic() - started)


def _itself(connection: _Connection) -> _Connection:
    return connection


if __name__ == "__main__":
    sys.stdout.write(str(uvloop.run(_rate(Load(**json.load(sys.stdin))))))
